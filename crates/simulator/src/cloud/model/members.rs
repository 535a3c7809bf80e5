//! Machines that come in two steps: made first, taken into a group afterwards.
//!
//! Owns what a wire form needs beyond `ensure_replacement`. Called by `cloud::aws`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use shipshape_engine::machine::{GroupId, ImageId, MachineId, MachineState};
use shipshape_provider::{Error, Result};

use super::{Model, unknown};

/// A machine that is asked for outside of any group.
pub(in crate::cloud) struct Loose<'a> {
    /// The group whose template it is made from.
    pub(in crate::cloud) home: &'a GroupId,
    /// The image of the template's version.
    pub(in crate::cloud) image: ImageId,
    /// The zone.
    pub(in crate::cloud) zone: &'a str,
    /// Tags from the start.
    pub(in crate::cloud) tags: BTreeMap<String, String>,
}

impl Model {
    /// Makes a machine from a group's template that belongs to no group yet.
    pub(in crate::cloud) fn run_loose(
        &mut self,
        loose: Loose<'_>,
        now: Timestamp,
    ) -> Result<MachineId> {
        let id = self.launch(loose.home, loose.zone, now)?;
        if let Some(record) = self.machines.get_mut(&id) {
            record.machine.group = None;
            record.machine.image = loose.image;
            record.machine.tags = loose.tags;
            record.history = vec![(now, record.machine.clone())];
        }
        Ok(id)
    }

    /// Makes a machine inside the group, whose desired size grows with it.
    pub(in crate::cloud) fn launch_member(
        &mut self,
        group: &GroupId,
        zone: &str,
        now: Timestamp,
    ) -> Result<MachineId> {
        self.check_room(group)?;
        let id = self.launch(group, zone, now)?;
        if let Some(group) = self.groups.get_mut(group) {
            group.desired += 1;
        }
        Ok(id)
    }

    /// Takes a running machine into a group, whose desired size grows with it.
    pub(in crate::cloud) fn attach(
        &mut self,
        id: &MachineId,
        group: &GroupId,
        now: Timestamp,
    ) -> Result<()> {
        let record = self.machines.get(id).filter(|record| record.is_live());
        let record = record.ok_or_else(|| unknown("machine", id.as_str()))?;
        let refuse = |message: String| Error::Refused {
            what: format!("machine {id} in group {group}"),
            message,
        };
        if let Some(owner) = &record.machine.group {
            return Err(refuse(format!(
                "Instance {id} is already part of AutoScalingGroup:{owner}"
            )));
        }
        if record.machine.state != MachineState::Ready {
            return Err(refuse(format!("Instance {id} is not in correct state")));
        }
        self.check_room(group)?;
        if let Some(group) = self.groups.get_mut(group) {
            group.desired += 1;
        }
        let group = group.clone();
        self.update(id, now, |machine| machine.group = Some(group))
    }

    fn check_room(&self, group: &GroupId) -> Result<()> {
        let record = self.groups.get(group);
        let record = record.ok_or_else(|| unknown("group", group.as_str()))?;
        if record.desired < record.spec.max {
            return Ok(());
        }
        Err(Error::Refused {
            what: format!("a machine in group {group}"),
            message: format!(
                "the number of machines would be above the maximum of {}",
                record.spec.max
            ),
        })
    }
}

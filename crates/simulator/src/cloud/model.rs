//! The state of the cloud and every change to it, as functions of a time.
//!
//! Owns groups, machines and tokens. Must not wait, log or talk: `Cloud` does. Nothing here is
//! async, so that each call is one step that no other call can split.

mod heal;
mod members;

pub(super) use members::Loose;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use shipshape_engine::machine::{
    Group, GroupId, ImageId, Machine, MachineId, MachineState, ProviderId, Token,
};
use shipshape_engine::naming::hex;
use shipshape_provider::{Error, ReplacementRequest, Result};

use super::settings::{CloudSettings, CloudSpec, GroupSpec, MachineNames};
use crate::seed::Seed;

/// Digits of an instance's id.
const AWS_DIGITS: usize = 17;

/// What happens to machines, for whoever plays what runs on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineEvent {
    /// It runs; its kubelet may join.
    Booted(MachineId),
    /// It was switched off: whatever ran on it is gone.
    Ended(MachineId),
    /// The cloud has taken it away.
    Gone(MachineId),
}

pub(super) struct Model {
    pub(super) settings: CloudSettings,
    pub(super) groups: BTreeMap<GroupId, GroupRecord>,
    pub(super) machines: BTreeMap<MachineId, MachineRecord>,
    pub(super) tokens: BTreeMap<Token, (ReplacementRequest, MachineId)>,
    /// Tokens of wire calls: the words they came with and the machine they made.
    pub(super) client_tokens: BTreeMap<String, (String, MachineId)>,
    /// Tokens of new template versions and their numbers.
    pub(super) version_tokens: BTreeMap<String, usize>,
    pub(super) events: VecDeque<MachineEvent>,
    pub(super) chance: Seed,
    names: MachineNames,
}

/// Which version of its template a group launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TemplateVersion {
    Latest,
    Default,
    Number(usize),
}

pub(super) struct GroupRecord {
    pub(super) spec: GroupSpec,
    /// Images of the template's versions, oldest first; they are numbered from 1.
    pub(super) templates: Vec<ImageId>,
    /// The version that the group asks for.
    pub(super) version: TemplateVersion,
    /// The number of the template's default version.
    pub(super) default_version: usize,
    pub(super) desired: u32,
    /// Tags of the group itself.
    pub(super) tags: BTreeMap<String, String>,
    /// Processes that somebody has suspended.
    pub(super) suspended: BTreeSet<String>,
    launched: u32,
    heal_at: Option<Timestamp>,
}

pub(super) struct MachineRecord {
    pub(super) machine: Machine,
    /// The group whose template it was made from, whether or not it is a member.
    pub(super) home: GroupId,
    /// Earlier views and when each began, for reads that lag.
    history: Vec<(Timestamp, Machine)>,
    /// When the state that is under way ends.
    due: Option<Timestamp>,
    pub(super) ended_at: Option<Timestamp>,
    created: Timestamp,
}

impl GroupRecord {
    pub(super) fn image(&self) -> ImageId {
        self.image_of(self.number_of(self.version))
            .unwrap_or_else(|| ImageId(self.spec.image.clone()))
    }

    /// The number behind a version's name.
    pub(super) fn number_of(&self, version: TemplateVersion) -> usize {
        match version {
            TemplateVersion::Latest => self.templates.len(),
            TemplateVersion::Default => self.default_version,
            TemplateVersion::Number(number) => number,
        }
    }

    pub(super) fn image_of(&self, number: usize) -> Option<ImageId> {
        self.templates.get(number.checked_sub(1)?).cloned()
    }

    pub(super) fn view(&self) -> Group {
        Group {
            id: GroupId(self.spec.id.clone()),
            image: self.image(),
            zones: self.spec.zones.clone(),
            min: self.spec.min,
            max: self.spec.max,
            desired: self.desired,
            raises_max: false,
            template: None,
        }
    }
}

impl MachineRecord {
    fn change(&mut self, now: Timestamp, change: impl FnOnce(&mut Machine)) {
        change(&mut self.machine);
        self.history.push((now, self.machine.clone()));
    }

    /// The machine as a reader sees it at `at`; a machine younger than that shows its first view.
    pub(super) fn seen_at(&self, at: Timestamp) -> Machine {
        let shown = self.history.iter().rev().find(|(since, _)| *since <= at);
        shown
            .or(self.history.first())
            .map_or_else(|| self.machine.clone(), |(_, view)| view.clone())
    }

    /// Whether a list as of `at` holds the machine.
    pub(super) fn is_listed_at(&self, at: Timestamp) -> bool {
        self.created <= at
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(
            self.machine.state,
            MachineState::Creating | MachineState::Ready
        )
    }
}

pub(super) fn later(time: Timestamp, wait: Duration) -> Timestamp {
    time.checked_add(wait).unwrap_or(Timestamp::MAX)
}

impl Model {
    pub(super) fn new(spec: &CloudSpec, chance: Seed, now: Timestamp) -> Self {
        let mut model = Self {
            settings: spec.settings.clone(),
            groups: BTreeMap::new(),
            machines: BTreeMap::new(),
            tokens: BTreeMap::new(),
            client_tokens: BTreeMap::new(),
            version_tokens: BTreeMap::new(),
            names: spec.names,
            events: VecDeque::new(),
            chance,
        };
        for group in &spec.groups {
            let id = GroupId(group.id.clone());
            let record = GroupRecord {
                spec: group.clone(),
                templates: vec![ImageId(group.image.clone())],
                version: TemplateVersion::Latest,
                default_version: 1,
                desired: group.desired,
                tags: BTreeMap::new(),
                suspended: BTreeSet::new(),
                launched: 0,
                heal_at: None,
            };
            model.groups.insert(id.clone(), record);
            model.fill_at_start(&id, group, now);
        }
        model
    }

    /// The machines that were there before the world began: running, and about to join.
    fn fill_at_start(&mut self, id: &GroupId, group: &GroupSpec, now: Timestamp) {
        let image = group
            .running_image
            .clone()
            .unwrap_or_else(|| group.image.clone());
        for zone in group.zones.iter().cycle().take(group.desired as usize) {
            let Some(machine) = self.insert(id, zone, ImageId(image.clone()), now) else {
                continue;
            };
            if let Some(record) = self.machines.get_mut(&machine) {
                record.due = None;
                record.change(now, |machine| machine.state = MachineState::Ready);
                self.events.push_back(MachineEvent::Booted(machine));
            }
        }
    }

    fn delay(&mut self, around: Duration) -> Duration {
        let percent = self.settings.jitter;
        self.chance.jitter(around, percent)
    }

    fn insert(
        &mut self,
        group: &GroupId,
        zone: &str,
        image: ImageId,
        now: Timestamp,
    ) -> Option<MachineId> {
        let boot = self.settings.boot;
        let boot = self.delay(boot);
        let record = self.groups.get_mut(group)?;
        record.launched += 1;
        let (id, provider_id) = self.names.name(group, record.launched, zone);
        let machine = Machine {
            id: id.clone(),
            provider_id,
            group: Some(group.clone()),
            zone: zone.to_owned(),
            image,
            state: MachineState::Creating,
            protected: false,
            tags: BTreeMap::new(),
            subnet: None,
        };
        let record = MachineRecord {
            history: vec![(now, machine.clone())],
            machine,
            home: group.clone(),
            due: Some(later(now, boot)),
            ended_at: None,
            created: now,
        };
        self.machines.insert(id.clone(), record);
        Some(id)
    }

    pub(super) fn launch_outdated(
        &mut self,
        group: &GroupId,
        zone: &str,
        image: &ImageId,
        now: Timestamp,
    ) {
        if self.insert(group, zone, image.clone(), now).is_some()
            && let Some(record) = self.groups.get_mut(group)
        {
            record.desired += 1;
        }
    }

    fn launch(&mut self, group: &GroupId, zone: &str, now: Timestamp) -> Result<MachineId> {
        let record = self
            .groups
            .get(group)
            .ok_or_else(|| unknown("group", group.as_str()))?;
        if !record.spec.zones.iter().any(|known| known == zone) {
            return Err(Error::Refused {
                what: format!("a machine in group {group}"),
                message: format!("the group does not use zone {zone}"),
            });
        }
        if self.settings.full_zones.contains(zone) {
            return Err(Error::NoCapacity {
                zone: zone.to_owned(),
                message: "insufficient capacity".to_owned(),
            });
        }
        let image = record.image();
        self.insert(group, zone, image, now)
            .ok_or_else(|| unknown("group", group.as_str()))
    }

    pub(super) fn ensure_replacement(
        &mut self,
        request: &ReplacementRequest,
        now: Timestamp,
    ) -> Result<MachineId> {
        if let Some((earlier, machine)) = self.tokens.get(&request.token) {
            if earlier != request {
                return Err(Error::Refused {
                    what: format!("token {}", request.token),
                    message: "it was used before with other parameters".to_owned(),
                });
            }
            return Ok(machine.clone());
        }
        let group = self
            .groups
            .get(&request.group)
            .ok_or_else(|| unknown("group", request.group.as_str()))?;
        if group.desired >= group.spec.max {
            return Err(Error::NoCapacity {
                zone: request.zone.clone(),
                message: format!(
                    "group {} is at its maximum of {}",
                    request.group, group.spec.max
                ),
            });
        }
        let id = self.launch(&request.group, &request.zone, now)?;
        if let Some(record) = self.machines.get_mut(&id) {
            record.machine.tags.clone_from(&request.tags);
            record.history = vec![(now, record.machine.clone())];
        }
        if let Some(group) = self.groups.get_mut(&request.group) {
            group.desired += 1;
        }
        self.tokens
            .insert(request.token.clone(), (request.clone(), id.clone()));
        Ok(id)
    }

    pub(super) fn update(
        &mut self,
        id: &MachineId,
        now: Timestamp,
        change: impl FnOnce(&mut Machine),
    ) -> Result<()> {
        let record = self.machines.get_mut(id).filter(|record| record.is_live());
        record
            .ok_or_else(|| unknown("machine", id.as_str()))?
            .change(now, change);
        Ok(())
    }

    /// Ends a machine and takes it out of its group's desired size.
    pub(super) fn delete(&mut self, id: &MachineId, now: Timestamp) -> Result<()> {
        let Some(record) = self.machines.get(id).filter(|record| record.is_live()) else {
            return Ok(());
        };
        let group = record.machine.group.clone();
        if let Some(group) = group.and_then(|group| self.groups.get_mut(&group)) {
            if group.desired <= group.spec.min {
                return Err(Error::Refused {
                    what: format!("the end of machine {id}"),
                    message: format!(
                        "group {} is at its minimum of {}",
                        group.spec.id, group.spec.min
                    ),
                });
            }
            group.desired -= 1;
        }
        self.end(id, now);
        Ok(())
    }

    /// Switches a machine off, whoever asked; the group's desired size stays.
    pub(super) fn end(&mut self, id: &MachineId, now: Timestamp) {
        let terminate = self.settings.terminate;
        let due = later(now, self.delay(terminate));
        if let Some(record) = self.machines.get_mut(id).filter(|record| record.is_live()) {
            record.due = Some(due);
            record.change(now, |machine| machine.state = MachineState::Terminating);
            self.events.push_back(MachineEvent::Ended(id.clone()));
        }
    }

    /// When something will change by itself.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let machines = self.machines.values().filter_map(|record| record.due);
        machines
            .chain(self.groups.values().filter_map(|group| group.heal_at))
            .min()
    }

    /// Lets everything happen that is due by `now`. Returns what groups did of their own accord.
    pub(super) fn advance(&mut self, now: Timestamp) -> Vec<(&'static str, Result<MachineId>)> {
        for (id, record) in &mut self.machines {
            if record.due.is_none_or(|due| due > now) {
                continue;
            }
            record.due = None;
            if record.machine.state == MachineState::Creating {
                record.change(now, |machine| machine.state = MachineState::Ready);
                self.events.push_back(MachineEvent::Booted(id.clone()));
            } else {
                record.change(now, |machine| machine.state = MachineState::Terminated);
                record.ended_at = Some(now);
                self.events.push_back(MachineEvent::Gone(id.clone()));
            }
        }
        let groups: Vec<GroupId> = self.groups.keys().cloned().collect();
        groups
            .iter()
            .filter_map(|group| self.heal(group, now))
            .collect()
    }
}

impl MachineNames {
    fn name(self, group: &GroupId, number: u32, zone: &str) -> (MachineId, ProviderId) {
        let (id, cloud) = match self {
            Self::Readable => (format!("{group}-{number:03}"), "embedded"),
            Self::Aws => {
                let digits = hex(&[group.as_str(), &number.to_string()], AWS_DIGITS);
                (format!("i-{digits}"), "aws")
            }
        };
        let provider_id = ProviderId(format!("{cloud}:///{zone}/{id}"));
        (MachineId(id), provider_id)
    }
}

pub(super) fn unknown(kind: &str, id: &str) -> Error {
    Error::NotFound {
        what: format!("{kind} {id}"),
    }
}

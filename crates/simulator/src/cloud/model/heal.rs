//! What a group does of its own accord: it launches what it lacks and ends what is too much.
//!
//! Owns the choice of zone and machine. Called when time passes.

use jiff::Timestamp;
use shipshape_engine::machine::{GroupId, MachineId};
use shipshape_provider::Result;

use super::{MachineRecord, Model, later};

impl Model {
    fn live(&self, group: &GroupId) -> Vec<&MachineRecord> {
        let of_group = |record: &&MachineRecord| record.machine.group.as_ref() == Some(group);
        self.machines
            .values()
            .filter(of_group)
            .filter(|record| record.is_live())
            .collect()
    }

    /// Brings a group one machine closer to its desired size, when its time has come.
    pub(super) fn heal(
        &mut self,
        group: &GroupId,
        now: Timestamp,
    ) -> Option<(&'static str, Result<MachineId>)> {
        let live = u32::try_from(self.live(group).len()).unwrap_or(u32::MAX);
        let wait = self.settings.heal;
        let record = self.groups.get_mut(group)?;
        if live == record.desired {
            record.heal_at = None;
            return None;
        }
        let due = *record.heal_at.get_or_insert_with(|| later(now, wait));
        if due > now {
            return None;
        }
        record.heal_at = Some(later(now, wait));
        if live < record.desired {
            let zone = self.emptiest_zone(group)?;
            return Some(("launch", self.launch(group, &zone, now)));
        }
        let oldest = self
            .live(group)
            .into_iter()
            .filter(|record| !record.machine.protected)
            .min_by_key(|record| (record.created, record.machine.id.clone()));
        let id = oldest?.machine.id.clone();
        self.end(&id, now);
        Some(("scaleIn", Ok(id)))
    }

    fn emptiest_zone(&self, group: &GroupId) -> Option<String> {
        let zones = &self.groups.get(group)?.spec.zones;
        let count = |zone: &String| {
            self.live(group)
                .iter()
                .filter(|record| &record.machine.zone == zone)
                .count()
        };
        let open = |zone: &&String| !self.settings.full_zones.contains(*zone);
        let chosen = zones
            .iter()
            .filter(open)
            .min_by_key(|zone| (count(zone), (*zone).clone()));
        chosen.or(zones.first()).cloned()
    }
}

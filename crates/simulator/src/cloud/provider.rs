//! The cloud as a `Provider`: each call is metered, carried out, logged and answered.
//!
//! Owns throttling, read lag and lost answers. Must not keep state of its own.

use std::collections::BTreeMap;
use std::fmt::Display;

use async_trait::async_trait;
use jiff::Timestamp;
use shipshape_engine::machine::{
    Group, GroupId, ImageId, Machine, MachineId, MachineState, ProviderId, Token,
};
use shipshape_provider::{Error, Provider, ReplacementRequest, Result};

use super::model::{MachineRecord, TemplateVersion, unknown};
use super::{CallRecord, Cloud, State};

/// One caller's way to the cloud.
#[derive(Clone)]
pub struct CloudHandle {
    cloud: Cloud,
    caller: String,
}

/// A call's name and what it is about, for the log.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) name: &'static str,
    pub(super) machine: Option<&'a MachineId>,
    pub(super) token: Option<&'a Token>,
}

impl<'a> Call<'a> {
    pub(super) fn named(name: &'static str) -> Self {
        Self {
            name,
            machine: None,
            token: None,
        }
    }

    fn on(name: &'static str, machine: &'a MachineId) -> Self {
        Self {
            machine: Some(machine),
            ..Self::named(name)
        }
    }

    fn under(name: &'static str, token: &'a Token) -> Self {
        Self {
            token: Some(token),
            ..Self::named(name)
        }
    }
}

impl CloudHandle {
    pub(super) fn new(cloud: Cloud, caller: &str) -> Self {
        Self {
            cloud,
            caller: caller.to_owned(),
        }
    }

    /// The same cloud for another caller.
    pub fn called_by(&self, caller: &str) -> Self {
        Self::new(self.cloud.clone(), caller)
    }

    /// A read: metered, shown the past, logged. The wire forms bring errors of their own.
    pub(super) fn read<R, E: From<Error> + Display>(
        &self,
        call: Call<'_>,
        read: impl FnOnce(&State, Timestamp, Timestamp) -> Result<R, E>,
    ) -> Result<R, E> {
        self.cloud.with(|state, now| {
            let lagged = now
                .checked_sub(state.model.settings.read_lag)
                .unwrap_or(now);
            let result = state
                .meter(now)
                .map_err(E::from)
                .and_then(|()| read(state, lagged, now));
            state.note(&self.caller, call, now, outcome(&result));
            result
        })
    }

    /// A change: metered, carried out, logged; then its answer may be lost.
    pub(super) fn write<R, E: From<Error> + Display>(
        &self,
        call: Call<'_>,
        change: impl FnOnce(&mut State, Timestamp) -> Result<R, E>,
        made: impl FnOnce(&R) -> Option<MachineId>,
    ) -> Result<R, E> {
        self.cloud.disturb(|state, now| {
            let allowed = state.meter(now).and_then(|()| state.permit(call.name));
            let result = allowed.map_err(E::from).and_then(|()| change(state, now));
            let machine = result.as_ref().ok().and_then(made);
            let call = Call {
                machine: machine.as_ref().or(call.machine),
                ..call
            };
            let percent = state.model.settings.lost_answers;
            if percent > 0 && result.is_ok() && state.model.chance.happens(percent) {
                state.note(&self.caller, call, now, "ok (answer lost)".to_owned());
                return Err(E::from(Error::NoAnswer {
                    what: call.name.to_owned(),
                    message: "the connection was closed".to_owned(),
                }));
            }
            state.note(&self.caller, call, now, outcome(&result));
            result
        })
    }
}

fn outcome<R, E: Display>(result: &Result<R, E>) -> String {
    result
        .as_ref()
        .map_or_else(ToString::to_string, |_| "ok".to_owned())
}

impl State {
    fn note(&mut self, caller: &str, call: Call<'_>, at: Timestamp, result: String) {
        self.log.push(CallRecord {
            at,
            caller: caller.to_owned(),
            call: call.name,
            machine: call.machine.cloned(),
            token: call.token.cloned(),
            result,
        });
    }

    fn meter(&mut self, now: Timestamp) -> Result<()> {
        let Some(limit) = self.model.settings.calls_per_second else {
            return Ok(());
        };
        if self.window.0 != now.as_second() {
            self.window = (now.as_second(), 0);
        }
        if self.window.1 >= limit {
            return Err(Error::Throttled {
                message: format!("more than {limit} calls in a second"),
            });
        }
        self.window.1 += 1;
        Ok(())
    }

    fn permit(&self, call: &str) -> Result<()> {
        if !self.model.settings.denied_calls.contains(call) {
            return Ok(());
        }
        Err(Error::Denied {
            what: call.to_owned(),
            message: format!("you are not authorized to perform {call}"),
        })
    }

    /// A machine as of `at`, unless the cloud has forgotten it by `now`.
    fn machine_at(&self, id: &MachineId, at: Timestamp, now: Timestamp) -> Result<Machine> {
        let record = self
            .model
            .machines
            .get(id)
            .filter(|record| !self.is_forgotten(record, now));
        Ok(record
            .ok_or_else(|| unknown("machine", id.as_str()))?
            .seen_at(at))
    }

    pub(super) fn is_forgotten(&self, record: &MachineRecord, now: Timestamp) -> bool {
        record
            .ended_at
            .is_some_and(|ended| super::model::later(ended, self.model.settings.remember) <= now)
    }
}

#[async_trait]
impl Provider for CloudHandle {
    async fn resolve(&self, provider_id: &ProviderId) -> Result<Machine> {
        let id = provider_id
            .as_str()
            .strip_prefix("embedded:///")
            .and_then(|rest| rest.split_once('/'));
        let Some((zone, id)) = id else {
            return Err(Error::Refused {
                what: format!("provider id {provider_id}"),
                message: "it is not of the form embedded:///ZONE/MACHINE".to_owned(),
            });
        };
        let id = MachineId(id.to_owned());
        self.read(Call::on("resolve", &id), |state, at, now| {
            let machine = state.machine_at(&id, at, now)?;
            if machine.zone == zone {
                Ok(machine)
            } else {
                Err(unknown("provider id", provider_id.as_str()))
            }
        })
    }

    async fn machine(&self, id: &MachineId) -> Result<Machine> {
        self.read(Call::on("machine", id), |state, at, now| {
            state.machine_at(id, at, now)
        })
    }

    async fn group(&self, id: &GroupId) -> Result<Group> {
        self.read(Call::named("group"), |state, _, _| {
            state
                .model
                .groups
                .get(id)
                .map(super::model::GroupRecord::view)
                .ok_or_else(|| unknown("group", id.as_str()))
        })
    }

    async fn groups(&self) -> Result<Vec<Group>> {
        self.read(Call::named("groups"), |state, _, _| {
            Ok(state
                .model
                .groups
                .values()
                .map(super::model::GroupRecord::view)
                .collect())
        })
    }

    async fn set_group_image(&self, id: &GroupId, image: &ImageId) -> Result<()> {
        let change = |state: &mut State, _| -> Result<()> {
            let group = state
                .model
                .groups
                .get_mut(id)
                .ok_or_else(|| unknown("group", id.as_str()))?;
            if group.image() != *image {
                group.templates.push(image.clone());
                group.version = TemplateVersion::Latest;
            }
            Ok(())
        };
        self.write(Call::named("setGroupImage"), change, |()| None)
    }

    async fn find_replacement(&self, token: &Token) -> Result<Option<Machine>> {
        self.read(Call::under("findReplacement", token), |state, at, _| {
            let machine = state
                .model
                .tokens
                .get(token)
                .and_then(|(_, id)| state.model.machines.get(id));
            Ok(machine
                .filter(|record| record.is_listed_at(at))
                .map(|record| record.seen_at(at)))
        })
    }

    async fn ensure_replacement(&self, request: &ReplacementRequest) -> Result<Machine> {
        let change = |state: &mut State, now| {
            let id = state.model.ensure_replacement(request, now)?;
            let record = state
                .model
                .machines
                .get(&id)
                .ok_or_else(|| unknown("machine", id.as_str()))?;
            Ok(record.machine.clone())
        };
        self.write(
            Call::under("ensureReplacement", &request.token),
            change,
            |machine| Some(machine.id.clone()),
        )
    }

    async fn protect(&self, id: &MachineId, protected: bool) -> Result<()> {
        let call = Call::on(if protected { "protect" } else { "unprotect" }, id);
        let change = |state: &mut State, now| {
            state
                .model
                .update(id, now, |machine| machine.protected = protected)
        };
        self.write(call, change, |()| None)
    }

    async fn tag(&self, id: &MachineId, tags: &BTreeMap<String, String>) -> Result<()> {
        let change = |state: &mut State, now| {
            state
                .model
                .update(id, now, |machine| machine.tags.extend(tags.clone()))
        };
        self.write(Call::on("tag", id), change, |()| None)
    }

    async fn delete_machine(&self, id: &MachineId) -> Result<()> {
        self.write(
            Call::on("deleteMachine", id),
            |state, now| state.model.delete(id, now),
            |()| None,
        )
    }

    async fn machines_tagged(&self, tags: &BTreeMap<String, String>) -> Result<Vec<Machine>> {
        self.read(Call::named("machinesTagged"), |state, at, _| {
            let listed = state
                .model
                .machines
                .values()
                .filter(|record| record.is_listed_at(at));
            let carries = |machine: &Machine| {
                tags.iter()
                    .all(|(key, value)| machine.tags.get(key) == Some(value))
            };
            let views = listed.map(|record| record.seen_at(at));
            Ok(views
                .filter(|machine| machine.state != MachineState::Terminated && carries(machine))
                .collect())
        })
    }

    async fn owned(&self) -> Result<Vec<Machine>> {
        self.read(Call::named("owned"), |state, at, _| {
            let made = state.model.tokens.values();
            let records = made.filter_map(|(_, id)| state.model.machines.get(id));
            let listed = records.filter(|record| record.is_listed_at(at));
            let views = listed.map(|record| record.seen_at(at));
            Ok(views
                .filter(|machine| machine.state != MachineState::Terminated)
                .collect())
        })
    }
}

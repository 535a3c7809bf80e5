//! A cloud in a value: groups, machines that come and go in their own time, and a call log.
//!
//! Owns the model behind a lock, its timers and its log. Must not know Kubernetes: what runs on a
//! machine is played by `actors::machines`, which listens to `MachineEvent`s. Controllers reach it
//! through `CloudHandle`, which is a `Provider`, or over loopback through `wire`, or through the
//! services of a real cloud as `aws` plays them.

pub mod aws;
mod log;
mod model;
mod provider;
mod settings;
pub mod wire;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use shipshape_api::names;
use shipshape_cluster::Clock;
use shipshape_engine::machine::{GroupId, ImageId, Machine, MachineId, MachineState};
use shipshape_provider::Result;
use tokio::sync::{Notify, mpsc};

pub use log::CallRecord;
pub use model::MachineEvent;
pub use provider::CloudHandle;
pub use settings::{CloudSettings, CloudSpec, GroupSpec, MachineNames, MachineSize};

use crate::seed::Seed;
use model::{Model, TemplateVersion, unknown};

/// The cloud; clones share it.
#[derive(Clone)]
pub struct Cloud {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Notify,
    clock: Clock,
    region: String,
    kubelet_versions: BTreeMap<String, String>,
}

struct State {
    model: Model,
    log: Vec<CallRecord>,
    listeners: Vec<mpsc::UnboundedSender<MachineEvent>>,
    /// The second under way and the calls it has seen.
    window: (i64, u32),
}

/// What a machine's software needs to know of its machine.
#[derive(Clone, Debug)]
pub struct MachineFacts {
    /// The machine.
    pub machine: Machine,
    /// The region of its zone.
    pub region: String,
    /// Labels of its group.
    pub labels: BTreeMap<String, String>,
    /// Taints of its group.
    pub taints: Vec<Taint>,
    /// Its size.
    pub size: MachineSize,
    /// The kubelet in its image, when the image says so.
    pub kubelet_version: Option<String>,
    /// Whether its software ever joins.
    pub joins: bool,
    /// Whether it gets ready once it has joined.
    pub gets_ready: bool,
}

/// What has been done to a group besides launching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMarks {
    /// Processes that are suspended.
    pub suspended: BTreeSet<String>,
    /// Tags of the group itself.
    pub tags: BTreeMap<String, String>,
    /// Most machines.
    pub max: u32,
    /// Machines asked for.
    pub desired: u32,
}

/// The Node name of a machine.
pub fn node_name(machine: &MachineId) -> String {
    format!("node-{machine}")
}

impl Cloud {
    /// A cloud with the machines that its groups ask for already running.
    pub fn new(spec: &CloudSpec, clock: Clock, seed: &Seed) -> Self {
        let model = Model::new(spec, seed.fork("cloud"), clock.now());
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    model,
                    log: Vec::new(),
                    listeners: Vec::new(),
                    window: (0, 0),
                }),
                changed: Notify::new(),
                clock,
                region: spec.region.clone(),
                kubelet_versions: spec.kubelet_versions.clone(),
            }),
        }
    }

    fn with<R>(&self, step: impl FnOnce(&mut State, Timestamp) -> R) -> R {
        let now = self.shared.clock.now();
        let mut state = self
            .shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let result = step(&mut state, now);
        state.publish();
        result
    }

    /// Like `with`, for steps that may set a new timer.
    fn disturb<R>(&self, step: impl FnOnce(&mut State, Timestamp) -> R) -> R {
        let result = self.with(|state, now| {
            let result = step(state, now);
            state.advance(now);
            result
        });
        self.shared.changed.notify_one();
        result
    }

    /// Lets time act on the cloud, for ever.
    pub async fn run(self) {
        loop {
            let due = self.with(|state, now| {
                state.advance(now);
                state.model.next_due()
            });
            let clock = self.shared.clock;
            let wait = async {
                match due {
                    Some(due) => clock.sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.shared.changed.notified() => {}
                () = wait => {}
            }
        }
    }

    /// A `Provider` whose calls are logged under `caller`.
    pub fn handle(&self, caller: &str) -> CloudHandle {
        CloudHandle::new(self.clone(), caller)
    }

    /// What happens to machines from now on, after a `Booted` for each that runs already.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<MachineEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.with(|state, _| {
            state.publish();
            state.replay(&sender);
            state.listeners.push(sender);
        });
        receiver
    }

    /// What a machine's software needs to know.
    pub fn facts(&self, id: &MachineId) -> Option<MachineFacts> {
        self.with(|state, _| {
            let record = state.model.machines.get(id)?;
            let machine = record.machine.clone();
            let group = state.model.groups.get(&record.home)?;
            let CloudSettings {
                broken_images,
                unready_images,
                gated_images,
                ..
            } = &state.model.settings;
            let mut taints = group.spec.taints.clone();
            let is_gated = gated_images.contains(machine.image.as_str());
            // A server takes no taint twice.
            let is_missing = is_gated && !taints.contains(&gate_taint());
            taints.extend(is_missing.then(gate_taint));
            Some(MachineFacts {
                region: self.shared.region.clone(),
                labels: group.spec.labels.clone(),
                taints,
                size: group.spec.size,
                kubelet_version: self
                    .shared
                    .kubelet_versions
                    .get(machine.image.as_str())
                    .cloned(),
                joins: !broken_images.contains(machine.image.as_str()),
                gets_ready: !unready_images.contains(machine.image.as_str()),
                machine,
            })
        })
    }

    /// Every machine the cloud ever had, as it is now, without lag and without a log entry.
    pub fn machines(&self) -> Vec<Machine> {
        self.with(|state, _| {
            state
                .model
                .machines
                .values()
                .map(|record| record.machine.clone())
                .collect()
        })
    }

    /// All calls so far.
    pub fn log(&self) -> Vec<CallRecord> {
        self.with(|state, _| state.log.clone())
    }

    /// The calls from an index on.
    pub fn log_since(&self, index: usize) -> Vec<CallRecord> {
        self.with(|state, _| state.log.iter().skip(index).cloned().collect())
    }

    /// Changes how the cloud behaves from now on.
    pub fn adjust(&self, change: impl FnOnce(&mut CloudSettings)) {
        self.disturb(|state, _| change(&mut state.model.settings));
    }

    /// What pods on machines of this image can reach now.
    pub fn network_of(&self, image: &str) -> Network {
        self.with(|state, _| {
            let settings = &state.model.settings;
            Network {
                has_dns: !settings.dns_down,
                has_services: !settings.unconnected_images.contains(image),
            }
        })
    }

    /// Sets a group's desired size, as an autoscaler or a person would.
    pub fn set_desired(&self, id: &GroupId, desired: u32) -> Result<()> {
        self.disturb(|state, _| {
            let group = state
                .model
                .groups
                .get_mut(id)
                .ok_or_else(|| unknown("group", id.as_str()))?;
            group.desired = desired.clamp(group.spec.min, group.spec.max);
            Ok(())
        })
    }

    /// What is suspended of a group and how it is tagged, without lag and without a log entry.
    pub fn group_marks(&self, id: &GroupId) -> Option<GroupMarks> {
        self.with(|state, _| {
            let group = state.model.groups.get(id)?;
            Some(GroupMarks {
                suspended: group.suspended.clone(),
                tags: group.tags.clone(),
                max: group.spec.max,
                desired: group.desired,
            })
        })
    }

    /// Makes a group follow a version of its template: a number, `$Latest` or `$Default`.
    pub fn set_template_version(&self, id: &GroupId, version: &str) {
        let version = match version {
            "$Latest" => TemplateVersion::Latest,
            "$Default" => TemplateVersion::Default,
            number => TemplateVersion::Number(number.parse().unwrap_or(1)),
        };
        self.disturb(|state, _| {
            if let Some(group) = state.model.groups.get_mut(id) {
                group.version = version;
            }
        });
    }

    /// A group grows by a machine of another image than it launches now, as one that was launched from an
    /// old template.
    pub fn launch_outdated(&self, id: &GroupId, zone: &str, image: &ImageId) {
        self.disturb(|state, now| state.model.launch_outdated(id, zone, image, now));
    }

    /// A machine dies, and nobody asked for it.
    pub fn kill_machine(&self, id: &MachineId) {
        self.disturb(|state, now| state.model.end(id, now));
    }
}

/// What keeps pods off a node until somebody has checked its network.
pub fn gate_taint() -> Taint {
    let (key, value, effect) = names::DEFAULT_GATE_TAINT;
    Taint {
        key: key.to_owned(),
        value: Some(value.to_owned()),
        effect: effect.to_owned(),
        time_added: None,
    }
}

/// What pods on a machine can reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Whether a name server answers.
    pub has_dns: bool,
    /// Whether services can be dialled.
    pub has_services: bool,
}

impl State {
    fn advance(&mut self, now: Timestamp) {
        for (call, result) in self.model.advance(now) {
            self.log.push(CallRecord {
                at: now,
                caller: "group".to_owned(),
                call,
                machine: result.as_ref().ok().cloned(),
                token: None,
                result: result.map_or_else(|error| error.to_string(), |_| "ok".to_owned()),
            });
        }
    }

    fn replay(&self, listener: &mpsc::UnboundedSender<MachineEvent>) {
        for record in self.model.machines.values() {
            if record.machine.state == MachineState::Ready {
                // The receiver is in our caller's hands, so it is there.
                drop(listener.send(MachineEvent::Booted(record.machine.id.clone())));
            }
        }
    }

    /// Hands events to whoever listens.
    fn publish(&mut self) {
        for event in self.model.events.drain(..) {
            self.listeners
                .retain(|listener| listener.send(event.clone()).is_ok());
        }
    }
}

//! The `world` part of a scenario file, and what it becomes.
//!
//! Owns the translation into the simulator's own words.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;
use serde_json::{Value, json};
use shipshape_api::names;
use shipshape_simulator::cloud::{CloudSettings, CloudSpec, GroupSpec, gate_taint};
use shipshape_simulator::world::{WorldSpec, daemon_set, deployment, job, stateful_set};

/// The group of nodes that must pass the gate.
pub(crate) const NEWCOMERS: &str = "newcomers";

/// The group of ordinary nodes.
const WORKERS: &str = "workers";
/// The group of the control planes.
const CONTROL_PLANES: &str = "control-planes";

/// The cluster at the start.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WorldSection {
    /// How many nodes.
    pub nodes: u32,
    /// How many control planes besides, each with a member of etcd. They are the first in every list of
    /// nodes.
    pub control_planes: u32,
    /// How many machines can join a second group, whose nodes carry the taint of the gate; none are there
    /// at the start.
    pub newcomers: u32,
    /// Images whose nodes join with the taint of the gate, in whatever group.
    pub gated_images: BTreeSet<String>,
    /// The zones that they are dealt out over.
    pub zones: Vec<String>,
    /// The image that the nodes run.
    pub running_image: String,
    /// The image that their group launches now.
    pub image: String,
    /// Most machines of their group; absent means twice as many as there are nodes.
    pub group_max: Option<u32>,
    /// From the call to a running machine.
    pub boot: SignedDuration,
    /// From a running machine to its Node.
    pub join: SignedDuration,
    /// From the end's request to a machine's end.
    pub terminate: SignedDuration,
    /// From the binding of a pod to its containers running.
    pub pod_start: SignedDuration,
    /// How long a pod takes to stop.
    pub pod_stop: SignedDuration,
    /// From a volume's last pod to its detachment.
    pub detach: SignedDuration,
    /// In how many of a hundred changing cloud calls the answer is lost after the effect.
    pub lost_cloud_answers: u8,
    /// Reads of the cloud show the world as it was this long ago.
    pub cloud_read_lag: SignedDuration,
    /// Where time cannot be skipped, all times of the scenario are divided by this.
    pub hurry: u32,
    /// What runs in the cluster.
    pub workloads: Vec<Workload>,
    /// Further objects, as manifests.
    pub objects: Vec<Value>,
}

impl Default for WorldSection {
    fn default() -> Self {
        Self {
            nodes: 6,
            control_planes: 0,
            newcomers: 0,
            gated_images: BTreeSet::new(),
            zones: ["a", "b", "c"].map(str::to_owned).to_vec(),
            running_image: "image-1".to_owned(),
            image: "image-2".to_owned(),
            group_max: None,
            boot: SignedDuration::from_secs(45),
            join: SignedDuration::from_secs(15),
            terminate: SignedDuration::from_secs(30),
            pod_start: SignedDuration::from_secs(3),
            pod_stop: SignedDuration::from_secs(2),
            detach: SignedDuration::from_secs(6),
            lost_cloud_answers: 0,
            cloud_read_lag: SignedDuration::ZERO,
            hurry: 20,
            workloads: Vec::new(),
            objects: Vec::new(),
        }
    }
}

/// One workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workload {
    /// Name; its pods carry `app: NAME`.
    pub name: String,
    /// Kind of its controller.
    #[serde(default)]
    pub kind: WorkloadKind,
    /// How many pods; a DaemonSet and a Job ignore it.
    #[serde(default = "one")]
    pub replicas: u32,
    /// Thousandths of a core that each pod asks for.
    #[serde(default = "hundred")]
    pub cpu_millis: u32,
    /// The disruption budget that guards it.
    #[serde(default)]
    pub budget: Option<Budget>,
}

fn one() -> u32 {
    1
}

fn hundred() -> u32 {
    100
}

/// Kinds of workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum WorkloadKind {
    /// Pods that are all alike.
    #[default]
    Deployment,
    /// Pods with names and volumes of their own.
    StatefulSet,
    /// One pod on every node.
    DaemonSet,
    /// Pods that end.
    Job,
}

/// A disruption budget: exactly one of the two.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Budget {
    /// A number or a percentage that must stay available.
    MinAvailable(Value),
    /// A number or a percentage that may be away.
    MaxUnavailable(Value),
}

impl WorldSection {
    /// The simulator's description of this world.
    pub fn spec(&self, seed: u64) -> WorldSpec {
        let mut spec = WorldSpec::small(seed, self.nodes);
        let mut group = GroupSpec::new(WORKERS, &self.image, self.nodes);
        group.running_image = Some(self.running_image.clone());
        group.zones.clone_from(&self.zones);
        group.max = self.group_max.unwrap_or(group.max);
        spec.cloud = CloudSpec {
            region: "north".to_owned(),
            groups: self
                .control_planes()
                .into_iter()
                .chain([group])
                .chain(self.newcomers())
                .collect(),
            settings: CloudSettings {
                boot: duration(self.boot),
                terminate: duration(self.terminate),
                read_lag: duration(self.cloud_read_lag),
                lost_answers: self.lost_cloud_answers,
                gated_images: self.gated_images.clone(),
                ..CloudSettings::default()
            },
            ..CloudSpec::default()
        };
        spec.delays.join = duration(self.join);
        spec.delays.pod_start = duration(self.pod_start);
        spec.delays.pod_stop = duration(self.pod_stop);
        spec.delays.detach = duration(self.detach);
        let workloads = self.workloads.iter().flat_map(Workload::objects);
        spec.with(workloads).with(self.objects.iter().cloned())
    }
}

impl WorldSection {
    /// The groups that machines of this world are in. Each names its machines after itself.
    pub(super) fn groups(&self) -> Vec<&'static str> {
        [
            (CONTROL_PLANES, self.control_planes),
            (WORKERS, self.nodes),
            (NEWCOMERS, self.newcomers),
        ]
        .into_iter()
        .filter(|(_, machines)| *machines > 0)
        .map(|(group, _)| group)
        .collect()
    }

    /// The group of nodes that must pass the gate.
    fn newcomers(&self) -> Option<GroupSpec> {
        let mut group = GroupSpec::new(NEWCOMERS, &self.image, 0);
        group.zones.clone_from(&self.zones);
        group.max = self.newcomers;
        group.taints.push(gate_taint());
        (self.newcomers > 0).then_some(group)
    }

    /// The group of the control planes, which take no ordinary pods.
    fn control_planes(&self) -> Option<GroupSpec> {
        let mut group = GroupSpec::new(CONTROL_PLANES, &self.image, self.control_planes);
        group.running_image = Some(self.running_image.clone());
        group.zones.clone_from(&self.zones);
        let key = names::LABEL_CONTROL_PLANE;
        group.labels.insert(key.to_owned(), String::new());
        group.taints.push(Taint {
            key: key.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
        (self.control_planes > 0).then_some(group)
    }
}

impl Workload {
    fn objects(&self) -> Vec<Value> {
        let name = &self.name;
        let workload = match self.kind {
            WorkloadKind::Deployment => deployment(name, self.replicas, self.cpu_millis),
            WorkloadKind::StatefulSet => stateful_set(name, self.replicas, self.cpu_millis),
            WorkloadKind::DaemonSet => daemon_set(name, self.cpu_millis),
            WorkloadKind::Job => job(name, self.cpu_millis),
        };
        let guard = self.budget.as_ref().map(|budget| {
            let (key, value) = match budget {
                Budget::MinAvailable(value) => ("minAvailable", value),
                Budget::MaxUnavailable(value) => ("maxUnavailable", value),
            };
            json!({
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": { "name": name, "namespace": "default" },
                "spec": { "selector": { "matchLabels": { "app": name } }, key: value },
            })
        });
        std::iter::once(workload).chain(guard).collect()
    }
}

/// Negative times make no sense here and count as none.
fn duration(value: SignedDuration) -> Duration {
    Duration::try_from(value).unwrap_or_default()
}

//! Whether a pod fits on a node, and how well.
//!
//! Owns pure arithmetic and reasons; must not call the API.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm, PodSpec};
use kube::ResourceExt as _;

use crate::actors::objects::{millis, selects};
use crate::actors::placement;

/// How good a node is for a pod; the larger the better.
pub(super) type Score = (std::cmp::Reverse<usize>, u64);

/// What a pod asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    cpu: u64,
    memory: u64,
}

impl Demand {
    pub(super) fn of(pod: &Pod) -> Self {
        let containers = pod
            .spec
            .as_ref()
            .map(|spec| spec.containers.as_slice())
            .unwrap_or_default();
        let requests = containers
            .iter()
            .filter_map(|container| container.resources.as_ref()?.requests.as_ref());
        requests.fold(Self::default(), |sum, requests| {
            let asked = |name: &str| requests.get(name).map_or(0, millis);
            Self {
                cpu: sum.cpu.saturating_add(asked("cpu")),
                memory: sum.memory.saturating_add(asked("memory")),
            }
        })
    }
}

/// What a node has and what is left of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Room {
    cpu: u64,
    memory: u64,
    pods: u64,
    used: Demand,
    count: u64,
    /// Labels and anti-affinity of the pods there, for anti-affinity on the host name.
    neighbours: Vec<Neighbour>,
}

#[derive(Clone, Debug, PartialEq)]
struct Neighbour {
    namespace: String,
    labels: BTreeMap<String, String>,
    avoids: Vec<PodAffinityTerm>,
}

impl Room {
    pub(super) fn of(node: &Node) -> Self {
        let allocatable = node
            .status
            .as_ref()
            .and_then(|status| status.allocatable.as_ref());
        let amount = |name: &str| {
            allocatable
                .and_then(|list| list.get(name))
                .map_or(0, millis)
        };
        Self {
            cpu: amount("cpu"),
            memory: amount("memory"),
            pods: amount("pods") / 1000,
            ..Self::default()
        }
    }

    pub(super) fn take(&mut self, pod: &Pod) {
        let demand = Demand::of(pod);
        self.used.cpu = self.used.cpu.saturating_add(demand.cpu);
        self.used.memory = self.used.memory.saturating_add(demand.memory);
        self.count += 1;
        self.neighbours.push(Neighbour {
            namespace: pod.namespace().unwrap_or_default(),
            labels: pod.labels().clone(),
            avoids: avoided(pod.spec.as_ref()),
        });
    }

    /// Free share of the scarcer resource, in thousandths, after the pod is there.
    fn free_share(&self, demand: &Demand) -> u64 {
        let share = |capacity: u64, used: u64| {
            let free = capacity.saturating_sub(used);
            u64::try_from(u128::from(free) * 1000 / u128::from(capacity.max(1))).unwrap_or(0)
        };
        share(self.cpu, self.used.cpu + demand.cpu)
            .min(share(self.memory, self.used.memory + demand.memory))
    }
}

/// The score of a node for a pod, or the reason why it does not fit.
pub(super) fn judge(pod: &Pod, demand: &Demand, node: &Node, room: &Room) -> Result<Score, String> {
    let none = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&none);
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    if !placement::is_wanted(spec, node) {
        return Err("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    if let Some(taint) = placement::repelling(tolerations, node) {
        return Err(format!("node(s) had untolerated taint(s) {}", taint.key));
    }
    let cordon = k8s_openapi::api::core::v1::Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Default::default()
    };
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    if cordoned && !placement::tolerates(tolerations, &cordon) {
        return Err("node(s) were unschedulable".to_owned());
    }
    if room.count >= room.pods {
        return Err("Too many pods".to_owned());
    }
    if room.used.cpu + demand.cpu > room.cpu {
        return Err("Insufficient cpu".to_owned());
    }
    if room.used.memory + demand.memory > room.memory {
        return Err("Insufficient memory".to_owned());
    }
    if is_crowded(pod, spec, room) {
        return Err("node(s) didn't match pod anti-affinity rules".to_owned());
    }
    let disliked = placement::taints(node)
        .iter()
        .filter(|taint| taint.effect == "PreferNoSchedule");
    let disliked = disliked
        .filter(|taint| !placement::tolerates(tolerations, taint))
        .count();
    // The count breaks ties between nodes whose pods ask for nothing.
    let score = room.free_share(demand) * 1000 + 999_u64.saturating_sub(room.count);
    Ok((std::cmp::Reverse(disliked), score))
}

fn avoided(spec: Option<&PodSpec>) -> Vec<PodAffinityTerm> {
    let terms = spec
        .and_then(|spec| spec.affinity.as_ref()?.pod_anti_affinity.as_ref())
        .and_then(|anti| {
            anti.required_during_scheduling_ignored_during_execution
                .clone()
        });
    let on_host = |term: &PodAffinityTerm| term.topology_key == "kubernetes.io/hostname";
    terms
        .unwrap_or_default()
        .into_iter()
        .filter(on_host)
        .collect()
}

/// Whether the pod and a pod on the node keep away from each other.
fn is_crowded(pod: &Pod, spec: &PodSpec, room: &Room) -> bool {
    let own = avoided(Some(spec));
    let namespace = pod.namespace().unwrap_or_default();
    room.neighbours.iter().any(|neighbour| {
        let meets =
            |term: &PodAffinityTerm, from: &str, labels: &BTreeMap<String, String>, to: &str| {
                let listed = term
                    .namespaces
                    .as_ref()
                    .is_some_and(|list| list.iter().any(|item| item == to));
                (listed || (term.namespaces.is_none() && from == to))
                    && selects(term.label_selector.as_ref(), labels)
            };
        own.iter()
            .any(|term| meets(term, &namespace, &neighbour.labels, &neighbour.namespace))
            || neighbour
                .avoids
                .iter()
                .any(|term| meets(term, &neighbour.namespace, pod.labels(), &namespace))
    })
}

/// The sentence for a pod that fits nowhere.
pub(super) fn summary(nodes: usize, refusals: &BTreeMap<String, usize>) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let reasons: Vec<String> = refusals
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
}

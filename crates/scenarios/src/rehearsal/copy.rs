//! The copy of a cluster: what is taken over of nodes, pods, owners and budgets, and what is not.
//!
//! Owns the translation, as a pure function. Nothing secret is taken over: of a pod its labels, what it
//! asks for and where it runs; no images, commands, variables, volumes' contents or annotations.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use serde_json::{Value, json};
use shipshape_api::names;
use shipshape_simulator::cloud::{GroupSpec, MachineSize};

use super::pods;

/// Labels that a kubelet sets by itself, or that name one machine.
const OWN_LABELS: [&str; 2] = ["kubernetes.io/hostname", names::LABEL_ZONE];
/// Machines of a copy: the old image, and the one that the run brings.
const OLD_IMAGE: &str = "as-it-is";
const NEW_IMAGE: &str = "replaced";

/// What was read of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Original<'a> {
    /// Its nodes.
    pub nodes: &'a [Node],
    /// Its pods.
    pub pods: &'a [Pod],
    /// Its disruption budgets.
    pub budgets: &'a [PodDisruptionBudget],
}

/// A cluster that can be set up anew.
#[derive(Clone, Debug, Default)]
pub struct Copy {
    /// One group for each node, so that each new machine is like the one it replaces.
    pub groups: Vec<GroupSpec>,
    /// Everything else, in the order in which it is created.
    pub objects: Vec<Value>,
    /// Copies of nodes that take no new pods.
    pub cordoned: Vec<String>,
    /// What could not be taken over, in words.
    pub notes: Vec<String>,
    /// The node that each copy of one stands for.
    pub originals: BTreeMap<String, String>,
}

impl Copy {
    /// Copies a cluster.
    pub fn of(original: &Original<'_>) -> Self {
        let mut copy = Self::default();
        let mut names = BTreeMap::new();
        for node in original.nodes {
            let group = group(node);
            let name = format!("node-{}-001", group.id);
            copy.originals.insert(name.clone(), node.name_any());
            if is_cordoned(node) {
                copy.cordoned.push(name.clone());
            }
            names.insert(node.name_any(), name);
            copy.groups.push(group);
        }
        // A pod that is not bound waits in the copy too; one on a node that is gone is about to go.
        let placed = |pod: &&Pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            node.is_none_or(|node| node.is_empty() || names.contains_key(node))
        };
        let pods: Vec<&Pod> = original.pods.iter().filter(placed).collect();
        copy.add_namespaces(&pods, original.budgets);
        let workloads = pods::workloads(&pods, &names);
        copy.objects.extend(workloads.objects);
        copy.notes.extend(workloads.notes);
        copy.objects.extend(original.budgets.iter().map(budget));
        copy
    }

    fn add_namespaces(&mut self, pods: &[&Pod], budgets: &[PodDisruptionBudget]) {
        let of_pods = pods.iter().filter_map(|pod| pod.namespace());
        let of_budgets = budgets.iter().filter_map(ResourceExt::namespace);
        let wanted: BTreeSet<String> = of_pods.chain(of_budgets).collect();
        let there = ["default", "kube-system", "kube-public", "kube-node-lease"];
        for name in wanted.iter().filter(|name| !there.contains(&name.as_str())) {
            self.objects.push(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
            }));
        }
    }
}

fn is_cordoned(node: &Node) -> bool {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.unschedulable) == Some(true)
}

fn group(node: &Node) -> GroupSpec {
    let name = node.name_any();
    let labels = node.labels();
    let zone = labels.get(names::LABEL_ZONE).cloned().unwrap_or_default();
    let kept = labels
        .iter()
        .filter(|(key, _)| !OWN_LABELS.contains(&key.as_str()));
    let allocatable = node.status.as_ref();
    let allocatable = allocatable.and_then(|status| status.allocatable.clone());
    let allocatable = allocatable.unwrap_or_default();
    let amount = |key: &str| allocatable.get(key).and_then(number);
    let usual = MachineSize::default();
    let whole = |value: f64, otherwise: u64| if value > 0.0 { round(value) } else { otherwise };
    let mut group = GroupSpec::new(&name.replace('.', "-"), NEW_IMAGE, 1);
    group.running_image = Some(OLD_IMAGE.to_owned());
    group.zones = vec![zone];
    group.labels = kept
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    group.taints = taints(node);
    group.size = MachineSize {
        cpu_millis: whole(amount("cpu").unwrap_or(0.0) * 1000.0, usual.cpu_millis),
        memory_mib: whole(
            amount("memory").unwrap_or(0.0) / 1_048_576.0,
            usual.memory_mib,
        ),
        pods: u32::try_from(whole(amount("pods").unwrap_or(0.0), usual.pods.into()))
            .unwrap_or(usual.pods),
    };
    group
}

/// Taints that belong to the node, and not to a state that it is in.
fn taints(node: &Node) -> Vec<Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
    let is_state = |taint: &Taint| {
        taint.key.starts_with("node.kubernetes.io/") || taint.key == names::TAINT_OUTDATED
    };
    let taints = taints.unwrap_or_default().into_iter();
    taints.filter(|taint| !is_state(taint)).collect()
}

fn budget(budget: &PodDisruptionBudget) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": budget.name_any(), "namespace": budget.namespace() },
        "spec": budget.spec,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "amounts of one machine, far below the limits"
)]
fn round(value: f64) -> u64 {
    value.round() as u64
}

/// An amount in its base unit: cores, bytes or pieces.
pub(super) fn number(quantity: &Quantity) -> Option<f64> {
    let text = quantity.0.trim();
    let split = text.find(|letter: char| letter.is_ascii_alphabetic());
    let (digits, unit) = text.split_at(split.unwrap_or(text.len()));
    let factor = match unit {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|value| value * factor)
}

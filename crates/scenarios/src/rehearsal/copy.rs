//! The copy of a cluster: what is taken over of nodes, pods, owners and budgets, and what is not.
//!
//! Owns the translation, as a pure function. Nothing secret is taken over: of a pod its labels, what it
//! asks for and where it runs; no images, commands, variables, volumes' contents or annotations.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use serde_json::{Value, json};
use shipshape_api::{NodePatchRunSpec, names};
use shipshape_engine::plan::is_candidate;
use shipshape_engine::selector::UnknownOperator;
use shipshape_engine::startup::goes_by_itself;
use shipshape_engine::view::NodeView;
use shipshape_simulator::cloud::{GroupSpec, MachineSize};

use super::pods;

/// Labels that a kubelet sets by itself, or that name one machine.
const OWN_LABELS: [&str; 2] = ["kubernetes.io/hostname", names::LABEL_ZONE];
/// Marks the copies of the nodes that the run takes.
const LABEL_TAKEN: &str = "shipshape.dev/rehearsed";
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
    /// The nodes themselves, by the name of the copy: whom a run takes is asked of them.
    pub(super) views: BTreeMap<String, NodeView>,
}

impl Copy {
    /// Copies a cluster.
    pub fn of(original: &Original<'_>) -> Self {
        let mut copy = Self::default();
        let mut names = BTreeMap::new();
        for node in original.nodes {
            let group = group(node);
            let name = name_of(&group);
            copy.originals.insert(name.clone(), node.name_any());
            copy.views.insert(name.clone(), NodeView::of(node));
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

    /// How many nodes a run takes, by the labels that they have in the cluster.
    pub fn candidates(&self, spec: &NodePatchRunSpec) -> Result<usize, UnknownOperator> {
        Ok(self.taken(spec)?.len())
    }

    /// The groups of the nodes that a run takes, by the labels that they have in the cluster.
    fn taken(&self, spec: &NodePatchRunSpec) -> Result<BTreeSet<usize>, UnknownOperator> {
        let mut taken = BTreeSet::new();
        for (place, group) in self.groups.iter().enumerate() {
            let view = self.views.get(&name_of(group));
            if let Some(view) = view
                && is_candidate(spec, view)?
            {
                taken.insert(place);
            }
        }
        Ok(taken)
    }

    /// The groups as a run meets them, and the run's selector as the copy can answer it: names of machines
    /// are not taken over, so whom the run takes is worked out from the nodes and marked.
    pub(super) fn marked(
        &self,
        spec: &mut NodePatchRunSpec,
    ) -> Result<Vec<GroupSpec>, UnknownOperator> {
        let taken = self.taken(spec)?;
        let mut groups = self.groups.clone();
        if spec.node_selector.is_none() && spec.exclude_node_selector.is_none() {
            return Ok(groups);
        }
        for (place, group) in groups.iter_mut().enumerate() {
            if taken.contains(&place) {
                let mark = (LABEL_TAKEN.to_owned(), "true".to_owned());
                group.labels.extend([mark]);
            }
        }
        let mark = [(LABEL_TAKEN.to_owned(), "true".to_owned())];
        spec.node_selector = Some(LabelSelector {
            match_labels: Some(mark.into()),
            match_expressions: None,
        });
        spec.exclude_node_selector = None;
        Ok(groups)
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

/// The name that the first node of a group gets.
fn name_of(group: &GroupSpec) -> String {
    format!("node-{}-001", group.id)
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
    let (gate, _, _) = names::DEFAULT_GATE_TAINT;
    let is_state = |taint: &Taint| {
        taint.key.starts_with("node.kubernetes.io/")
            || [names::TAINT_OUTDATED, gate].contains(&taint.key.as_str())
            || goes_by_itself(&taint.key)
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

//! Where a copied pod may run: the affinities that the embedded scheduler knows.
//!
//! Owns what is taken over of them. A node has another name in the copy, so what pins a pod to one by
//! name is left out; of those between pods only the required ones that keep them apart by host are known.

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, PodAffinityTerm, PodAntiAffinity,
};
use shipshape_engine::view::PodView;

/// The label that names one machine.
pub(super) const HOST: &str = "kubernetes.io/hostname";

/// The part of a pod's affinities that is taken over.
pub(super) fn of(pod: &Pod) -> Option<Affinity> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?;
    let nodes = affinity.node_affinity.as_ref().and_then(to_nodes);
    let apart = affinity.pod_anti_affinity.as_ref().and_then(by_host);
    // A daemon is pinned to its node by its controller, which does so in the copy too.
    let owner = PodView::of(pod).owner;
    let is_daemon = owner.is_some_and(|(kind, _)| kind == "DaemonSet");
    let copied = Affinity {
        node_affinity: nodes.filter(|_| !is_daemon),
        pod_anti_affinity: apart,
        pod_affinity: None,
    };
    (copied != Affinity::default()).then_some(copied)
}

/// Whether something about a pod's place is left out.
pub(super) fn is_partial(pod: &Pod) -> bool {
    let Some(spec) = pod.spec.as_ref() else {
        return false;
    };
    let affinity = spec.affinity.as_ref();
    let together = affinity.and_then(|it| it.pod_affinity.as_ref());
    let together = together.and_then(|it| {
        it.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let apart = affinity.and_then(|it| it.pod_anti_affinity.as_ref());
    let by_zone = apart.is_some_and(|it| required(it).iter().any(|term| term.topology_key != HOST));
    let hard = |mode: &str| mode == "DoNotSchedule";
    let spread = spec.topology_spread_constraints.iter().flatten();
    let spread = spread.filter(|one| hard(&one.when_unsatisfiable)).count();
    together.is_some_and(|terms| !terms.is_empty()) || by_zone || spread > 0
}

fn required(apart: &PodAntiAffinity) -> &[PodAffinityTerm] {
    let terms = apart
        .required_during_scheduling_ignored_during_execution
        .as_ref();
    terms.map(Vec::as_slice).unwrap_or_default()
}

fn by_host(apart: &PodAntiAffinity) -> Option<PodAntiAffinity> {
    let terms = required(apart)
        .iter()
        .filter(|term| term.topology_key == HOST);
    let terms: Vec<PodAffinityTerm> = terms.cloned().collect();
    (!terms.is_empty()).then_some(PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(terms),
        preferred_during_scheduling_ignored_during_execution: None,
    })
}

/// The terms without names of machines. They are alternatives: one that asks for nothing else lets the pod
/// go anywhere.
fn to_nodes(wanted: &NodeAffinity) -> Option<NodeAffinity> {
    let terms = wanted
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let terms: Vec<NodeSelectorTerm> = terms.node_selector_terms.iter().map(nameless).collect();
    let is_free = |term: &NodeSelectorTerm| term.match_expressions.iter().flatten().count() == 0;
    if terms.is_empty() || terms.iter().any(is_free) {
        return None;
    }
    Some(NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: terms,
        }),
        preferred_during_scheduling_ignored_during_execution: None,
    })
}

fn nameless(term: &NodeSelectorTerm) -> NodeSelectorTerm {
    let expressions = term.match_expressions.iter().flatten();
    let expressions = expressions.filter(|one| one.key != HOST).cloned();
    NodeSelectorTerm {
        match_expressions: Some(expressions.collect()),
        match_fields: None,
    }
}

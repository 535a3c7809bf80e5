//! Whether a pod may run on a node: taints, selectors, affinity.
//!
//! Owns pure questions. Must not know resources (the scheduler does) or call the API. Used by the
//! scheduler, the DaemonSet controller and the eviction of pods by taints.

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use kube::ResourceExt as _;

/// Whether one of the tolerations covers the taint.
pub(crate) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations
        .iter()
        .any(|toleration| covers(toleration, taint))
}

/// Whether a toleration covers a taint.
pub(crate) fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let effect = text(&toleration.effect);
    let key = text(&toleration.key);
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    if text(&toleration.operator) == "Exists" {
        return key.is_empty() || key == taint.key;
    }
    key == taint.key && text(&toleration.value) == text(&taint.value)
}

/// The taints of a node.
pub(crate) fn taints(node: &Node) -> &[Taint] {
    node.spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}

/// The first taint that keeps a pod off the node.
pub(crate) fn repelling<'a>(tolerations: &[Toleration], node: &'a Node) -> Option<&'a Taint> {
    taints(node)
        .iter()
        .filter(|taint| taint.effect != "PreferNoSchedule")
        .find(|taint| !tolerates(tolerations, taint))
}

/// Whether the node is the kind of node that the pod asks for.
pub(crate) fn is_wanted(pod: &PodSpec, node: &Node) -> bool {
    let selected = pod.node_selector.as_ref().is_none_or(|wanted| {
        wanted
            .iter()
            .all(|(key, value)| node.labels().get(key) == Some(value))
    });
    let required = pod
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| {
            affinity
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        });
    selected && required.is_none_or(|selector| selector_matches(selector, node))
}

fn selector_matches(selector: &NodeSelector, node: &Node) -> bool {
    selector
        .node_selector_terms
        .iter()
        .any(|term| term_matches(term, node))
}

fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let name = node.name_any();
    expressions
        .iter()
        .all(|wanted| holds(wanted, node.labels().get(&wanted.key).map(String::as_str)))
        && fields
            .iter()
            .all(|wanted| wanted.key == "metadata.name" && holds(wanted, Some(&name)))
}

fn holds(wanted: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|item| item == value));
    let compare = |larger: bool| {
        let value = value.and_then(|value| value.parse::<i64>().ok());
        let bound = values.first().and_then(|bound| bound.parse::<i64>().ok());
        value
            .zip(bound)
            .is_some_and(|(value, bound)| if larger { value > bound } else { value < bound })
    };
    match wanted.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(true),
        "Lt" => compare(false),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: Option<&str>, effect: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            effect: effect.to_owned(),
            time_added: None,
        }
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Toleration {
            key: some(key),
            operator: some(operator),
            value: some(value),
            effect: some(effect),
            toleration_seconds: None,
        }
    }

    #[test]
    fn a_toleration_covers_by_key_value_and_effect() {
        let dedicated = taint("dedicated", Some("db"), "NoSchedule");
        assert!(covers(&toleration("dedicated", "", "db", ""), &dedicated));
        assert!(covers(&toleration("", "Exists", "", ""), &dedicated));
        assert!(!covers(
            &toleration("dedicated", "Equal", "web", ""),
            &dedicated
        ));
        assert!(!covers(
            &toleration("dedicated", "Exists", "", "NoExecute"),
            &dedicated
        ));
    }

    #[test]
    fn a_term_without_requirements_matches_no_node() {
        assert!(!term_matches(
            &NodeSelectorTerm::default(),
            &Node::default()
        ));
    }
}

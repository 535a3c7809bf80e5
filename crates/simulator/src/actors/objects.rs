//! Questions about pods, nodes and owners that several actors ask.
//!
//! Owns pure reading of objects; must not call the API.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::core::{Selector, SelectorExt as _};
use kube::{Resource, ResourceExt as _};

/// Whether a condition of a pod is `True`.
pub(crate) fn has_condition(pod: &Pod, kind: &str) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|list| {
        list.iter()
            .any(|item| item.type_ == kind && item.status == "True")
    })
}

/// Whether a pod is ready to serve.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    has_condition(pod, "Ready")
}

/// The pod's phase; `Pending` when nobody has said.
pub(crate) fn phase(pod: &Pod) -> &str {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase.unwrap_or("Pending")
}

/// Whether a pod has run to its end.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether somebody has asked for the pod's end.
pub(crate) fn is_ending(object: &impl Resource) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Whether a workload still counts on the pod.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_ending(pod)
}

/// The node a pod is bound to.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    let name = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    name.filter(|name| !name.is_empty())
}

/// The status of a node's Ready condition.
pub(crate) fn node_ready(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")?;
    Some(ready.status.as_str())
}

/// The owner that controls an object.
pub(crate) fn controller_of(object: &impl Resource) -> Option<&OwnerReference> {
    let owners = object
        .meta()
        .owner_references
        .as_deref()
        .unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// Whether `owner` controls `object`.
pub(crate) fn is_controlled_by(object: &impl Resource, owner: &impl Resource) -> bool {
    let uid = owner.meta().uid.as_deref();
    controller_of(object).is_some_and(|found| Some(found.uid.as_str()) == uid)
}

/// A reference that makes `owner` the controller of what it creates.
pub(crate) fn controlled_by<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether labels match a selector. No selector, and a selector nobody can read, match nothing.
pub(crate) fn selects(selector: Option<&LabelSelector>, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = selector else {
        return false;
    };
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}

/// A pod from a template, owned by whoever asks.
pub(crate) fn pod_from(
    template: &PodTemplateSpec,
    namespace: &str,
    name: &str,
    owner: OwnerReference,
) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: meta.labels,
            annotations: meta.annotations,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// A short, stable name for a template: the same template always gets the same one.
pub(crate) fn fingerprint(value: &impl serde::Serialize) -> String {
    use sha2::{Digest as _, Sha256};
    let text = serde_json::to_vec(value).unwrap_or_default();
    let digest = Sha256::digest(&text);
    let number = digest
        .iter()
        .take(8)
        .fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    crate::seed::Seed::new(number).suffix(10)
}

/// A quantity in thousandths of its unit; an unreadable one counts as nothing.
pub(crate) fn millis(quantity: &Quantity) -> u64 {
    let text = quantity.0.trim();
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction: String = format!("{fraction:0<3}").chars().take(3).collect();
    let value = whole.parse::<u64>().unwrap_or(0) * 1000 + fraction.parse::<u64>().unwrap_or(0);
    match suffix {
        "m" => value / 1000,
        "k" => value.saturating_mul(1_000),
        "M" => value.saturating_mul(1_000_000),
        "G" => value.saturating_mul(1_000_000_000),
        "T" => value.saturating_mul(1_000_000_000_000),
        "Ki" => value.saturating_mul(1 << 10),
        "Mi" => value.saturating_mul(1 << 20),
        "Gi" => value.saturating_mul(1 << 30),
        "Ti" => value.saturating_mul(1 << 40),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_thousandths() {
        let read = |text: &str| millis(&Quantity(text.to_owned()));
        assert_eq!(read("250m"), 250);
        assert_eq!(read("2"), 2_000);
        assert_eq!(read("1.5"), 1_500);
        assert_eq!(read("64Mi"), 64 * 1024 * 1024 * 1000);
        assert_eq!(read("1k"), 1_000_000);
        assert_eq!(read("many"), 0);
    }

    #[test]
    fn an_empty_selector_matches_all_and_none_matches_nothing() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        assert!(selects(Some(&LabelSelector::default()), &labels));
        assert!(!selects(None, &labels));
    }
}

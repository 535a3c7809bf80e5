//! Fields that may not change once they are set, for each kind that has some.

use serde_json::Value;

use crate::{
    schema::FieldError,
    server::{failure::forbidden_field, kinds::BuiltIn, meta},
};

const IMMUTABLE: &str = "field is immutable";

/// Judges the change of an object.
pub(super) fn check(which: BuiltIn, old: &Value, new: &Value) -> Vec<FieldError> {
    match which {
        BuiltIn::Pod => pod(old, new).into_iter().collect(),
        BuiltIn::Deployment | BuiltIn::ReplicaSet | BuiltIn::DaemonSet => {
            same(old, new, "spec.selector").into_iter().collect()
        }
        BuiltIn::StatefulSet => stateful_set(old, new).into_iter().collect(),
        BuiltIn::Job => ["spec.completions", "spec.selector", "spec.template"]
            .iter()
            .filter_map(|field| same(old, new, field))
            .collect(),
        BuiltIn::ControllerRevision => same(old, new, "data").into_iter().collect(),
        BuiltIn::EndpointSlice => same(old, new, "addressType").into_iter().collect(),
        BuiltIn::VolumeAttachment => same(old, new, "spec").into_iter().collect(),
        BuiltIn::ConfigMap => frozen(old, new, &["data", "binaryData"]),
        BuiltIn::Secret => {
            let mut causes = frozen(old, new, &["data"]);
            causes.extend(same(old, new, "type"));
            causes
        }
        BuiltIn::Service => address(old, new).into_iter().collect(),
        BuiltIn::PersistentVolumeClaim => claim(old, new).into_iter().collect(),
        BuiltIn::PriorityClass => {
            let changed = old.get("value") != new.get("value");
            changed
                .then(|| forbidden_field("value", "may not be changed in an update."))
                .into_iter()
                .collect()
        }
        BuiltIn::Node => node(old, new).into_iter().collect(),
        BuiltIn::CustomResourceDefinition => ["spec.group", "spec.scope", "spec.names.kind"]
            .iter()
            .filter_map(|field| same(old, new, field))
            .collect(),
        BuiltIn::Namespace
        | BuiltIn::Endpoints
        | BuiltIn::ServiceAccount
        | BuiltIn::Event
        | BuiltIn::PersistentVolume
        | BuiltIn::PodDisruptionBudget
        | BuiltIn::Lease => Vec::new(),
    }
}

fn at<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    field
        .split('.')
        .try_fold(value, |value, key| value.get(key))
}

fn same(old: &Value, new: &Value, field: &str) -> Option<FieldError> {
    let now = at(new, field);
    (at(old, field) != now)
        .then(|| FieldError::invalid(field, now.unwrap_or(&Value::Null), IMMUTABLE))
}

/// Once `immutable` is set, it stays, and so does the data.
fn frozen(old: &Value, new: &Value, fields: &[&str]) -> Vec<FieldError> {
    const RULE: &str = "field is immutable when `immutable` is set";
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return Vec::new();
    }
    std::iter::once(&"immutable")
        .chain(fields)
        .filter(|field| old.get(**field) != new.get(**field))
        .map(|field| forbidden_field(field, RULE))
        .collect()
}

/// What of a pod may change: images, a shorter deadline, more tolerations.
fn pod(old: &Value, new: &Value) -> Option<FieldError> {
    const RULE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    let tolerations = |value| meta::items(value, &["spec", "tolerations"]);
    if tolerations(old)
        .iter()
        .any(|t| !tolerations(new).contains(t))
    {
        return Some(forbidden_field(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    let fixed = |value: &Value| {
        let mut spec = value.get("spec").cloned().unwrap_or_default();
        let map = meta::as_map(&mut spec);
        map.remove("tolerations");
        map.remove("activeDeadlineSeconds");
        for list in ["containers", "initContainers"] {
            let containers = map.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                meta::as_map(container).remove("image");
            }
        }
        spec
    };
    (fixed(old) != fixed(new)).then(|| forbidden_field("spec", RULE))
}

fn stateful_set(old: &Value, new: &Value) -> Option<FieldError> {
    const RULE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    const FREE: &[&str] = &[
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    fixed_spec_changed(old, new, FREE).then(|| forbidden_field("spec", RULE))
}

fn fixed_spec_changed(old: &Value, new: &Value, free: &[&str]) -> bool {
    let fixed = |value: &Value| {
        let mut spec = value.get("spec").cloned().unwrap_or_default();
        meta::as_map(&mut spec).retain(|key, _| !free.contains(&key.as_str()));
        spec
    };
    fixed(old) != fixed(new)
}

fn address(old: &Value, new: &Value) -> Option<FieldError> {
    let address = |value| meta::text(value, &["spec", "clusterIP"]);
    let external = meta::text(new, &["spec", "type"]) == "ExternalName"
        || meta::text(old, &["spec", "type"]) == "ExternalName";
    let changed = !address(old).is_empty() && address(old) != address(new);
    (changed && !external).then(|| {
        let now = meta::at(new, &["spec", "clusterIPs"]).unwrap_or(&Value::Null);
        FieldError::invalid("spec.clusterIPs[0]", now, "may not change once set")
    })
}

fn claim(old: &Value, new: &Value) -> Option<FieldError> {
    const RULE: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    const FREE: &[&str] = &["resources", "volumeAttributesClassName", "volumeName"];
    let bound_elsewhere = {
        let volume = |value| meta::text(value, &["spec", "volumeName"]);
        !volume(old).is_empty() && volume(old) != volume(new)
    };
    (bound_elsewhere || fixed_spec_changed(old, new, FREE)).then(|| forbidden_field("spec", RULE))
}

fn node(old: &Value, new: &Value) -> Option<FieldError> {
    let id = |value| meta::text(value, &["spec", "providerID"]);
    (!id(old).is_empty() && id(old) != id(new)).then(|| {
        forbidden_field(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        )
    })
}

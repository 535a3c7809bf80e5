//! What each built-in kind must hold.
//!
//! Only what clients of the embedded cluster can get wrong in practice is judged; `MISMATCH.md`
//! says so.

use serde_json::Value;

use super::{fields, names};
use crate::{
    schema::{FieldError, FieldErrorKind, structural},
    server::{failure::unsupported_word, kinds::BuiltIn, meta, selector::object_selector_matches},
};

/// Judges an object.
pub(super) fn check(which: BuiltIn, value: &Value) -> Vec<FieldError> {
    match which {
        BuiltIn::Pod => pod_spec("spec", value.get("spec")),
        BuiltIn::Deployment | BuiltIn::ReplicaSet | BuiltIn::StatefulSet => workload(value),
        BuiltIn::DaemonSet => {
            let mut causes = workload(value);
            causes.retain(|cause| {
                cause.kind != FieldErrorKind::Required || cause.field != "spec.selector"
            });
            causes
        }
        BuiltIn::Job => job(value),
        BuiltIn::Service => service(value),
        BuiltIn::PodDisruptionBudget => budget(value),
        BuiltIn::Node => node(value),
        BuiltIn::ConfigMap | BuiltIn::Secret => {
            [data_keys(value), data_size(which, value)].concat()
        }
        BuiltIn::Lease => lease(value),
        BuiltIn::CustomResourceDefinition => definition(value),
        BuiltIn::PersistentVolumeClaim => claim(value),
        BuiltIn::Event => fields::event(value).into_iter().collect(),
        BuiltIn::VolumeAttachment => fields::attachment(value).into_iter().collect(),
        BuiltIn::Namespace
        | BuiltIn::Endpoints
        | BuiltIn::ServiceAccount
        | BuiltIn::PersistentVolume
        | BuiltIn::ControllerRevision
        | BuiltIn::PriorityClass
        | BuiltIn::EndpointSlice => Vec::new(),
    }
}

fn not_negative(value: &Value, path: &[&str]) -> Option<FieldError> {
    let number = meta::number(value, path).filter(|number| *number < 0)?;
    Some(FieldError::invalid(
        &path.join("."),
        &number.into(),
        "must be greater than or equal to 0",
    ))
}

fn pod_spec(field: &str, spec: Option<&Value>) -> Vec<FieldError> {
    let spec = spec.unwrap_or(&Value::Null);
    let mut causes = Vec::new();
    let containers = meta::items(spec, &["containers"]);
    if containers.is_empty() {
        causes.push(FieldError::required(&format!("{field}.containers"), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in meta::items(spec, &[list]).iter().enumerate() {
            let at = format!("{field}.{list}[{index}]");
            causes.extend(self::container(&at, container));
            let name = meta::text(container, &["name"]);
            if seen.contains(&name) {
                causes.push(FieldError::of_value(
                    FieldErrorKind::Duplicate,
                    &format!("{at}.name"),
                    &name.into(),
                    "",
                ));
            }
            seen.push(name);
        }
    }
    let policy = meta::text(spec, &["restartPolicy"]);
    let allowed = ["Always", "OnFailure", "Never"];
    if !allowed.contains(&policy) {
        causes.push(unsupported_word(
            &format!("{field}.restartPolicy"),
            policy,
            &allowed,
        ));
    }
    causes
}

fn container(at: &str, container: &Value) -> Option<FieldError> {
    let name = meta::text(container, &["name"]);
    if name.is_empty() {
        return Some(FieldError::required(&format!("{at}.name"), ""));
    }
    if meta::text(container, &["image"]).is_empty() {
        return Some(FieldError::required(&format!("{at}.image"), ""));
    }
    names::label_at(&format!("{at}.name"), name)
}

fn template(value: &Value) -> Vec<FieldError> {
    pod_spec(
        "spec.template.spec",
        meta::at(value, &["spec", "template", "spec"]),
    )
}

fn workload(value: &Value) -> Vec<FieldError> {
    let mut causes: Vec<FieldError> = not_negative(value, &["spec", "replicas"])
        .into_iter()
        .collect();
    let selector = meta::at(value, &["spec", "selector"]);
    let labels = meta::at(value, &["spec", "template", "metadata", "labels"]);
    let template_object = meta::at(value, &["spec", "template"]).unwrap_or(&Value::Null);
    let is_empty = |selector: &Value| {
        ["matchLabels", "matchExpressions"]
            .iter()
            .all(|part| selector.get(*part).is_none())
    };
    match selector {
        None => causes.push(FieldError::required("spec.selector", "")),
        Some(selector) if is_empty(selector) => causes.push(FieldError::invalid(
            "spec.selector",
            selector,
            "empty selector is invalid for deployment",
        )),
        Some(_) => {}
    }
    if !object_selector_matches(selector, template_object) {
        causes.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels.unwrap_or(&Value::Null),
            "`selector` does not match template `labels`",
        ));
    }
    causes.extend(template(value));
    let policy = meta::text(value, &["spec", "template", "spec", "restartPolicy"]);
    if matches!(policy, "OnFailure" | "Never") {
        causes.push(unsupported_word(
            "spec.template.spec.restartPolicy",
            policy,
            &["Always"],
        ));
    }
    causes
}

fn job(value: &Value) -> Vec<FieldError> {
    let mut causes: Vec<FieldError> = ["parallelism", "completions", "backoffLimit"]
        .iter()
        .filter_map(|key| not_negative(value, &["spec", key]))
        .collect();
    causes.extend(template(value));
    let policy = meta::text(value, &["spec", "template", "spec", "restartPolicy"]);
    if policy == "Always" {
        causes.push(FieldError::required(
            "spec.template.spec.restartPolicy",
            "valid values: \"OnFailure\", \"Never\"",
        ));
    }
    causes
}

fn service(value: &Value) -> Vec<FieldError> {
    let headless = meta::text(value, &["spec", "clusterIP"]) == "None";
    let kind = meta::text(value, &["spec", "type"]);
    let mut causes = Vec::new();
    let allowed = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !allowed.contains(&kind) {
        causes.push(unsupported_word("spec.type", kind, &allowed));
    }
    if meta::items(value, &["spec", "ports"]).is_empty() && !headless && kind != "ExternalName" {
        causes.push(FieldError::required("spec.ports", ""));
    }
    causes
}

fn budget(value: &Value) -> Vec<FieldError> {
    let spec = value.get("spec").unwrap_or(&Value::Null);
    let mut causes = Vec::new();
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        causes.push(FieldError::invalid(
            "spec",
            spec,
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        causes.extend(not_negative(value, &["spec", key]));
        causes.extend(fields::percentage(value, key));
    }
    causes
}

fn node(value: &Value) -> Vec<FieldError> {
    let allowed = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut causes = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in meta::items(value, &["spec", "taints"]).iter().enumerate() {
        let at = format!("metadata.taints[{index}]");
        let (key, effect) = (meta::text(taint, &["key"]), meta::text(taint, &["effect"]));
        causes.extend(fields::taint(&at, taint));
        if effect.is_empty() {
            causes.push(FieldError::required(&format!("{at}.effect"), ""));
        } else if !allowed.contains(&effect) {
            causes.push(unsupported_word(&format!("{at}.effect"), effect, &allowed));
        }
        if seen.contains(&(key, effect)) {
            causes.push(FieldError::of_value(
                FieldErrorKind::Duplicate,
                &at,
                taint,
                "taints must be unique by key and effect pair",
            ));
        }
        seen.push((key, effect));
    }
    causes
}

fn data_keys(value: &Value) -> Vec<FieldError> {
    const RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let fits = |key: &str| {
        key.chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    ["data", "binaryData"]
        .iter()
        .flat_map(|part| {
            let keys = value.get(*part).and_then(Value::as_object);
            keys.into_iter().flatten().map(move |(key, _)| (*part, key))
        })
        .filter(|(_, key)| !fits(key))
        .map(|(part, key)| {
            FieldError::invalid(&format!("{part}[{key}]"), &key.as_str().into(), RULE)
        })
        .chain(fields::twice(value))
        .collect()
}

/// What a ConfigMap or a Secret holds must stay below what the store takes.
fn data_size(which: BuiltIn, value: &Value) -> Vec<FieldError> {
    const BYTES_MAX: usize = 1024 * 1024;
    let size = |part: &str, length: fn(&str) -> usize| -> usize {
        let entries = value.get(part).and_then(Value::as_object);
        let texts = entries.into_iter().flat_map(serde_json::Map::values);
        texts.filter_map(Value::as_str).map(length).sum()
    };
    let decoded = |text: &str| text.trim_end_matches('=').len() * 3 / 4;
    let (field, total) = if which == BuiltIn::Secret {
        ("data", size("data", decoded))
    } else {
        ("[]", size("data", str::len) + size("binaryData", decoded))
    };
    if total <= BYTES_MAX {
        return Vec::new();
    }
    let rule = format!("may not be more than {BYTES_MAX} bytes");
    vec![FieldError::bare(FieldErrorKind::TooLong, field, &rule)]
}

fn lease(value: &Value) -> Vec<FieldError> {
    let path = ["spec", "leaseDurationSeconds"];
    let mut causes = Vec::new();
    if let Some(seconds) = meta::number(value, &path).filter(|seconds| *seconds <= 0) {
        causes.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            &seconds.into(),
            "must be greater than 0",
        ));
    }
    causes.extend(not_negative(value, &["spec", "leaseTransitions"]));
    causes
}

fn claim(value: &Value) -> Vec<FieldError> {
    let mut causes = Vec::new();
    if meta::items(value, &["spec", "accessModes"]).is_empty() {
        causes.push(FieldError::required(
            "spec.accessModes",
            "at least 1 access mode is required",
        ));
    }
    if meta::at(value, &["spec", "resources", "requests", "storage"]).is_none() {
        causes.push(FieldError::required("spec.resources[storage]", ""));
    }
    causes
}

fn definition(value: &Value) -> Vec<FieldError> {
    let name = meta::meta_text(value, "name");
    let plural = meta::text(value, &["spec", "names", "plural"]);
    let group = meta::text(value, &["spec", "group"]);
    let mut causes = Vec::new();
    if name != format!("{plural}.{group}") {
        causes.push(FieldError::invalid(
            "metadata.name",
            &name.into(),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    causes.extend(fields::scope(value));
    let stored = meta::items(value, &["spec", "versions"])
        .iter()
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .count();
    if stored != 1 {
        causes.push(FieldError::invalid(
            "spec.versions",
            value.pointer("/spec/versions").unwrap_or(&Value::Null),
            "must have exactly one version marked as storage version",
        ));
    }
    if stored == 0 {
        causes.push(FieldError::invalid(
            "status.storedVersions",
            &Value::Array(Vec::new()),
            "must have at least one stored version",
        ));
    }
    causes.extend(structural::check_crd(value));
    causes
}

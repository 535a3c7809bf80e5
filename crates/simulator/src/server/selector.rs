//! Label selectors, and field selectors with the fields each kind knows.
//!
//! Owns their grammar and meaning. Must not reach into the store.

use serde_json::Value;

use super::{
    failure::{Failure, Outcome},
    kinds::{BuiltIn, Kind, Nature},
    meta,
};

/// What a list or watch lets through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Empty for all namespaces.
    pub(crate) namespace: String,
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Missing,
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    field: String,
    value: String,
    equal: bool,
}

impl Selection {
    /// Reads both selectors of a query for a kind.
    pub(crate) fn parse(kind: &Kind, namespace: &str, labels: &str, fields: &str) -> Outcome<Self> {
        Ok(Self {
            namespace: namespace.to_owned(),
            labels: parse_labels(labels)?,
            fields: parse_fields(kind, fields)?,
        })
    }

    /// Whether every object of the namespace passes.
    pub(crate) fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The value a field must have, when the selector pins one.
    pub(crate) fn pinned(&self, field: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|r| r.equal && r.field == field)
            .map(|r| r.value.as_str())
    }

    /// Whether an object passes.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let in_namespace =
            self.namespace.is_empty() || self.namespace == meta::meta_text(object, "namespace");
        in_namespace && self.matches_labels(object) && self.matches_fields(object)
    }

    fn matches_labels(&self, object: &Value) -> bool {
        if self.labels.is_empty() {
            return true;
        }
        let labels = meta::at(object, &["metadata", "labels"]);
        self.labels.iter().all(|requirement| {
            let value = labels
                .and_then(|l| l.get(&requirement.key))
                .and_then(Value::as_str);
            requirement.test.passes(value)
        })
    }

    fn matches_fields(&self, object: &Value) -> bool {
        self.fields
            .iter()
            .all(|r| (field_text(object, &r.field) == r.value) == r.equal)
    }
}

impl Test {
    fn passes(&self, value: Option<&str>) -> bool {
        match (self, value) {
            (Self::In(set), Some(value)) => set.iter().any(|v| v == value),
            (Self::NotIn(set), Some(value)) => !set.iter().any(|v| v == value),
            (Self::Exists, Some(_)) | (Self::NotIn(_) | Self::Missing, None) => true,
            (Self::Above(bound), Some(value)) => value.parse().is_ok_and(|v: i64| v > *bound),
            (Self::Below(bound), Some(value)) => value.parse().is_ok_and(|v: i64| v < *bound),
            (Self::Missing, Some(_))
            | (Self::In(_) | Self::Exists | Self::Above(_) | Self::Below(_), None) => false,
        }
    }
}

/// Reads a label selector as it stands in an object (`matchLabels`, `matchExpressions`) and says
/// whether it selects the given labels. An empty selector selects everything, a missing one nothing.
pub(crate) fn object_selector_matches(selector: Option<&Value>, object: &Value) -> bool {
    let Some(selector) = selector.filter(|s| s.is_object()) else {
        return false;
    };
    let labels = meta::at(object, &["metadata", "labels"]);
    let label = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
    let exact = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .is_none_or(|m| m.iter().all(|(k, v)| label(k) == v.as_str()));
    exact
        && meta::items(selector, &["matchExpressions"])
            .iter()
            .all(|expression| {
                let values: Vec<String> = meta::items(expression, &["values"])
                    .iter()
                    .filter_map(|v| v.as_str().map(str::to_owned))
                    .collect();
                let test = match meta::text(expression, &["operator"]) {
                    "In" => Test::In(values),
                    "NotIn" => Test::NotIn(values),
                    "Exists" => Test::Exists,
                    _ => Test::Missing,
                };
                test.passes(label(meta::text(expression, &["key"])))
            })
}

fn parse_labels(text: &str) -> Outcome<Vec<Requirement>> {
    split_outside_parentheses(text)
        .into_iter()
        .map(|part| requirement(part.trim(), text))
        .collect()
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut depth = 0_u32;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn requirement(part: &str, whole: &str) -> Outcome<Requirement> {
    let made = |key: &str, test| {
        let key = key.trim();
        if key.is_empty() || !super::validate::is_qualified_name(key) {
            return Err(bad_labels(whole, part));
        }
        Ok(Requirement {
            key: key.to_owned(),
            test,
        })
    };
    let one = |value: &str| -> Outcome<Vec<String>> {
        let value = value.trim();
        if let Some((_, rest)) = value.split_once(char::is_whitespace) {
            return Err(Failure::bad_request(format!(
                "found '{}', expected: ',' or 'end of string'",
                rest.trim()
            )));
        }
        if !super::validate::is_label_text(value) {
            return Err(bad_labels(whole, value));
        }
        Ok(vec![value.to_owned()])
    };
    if let Some(key) = part.strip_prefix('!') {
        return made(key, Test::Missing);
    }
    if let Some((key, value)) = part.split_once("!=") {
        return made(key, Test::NotIn(one(value)?));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return made(key, Test::In(one(value)?));
    }
    if let Some((key, value)) = part.split_once('>') {
        return made(key, Test::Above(bound(value, whole)?));
    }
    if let Some((key, value)) = part.split_once('<') {
        return made(key, Test::Below(bound(value, whole)?));
    }
    let Some((key, rest)) = part.split_once(char::is_whitespace) else {
        return made(part, Test::Exists);
    };
    let (operator, set) = rest
        .trim()
        .split_once('(')
        .ok_or_else(|| bad_labels(whole, part))?;
    let set = set
        .strip_suffix(')')
        .ok_or_else(|| bad_labels(whole, part))?
        .split(',')
        .map(|v| v.trim().to_owned())
        .collect();
    match operator.trim() {
        "in" => made(key, Test::In(set)),
        "notin" => made(key, Test::NotIn(set)),
        _ => Err(bad_labels(whole, part)),
    }
}

fn bound(value: &str, whole: &str) -> Outcome<i64> {
    value
        .trim()
        .parse()
        .map_err(|_| bad_labels(whole, value.trim()))
}

fn bad_labels(whole: &str, part: &str) -> Failure {
    Failure::bad_request(format!(
        "unable to parse requirement: found '{part}' in \"{whole}\""
    ))
}

fn parse_fields(kind: &Kind, text: &str) -> Outcome<Vec<FieldRequirement>> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (field, value, equal) = if let Some((f, v)) = part.split_once("!=") {
                (f, v, false)
            } else if let Some((f, v)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (f, v, true)
            } else {
                return Err(Failure::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            if !knows_field(kind, field) {
                return Err(unknown_field(kind, field));
            }
            Ok(FieldRequirement {
                field: field.to_owned(),
                value: value.to_owned(),
                equal,
            })
        })
        .collect()
}

fn unknown_field(kind: &Kind, field: &str) -> Failure {
    Failure::bad_request(match kind.built_in() {
        Some(
            BuiltIn::Pod
            | BuiltIn::Node
            | BuiltIn::Event
            | BuiltIn::Namespace
            | BuiltIn::Secret
            | BuiltIn::Service,
        )
        | None => format!("field label not supported: {field}"),
        Some(BuiltIn::Job) => format!("field label \"{field}\" not supported for Job"),
        Some(_) => format!(
            "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ),
    })
}

fn knows_field(kind: &Kind, field: &str) -> bool {
    let extra: &[&str] = match &kind.nature {
        Nature::BuiltIn(which, _) => match which {
            BuiltIn::Pod => &[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ],
            BuiltIn::Node => &["spec.unschedulable"],
            BuiltIn::Namespace => &["status.phase"],
            BuiltIn::Secret => &["type"],
            BuiltIn::Job => &["status.successful"],
            BuiltIn::Service => &["spec.clusterIP", "spec.type"],
            BuiltIn::Event => &[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ],
            BuiltIn::Endpoints
            | BuiltIn::ConfigMap
            | BuiltIn::ServiceAccount
            | BuiltIn::PersistentVolume
            | BuiltIn::PersistentVolumeClaim
            | BuiltIn::Deployment
            | BuiltIn::ReplicaSet
            | BuiltIn::StatefulSet
            | BuiltIn::DaemonSet
            | BuiltIn::ControllerRevision
            | BuiltIn::PodDisruptionBudget
            | BuiltIn::Lease
            | BuiltIn::VolumeAttachment
            | BuiltIn::PriorityClass
            | BuiltIn::EndpointSlice
            | BuiltIn::CustomResourceDefinition => &[],
        },
        Nature::Custom(custom) => return custom.knows_field(kind, field),
    };
    let namespaced = kind.namespaced && field == "metadata.namespace";
    field == "metadata.name" || namespaced || extra.contains(&field)
}

fn field_text(object: &Value, field: &str) -> String {
    let path: Vec<&str> = match field {
        "source" => vec!["source", "component"],
        "status.successful" => vec!["status", "succeeded"],
        _ => field.trim_start_matches('.').split('.').collect(),
    };
    match meta::at(object, &path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        // Numbers and flags that the server leaves out are zero to a selector.
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => match field {
            "spec.unschedulable" | "spec.hostNetwork" => "false".to_owned(),
            "status.successful" | "status.replicas" => "0".to_owned(),
            _ => String::new(),
        },
    }
}

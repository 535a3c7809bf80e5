//! Tables of nodes, events and the small kinds.
//!
//! Owns their cells. Must not decide anything. Called by `built_in`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::cells::{count, flag, list, name, number, text, text_or};

fn age_of(object: &Value, now: Timestamp) -> Value {
    Value::from(age::since_text(
        object.pointer("/metadata/creationTimestamp"),
        now,
    ))
}

pub(crate) fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(object, "/status/conditions")
        .iter()
        .rfind(|condition| text(condition, "/type") == "Ready");
    let mut status = match ready.map(|condition| text(condition, "/status")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    }
    .to_owned();
    if flag(object, "/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let info = |field: &str| text_or(object, field, "<unknown>");
    vec![
        name(object),
        Value::from(status),
        Value::from(roles(object)),
        age_of(object, now),
        Value::from(text(object, "/status/nodeInfo/kubeletVersion")),
        Value::from(address(object, "InternalIP")),
        Value::from(address(object, "ExternalIP")),
        Value::from(info("/status/nodeInfo/osImage")),
        Value::from(info("/status/nodeInfo/kernelVersion")),
        Value::from(info("/status/nodeInfo/containerRuntimeVersion")),
    ]
}

fn roles(object: &Value) -> String {
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    }
}

fn address<'a>(object: &'a Value, address_type: &str) -> &'a str {
    list(object, "/status/addresses")
        .iter()
        .find(|address| text(address, "/type") == address_type)
        .map_or("<none>", |address| text(address, "/address"))
}

pub(crate) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    let phase = Value::from(text(object, "/status/phase"));
    vec![name(object), phase, age_of(object, now)]
}

pub(crate) fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let modes: Vec<&str> = list(object, "/status/accessModes")
        .iter()
        .filter_map(Value::as_str)
        .map(|mode| match mode {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        })
        .collect();
    let class = text_or(object, "/spec/storageClassName", "");
    vec![
        name(object),
        Value::from(text(object, "/status/phase")),
        Value::from(text(object, "/spec/volumeName")),
        Value::from(text(object, "/status/capacity/storage")),
        Value::from(modes.join(",")),
        Value::from(class),
        Value::from(text_or(
            object,
            "/spec/volumeAttributesClassName",
            "<unset>",
        )),
        age_of(object, now),
        Value::from(text_or(object, "/spec/volumeMode", "<unset>")),
    ]
}

pub(crate) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    let entries = count(object, "/data") + count(object, "/binaryData");
    vec![name(object), json!(entries), age_of(object, now)]
}

pub(crate) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        Value::from(text(object, "/type")),
        json!(count(object, "/data")),
        age_of(object, now),
    ]
}

pub(crate) fn named(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age_of(object, now)]
}

pub(crate) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    let holder = Value::from(text(object, "/spec/holderIdentity"));
    vec![name(object), holder, age_of(object, now)]
}

pub(crate) fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(number(object, "/value")),
        json!(flag(object, "/globalDefault")),
        age_of(object, now),
        Value::from(text(object, "/preemptionPolicy")),
    ]
}

pub(crate) fn volume_attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        Value::from(text(object, "/spec/attacher")),
        Value::from(text(object, "/spec/source/persistentVolumeName")),
        Value::from(text(object, "/spec/nodeName")),
        json!(flag(object, "/status/attached")),
        age_of(object, now),
    ]
}

pub(crate) fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let annotation = "/metadata/annotations/storageclass.kubernetes.io~1is-default-class";
    let suffix = if text(object, annotation) == "true" {
        " (default)"
    } else {
        ""
    };
    vec![
        Value::from(format!("{}{suffix}", text(object, "/metadata/name"))),
        Value::from(text(object, "/provisioner")),
        Value::from(text_or(object, "/reclaimPolicy", "Delete")),
        Value::from(text_or(object, "/volumeBindingMode", "Immediate")),
        json!(flag(object, "/allowVolumeExpansion")),
        age_of(object, now),
    ]
}

pub(crate) fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let age_at = |field: &str| {
        let time = object.pointer(field).filter(|time| !time.is_null());
        time.map(|time| age::since_text(Some(time), now))
    };
    let first = age_at("/firstTimestamp")
        .or_else(|| age_at("/eventTime"))
        .unwrap_or_else(|| "<unknown>".to_owned());
    let last = age_at("/series/lastObservedTime")
        .or_else(|| age_at("/lastTimestamp"))
        .unwrap_or_else(|| first.clone());
    let times = match number(object, "/series/count") {
        0 => number(object, "/count").max(1),
        series => series,
    };
    let involved = if object.get("involvedObject").is_some() {
        "/involvedObject"
    } else {
        "/regarding"
    };
    let kind = text(object, &format!("{involved}/kind")).to_lowercase();
    let target = match text(object, &format!("{involved}/name")) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        Value::from(last),
        Value::from(text(object, "/type")),
        Value::from(text(object, "/reason")),
        Value::from(target),
        Value::from(text(object, &format!("{involved}/fieldPath"))),
        Value::from(source(object)),
        Value::from(text_or(object, "/message", text(object, "/note")).trim()),
        Value::from(first),
        json!(times),
        name(object),
    ]
}

fn source(object: &Value) -> String {
    let controller = text_or(
        object,
        "/reportingComponent",
        text(object, "/reportingController"),
    );
    let component = text_or(object, "/source/component", controller);
    match text_or(object, "/source/host", text(object, "/reportingInstance")) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}

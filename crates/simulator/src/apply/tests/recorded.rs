//! Replays what the real API server answered, step by step, and compares owners and objects.
//!
//! `recorded.jsonl` holds requests to a kube-apiserver of version 1.35 with its answers. A step
//! starts from the answer of the step before it, so one difference does not hide the next.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::THING;
use crate::{
    apply::{ApplyError, KindShape, OnConflict, Writer, apply, keep_times, track},
    patch::{PatchError, PatchType, patched},
    schema::Schema,
};

const RECORDED: &str = include_str!("recorded.jsonl");
/// Later than everything recorded, so that a new time can be told from an old one.
const NOW: &str = "2099-01-01T00:00:00Z";

fn shape(api_version: &str, kind: &str) -> KindShape {
    KindShape::core(api_version, kind)
        .unwrap_or_else(|| KindShape::custom(&serde_json::from_str(THING).unwrap(), true))
}

fn text<'v>(step: &'v Value, name: &str) -> &'v str {
    step[name].as_str().unwrap_or_default()
}

/// Code, reason and message of a refusal.
type Refusal = (u64, &'static str, String);

fn of_patch(error: &PatchError) -> Refusal {
    let (code, reason) = match error {
        PatchError::UnsupportedMediaType(_) => (415, "UnsupportedMediaType"),
        PatchError::BadRequest(_) => (400, "BadRequest"),
        PatchError::TooLarge(_) => (413, "RequestEntityTooLarge"),
        PatchError::Unprocessable(_) => (422, "Invalid"),
        PatchError::Internal(_) => (500, ""),
    };
    (code, reason, error.to_string())
}

fn of_apply(error: &ApplyError) -> Refusal {
    let (code, reason) = match error {
        ApplyError::Conflict(_) => (409, "Conflict"),
        ApplyError::BadRequest(_) => (400, "BadRequest"),
        ApplyError::Untyped(_) => (500, ""),
    };
    (code, reason, error.to_string())
}

/// What the embedded server would make of the step: object and, for patches, what was patched.
fn replay(step: &Value, live: Option<&Value>) -> Result<(Value, Option<Value>), Refusal> {
    let shape = shape(text(step, "apiVersion"), text(step, "kind"));
    let writer = Writer {
        manager: text(step, "manager"),
        api_version: text(step, "apiVersion"),
        kind: text(step, "kind"),
        subresource: text(step, "subresource"),
        shape: &shape,
        now: NOW.parse().unwrap(),
    };
    let body = step["body"]
        .as_str()
        .map_or_else(|| step["body"].to_string(), str::to_owned);
    let media = match text(step, "sort") {
        "json" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml; charset=utf-8",
        _ => {
            let mut new = wished(step, &step["body"], &shape);
            track(live, &mut new, &writer);
            return Ok((new, None));
        }
    };
    let sort = PatchType::read(media, &shape).map_err(|err| of_patch(&err))?;
    if sort == PatchType::Apply {
        let on_conflict = if step["force"] == json!(true) {
            OnConflict::Take
        } else {
            OnConflict::Refuse
        };
        let result = apply(live, &step["body"], &writer, on_conflict);
        let mut new = result.map_err(|err| of_apply(&err))?;
        let made = new.clone();
        if let Some(live) = live {
            // The server puts the status back before it stores the object.
            if writer.subresource.is_empty() && !live["status"].is_null() {
                new["status"] = live["status"].clone();
            }
            keep_times(live, &mut new);
        }
        return Ok((new, Some(made)));
    }
    let live = live.unwrap();
    let made =
        patched(&shape, sort, live.clone(), body.as_bytes()).map_err(|err| of_patch(&err))?;
    let mut new = wished(step, &made, &shape);
    track(Some(live), &mut new, &writer);
    Ok((new, Some(made)))
}

/// The object as its writer wants it: with defaults, without what admission added and without what
/// the types of the real server leave out when it is empty.
fn wished(step: &Value, made: &Value, shape: &KindShape) -> Value {
    let mut new = made.clone();
    if shape.is_core {
        new = step["after"].clone();
        let metadata = new["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        if let Some(owners) = made["metadata"].get("managedFields") {
            metadata.insert("managedFields".to_owned(), owners.clone());
        }
    } else {
        Schema::of_crd(&serde_json::from_str(THING).unwrap()).fill_defaults(&mut new);
        let metadata = new["metadata"].as_object_mut().unwrap();
        let is_said = |value: &Value| *value != json!({}) && *value != json!([]);
        metadata.retain(|name, value| name == "managedFields" || is_said(value));
    }
    if text(step, "verb") == "POST" && ["Pod", "Node"].contains(&text(step, "kind")) {
        let spec = new["spec"].as_object_mut().unwrap();
        for name in ["tolerations", "priority", "preemptionPolicy", "taints"] {
            if made["spec"].get(name).is_none() {
                spec.remove(name);
            }
        }
    }
    new
}

/// The owners, with every time that the object before did not have called "now".
fn owners(object: &Value, live: Option<&Value>) -> Value {
    let none = Vec::new();
    let list = |value: &Value| value["metadata"]["managedFields"].as_array().cloned();
    let old: Vec<Value> = live.and_then(list).unwrap_or_default();
    let mut new = list(object).unwrap_or(none);
    for entry in &mut new {
        let is_old = old.iter().any(|o| o["time"] == entry["time"]);
        if !entry["time"].is_null() && !is_old {
            entry["time"] = json!("now");
        }
    }
    Value::Array(new)
}

/// Values that the types of the real server leave out.
fn is_zero(value: &Value) -> bool {
    [json!({}), json!([]), json!(false), json!(0), json!("")].contains(value)
}

/// Fields of the made object that the real server does not show so.
fn surplus(made: &Value, real: &Value, path: &str, found: &mut Vec<String>) {
    match (made, real) {
        (Value::Object(made), Value::Object(real)) => {
            for (name, value) in made.iter().filter(|(_, v)| !v.is_null()) {
                let path = format!("{path}.{name}");
                match real.get(name) {
                    Some(other) => surplus(value, other, &path, found),
                    None if is_zero(value) => {}
                    None => found.push(format!("{path}: {value} is not there")),
                }
            }
        }
        (Value::Array(made), Value::Array(real)) if made.len() == real.len() => {
            for (at, (made, real)) in made.iter().zip(real).enumerate() {
                surplus(made, real, &format!("{path}[{at}]"), found);
            }
        }
        _ if made == real => {}
        _ => found.push(format!("{path}: {made} is {real}")),
    }
}

/// Fields that the object had and has on the real server, but not here.
fn lost(live: &Value, real: &Value, made: &Value, found: &mut Vec<String>) {
    let (Value::Object(live), Value::Object(real), Value::Object(made)) = (live, real, made) else {
        return;
    };
    for (name, before) in live {
        match (real.get(name), made.get(name)) {
            (Some(real), Some(made)) => lost(before, real, made, found),
            (Some(real), None) if real == before && !is_zero(real) => {
                found.push(format!("{name}: {real} is lost"));
            }
            _ => {}
        }
    }
}

fn without_bookkeeping(object: &Value, step: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in ["managedFields", "resourceVersion", "generation"] {
        metadata.remove(name);
    }
    if text(step, "subresource").is_empty() {
        object.as_object_mut().unwrap().remove("status");
    } else {
        metadata.clear();
        object.as_object_mut().unwrap().remove("spec");
    }
    object
}

fn difference(step: &Value, live: Option<&Value>) -> Option<String> {
    let code = step["code"].as_u64().unwrap();
    match replay(step, live) {
        Err((own, reason, message)) => {
            let real = (code, text(&step["after"], "reason"));
            let wording = text(&step["after"], "message");
            // Words of a parser are not compared.
            let is_foreign = wording.contains("invalid character");
            let is_worded = is_foreign || message == wording;
            ((own, reason) != real || !is_worded)
                .then(|| format!("refused with {own} {reason} {message}, not {real:?} {wording}"))
        }
        Ok(_) if code >= 300 => Some(format!("admitted, not refused with {code}")),
        Ok((new, made)) => {
            let (own, real) = (owners(&new, live), owners(&step["after"], live));
            let mut found = Vec::new();
            if own != real {
                found.push(format!("owners\n  {own}\nnot\n  {real}"));
            }
            if let Some(made) = made {
                let name = made.pointer("/metadata/name");
                if name != step.pointer("/after/metadata/name") {
                    found.push("the name is gone".to_owned());
                }
                let made = without_bookkeeping(&made, step);
                let real = without_bookkeeping(&step["after"], step);
                surplus(&made, &real, "", &mut found);
                if let Some(live) = live {
                    lost(&without_bookkeeping(live, step), &real, &made, &mut found);
                }
            }
            (!found.is_empty()).then(|| found.join("\n"))
        }
    }
}

#[test]
fn recorded_answers_of_the_real_server_are_given_again() {
    let mut lives: BTreeMap<(String, String), Value> = BTreeMap::new();
    let mut failures = Vec::new();
    let mut count = 0;
    for line in RECORDED.lines() {
        let step: Value = serde_json::from_str(line).unwrap();
        // Options are checked before a patch is read and objects after it, both by the server.
        let is_judged = text(&step["after"], "message").contains(" is invalid: ");
        let key = |name: &str| (text(&step, "kind").to_owned(), name.to_owned());
        let live = step["live"].as_str().map(|name| lives[&key(name)].clone());
        if !is_judged {
            count += 1;
            if let Some(found) = difference(&step, live.as_ref()) {
                failures.push(format!("{}: {found}", text(&step, "name")));
            }
        }
        if let Some(name) = step["after"]["metadata"]["name"].as_str() {
            lives.insert(key(name), step["after"].clone());
        }
    }
    assert!(count > 90, "only {count} steps were replayed");
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

//! The scale subresource: replicas, and nothing but replicas.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    patch,
    write::{self, Owners, Proposal},
};
use crate::schema::FieldError;
use crate::server::{
    crds::ScalePaths,
    failure::{Failure, Outcome},
    kinds::Nature,
    meta,
    request::Verb,
    state::{Answer, Call, State},
    store::Object,
};

/// Reads or changes the scale of an object.
pub(super) fn answer(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    let old = state
        .store
        .get(&call.kind.storage, &call.key())
        .cloned()
        .ok_or_else(|| call.not_found())?;
    let scale = scale_of(call, old.value());
    if call.info.verb == Verb::Get {
        return Ok(reply(&scale));
    }
    let wanted = if call.info.verb == Verb::Patch {
        patch::apply_to(call, scale)?
    } else {
        serde_json::from_slice(call.body).map_err(|error| {
            Failure::bad_request(format!(
                "Scale in version \"v1\" cannot be handled as a Scale: {error}"
            ))
        })?
    };
    let object = rescale(state, call, &old, &wanted)?;
    Ok(reply(&scale_of(call, object.value())))
}

fn reply(scale: &Value) -> Answer {
    Answer {
        touched: (
            meta::meta_text(scale, "name").to_owned(),
            meta::meta_text(scale, "uid").to_owned(),
        ),
        ..Answer::json(200, scale.to_string())
    }
}

fn rescale(
    state: &mut State,
    call: &Call<'_>,
    old: &Arc<Object>,
    wanted: &Value,
) -> Outcome<Arc<Object>> {
    let dry_run = call.info.query.dry_run("UpdateOptions")?;
    let version = meta::meta_text(wanted, "resourceVersion");
    if !version.is_empty() && version != meta::meta_text(old.value(), "resourceVersion") {
        return Err(Failure::stale(&call.kind, &call.path.name));
    }
    let replicas = meta::number(wanted, &["spec", "replicas"]).unwrap_or(0);
    if replicas < 0 {
        return Err(Failure::invalid_kind(
            "autoscaling",
            "Scale",
            &call.path.name,
            &[FieldError::invalid(
                "spec.replicas",
                &replicas.into(),
                "must be greater than or equal to 0",
            )],
        ));
    }
    let mut value = old.value().clone();
    set(&mut value, &paths(call).spec, replicas.into());
    let proposal = Proposal {
        value,
        owners: Owners::Tracked,
        dry_run,
    };
    write::replace(state, call, old, proposal)
}

fn paths(call: &Call<'_>) -> ScalePaths {
    match &call.kind.nature {
        Nature::Custom(custom) => custom.scale.clone().unwrap_or_default(),
        Nature::BuiltIn(..) => ScalePaths {
            selector: "spec.selector".into(),
            ..ScalePaths::default()
        },
    }
}

fn get<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

fn set(value: &mut Value, path: &str, field: Value) {
    let mut keys: Vec<&str> = path.split('.').collect();
    let Some(last) = keys.pop() else { return };
    let map = keys
        .into_iter()
        .fold(meta::as_map(value), |map, key| meta::map_at(map, key));
    map.insert(last.to_owned(), field);
}

fn scale_of(call: &Call<'_>, object: &Value) -> Value {
    let paths = paths(call);
    let metadata = |key: &str| meta::at(object, &["metadata", key]).cloned();
    let count = |path: &str| get(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {},
        "spec": {},
        "status": { "replicas": count(&paths.status) },
    });
    for key in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        meta::set_meta(&mut scale, key, metadata(key));
    }
    let replicas = count(&paths.spec);
    if replicas != 0 {
        meta::spec(&mut scale).insert("replicas".into(), replicas.into());
    }
    let selector = match get(object, &paths.selector) {
        Some(Value::String(text)) => text.clone(),
        Some(selector) => selector_text(selector),
        None => String::new(),
    };
    if !selector.is_empty() {
        meta::map_at(meta::as_map(&mut scale), "status").insert("selector".into(), selector.into());
    }
    scale
}

/// A selector in the form that queries use.
fn selector_text(selector: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(Value::Object(labels)) = selector.get("matchLabels") {
        for (key, value) in labels {
            parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
        }
    }
    for expression in meta::items(selector, &["matchExpressions"]) {
        let key = meta::text(expression, &["key"]);
        let values: Vec<&str> = meta::items(expression, &["values"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        parts.push(match meta::text(expression, &["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.join(",")
}

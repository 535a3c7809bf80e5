//! What the server does to an object before it judges it: typed form, defaults, first status, and
//! the admission of namespaces and priorities.
//!
//! Owns the order of these steps. The defaults of each kind are in `admission/`.

use serde_json::{Value, json};

use super::{
    convert,
    failure::{Failure, Outcome},
    kinds::{BuiltIn, Kind, Nature, Normalize},
    meta,
    state::{Call, State},
};
use crate::schema::{builtin::object_meta, unknown_field, unknown_fields_text};

mod aside;
mod defaults;
mod omit;
mod plugins;
mod pod;
mod quantity;

pub(super) use plugins::{first_status, prepare_create, prepare_update};

/// Brings what a client sent into stored form: types checked, unknown fields dropped, defaults set.
pub(super) fn normalize(call: &Call<'_>, value: Value) -> Outcome<Value> {
    let mut value = with_type(&call.kind, value);
    if call.kind.is(BuiltIn::CustomResourceDefinition) {
        // The server keeps a definition's schema as it was sent, defaults and all.
        drop_nulls(&mut value);
    }
    match &call.kind.nature {
        Nature::Custom(_) => custom(call, value),
        Nature::BuiltIn(which, normalize) => built_in(call, value, (*which, *normalize)),
    }
}

/// As `normalize`, for the next state of an object: parts that are as stored have been through all
/// this already and are set aside meanwhile.
pub(super) fn normalize_change(call: &Call<'_>, old: &Value, mut value: Value) -> Outcome<Value> {
    let parts = aside::take(&call.kind, old, &mut value);
    let mut value = normalize(call, value)?;
    parts.put_back(&mut value);
    Ok(value)
}

fn drop_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, member| !member.is_null());
        map.values_mut().for_each(drop_nulls);
    }
}

fn built_in(
    call: &Call<'_>,
    mut value: Value,
    (which, normalize): (BuiltIn, Normalize),
) -> Outcome<Value> {
    let kind = &call.kind;
    if let Some(schema) = kind.schema() {
        judge_unknown(call, &schema.prune(&mut value))?;
    }
    // A definition has no quantities, and its properties may be called like theirs.
    if which != BuiltIn::CustomResourceDefinition {
        quantity::canonicalize(&mut value).map_err(|quantity::NoQuantity(text)| {
            undecodable(
                call,
                &format!("quantities must match the regular expression: {text}"),
            )
        })?;
    }
    refuse_coarse_times(call, which, &value)?;
    // The typed form of a workload cannot tell a missing selector from an empty one.
    let no_selector = kind.group == "apps"
        && value
            .get("spec")
            .is_some_and(|spec| spec.get("selector").is_none());
    let mut value = normalize(value).map_err(|error| undecodable(call, &error.to_string()))?;
    if let Some(schema) = kind.schema() {
        omit::omit(&mut value, schema.root());
    }
    let mut value = convert::stored(kind, without_type(value));
    meta::metadata(&mut value);
    if no_selector {
        meta::spec(&mut value).remove("selector");
    }
    defaults::fill(which, &mut value);
    defaults::write_empty_times(which, &mut value);
    Ok(value)
}

/// Some times are written with microseconds, and read in no other way.
fn refuse_coarse_times(call: &Call<'_>, which: BuiltIn, value: &Value) -> Outcome<()> {
    let places: &[&str] = if which == BuiltIn::Lease {
        &["/spec/acquireTime", "/spec/renewTime"]
    } else if which == BuiltIn::Event {
        &["/eventTime"]
    } else {
        &[]
    };
    let is_fine = |text: &str| {
        let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
        fraction.chars().take_while(char::is_ascii_digit).count() == 6
    };
    let mut texts = places
        .iter()
        .filter_map(|place| value.pointer(place)?.as_str());
    match texts.find(|text| !is_fine(text)) {
        Some(text) => {
            let message = format!("parsing time {text:?}: no microseconds");
            Err(undecodable(call, &message))
        }
        None => Ok(()),
    }
}

fn custom(call: &Call<'_>, mut value: Value) -> Outcome<Value> {
    let Some(schema) = call.kind.schema() else {
        return Ok(without_type(value));
    };
    judge_unknown(call, &schema.prune(&mut value))?;
    if let Some(metadata) = value.get("metadata") {
        let decoded: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta =
            serde_json::from_value(metadata.clone())
                .map_err(|error| undecodable(call, &error.to_string()))?;
        let mut decoded = serde_json::to_value(decoded).unwrap_or_default();
        omit::omit(&mut decoded, object_meta());
        meta::put(meta::as_map(&mut value), "metadata", Some(decoded));
    }
    schema.fill_defaults(&mut value);
    let mut value = without_type(value);
    meta::metadata(&mut value);
    Ok(value)
}

/// Unknown fields are dropped in any case; the client says whether that is an error.
fn judge_unknown(call: &Call<'_>, unknown: &[String]) -> Outcome<()> {
    if unknown.is_empty() {
        return Ok(());
    }
    match call.info.query.text("fieldValidation") {
        "Ignore" => {}
        "Strict" => {
            let fields = unknown_fields_text(unknown);
            let why = format!("strict decoding error: {fields}");
            return Err(undecodable(call, &why));
        }
        _ => {
            let sentences = unknown.iter().map(|path| unknown_field(path));
            call.warnings.borrow_mut().extend(sentences);
        }
    }
    Ok(())
}

fn undecodable(call: &Call<'_>, why: &str) -> Failure {
    let kind = &call.kind;
    Failure::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: {why}",
        kind.kind, kind.version, kind.kind
    ))
}

/// An object with its type, as schemas want it.
pub(super) fn with_type(kind: &Kind, mut value: Value) -> Value {
    let map = meta::as_map(&mut value);
    map.insert("apiVersion".into(), kind.api_version.clone().into());
    map.insert("kind".into(), kind.kind.clone().into());
    value
}

fn without_type(mut value: Value) -> Value {
    let map = meta::as_map(&mut value);
    map.remove("apiVersion");
    map.remove("kind");
    value
}

/// Admits a new object into its namespace.
pub(super) fn admit_create(state: &State, call: &Call<'_>, value: &mut Value) -> Outcome<()> {
    let kind = &call.kind;
    if kind.namespaced {
        admit_into_namespace(state, call, value)?;
    }
    plugins::admit(state, kind, value)
}

fn admit_into_namespace(state: &State, call: &Call<'_>, value: &Value) -> Outcome<()> {
    let kind = &call.kind;
    let name = &call.path.namespace;
    let namespaces = state.kinds.find("", "v1", "namespaces");
    let namespace = namespaces
        .as_ref()
        .and_then(|kind| state.store.get(&kind.storage, name));
    match (namespace, namespaces.as_ref()) {
        (Some(namespace), _) if meta::is_deleting(namespace.value()) => {
            Err(terminating(kind, name, meta::meta_text(value, "name")))
        }
        (None, Some(kind)) => Err(Failure::not_found(kind, name)),
        _ => Ok(()),
    }
}

fn terminating(kind: &Kind, namespace: &str, name: &str) -> Failure {
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let mut failure = Failure::forbidden(kind, name, &why);
    let cause = json!([{
        "reason": "NamespaceTerminating",
        "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace",
    }]);
    meta::put(meta::as_map(&mut failure.details), "causes", Some(cause));
    failure
}

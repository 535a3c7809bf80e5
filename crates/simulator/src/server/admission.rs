//! What the server does to an object before it judges it: typed form, defaults, first status, and
//! the admission of namespaces and priorities.
//!
//! Owns the order of these steps. The defaults of each kind are in `admission/`.

use serde_json::{Value, json};

use super::{
    convert, crds,
    failure::{Failure, Outcome},
    kinds::{BuiltIn, Kind, Nature},
    meta,
    state::{Call, State},
};

/// Brings what a client sent into stored form: types checked, unknown fields dropped, defaults set.
pub(super) fn normalize(call: &Call<'_>, value: Value, _old: Option<&Value>) -> Outcome<Value> {
    let kind = &call.kind;
    match &kind.nature {
        Nature::Custom(_) => Ok(value),
        Nature::BuiltIn(_, normalize) => {
            let typed = normalize(with_type(kind, value)).map_err(|error| {
                Failure::bad_request(format!(
                    "{} in version \"{}\" cannot be handled as a {}: {error}",
                    kind.kind, kind.version, kind.kind
                ))
            })?;
            let mut value = convert::stored(kind, without_type(typed));
            meta::metadata(&mut value);
            Ok(value)
        }
    }
}

fn with_type(kind: &Kind, mut value: Value) -> Value {
    let map = meta::as_map(&mut value);
    map.insert("apiVersion".into(), kind.api_version().into());
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
    if !kind.namespaced {
        if kind.is(BuiltIn::Namespace) {
            let name = meta::meta_text(value, "name").to_owned();
            meta::map_at(meta::metadata(value), "labels")
                .insert("kubernetes.io/metadata.name".into(), name.into());
            meta::spec(value).insert("finalizers".into(), json!(["kubernetes"]));
        }
        return Ok(());
    }
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

/// The status a new object starts with, whatever the client sent.
pub(super) fn first_status(kind: &Kind, value: &mut Value) {
    let status = match kind.built_in() {
        Some(BuiltIn::Namespace) => json!({ "phase": "Active" }),
        Some(BuiltIn::Pod) => json!({ "phase": "Pending" }),
        Some(BuiltIn::CustomResourceDefinition) => {
            let now = meta::meta_text(value, "creationTimestamp").to_owned();
            crds::accept(value, &now);
            return;
        }
        // A Node may bring its status along: kubelets register that way.
        Some(BuiltIn::Node) => return,
        Some(BuiltIn::Service) => json!({ "loadBalancer": {} }),
        Some(_) => json!({}),
        None => {
            meta::put(meta::as_map(value), "status", None);
            return;
        }
    };
    meta::put(meta::as_map(value), "status", Some(status));
}

/// What an update may not touch, put back.
pub(super) fn prepare_update(kind: &Kind, old: &Value, new: &mut Value, status_only: bool) {
    if status_only {
        return;
    }
    if kind.is(BuiltIn::Namespace) {
        let kept = meta::at(old, &["spec", "finalizers"]).cloned();
        meta::put(meta::spec(new), "finalizers", kept);
    }
}

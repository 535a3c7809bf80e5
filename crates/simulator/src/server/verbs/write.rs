//! What all writes share: reading the body, replacing a state by the next, and storing it.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    apply::{self, Writer},
    schema::FieldError,
    server::{
        admission, body, convert, crds,
        failure::{Failure, Outcome},
        kinds::{BuiltIn, Kind, Nature},
        meta,
        request::Verb,
        state::{Call, State},
        store::{self, Object},
        validate,
    },
};

/// What a client wants an object to be.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) value: Value,
    pub(crate) owners: Owners,
    pub(crate) dry_run: bool,
}

/// Who keeps the record of field owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    /// The server works it out from what changed.
    Tracked,
    /// An apply has written it.
    Applied,
}

/// Reads the object in the body of a call.
pub(crate) fn decode(call: &Call<'_>) -> Outcome<Value> {
    typed(&call.kind, body::read(call)?)
}

/// Who writes, for the record of field owners.
pub(crate) fn writer<'a>(call: &'a Call<'_>, manager: &'a str) -> Writer<'a> {
    Writer {
        manager,
        api_version: &call.kind.api_version,
        kind: &call.kind.kind,
        subresource: &call.path.subresource,
        shape: call.kind.shape(),
        now: call.now,
    }
}

/// Who scaled is recorded without a time, and so comes first.
/// Zero replicas are not written, and so belong to nobody.
fn forget_scale_time(value: &mut Value) {
    let nothing = meta::number(value, &["spec", "replicas"]).unwrap_or(0) == 0;
    let entries = value
        .pointer_mut("/metadata/managedFields")
        .and_then(Value::as_array_mut);
    let Some(entries) = entries else { return };
    if nothing {
        entries.retain(|entry| meta::text(entry, &["subresource"]) != "scale");
    }
    for entry in entries.iter_mut() {
        if meta::text(entry, &["subresource"]) == "scale" {
            meta::as_map(entry).remove("time");
        }
    }
    entries.sort_by_key(|entry| {
        let text = |key: &str| meta::text(entry, &[key]).to_owned();
        (text("operation"), text("time"))
    });
}

/// Records who set which field.
pub(crate) fn track(call: &Call<'_>, old: Option<&Value>, value: &mut Value, owners: Owners) {
    if owners == Owners::Tracked {
        let manager = call.info.manager();
        let writer = writer(call, &manager);
        match convert::served(&call.kind, value) {
            None => {
                apply::track(old, value, &writer);
                if call.path.subresource == "scale" {
                    forget_scale_time(value);
                }
            }
            Some(mut served) => {
                let old = old.and_then(|old| convert::served(&call.kind, old));
                apply::track(old.as_ref(), &mut served, &writer);
                let owners = meta::at(&served, &["metadata", "managedFields"]).cloned();
                meta::set_meta(value, "managedFields", owners);
            }
        }
    }
}

/// Checks that an object is of the kind it is sent to and takes its type off.
pub(crate) fn typed(kind: &Kind, mut value: Value) -> Outcome<Value> {
    if value.is_null() && kind.built_in().is_some() {
        value = serde_json::json!({});
    }
    let Some(map) = value.as_object_mut() else {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {})",
            kind.kind
        )));
    };
    let text = |value: Option<Value>| match value {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let api_version = text(map.remove("apiVersion"));
    let sent = text(map.remove("kind"));
    let expected = kind.api_version.clone();
    if sent.is_empty() && matches!(kind.nature, Nature::Custom(_)) {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{value}'",
            kind.kind
        )));
    }
    if let Nature::Custom(_) = &kind.nature
        && sent != kind.kind
        && api_version == expected
    {
        let cause = FieldError::invalid(
            "kind",
            &sent.as_str().into(),
            &format!("must be {}", kind.kind),
        );
        let name = meta::meta_text(&value, "name");
        return Err(Failure::invalid_kind(&kind.group, &sent, name, &[cause]));
    }
    let wrong_version = !api_version.is_empty() && api_version != expected;
    let wrong_kind = !sent.is_empty() && sent != kind.kind;
    if !wrong_version && !wrong_kind {
        return Ok(value);
    }
    if let Nature::Custom(_) = kind.nature
        && !wrong_version
    {
        let rule = format!("must be {}", kind.kind);
        let cause = FieldError::invalid("kind", &sent.as_str().into(), &rule);
        let name = meta::meta_text(&value, "name");
        return Err(Failure::invalid_kind(&kind.group, &sent, name, &[cause]));
    }
    Err(Failure::bad_request(match &kind.nature {
        Nature::Custom(_) if wrong_version => format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        ),
        Nature::BuiltIn(..) if wrong_version => format!(
            "{sent} in version \"{}\" cannot be handled as a {}: no kind \"{sent}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\"",
            api_version.rsplit('/').next().unwrap_or_default(),
            kind.kind
        ),
        Nature::Custom(_) | Nature::BuiltIn(..) => format!(
            "{sent} in version \"{}\" cannot be handled as a {}: converting (v1.{sent}) to ({}.{}): unknown conversion",
            kind.version,
            kind.kind,
            internal_group(kind),
            kind.kind
        ),
    }))
}

/// The name by which messages of the real server call a group.
fn internal_group(kind: &Kind) -> &str {
    match kind.group.split('.').next() {
        Some("") | None => "core",
        Some(group) => group,
    }
}

/// Puts the object into the namespace of the path; says whether it has a name.
pub(crate) fn place(call: &Call<'_>, value: &mut Value) -> Outcome<bool> {
    let asked = call.path.namespace.as_str();
    let given = meta::meta_text(value, "namespace");
    if !given.is_empty() && given != asked {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let namespace = (!asked.is_empty()).then(|| asked.into());
    meta::set_meta(value, "namespace", namespace);
    Ok(!meta::meta_text(value, "name").is_empty())
}

/// Replaces an object, or its status when the call goes there, by what a client sent.
pub(crate) fn replace(
    state: &mut State,
    call: &Call<'_>,
    old: &Arc<Object>,
    proposal: Proposal,
) -> Outcome<Arc<Object>> {
    let kind = &call.kind;
    let mut value = admission::normalize_change(call, old.value(), proposal.value)
        .map_err(|failure| unfit(call, proposal.owners, failure))?;
    place(call, &mut value)?;
    check_version(call, old.value(), &value)?;
    track(call, Some(old.value()), &mut value, proposal.owners);
    let status_only = call.path.subresource == "status";
    if kind.has_status {
        keep_other_part(kind, old.value(), &mut value, status_only);
    }
    keep_system_fields(old.value(), &mut value);
    admission::prepare_update(kind, old.value(), &mut value, status_only);
    if kind.counts_generation && !status_only {
        count_generation(kind, old.value(), &mut value);
    }
    validate::updated(kind, old.value(), &value, status_only)?;
    apply::keep_times(old.value(), &mut value);
    if value == *old.value() {
        return Ok(Arc::clone(old));
    }
    Ok(commit(state, call, value, proposal.dry_run))
}

/// What a patch makes of an object is judged as the patch's own fault.
pub(crate) fn unfit(call: &Call<'_>, owners: Owners, failure: Failure) -> Failure {
    match (call.info.verb, owners) {
        (Verb::Patch, Owners::Applied) => Failure::plain(500, "", failure.message),
        (Verb::Patch, Owners::Tracked) => {
            let cause = FieldError::invalid("patch", &"".into(), &failure.message);
            Failure {
                details: serde_json::json!({ "causes": [cause.cause()] }),
                ..Failure::plain(422, "Invalid", failure.message)
            }
        }
        _ => failure,
    }
}

fn check_version(call: &Call<'_>, old: &Value, new: &Value) -> Outcome<()> {
    let kind = &call.kind;
    let name = &call.path.name;
    let uid = meta::meta_text(new, "uid");
    let current = meta::meta_text(old, "uid");
    if !uid.is_empty() && uid != current && call.info.verb == Verb::Patch {
        let cause = FieldError::invalid("metadata.uid", &uid.into(), "field is immutable");
        return Err(Failure::invalid(kind, name, &[cause]));
    }
    if !uid.is_empty() && uid != current {
        return Err(Failure::conflict(
            kind,
            name,
            &format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
            ),
        ));
    }
    match meta::meta_text(new, "resourceVersion") {
        "" | "0" if kind.allows_unconditional_update() => Ok(()),
        "" | "0" => Err(Failure::invalid_kind(
            &kind.group,
            &kind.plural,
            name,
            &[FieldError::invalid(
                "metadata.resourceVersion",
                &0.into(),
                "must be specified for an update",
            )],
        )),
        version if version.parse::<u64>().is_err() => Err(Failure::plain(
            500,
            "",
            format!("strconv.ParseUint: parsing \"{version}\": invalid syntax"),
        )),
        version if version == meta::meta_text(old, "resourceVersion") => Ok(()),
        _ => Err(Failure::stale(kind, name)),
    }
}

/// A write to the object leaves its status alone, and the other way round.
fn keep_other_part(kind: &Kind, old: &Value, new: &mut Value, status_only: bool) {
    if !status_only {
        let status = old.get("status").cloned();
        meta::put(meta::as_map(new), "status", status);
        return;
    }
    let is_written = |name: &str| name == "status" || name == "metadata";
    let members = meta::as_map(new);
    members.retain(|name, _| is_written(name) || old.get(name).is_some());
    let kept = old.as_object().into_iter().flatten();
    for (name, value) in kept.filter(|(name, _)| !is_written(name)) {
        if members.get(name) != Some(value) {
            members.insert(name.clone(), value.clone());
        }
    }
    let owned_by_object = match kind.built_in() {
        None => {
            let owners = meta::metadata(new).remove("managedFields");
            let metadata = old.get("metadata").cloned();
            meta::put(meta::as_map(new), "metadata", metadata);
            meta::set_meta(new, "managedFields", owners);
            return;
        }
        Some(BuiltIn::Deployment) => "labels",
        Some(BuiltIn::Pod) => "ownerReferences",
        Some(_) => return,
    };
    let kept = meta::at(old, &["metadata", owned_by_object]).cloned();
    meta::set_meta(new, owned_by_object, kept);
}

fn keep_system_fields(old: &Value, new: &mut Value) {
    for key in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ] {
        let kept = meta::at(old, &["metadata", key]).cloned();
        meta::set_meta(new, key, kept);
    }
}

/// Whether two objects have the same members, apart from those to skip.
fn same_besides(old: &Value, new: &Value, skip: impl Fn(&str) -> bool) -> bool {
    let members = |value| Value::as_object(value).into_iter().flatten();
    members(old)
        .filter(|(key, _)| !skip(key))
        .eq(members(new).filter(|(key, _)| !skip(key)))
}

/// A change of anything but metadata and status makes a new generation.
fn count_generation(kind: &Kind, old: &Value, new: &mut Value) {
    let skip = |key: &str| key == "metadata" || (key == "status" && kind.has_status);
    let annotations_count = kind.is(BuiltIn::Deployment)
        && meta::at(old, &["metadata", "annotations"])
            != meta::at(new, &["metadata", "annotations"]);
    if kind.is(BuiltIn::PriorityClass) {
        return;
    }
    if annotations_count || !same_besides(old, new, skip) {
        let generation = meta::number(old, &["metadata", "generation"]).unwrap_or(0) + 1;
        meta::set_meta(new, "generation", Some(generation.into()));
    }
}

/// Stores a state, or only says what it would be; an object on its way out whom nothing holds any
/// more is removed instead.
pub(crate) fn commit(
    state: &mut State,
    call: &Call<'_>,
    value: Value,
    dry_run: bool,
) -> Arc<Object> {
    if dry_run {
        return Arc::new(Object::new(value));
    }
    let storage = Arc::clone(&call.kind.storage);
    let object = if is_released(&call.kind, &value) {
        let key = store::key(
            meta::meta_text(&value, "namespace"),
            meta::meta_text(&value, "name"),
        );
        // Watchers see the state that was stored last, the client the one that let go.
        state.store.remove(&storage, &key, call.now);
        if call.kind.built_in().is_none() {
            crds::after_removal(state, &call.kind, call.now);
        }
        Arc::new(Object::new(value))
    } else {
        state.store.put(&storage, value, call.now)
    };
    if call.kind.is(BuiltIn::CustomResourceDefinition) {
        crds::settle(state, object.value(), call.now);
    }
    object
}

/// Whether nothing keeps a deleted object any more.
pub(crate) fn is_released(kind: &Kind, value: &Value) -> bool {
    let held = meta::finalizers(value).next().is_some();
    let graceful =
        meta::number(value, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) > 0;
    let namespace_held =
        kind.is(BuiltIn::Namespace) && !meta::items(value, &["spec", "finalizers"]).is_empty();
    meta::is_deleting(value) && !held && !graceful && !namespace_held
}

//! delete and deletecollection: at once, after a grace period, or when nothing holds the object.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    options::{DeleteOptions, Propagation},
    read, write,
};
use crate::server::{
    crds, encode,
    failure::{Failure, Outcome},
    kinds::{BuiltIn, Kind},
    meta,
    state::{Answer, Call, State},
    store::{self, Object},
};

/// Held until the garbage collector has taken the owner off the dependents.
const ORPHAN: &str = "orphan";
/// Held until the garbage collector has removed the dependents.
const FOREGROUND: &str = "foregroundDeletion";
/// Namespaces that never go.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

/// What became of a deleted object.
pub(super) struct Deleted {
    pub(super) object: Arc<Object>,
    pub(super) gone: bool,
}

/// Deletes one object.
pub(crate) fn delete(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    let options = DeleteOptions::read(call)?;
    if call.kind.is(BuiltIn::Namespace) && IMMORTAL.contains(&call.path.name.as_str()) {
        return Err(Failure::forbidden(
            &call.kind,
            &call.path.name,
            "this namespace may not be deleted",
        ));
    }
    let deleted = delete_named(state, call, &call.key(), &options)?;
    if deleted.gone && !returns_object(&call.kind) {
        return Ok(status(call, &deleted.object));
    }
    Ok(Answer::object(200, call, &deleted.object))
}

/// Deletes all objects that a selection lets through.
pub(crate) fn delete_collection(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    if !call.kind.verbs().contains(&"deletecollection") {
        return Err(Failure::method_not_allowed());
    }
    let options = DeleteOptions::read(call)?;
    let selection = read::selection(call)?;
    let keys: Vec<(String, Arc<Object>)> = state
        .store
        .list(&call.kind.storage, &call.path.namespace)
        .filter(|(_, object)| selection.matches(object.value()))
        .map(|(key, object)| (key.clone(), Arc::clone(object)))
        .collect();
    let meta = encode::ListMeta {
        version: state.store.version(),
        ..encode::ListMeta::default()
    };
    let mut deleted = Vec::with_capacity(keys.len());
    for (key, object) in keys {
        delete_named(state, call, &key, &options)?;
        deleted.push(object);
    }
    Ok(Answer::json(
        200,
        encode::list(&call.kind, &call.format, &deleted, (&meta, call.now)),
    ))
}

/// Deletes the object behind a key, as far as its grace period and finalizers allow.
pub(super) fn delete_named(
    state: &mut State,
    call: &Call<'_>,
    key: &str,
    options: &DeleteOptions,
) -> Outcome<Deleted> {
    let kind = &call.kind;
    let old = state
        .store
        .get(&kind.storage, key)
        .cloned()
        .ok_or_else(|| call.not_found())?;
    options.check(kind, old.value())?;
    if kind.is(BuiltIn::Namespace) {
        return Ok(delete_namespace(state, call, &old, options.dry_run));
    }
    if kind.is(BuiltIn::CustomResourceDefinition) {
        return Ok(delete_definition(state, call, &old, options.dry_run));
    }
    let mut value = old.value().clone();
    let grace = match set_grace(kind, &mut value, options, call.now) {
        Grace::Pending => {
            return Ok(Deleted {
                object: old,
                gone: false,
            });
        }
        Grace::None => None,
        Grace::Seconds(seconds) => Some(seconds),
    };
    let held_before = meta::finalizers(&value).next().is_some();
    let changed = set_propagation(kind, &mut value, options.propagation);
    let held = meta::finalizers(&value).next().is_some();
    if grace.is_none() && (held_before || changed) {
        mark(&mut value, call.now);
    }
    let stays = held || grace.is_some_and(|seconds| seconds > 0);
    if options.dry_run {
        return Ok(Deleted {
            object: Arc::new(Object::new(value)),
            gone: !stays,
        });
    }
    // An object with a grace period of zero is first marked and then removed: watchers see both.
    if value != *old.value() {
        let object = state.store.put(&kind.storage, value, call.now);
        if stays {
            return Ok(Deleted {
                object,
                gone: false,
            });
        }
    } else if stays {
        return Ok(Deleted {
            object: old,
            gone: false,
        });
    }
    let object = state
        .store
        .remove(&kind.storage, key, call.now)
        .unwrap_or(old);
    if kind.built_in().is_none() {
        crds::after_removal(state, kind, call.now);
    }
    Ok(Deleted { object, gone: true })
}

enum Grace {
    /// The kind knows no grace.
    None,
    /// It is being deleted already, and sooner than asked now.
    Pending,
    /// It has this long, from the deletion on.
    Seconds(i64),
}

fn set_grace(kind: &Kind, value: &mut Value, options: &DeleteOptions, now: Timestamp) -> Grace {
    if !kind.is(BuiltIn::Pod) {
        return Grace::None;
    }
    let asked = options.grace.map(|grace| if grace < 0 { 1 } else { grace });
    if meta::is_deleting(value) {
        let current = meta::number(value, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        if current == 0 {
            return Grace::None;
        }
        return match asked {
            Some(period) if period < current => Grace::Seconds(shorten(value, period, now)),
            Some(_) | None => Grace::Pending,
        };
    }
    let own = meta::number(value, &["spec", "terminationGracePeriodSeconds"]);
    let mut period = asked.or(own).unwrap_or(0);
    let unscheduled = meta::text(value, &["spec", "nodeName"]).is_empty();
    let finished = matches!(
        meta::text(value, &["status", "phase"]),
        "Failed" | "Succeeded"
    );
    if unscheduled || finished {
        period = 0;
    }
    if period < 0 {
        period = 1;
    }
    let at = now
        .checked_add(SignedDuration::from_secs(period))
        .unwrap_or(now);
    meta::set_meta(value, "deletionTimestamp", Some(meta::time(at).into()));
    meta::set_meta(value, "deletionGracePeriodSeconds", Some(period.into()));
    next_generation(value);
    Grace::Seconds(period)
}

/// Brings the end of a grace period forward.
fn shorten(value: &mut Value, period: i64, now: Timestamp) -> i64 {
    let current = meta::number(value, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    let end: Timestamp = meta::meta_text(value, "deletionTimestamp")
        .parse()
        .unwrap_or(now);
    let moved = end
        .checked_sub(SignedDuration::from_secs(current - period))
        .unwrap_or(now);
    let (end, period) = match moved < now {
        true if period != 0 => (now, 1),
        true => (now, 0),
        false => (moved, period),
    };
    meta::set_meta(value, "deletionTimestamp", Some(meta::time(end).into()));
    meta::set_meta(value, "deletionGracePeriodSeconds", Some(period.into()));
    period
}

fn next_generation(value: &mut Value) {
    if let Some(generation) = meta::number(value, &["metadata", "generation"]) {
        meta::set_meta(value, "generation", Some((generation + 1).into()));
    }
}

/// Marks an object as deleted that something else still holds.
fn mark(value: &mut Value, now: Timestamp) {
    if meta::is_deleting(value) {
        return;
    }
    next_generation(value);
    meta::set_meta(value, "deletionTimestamp", Some(meta::time(now).into()));
    meta::set_meta(value, "deletionGracePeriodSeconds", Some(0.into()));
}

/// Sets the garbage collector's finalizers; says whether they changed.
fn set_propagation(kind: &Kind, value: &mut Value, asked: Option<Propagation>) -> bool {
    let old: Vec<String> = meta::finalizers(value).map(str::to_owned).collect();
    let has = |name: &str| old.iter().any(|f| f == name);
    let wanted = match asked {
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Foreground) => Some(FOREGROUND),
        None if has(ORPHAN) => Some(ORPHAN),
        None if has(FOREGROUND) => Some(FOREGROUND),
        // What the first version of its API did, Job still does.
        None if kind.is(BuiltIn::Job) => Some(ORPHAN),
        Some(Propagation::Background) | None => None,
    };
    let mut new: Vec<String> = old
        .iter()
        .filter(|f| *f != ORPHAN && *f != FOREGROUND)
        .cloned()
        .collect();
    new.extend(wanted.map(str::to_owned));
    let same = new.len() == old.len() && new.iter().all(|f| old.contains(f));
    if same {
        return false;
    }
    let list = (!new.is_empty()).then(|| new.into());
    meta::set_meta(value, "finalizers", list);
    true
}

/// A namespace is only marked; its controller empties it and then lets it go.
fn delete_namespace(
    state: &mut State,
    call: &Call<'_>,
    old: &Arc<Object>,
    dry_run: bool,
) -> Deleted {
    let mut value = old.value().clone();
    if !meta::is_deleting(&value) {
        meta::set_meta(
            &mut value,
            "deletionTimestamp",
            Some(meta::time(call.now).into()),
        );
        let status = meta::map_at(meta::as_map(&mut value), "status");
        status.insert("phase".into(), "Terminating".into());
    }
    if write::is_released(&call.kind, &value) && !dry_run {
        let key = store::key("", meta::meta_text(&value, "name"));
        let object = state
            .store
            .remove(&call.kind.storage, &key, call.now)
            .unwrap_or_else(|| Arc::clone(old));
        return Deleted { object, gone: true };
    }
    if value == *old.value() {
        return Deleted {
            object: Arc::clone(old),
            gone: false,
        };
    }
    let object = write::commit(state, call, value, dry_run);
    Deleted {
        object,
        gone: false,
    }
}

/// A definition is marked, and leaves when its last object has left.
fn delete_definition(
    state: &mut State,
    call: &Call<'_>,
    old: &Arc<Object>,
    dry_run: bool,
) -> Deleted {
    let object = if meta::is_deleting(old.value()) {
        Arc::clone(old)
    } else {
        let mut value = crds::doomed(old.value(), call.now);
        let message =
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        let condition = json!({
            "type": "Terminating",
            "status": "True",
            "reason": "InstanceDeletionPending",
            "message": message,
        });
        super::set_condition(&mut value, condition, call.now);
        write::commit(state, call, value, dry_run)
    };
    Deleted {
        object,
        gone: false,
    }
}

fn returns_object(kind: &Kind) -> bool {
    matches!(
        kind.built_in(),
        Some(
            BuiltIn::Pod
                | BuiltIn::Namespace
                | BuiltIn::Service
                | BuiltIn::ServiceAccount
                | BuiltIn::PersistentVolume
                | BuiltIn::PersistentVolumeClaim
                | BuiltIn::VolumeAttachment
        )
    )
}

fn status(call: &Call<'_>, object: &Object) -> Answer {
    let name = meta::meta_text(object.value(), "name");
    let uid = meta::meta_text(object.value(), "uid");
    let mut details = json!({ "name": name, "kind": call.kind.plural, "uid": uid });
    if !call.kind.group.is_empty() {
        meta::as_map(&mut details).insert("group".into(), call.kind.group.clone().into());
    }
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    });
    Answer {
        touched: (name.to_owned(), uid.to_owned()),
        ..Answer::json(200, status.to_string())
    }
}

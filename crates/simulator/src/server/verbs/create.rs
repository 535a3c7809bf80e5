//! create.

use serde_json::Value;

use super::write::{self, Owners, Proposal};
use crate::server::{
    admission,
    failure::{Failure, Outcome},
    meta,
    state::{Answer, Call, State},
    store, validate,
};

/// Makes an object.
pub(crate) fn create(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    if !call.path.name.is_empty() {
        return Err(Failure::method_not_allowed());
    }
    let proposal = Proposal {
        value: write::decode(call)?,
        owners: Owners::Tracked,
        dry_run: call.info.query.dry_run("CreateOptions")?,
    };
    create_value(state, call, proposal)
}

/// Makes an object from what a client sent, whatever the verb was.
pub(super) fn create_value(
    state: &mut State,
    call: &Call<'_>,
    proposal: Proposal,
) -> Outcome<Answer> {
    let kind = &call.kind;
    let mut value = admission::normalize(call, proposal.value)?;
    let named = write::place(call, &mut value)?;
    if !named {
        let prefix = meta::meta_text(&value, "generateName").to_owned();
        if !prefix.is_empty() {
            let name = state.names.generate(&prefix);
            meta::set_meta(&mut value, "name", Some(name.into()));
        }
    }
    for system in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        meta::set_meta(&mut value, system, None);
    }
    write::track(call, None, &mut value, proposal.owners);
    admission::admit_create(state, call, &mut value)?;
    if !matches!(meta::meta_text(&value, "resourceVersion"), "" | "0") {
        return Err(Failure::plain(
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ));
    }
    prepare(state, call, &mut value)?;
    validate::created(kind, &value)?;
    let name = meta::meta_text(&value, "name").to_owned();
    let key = store::key(&call.path.namespace, &name);
    if state.store.get(&kind.storage, &key).is_some() {
        return Err(Failure::already_exists(kind, &name));
    }
    let object = write::commit(state, call, value, proposal.dry_run);
    Ok(Answer::object(201, call, &object))
}

fn prepare(state: &mut State, call: &Call<'_>, value: &mut Value) -> Outcome<()> {
    let kind = &call.kind;
    let uid = state.names.uid();
    let metadata = meta::metadata(value);
    for system in ["selfLink", "resourceVersion"] {
        metadata.remove(system);
    }
    metadata.insert("uid".into(), uid.into());
    metadata.insert("creationTimestamp".into(), meta::time(call.now).into());
    if kind.counts_generation {
        metadata.insert("generation".into(), 1.into());
    }
    if kind.has_status {
        admission::first_status(kind, value);
    }
    admission::prepare_create(state, kind, value)
}

//! update, of the object, of its status, and of a namespace's finalizers.

use serde_json::Value;

use super::{
    create,
    write::{self, Owners, Proposal},
};
use crate::server::{
    failure::{Failure, Outcome},
    meta,
    state::{Answer, Call, State},
};

/// Replaces an object, or its status.
pub(crate) fn update(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    if call.path.name.is_empty() {
        return Err(Failure::method_not_allowed());
    }
    let dry_run = call.info.query.dry_run("UpdateOptions")?;
    let value = write::decode(call)?;
    check_name(call, &value)?;
    let proposal = Proposal {
        value,
        owners: Owners::Tracked,
        dry_run,
    };
    let Some(old) = state.store.get(&call.kind.storage, &call.key()).cloned() else {
        if call.kind.allows_create_on_update() && call.path.subresource.is_empty() {
            return create::create_value(state, call, proposal);
        }
        return Err(call.not_found());
    };
    let object = write::replace(state, call, &old, proposal)?;
    Ok(Answer::object(200, call, &object))
}

fn check_name(call: &Call<'_>, value: &Value) -> Outcome<()> {
    let asked = call.path.name.as_str();
    let named = meta::meta_text(value, "name");
    if named.is_empty() {
        return Err(Failure::bad_request("name must be provided"));
    }
    if named != asked {
        return Err(Failure::bad_request(format!(
            "the name of the object ({named}) does not match the name on the URL ({asked})"
        )));
    }
    Ok(())
}

/// Replaces the finalizers in a namespace's spec; a namespace on its way out without any is gone.
pub(super) fn finalize(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    let dry_run = call.info.query.dry_run("UpdateOptions")?;
    let sent = write::decode(call)?;
    let old = state
        .store
        .get(&call.kind.storage, &call.key())
        .cloned()
        .ok_or_else(|| call.not_found())?;
    let version = meta::meta_text(&sent, "resourceVersion");
    if !version.is_empty() && version != meta::meta_text(old.value(), "resourceVersion") {
        return Err(Failure::stale(&call.kind, &call.path.name));
    }
    let mut value = old.value().clone();
    let finalizers = meta::at(&sent, &["spec", "finalizers"])
        .filter(|list| list.as_array().is_some_and(|l| !l.is_empty()))
        .cloned();
    meta::put(meta::spec(&mut value), "finalizers", finalizers);
    let object = write::commit(state, call, value, dry_run);
    Ok(Answer::object(200, call, &object))
}

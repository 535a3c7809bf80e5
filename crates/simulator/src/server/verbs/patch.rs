//! patch, in the forms that the content type names.

use serde_json::Value;

use super::{
    create,
    write::{self, Owners, Proposal},
};
use crate::{
    apply::{self, ApplyError, OnConflict},
    patch::{PatchError, PatchType, patched},
    schema::FieldError,
    server::{
        admission, body, convert,
        failure::{Failure, Outcome, forbidden_field},
        meta,
        state::{Answer, Call, State},
    },
};

const OWNERS: &[u8] = b"managedFields";

/// Changes a part of an object, or of its status.
pub(crate) fn patch(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    if call.path.name.is_empty() {
        return Err(Failure::method_not_allowed());
    }
    let sort = sort(call)?;
    let dry_run = call.info.query.dry_run("PatchOptions")?;
    if sort == PatchType::Apply {
        return apply_configuration(state, call, dry_run);
    }
    let old = state
        .store
        .get(&call.kind.storage, &call.key())
        .cloned()
        .ok_or_else(|| call.not_found())?;
    let live = without_owners(call, sort, old.value());
    let value =
        patched(call.kind.shape(), sort, live, call.body).map_err(|error| refusal(&error))?;
    let value = write::typed(&call.kind, value)
        .map_err(|failure| write::unfit(call, Owners::Tracked, failure))?;
    check_name(call, &value)?;
    let proposal = Proposal {
        value,
        owners: Owners::Tracked,
        dry_run,
    };
    let object = write::replace(state, call, &old, proposal)?;
    Ok(Answer::object(200, call, &object))
}

/// The sort of the patch, with the options that go with it.
fn sort(call: &Call<'_>) -> Outcome<PatchType> {
    let sort = PatchType::read(&call.info.content_type, call.kind.shape())
        .map_err(|error| refusal(&error))?;
    let query = &call.info.query;
    let cause = match sort {
        PatchType::Apply if query.text("fieldManager").is_empty() => {
            FieldError::required("fieldManager", "is required for apply patch")
        }
        PatchType::Json | PatchType::Merge | PatchType::Strategic
            if query.choice("force").is_some() =>
        {
            forbidden_field("force", "may not be specified for non-apply patch")
        }
        PatchType::Json | PatchType::Merge | PatchType::Strategic | PatchType::Apply => {
            return Ok(sort);
        }
    };
    Err(Failure::invalid_kind(
        "meta.k8s.io",
        "PatchOptions",
        "",
        &[cause],
    ))
}

/// A stored object as the client of a call sees it.
pub(super) fn served(call: &Call<'_>, stored: &Value) -> Value {
    let mut served = convert::served(&call.kind, stored).unwrap_or_else(|| stored.clone());
    let map = meta::as_map(&mut served);
    map.insert("apiVersion".into(), call.kind.api_version.clone().into());
    map.insert("kind".into(), call.kind.kind.clone().into());
    served
}

/// As `served`, without the record of field owners when the patch says nothing about it: a write
/// that leaves it out keeps it, and it is often the larger half of an object.
fn without_owners(call: &Call<'_>, sort: PatchType, stored: &Value) -> Value {
    let by_path = matches!(sort, PatchType::Json | PatchType::Apply);
    let named = call.body.windows(OWNERS.len()).any(|part| part == OWNERS);
    let Some(object) = stored.as_object().filter(|_| !by_path && !named) else {
        return served(call, stored);
    };
    if convert::is_renamed(&call.kind) {
        return served(call, stored);
    }
    let copy = |(name, value): (&String, &Value)| {
        let metadata = value.as_object().filter(|_| name == "metadata");
        let Some(metadata) = metadata else {
            return (name.clone(), value.clone());
        };
        let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
        let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
        (name.clone(), Value::Object(kept.collect()))
    };
    let bare = Value::Object(object.iter().map(copy).collect());
    admission::with_type(&call.kind, bare)
}

fn check_name(call: &Call<'_>, value: &Value) -> Outcome<()> {
    let named = meta::meta_text(value, "name");
    if named == call.path.name {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "the name of the object ({named}) does not match the name on the URL ({})",
        call.path.name
    )))
}

fn apply_configuration(state: &mut State, call: &Call<'_>, dry_run: bool) -> Outcome<Answer> {
    let mut applied = body::yaml(call.body)
        .map_err(|error| Failure::bad_request(format!("error decoding YAML: {error}")))?;
    let old = state.store.get(&call.kind.storage, &call.key()).cloned();
    let named = meta::meta_text(&applied, "name");
    if named.is_empty() {
        meta::set_meta(&mut applied, "name", Some(call.path.name.clone().into()));
    }
    check_name(call, &applied)?;
    if old.is_none() && !call.path.subresource.is_empty() {
        return Err(call.not_found());
    }
    let live = old.as_ref().map(|old| served(call, old.value()));
    let on_conflict = if call.info.query.flag("force") {
        OnConflict::Take
    } else {
        OnConflict::Refuse
    };
    let manager = call.info.manager();
    let writer = write::writer(call, &manager);
    let value = apply::apply(live.as_ref(), &applied, &writer, on_conflict)
        .map_err(|error| apply_refusal(&error))?;
    let proposal = Proposal {
        value: write::typed(&call.kind, value)?,
        owners: Owners::Applied,
        dry_run,
    };
    match old {
        Some(old) => {
            let object = write::replace(state, call, &old, proposal)?;
            Ok(Answer::object(200, call, &object))
        }
        None => create::create_value(state, call, proposal),
    }
}

fn apply_refusal(error: &ApplyError) -> Failure {
    match error {
        ApplyError::Conflict(conflicts) => Failure {
            details: serde_json::json!({
                "causes": conflicts
                    .iter()
                    .map(|conflict| serde_json::json!({
                        "reason": "FieldManagerConflict",
                        "message": format!("conflict with {}", conflict.owner),
                        "field": conflict.field,
                    }))
                    .collect::<Vec<_>>(),
            }),
            ..Failure::plain(409, "Conflict", error.to_string())
        },
        ApplyError::BadRequest(message) => Failure::bad_request(message),
        ApplyError::Untyped(message) => Failure::plain(500, "", message),
    }
}

/// Applies a patch that is none of an object in the store, such as one of a scale.
pub(super) fn apply_to(call: &Call<'_>, value: Value) -> Outcome<Value> {
    let sort = sort(call)?;
    patched(call.kind.shape(), sort, value, call.body).map_err(|error| refusal(&error))
}

fn refusal(error: &PatchError) -> Failure {
    let message = error.to_string();
    match error {
        // Kinds of definitions say what they accept, compiled ones do not.
        PatchError::UnsupportedMediaType(accepted) if accepted.len() < 4 => {
            Failure::plain(415, "UnsupportedMediaType", message)
        }
        // Custom kinds are asked themselves; for the others the router of the real server answers.
        PatchError::UnsupportedMediaType(accepted)
            if !accepted.contains(&PatchType::Strategic.media()) =>
        {
            Failure::plain(415, "UnsupportedMediaType", message)
        }
        PatchError::UnsupportedMediaType(_) => Failure {
            details: serde_json::json!({}),
            ..Failure::plain(415, "UnsupportedMediaType", "415: Unsupported Media Type")
        },
        PatchError::BadRequest(_) => Failure::bad_request(message),
        PatchError::TooLarge(_) => Failure::plain(413, "RequestEntityTooLarge", message),
        PatchError::Unprocessable(_) => Failure {
            details: serde_json::json!({}),
            ..Failure::plain(422, "Invalid", message)
        },
        PatchError::Internal(_) => Failure::plain(500, "", message),
    }
}

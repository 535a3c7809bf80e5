//! pods/binding: a pod gets its node.

use serde_json::{Value, json};

use crate::server::{
    failure::{Failure, Outcome},
    meta,
    state::{Answer, Call, State},
};

/// Binds a pod to a node.
pub(super) fn create(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    let dry_run = call.info.query.dry_run("CreateOptions")?;
    let body: Value = serde_json::from_slice(call.body)
        .map_err(|error| Failure::bad_request(format!("not a Binding object: {error}")))?;
    if meta::meta_text(&body, "name") != call.path.name {
        return Err(Failure::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    if !matches!(meta::text(&body, &["target", "kind"]), "" | "Node") {
        return Err(Failure::plain(
            500,
            "",
            "target.kind: Unsupported value: supported values: \"Node\", \"<empty>\"",
        ));
    }
    let node = meta::text(&body, &["target", "name"]);
    if node.is_empty() {
        return Err(Failure::plain(500, "", "target.name: Required value"));
    }
    let old = state
        .store
        .get(&call.kind.storage, &call.key())
        .cloned()
        .ok_or_else(|| call.not_found())?;
    check(call, old.value(), &body)?;
    let mut value = old.value().clone();
    meta::spec(&mut value).insert("nodeName".into(), node.into());
    if let Some(Value::Object(given)) = meta::at(&body, &["metadata", "annotations"]) {
        let annotations = meta::map_at(meta::metadata(&mut value), "annotations");
        annotations.extend(given.clone());
    }
    super::set_condition(
        &mut value,
        json!({ "type": "PodScheduled", "status": "True", "lastProbeTime": null }),
        call.now,
    );
    if !dry_run {
        state.store.put(&call.kind.storage, value, call.now);
    }
    Ok(Answer {
        touched: (
            call.path.name.clone(),
            meta::meta_text(old.value(), "uid").to_owned(),
        ),
        ..Answer::json(201, super::success().to_string())
    })
}

fn check(call: &Call<'_>, pod: &Value, binding: &Value) -> Outcome<()> {
    let name = &call.path.name;
    let conflict = |why: String| {
        let mut failure = Failure::conflict(&call.kind, name, &why);
        failure.message =
            format!("Operation cannot be fulfilled on pods/binding \"{name}\": {why}");
        if let Some(details) = failure.details.as_object_mut() {
            details.insert("kind".into(), "pods/binding".into());
        }
        failure
    };
    for (key, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let wanted = meta::meta_text(binding, key);
        let current = meta::meta_text(pod, key);
        if !wanted.is_empty() && wanted != current {
            return Err(Failure::conflict(
                &call.kind,
                name,
                &format!(
                    "Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {current}"
                ),
            ));
        }
    }
    if meta::is_deleting(pod) {
        return Err(conflict(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        )));
    }
    let bound = meta::text(pod, &["spec", "nodeName"]);
    if !bound.is_empty() {
        return Err(conflict(format!(
            "pod {name} is already assigned to node \"{bound}\""
        )));
    }
    if !meta::items(pod, &["spec", "schedulingGates"]).is_empty() {
        return Err(conflict(format!(
            "pod {name} has non-empty .spec.schedulingGates"
        )));
    }
    Ok(())
}

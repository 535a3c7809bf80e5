//! pods/eviction: a deletion that asks the disruption budgets first.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{delete, options::DeleteOptions};
use crate::apply::{self, Writer};
use crate::server::{
    failure::{Failure, Outcome},
    kinds::Storage,
    meta,
    selector::object_selector_matches,
    state::{Answer, Call, State},
    store::Object,
};

const BUDGETS: &str = "poddisruptionbudgets.policy";
const REFUSAL: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const MOST_DISRUPTED: usize = 2000;

/// Why a pod may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    /// No budget covers it, or one has room and was charged.
    Granted,
    /// It is not healthy, so that its going costs no budget; true for the state that was read only.
    Unhealthy,
}

/// Evicts a pod.
pub(super) fn create(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    let body: Value = serde_json::from_slice(call.body)
        .map_err(|error| Failure::bad_request(format!("not a Eviction object: {error}")))?;
    if meta::meta_text(&body, "name") != call.path.name {
        return Err(Failure::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let given = body.get("deleteOptions").filter(|o| o.is_object());
    let mut options =
        given.map_or_else(|| Ok(DeleteOptions::default()), DeleteOptions::from_value)?;
    let query = call.info.query.dry_run("CreateOptions")?;
    if query && given.is_some() && !options.dry_run {
        return Err(Failure::plain(
            500,
            "",
            "Non-matching dry-run options in request and content: [All] and []",
        ));
    }
    options.dry_run |= query;
    let pod = state
        .store
        .get(&call.kind.storage, &call.key())
        .cloned()
        .ok_or_else(|| call.not_found())?;
    if !needs_no_budget(pod.value()) {
        let leave = ask_budgets(state, call, &pod, options.dry_run)?;
        if leave == Leave::Unhealthy && options.version.is_none() {
            options.version = Some(meta::meta_text(pod.value(), "resourceVersion").to_owned());
        }
    }
    send_away(state, call, &pod, options)?;
    Ok(Answer {
        touched: (
            call.path.name.clone(),
            meta::meta_text(pod.value(), "uid").to_owned(),
        ),
        ..Answer::json(201, super::success().to_string())
    })
}

fn needs_no_budget(pod: &Value) -> bool {
    let phase = meta::text(pod, &["status", "phase"]);
    matches!(phase, "Succeeded" | "Failed" | "Pending") || meta::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    meta::items(pod, &["status", "conditions"])
        .iter()
        .any(|c| meta::text(c, &["type"]) == "Ready" && meta::text(c, &["status"]) == "True")
}

fn ask_budgets(state: &mut State, call: &Call<'_>, pod: &Object, dry_run: bool) -> Outcome<Leave> {
    let storage: Storage = BUDGETS.into();
    let budgets: Vec<Arc<Object>> = state
        .store
        .list(&storage, &call.path.namespace)
        .map(|(_, budget)| budget)
        .filter(|b| {
            object_selector_matches(meta::at(b.value(), &["spec", "selector"]), pod.value())
        })
        .cloned()
        .collect();
    let budget = match budgets.as_slice() {
        [] => return Ok(Leave::Granted),
        [budget] => budget,
        _ => {
            return Err(Failure::plain(
                500,
                "",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let status = |key: &str| meta::number(budget.value(), &["status", key]).unwrap_or(0);
    if !is_ready(pod.value()) {
        let policy = meta::text(budget.value(), &["spec", "unhealthyPodEvictionPolicy"]);
        let desired = status("desiredHealthy");
        let budget_holds = status("currentHealthy") >= desired && desired > 0;
        if policy == "AlwaysAllow" || budget_holds {
            return Ok(Leave::Unhealthy);
        }
    }
    let mut charged = charge(call, budget.value())?;
    if !dry_run {
        own_charge(state, call, budget.value(), &mut charged);
        state.store.put(&storage, charged, call.now);
    }
    Ok(Leave::Granted)
}

/// The charge is written by the server itself, and says so.
fn own_charge(state: &State, call: &Call<'_>, old: &Value, charged: &mut Value) {
    let Some(kind) = state.kinds.find("policy", "v1", "poddisruptionbudgets") else {
        return;
    };
    let writer = Writer {
        manager: "kube-apiserver",
        api_version: &kind.api_version,
        kind: &kind.kind,
        subresource: "status",
        shape: kind.shape(),
        now: call.now,
    };
    apply::track(Some(old), charged, &writer);
}

/// Takes one disruption off a budget that has room.
fn charge(call: &Call<'_>, budget: &Value) -> Outcome<Value> {
    let name = meta::meta_text(budget, "name");
    let status = |key: &str| meta::number(budget, &["status", key]).unwrap_or(0);
    let generation = meta::number(budget, &["metadata", "generation"]).unwrap_or(0);
    if status("observedGeneration") < generation {
        return Err(refuse(
            &format!("The disruption budget {name} is still being processed by the server."),
            10,
        ));
    }
    let disrupted = meta::at(budget, &["status", "disruptedPods"])
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len);
    let allowed = status("disruptionsAllowed");
    if allowed < 0 || disrupted > MOST_DISRUPTED {
        let why = if allowed < 0 {
            "pdb disruptions allowed is negative"
        } else {
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        };
        return Err(Failure {
            details: json!({ "name": name, "group": "policy", "kind": "poddisruptionbudget" }),
            ..Failure::plain(
                403,
                "Forbidden",
                format!("poddisruptionbudget.policy \"{name}\" is forbidden: {why}"),
            )
        });
    }
    if allowed == 0 {
        return Err(refuse(&why_none(budget), 0));
    }
    let mut charged = budget.clone();
    let status = meta::map_at(meta::as_map(&mut charged), "status");
    status.insert("disruptionsAllowed".into(), (allowed - 1).into());
    meta::map_at(status, "disruptedPods")
        .insert(call.path.name.clone(), meta::time(call.now).into());
    if allowed == 1 {
        super::set_condition(
            &mut charged,
            json!({
                "type": "DisruptionAllowed",
                "status": "False",
                "reason": "InsufficientPods",
                "observedGeneration": generation,
                "message": "",
            }),
            call.now,
        );
    }
    Ok(charged)
}

fn why_none(budget: &Value) -> String {
    let name = meta::meta_text(budget, "name");
    let status = |key: &str| meta::number(budget, &["status", key]).unwrap_or(0);
    let condition = meta::items(budget, &["status", "conditions"])
        .iter()
        .find(|c| meta::text(c, &["type"]) == "DisruptionAllowed")
        .filter(|c| meta::text(c, &["status"]) == "False")
        .filter(|c| !meta::text(c, &["message"]).is_empty())
        .map(|c| (meta::text(c, &["reason"]), meta::text(c, &["message"])));
    let (needed, healthy) = (status("desiredHealthy"), status("currentHealthy"));
    match condition {
        Some(("SyncFailed", message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if healthy <= needed => format!(
            "The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
        ),
        Some((reason, message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn refuse(cause: &str, retry_after: u64) -> Failure {
    let mut details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] });
    if retry_after > 0 {
        meta::as_map(&mut details).insert("retryAfterSeconds".into(), retry_after.into());
    }
    Failure {
        details,
        ..Failure::plain(429, "TooManyRequests", REFUSAL)
    }
}

/// Marks the pod as disrupted, then deletes it.
fn send_away(
    state: &mut State,
    call: &Call<'_>,
    pod: &Object,
    mut options: DeleteOptions,
) -> Outcome<()> {
    options.check(&call.kind, pod.value())?;
    if !options.dry_run {
        let mut value = pod.value().clone();
        super::set_condition(
            &mut value,
            json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastProbeTime": null,
            }),
            call.now,
        );
        if value != *pod.value() {
            let marked = state.store.put(&call.kind.storage, value, call.now);
            options.version = options
                .version
                .map(|_| meta::meta_text(marked.value(), "resourceVersion").to_owned());
        }
    }
    delete::delete_named(state, call, &call.key(), &options).map(|_| ())
}

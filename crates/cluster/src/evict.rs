//! Asks for a pod to leave, by the Eviction API and by nothing else.
//!
//! Owns that one request. Must not delete pods, retry, or take a refusal for an error: a disruption
//! budget that says "not now" is an observation for the drain engine. The request is built here
//! because kube 5's own `evict` sends `delete_options`, a field that the server does not know and
//! silently drops together with the UID precondition in it.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction as Body;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::Status;

use crate::error::{Result, call, has_cause};
use shipshape_api::names::FIELD_MANAGER;

/// Cause that tells a budget's refusal from the throttling of a busy server.
const BUDGET_CAUSE: &str = "DisruptionBudget";

/// What the server said to an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The pod is on its way out (or would be, in a dry run).
    Accepted,
    /// A disruption budget does not allow it now.
    Blocked {
        /// The budgets that the server named.
        budgets: Vec<String>,
        /// Its words.
        message: String,
    },
    /// The pod of that UID does not exist any more.
    Gone,
    /// The pod's namespace is being deleted, and the pod with it.
    NamespaceTerminating,
    /// More than one budget covers the pod: the API cannot evict it, now or later.
    Refused {
        /// The server's words.
        message: String,
    },
}

/// Whether an eviction is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The pod shall leave.
    Real,
    /// Only ask whether it might.
    DryRun,
}

/// Which pod.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub name: &'a str,
    /// UID of the pod that was decided upon.
    pub uid: &'a str,
}

/// Asks for one pod to leave.
pub async fn evict(client: &Client, target: Target<'_>, mode: Mode) -> Result<Eviction> {
    let api: Api<Pod> = Api::namespaced(client.clone(), target.namespace);
    let params = PostParams {
        dry_run: mode == Mode::DryRun,
        field_manager: Some(FIELD_MANAGER.into()),
    };
    let body = body(target, mode);
    let request = api.create_subresource::<_, Status>("eviction", target.name, &params, &body);
    let object = format!("Pod {}/{}", target.namespace, target.name);
    match call("evict", object, request).await {
        Ok(_) => Ok(Eviction::Accepted),
        Err(error) => error.status().and_then(understand).ok_or(error),
    }
}

/// The server wants a dry run to be said in both places, and refuses a body that differs.
fn body(target: Target<'_>, mode: Mode) -> Body {
    Body {
        metadata: ObjectMeta {
            name: Some(target.name.into()),
            namespace: Some(target.namespace.into()),
            ..ObjectMeta::default()
        },
        delete_options: Some(DeleteOptions {
            preconditions: Some(Preconditions {
                uid: Some(target.uid.into()),
                resource_version: None,
            }),
            dry_run: (mode == Mode::DryRun).then(|| vec!["All".to_owned()]),
            ..DeleteOptions::default()
        }),
    }
}

/// What a refusal observes about the pod; `None` when it is a failure of the call.
fn understand(status: &Status) -> Option<Eviction> {
    let message = || status.message.clone();
    match status.code {
        404 if status.reason == "NotFound" => Some(Eviction::Gone),
        409 if is_other_pod(&status.message) => Some(Eviction::Gone),
        403 if has_cause(status, "NamespaceTerminating") => Some(Eviction::NamespaceTerminating),
        429 if has_cause(status, BUDGET_CAUSE) => Some(Eviction::Blocked {
            budgets: budgets(status),
            message: explain(status),
        }),
        500 if status.message.contains("more than one PodDisruptionBudget") => {
            Some(Eviction::Refused { message: message() })
        }
        _ => None,
    }
}

/// Whether a conflict is about the UID. The server has two sentences for it, by the layer that finds
/// out; any other conflict stays one, and the next pass sees the new pod.
fn is_other_pod(message: &str) -> bool {
    ["UID in precondition", "the UID in the precondition"]
        .iter()
        .any(|words| message.contains(words))
}

/// The server names a budget only inside of a sentence: "The disruption budget NAME needs ...".
fn budgets(status: &Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let named = causes
        .filter(|cause| cause.reason == BUDGET_CAUSE)
        .filter_map(|cause| {
            let rest = cause.message.strip_prefix("The disruption budget ")?;
            rest.split_whitespace().next().map(str::to_owned)
        });
    named.collect()
}

fn explain(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let said: Vec<&str> = std::iter::once(status.message.as_str())
        .chain(causes.map(|cause| cause.message.as_str()))
        .filter(|words| !words.is_empty())
        .collect();
    said.join(" ")
}

#[cfg(test)]
mod tests;

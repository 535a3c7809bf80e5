//! What the operator does after the status that ends a run: it says so in an event, and lets the last tasks go.
//!
//! Owns the wait for both, so that the rest begins when the operator has said everything and no later.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use shipshape_api::conditions::{ACCEPTED, COMPLETED};
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_engine::view::is_kept;

use super::own::Own;
use super::runs::is_over;
use crate::observer::Observer;
use crate::stage::Stage;

/// How long the operator may take; what it says later counts as said during the rest.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Waits until the end of every run of the story has been told as an event and no task that is over is kept, or
/// patience ends.
pub(super) async fn hear(stage: &Stage, own: &Own, observer: &Observer) {
    let client = stage.client("story");
    let hearing = async {
        for run in own.runs(observer) {
            while !is_told(&client, &run).await {
                tokio::time::sleep(LOOK).await;
            }
        }
        let holds = |task: &Arc<NodePatchTask>| is_over(task) && is_kept(&task.metadata);
        while own.tasks(observer).iter().any(holds) {
            tokio::time::sleep(LOOK).await;
        }
    };
    // What a run that went by force has left is put back by others, as soon as they see that it is gone.
    if observer.runs_seen().len() > observer.runs.list().len() {
        tokio::time::sleep(LOOK).await;
    }
    // A run whose event was lost ends its story all the same.
    drop(tokio::time::timeout(PATIENCE + stage.lag, hearing).await);
}

/// Whether there is an event about the run with the reason of its last condition.
async fn is_told(client: &Client, run: &NodePatchRun) -> bool {
    let Some(reason) = last_reason(run) else {
        return true;
    };
    let namespace = run.namespace().unwrap_or_default();
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let about = |event: &Event| {
        event.involved_object.uid == run.uid() && event.reason.as_deref() == Some(reason)
    };
    match events.list(&ListParams::default()).await {
        Ok(found) => found.items.iter().any(about),
        Err(_) => false,
    }
}

/// The reason of the condition after which the run does not move any more.
fn last_reason(run: &NodePatchRun) -> Option<&str> {
    let conditions = &run.status.as_ref()?.conditions;
    let ends = |(kind, status)| {
        conditions
            .iter()
            .find(|one| one.type_ == kind && one.status == status)
    };
    let end = ends((COMPLETED, "True")).or_else(|| ends((ACCEPTED, "False")));
    end.map(|one| one.reason.as_str())
}

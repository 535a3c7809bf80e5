//! The task that a run makes for a node.
//!
//! Owns what a task inherits from its run. Must not decide whether a node gets one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use shipshape_api::node_patch_run::NodePatchRunStatus;
use shipshape_api::{NodePatchTask, NodePatchTaskSpec, TaskAction, names};

use crate::ledger::Slot;
use crate::snapshot::RunSnapshot;
use crate::view::NodeView;

/// Makes the task for a node that has just got its slot.
pub(super) fn task(
    snapshot: &RunSnapshot,
    status: &NodePatchRunStatus,
    node: &NodeView,
    slot: &Slot,
) -> NodePatchTask {
    let meta = &snapshot.run.metadata;
    let run_name = meta.name.clone().unwrap_or_default();
    let run_uid = meta.uid.clone().unwrap_or_default();
    let spec = &snapshot.run.spec;
    let name = slot.task.rsplit('/').next().unwrap_or_default().to_owned();
    let mut task = NodePatchTask::new(
        &name,
        NodePatchTaskSpec {
            action: TaskAction::Replace,
            run_name: run_name.clone(),
            run_uid: run_uid.clone(),
            iteration: status.current_iteration,
            node_name: node.name.clone(),
            node_uid: node.uid.clone(),
            zone: Some(node.zone.clone()).filter(|zone| !zone.is_empty()),
            important: Some(slot.important),
            provider: Some(spec.provider.clone()),
            important_pod_selectors: spec.important_pod_selectors.clone(),
            required_node_daemon_pod_selectors: spec.required_node_daemon_pod_selectors.clone(),
            stability: spec.stability.clone(),
            label_transfer: spec.label_transfer.clone(),
            drain: spec.drain.clone(),
            replacement: spec.replacement,
            max_attempts: spec.max_attempts,
        },
    );
    task.metadata.namespace.clone_from(&meta.namespace);
    task.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
    task.metadata.labels = Some([(names::LABEL_RUN_UID.to_owned(), run_uid.clone())].into());
    task.metadata.owner_references = Some(vec![OwnerReference {
        api_version: format!("{}/{}", names::GROUP, names::VERSION),
        kind: "NodePatchRun".to_owned(),
        name: run_name,
        uid: run_uid,
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    task
}

//! The nine definitions, in a stable order.
//!
//! Owns the list: whoever installs, prints or checks the kinds takes it from here.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{
    AutoscalingStrategy, DirectUpdate, NodePatchRun, NodePatchTask, NodeVersion, PendingNode,
    ScalingGroup, ScheduledUpdate, UpdateSchedule,
};

/// All definitions: intents first, then work, then machines.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        NodePatchRun::crd(),
        NodeVersion::crd(),
        DirectUpdate::crd(),
        ScheduledUpdate::crd(),
        UpdateSchedule::crd(),
        NodePatchTask::crd(),
        PendingNode::crd(),
        ScalingGroup::crd(),
        AutoscalingStrategy::crd(),
    ]
}

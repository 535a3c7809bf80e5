//! Pods that lose their place: by a NoExecute taint, or because their Node is gone.
//!
//! Owns when such a pod is deleted. This is the control plane at work, not the operator: it deletes,
//! and asks no disruption budget.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt as _};

use super::{NodeLifecycle, Outcome};
use crate::actors::objects::{is_ending, is_finished, node_of};
use crate::actors::placement::{covers, taints};
use crate::actors::store::Key;
use crate::actors::work::unless_overtaken;
use crate::actors::workloads::delete_pod;

/// What a NoExecute taint means for a pod.
#[derive(Debug, PartialEq, Eq)]
enum Stay {
    ForEver,
    Until(Timestamp),
    No,
}

impl NodeLifecycle {
    /// Deletes a pod whose time on a tainted node is over.
    pub(super) async fn look_at_pod(&mut self, key: &Key) -> Outcome {
        let Some(pod) = self.informers.pods.get(key) else {
            return Ok(None);
        };
        let Some(name) = node_of(&pod) else {
            return Ok(None);
        };
        let Some(node) = self.informers.nodes.get(&Key::new("", name)) else {
            self.queue
                .add_after(super::Item::Orphans(name.to_owned()), super::QUARANTINE);
            return Ok(None);
        };
        if is_ending(pod.as_ref()) || is_finished(&pod) {
            return Ok(None);
        }
        match stay(&pod, &node, self.clock.now()) {
            Stay::ForEver => Ok(None),
            Stay::Until(time) => {
                let wait = time.duration_since(self.clock.now());
                Ok(Some(
                    Duration::try_from(wait)
                        .unwrap_or_default()
                        .max(Duration::from_millis(1)),
                ))
            }
            Stay::No => {
                delete_pod(&self.client, &self.informers.pods, &pod).await?;
                Ok(None)
            }
        }
    }

    /// Removes the pods of a Node that is gone: no kubelet will ever finish them.
    pub(super) async fn remove_orphans(&mut self, name: &str) -> Outcome {
        if self.informers.nodes.get(&Key::new("", name)).is_some() {
            return Ok(None);
        }
        for pod in self.pods_on(name) {
            let pods: Api<Pod> =
                Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
            let params = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(Preconditions {
                    uid: pod.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            unless_overtaken(pods.delete(&pod.name_any(), &params).await)?;
        }
        Ok(None)
    }
}

fn stay(pod: &Pod, node: &Node, now: Timestamp) -> Stay {
    let tolerations = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.tolerations.as_deref())
        .unwrap_or_default();
    let executing = taints(node)
        .iter()
        .filter(|taint| taint.effect == "NoExecute");
    let mut end: Option<Timestamp> = None;
    for taint in executing {
        match stay_under(tolerations, taint, now) {
            Stay::ForEver => {}
            Stay::No => return Stay::No,
            Stay::Until(time) => end = Some(end.map_or(time, |known| known.min(time))),
        }
    }
    match end {
        None => Stay::ForEver,
        Some(time) if time <= now => Stay::No,
        Some(time) => Stay::Until(time),
    }
}

fn stay_under(tolerations: &[Toleration], taint: &Taint, now: Timestamp) -> Stay {
    let covering: Vec<&Toleration> = tolerations
        .iter()
        .filter(|item| covers(item, taint))
        .collect();
    if covering.is_empty() {
        return Stay::No;
    }
    let Some(seconds) = covering
        .iter()
        .filter_map(|item| item.toleration_seconds)
        .min()
    else {
        return Stay::ForEver;
    };
    let since = taint.time_added.as_ref().map_or(now, |time| time.0);
    Stay::Until(
        since
            .checked_add(SignedDuration::from_secs(seconds.max(0)))
            .unwrap_or(Timestamp::MAX),
    )
}

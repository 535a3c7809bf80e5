//! Worker pods: they check a node's network and go once their result is stored.
//!
//! Owns their making and their end, in their one namespace. Must not delete any pod but one that carries the
//! label of a worker and the UID that was decided upon: all other pods leave by eviction alone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use shipshape_api::names::{FIELD_MANAGER, WORKER_PREFIX};
use shipshape_engine::decision::PodTarget;

use crate::error::{Error, ErrorClass, Result, call};
use crate::patch::named;
use crate::store::Key;

/// The worker pods that a client reaches.
#[derive(Clone)]
pub struct Workers {
    client: Client,
    /// Pods that are being asked for: nodes that wait for the same one must not all ask.
    asked: Arc<Mutex<BTreeSet<Key>>>,
}

impl Workers {
    /// The pods that this client reaches.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            asked: Arc::default(),
        }
    }

    /// Creates the pod; one of that name that is there already stays, whosesoever it is. The next look says
    /// whether it is ours.
    pub async fn ensure(&self, pod: &Pod) -> Result<Option<Pod>> {
        let key = Key::of(pod);
        let asked = || self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if !asked().insert(key.clone()) {
            return Ok(None);
        }
        let made = self.create(pod).await;
        asked().remove(&key);
        made
    }

    async fn create(&self, pod: &Pod) -> Result<Option<Pod>> {
        let namespace = pod.namespace().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        match call("create", named(pod), api.create(&params, pod)).await {
            Ok(made) => Ok(Some(made)),
            Err(error) if error.class() == ErrorClass::Conflict => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the worker of that UID; one that is gone needs nothing.
    pub async fn delete(&self, target: &PodTarget) -> Result<()> {
        let object = format!("Pod {}/{}", target.namespace, target.name);
        if !target.name.starts_with(WORKER_PREFIX) {
            return Err(Error::Disagrees {
                object,
                why: "it is not the pod of a worker".into(),
            });
        }
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &target.namespace);
        let params = DeleteParams::default()
            .grace_period(0)
            .preconditions(Preconditions {
                uid: Some(target.uid.clone()),
                resource_version: None,
            });
        match call("delete", object, api.delete(&target.name, &params)).await {
            Ok(_) => Ok(()),
            // The only precondition is the UID: a conflict says that another pod has the name now.
            Err(error) if matches!(error.class(), ErrorClass::Gone | ErrorClass::Conflict) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;

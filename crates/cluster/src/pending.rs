//! PendingNodes: the objects that follow machines on their way in and out.
//!
//! Owns their making, their one turn and their end. Must not turn a machine back that is on its way
//! out, nor touch another object of the same name. Called by the controllers of tasks and machines.

use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use shipshape_api::names::FIELD_MANAGER;
use shipshape_api::{PendingNode, PendingNodeGoal, PendingNodeSpec};

use crate::error::{ErrorClass, Result, call};
use crate::patch::{self, Written, named, written};

/// All PendingNodes.
#[derive(Clone, Debug)]
pub struct PendingNodes {
    api: Api<PendingNode>,
}

impl PendingNodes {
    /// The PendingNodes that this client reaches.
    pub fn new(client: Client) -> Self {
        Self {
            api: Api::all(client),
        }
    }

    /// The API of the kind.
    pub fn api(&self) -> &Api<PendingNode> {
        &self.api
    }

    /// Creates the object; one that is there already is turned if it shall join and the wanted one
    /// shall leave.
    pub async fn ensure(&self, wanted: &PendingNode) -> Result<Written> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let object = named(wanted);
        match call("create", &object, self.api.create(&params, wanted)).await {
            Ok(made) => written(&made),
            Err(error) if error.class() == ErrorClass::Conflict => {
                let live = call("get", &object, self.api.get(&wanted.name_any())).await?;
                if wanted.spec.goal == PendingNodeGoal::Leave {
                    return self.turn_live(&live, wanted.spec.clone()).await;
                }
                Ok(Written::Unchanged)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends the machine of the object of that UID away, if it is still there.
    pub async fn turn(&self, name: &str, uid: &str) -> Result<Written> {
        let object = format!("PendingNode {name}");
        match call("get", object, self.api.get_opt(name)).await? {
            Some(live) if live.uid().as_deref() == Some(uid) => {
                let leaving = PendingNodeSpec {
                    goal: PendingNodeGoal::Leave,
                    deadline: None,
                    ..live.spec.clone()
                };
                self.turn_live(&live, leaving).await
            }
            Some(_) | None => Ok(Written::Unchanged),
        }
    }

    async fn turn_live(&self, live: &PendingNode, leaving: PendingNodeSpec) -> Result<Written> {
        let mut wanted = live.clone();
        if live.spec.goal == PendingNodeGoal::Join {
            wanted.spec = leaving;
        }
        patch::write(&self.api, live, &wanted).await
    }

    /// Deletes the object of that UID; one that is gone needs nothing. A conflict may mean that another
    /// object has the name now, or nothing at all: the caller looks again.
    pub async fn forget(&self, name: &str, uid: &str) -> Result<()> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        let object = format!("PendingNode {name}");
        match call("delete", object, self.api.delete(name, &params)).await {
            Ok(_) => Ok(()),
            Err(error) if error.class() == ErrorClass::Gone => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, Fault, failure};

    const PATH: &str = "/apis/shipshape.dev/v1alpha1/pendingnodes/machine";

    #[tokio::test(start_paused = true)]
    async fn an_object_that_a_conflict_kept_is_not_taken_for_gone() {
        let fake = Fake::new();
        let object = serde_json::json!({
            "apiVersion": "shipshape.dev/v1alpha1",
            "kind": "PendingNode",
            "metadata": {"name": "machine", "uid": "u"},
            "spec": {"goal": "Leave"},
        });
        fake.put(PATH, object);
        let pending = PendingNodes::new(fake.client());
        fake.fault(
            "DELETE",
            Fault::Answer(failure(409, "Conflict", "try again")),
        );
        let refused = pending.forget("machine", "u").await.unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Conflict);
        pending.forget("machine", "u").await.unwrap();
        assert!(fake.get(PATH).is_none());
        pending.forget("machine", "u").await.unwrap();
    }
}

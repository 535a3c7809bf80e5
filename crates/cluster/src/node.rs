//! Touches Node objects: cordon, uncordon, marks, delete.
//!
//! Owns the guards of those. Must not decide who is next, and never lifts a cordon that is not
//! ours. Every write names the version of the node that was read live just before; a node that was
//! replaced under the same name is never touched. Called by tasks.

mod gate;
mod mark;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Preconditions};
use kube::{Client, ResourceExt};

use crate::error::{ErrorClass, Result, call};
use crate::patch::{self, Written};
use shipshape_api::names::ANNOTATION_CORDONED_BY;

pub use gate::{carries, with_open_gate, without_gate};
pub use mark::with_marks;

/// What a live read found.
#[derive(Clone, Debug)]
pub enum Live {
    /// The node that was decided upon.
    Here(Box<Node>),
    /// Another node of that name.
    Replaced {
        /// UID of the node that is there now.
        uid: String,
    },
    /// No node of that name.
    Gone,
}

/// Whose cordon a node is under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cordon {
    /// Ours; the write tells whether it is new.
    Ours(Written),
    /// It was there before us and is not ours to lift.
    Foreign {
        /// The operation of ours that set it, if it was one; `None` if somebody else did.
        operation: Option<String>,
    },
}

/// What became of lifting a cordon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncordon {
    /// Lifted, or not there any more.
    Open(Written),
    /// Not ours; it stays.
    Foreign {
        /// The operation of ours that set it, if it was one; `None` if somebody else did.
        operation: Option<String>,
    },
}

/// What became of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The server took it.
    Accepted,
    /// The node of that UID does not exist any more.
    Gone,
}

/// All nodes.
#[derive(Clone, Debug)]
pub struct Nodes {
    api: Api<Node>,
}

impl Nodes {
    /// The nodes that this client reaches.
    pub fn new(client: Client) -> Self {
        Self {
            api: Api::all(client),
        }
    }

    /// Reads one node live and compares it with the one decided upon.
    pub async fn live(&self, name: &str, uid: &str) -> Result<Live> {
        let found = call("get", format!("Node {name}"), self.api.get_opt(name)).await?;
        Ok(match found {
            None => Live::Gone,
            Some(node) if node.uid().as_deref() == Some(uid) => Live::Here(Box::new(node)),
            Some(node) => Live::Replaced {
                uid: node.uid().unwrap_or_default(),
            },
        })
    }

    /// Reads one node live, whichever it is.
    pub async fn named(&self, name: &str) -> Result<Node> {
        call("get", format!("Node {name}"), self.api.get(name)).await
    }

    /// Closes the node for new pods in the name of an operation, if it is still as it was read.
    pub async fn cordon(&self, live: &Node, operation: &str) -> Result<Cordon> {
        let owner = cordoned_by(live);
        if is_cordoned(live) && owner != Some(operation) {
            return Ok(Cordon::Foreign {
                operation: owner.map(str::to_owned),
            });
        }
        let mut wanted = live.clone();
        wanted.spec.get_or_insert_default().unschedulable = Some(true);
        let note = (ANNOTATION_CORDONED_BY.to_owned(), operation.to_owned());
        wanted.annotations_mut().extend([note]);
        patch::write(&self.api, live, &wanted)
            .await
            .map(Cordon::Ours)
    }

    /// Opens the node again if the cordon is this operation's, and the node still as it was read.
    pub async fn uncordon(&self, live: &Node, operation: &str) -> Result<Uncordon> {
        let owner = cordoned_by(live);
        if owner.is_none() && !is_cordoned(live) {
            return Ok(Uncordon::Open(Written::Unchanged));
        }
        if owner != Some(operation) {
            return Ok(Uncordon::Foreign {
                operation: owner.map(str::to_owned),
            });
        }
        let mut wanted = live.clone();
        wanted.spec.get_or_insert_default().unschedulable = None;
        wanted.annotations_mut().remove(ANNOTATION_CORDONED_BY);
        patch::write(&self.api, live, &wanted)
            .await
            .map(Uncordon::Open)
    }

    /// Writes labels, taints or annotations: the difference between what was read and what is wanted.
    pub async fn write(&self, live: &Node, wanted: &Node) -> Result<Written> {
        patch::write(&self.api, live, wanted).await
    }

    /// Deletes the Node object of that UID and no other.
    pub async fn delete(&self, name: &str, uid: &str) -> Result<Deletion> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        match call(
            "delete",
            format!("Node {name}"),
            self.api.delete(name, &params),
        )
        .await
        {
            Ok(_) => Ok(Deletion::Accepted),
            // The only precondition is the UID: a conflict says that another node has the name now.
            Err(error) if matches!(error.class(), ErrorClass::Gone | ErrorClass::Conflict) => {
                Ok(Deletion::Gone)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether the node takes no new pods.
pub fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// The operation of ours that cordoned the node.
pub fn cordoned_by(node: &Node) -> Option<&str> {
    node.annotations()
        .get(ANNOTATION_CORDONED_BY)
        .map(String::as_str)
}

#[cfg(test)]
mod tests;

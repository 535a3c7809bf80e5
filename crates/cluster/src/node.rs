//! Touches Node objects: cordon, uncordon, marks, delete.
//!
//! Owns the guards of those. Must not decide who is next, and never lifts a cordon that is not
//! ours. Every write names the version of the node that was read live before; a node that was
//! replaced under the same name is never touched. Called by tasks.

mod gate;
mod mark;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, Preconditions, Request};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::error::{Error, ErrorClass, Result, call};
use crate::patch::{self, Written};
use shipshape_api::names::ANNOTATION_CORDONED_BY;

pub use gate::{carries, with_open_gate, without_gate};
pub use mark::{with_marks, with_renewed_mark};

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

/// A node as a decision saw it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Name.
    pub name: &'a str,
    /// UID.
    pub uid: &'a str,
    /// Version.
    pub resource_version: &'a str,
}

impl<'a> Seen<'a> {
    /// A node that was read.
    pub fn of(node: &'a Node) -> Self {
        let meta = &node.metadata;
        Self {
            name: meta.name.as_deref().unwrap_or_default(),
            uid: meta.uid.as_deref().unwrap_or_default(),
            resource_version: meta.resource_version.as_deref().unwrap_or_default(),
        }
    }
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

    /// Closes a node that was seen open for new pods, in the name of an operation, if it still is as it was seen.
    /// Whoever must not be overtaken by a late cordon changes the node.
    pub async fn cordon(&self, seen: Seen<'_>, operation: &str) -> Result<Written> {
        let object = format!("Node {}", seen.name);
        if seen.resource_version.is_empty() {
            // A server takes an empty one for none, and the cordon for one that always holds.
            return Err(Error::Malformed {
                object,
                field: "metadata.resourceVersion".into(),
                why: "a cordon needs a node that was read".into(),
            });
        }
        let patch = json!({
            "metadata": {
                "uid": seen.uid,
                "resourceVersion": seen.resource_version,
                "annotations": { ANNOTATION_CORDONED_BY: operation },
            },
            "spec": { "unschedulable": true },
        });
        let request = Request::new(self.api.resource_url());
        let request = request.patch(seen.name, &patch::params(), &Patch::Merge(patch));
        patch::send(&self.api, "patch", object, request).await
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

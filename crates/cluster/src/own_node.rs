//! The node that a process runs on, and the one change that it may make to it: open the gate.
//!
//! Owns the way from a passed check to an open gate where no controller does that. Whoever calls asks for the
//! node before its checks and opens it after them; another UID or another boot in between is another node, of
//! which the checks say nothing. Must not touch any other node, and deletes nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::{Client, ResourceExt};
use shipshape_api::reasons;
use shipshape_engine::condition::Truth;
use shipshape_engine::verify::effect::PublishedVerdict;

use crate::clock::Clock;
use crate::error::{Error, ErrorClass, Result};
use crate::node::{Live, Nodes, carries, with_open_gate};

/// How often a write is tried that others got in the way of.
const TRIES: usize = 8;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// What makes a node an open one.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The taint that keeps pods off, told by key and effect.
    pub taint: Taint,
    /// The label of an open node, key and value.
    pub label: (String, String),
}

/// The node that this process runs on, as it was before its checks.
#[derive(Clone, Debug)]
pub struct OwnNode {
    nodes: Nodes,
    name: String,
    uid: String,
    boot_id: String,
    is_tainted: bool,
    is_open: bool,
}

impl OwnNode {
    /// Asks for the node.
    pub async fn find(client: Client, name: &str, gate: &Gate) -> Result<Self> {
        let nodes = Nodes::new(client);
        let node = nodes.named(name).await?;
        let is_tainted = carries(&node, std::slice::from_ref(&gate.taint));
        let has_label = node.labels().get(&gate.label.0) == Some(&gate.label.1);
        Ok(Self {
            nodes,
            name: name.to_owned(),
            uid: node.uid().unwrap_or_default(),
            boot_id: boot_id(&node),
            is_tainted,
            is_open: has_label && !is_tainted,
        })
    }

    /// Whether it carries the gate's taint.
    pub fn is_tainted(&self) -> bool {
        self.is_tainted
    }

    /// Whether there is nothing to open.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Opens the gate: the condition, then taint and label in one write that names the version of the first. A
    /// write that others got in the way of is made again from what is there then.
    pub async fn open(&self, gate: &Gate, clock: Clock) -> Result<()> {
        let mut tries = 1;
        loop {
            match self.try_open(gate, clock).await {
                Err(error) if error.class() == ErrorClass::Conflict && tries < TRIES => {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }

    async fn try_open(&self, gate: &Gate, clock: Clock) -> Result<()> {
        let Live::Here(live) = self.nodes.live(&self.name, &self.uid).await? else {
            return Err(self.disagrees("another node has its name, or none"));
        };
        if boot_id(&live) != self.boot_id {
            return Err(self.disagrees("it has booted since the checks began"));
        }
        let told = PublishedVerdict {
            truth: Truth::True,
            reason: reasons::VERIFIED,
            message: "every check passed, as run on the node itself".to_owned(),
        };
        let told = self.nodes.publish(&live, &told, clock.now()).await?;
        let taints = std::slice::from_ref(&gate.taint);
        let wanted = with_open_gate(&told, taints, &gate.label);
        self.nodes.write(&told, &wanted).await.map(drop)
    }

    fn disagrees(&self, why: &str) -> Error {
        Error::Disagrees {
            object: format!("Node {}", self.name),
            why: why.to_owned(),
        }
    }
}

fn boot_id(node: &Node) -> String {
    let status = node.status.as_ref();
    let info = status.and_then(|status| status.node_info.as_ref());
    info.map(|info| info.boot_id.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fake::{Fake, Fault, failure};

    const PATH: &str = "/api/v1/nodes/n1";

    fn gate() -> Gate {
        Gate {
            taint: Taint {
                key: "node-ready/unverified".to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            },
            label: ("node-ready/verified".to_owned(), "true".to_owned()),
        }
    }

    fn put(fake: &Fake, uid: &str, boot: &str) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "n1", "uid": uid, "resourceVersion": "1" },
            "spec": { "taints": [
                { "key": "dedicated", "effect": "NoSchedule" },
                { "key": "node-ready/unverified", "value": "true", "effect": "NoSchedule" },
            ] },
            "status": { "nodeInfo": {
                "bootID": boot, "architecture": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
                "osImage": "", "systemUUID": "",
            } },
        });
        fake.put(PATH, node);
    }

    async fn found(fake: &Fake) -> OwnNode {
        OwnNode::find(fake.client(), "n1", &gate()).await.unwrap()
    }

    fn taints(fake: &Fake) -> Vec<Value> {
        let node = fake.get(PATH).unwrap();
        node["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn the_taint_goes_the_label_comes_and_nothing_else_changes() {
        let fake = Fake::new();
        put(&fake, "u", "boot");
        let own = found(&fake).await;
        assert!(own.is_tainted() && !own.is_open());
        own.open(&gate(), Clock::System).await.unwrap();
        assert_eq!(
            taints(&fake),
            [json!({ "key": "dedicated", "effect": "NoSchedule" })]
        );
        let node = fake.get(PATH).unwrap();
        assert_eq!(
            node["metadata"]["labels"],
            json!({ "node-ready/verified": "true" })
        );
        assert_eq!(node["status"]["conditions"][0]["type"], "NetworkVerified");
        let again = found(&fake).await;
        assert!(again.is_open() && !again.is_tainted());
        own.open(&gate(), Clock::System).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_is_met_with_another_look_and_not_for_ever() {
        let fake = Fake::new();
        put(&fake, "u", "boot");
        let own = found(&fake).await;
        let conflict = || Fault::Answer(failure(409, "Conflict", "try again"));
        fake.fault("PATCH", conflict());
        own.open(&gate(), Clock::System).await.unwrap();
        assert_eq!(taints(&fake).len(), 1);
        put(&fake, "u", "boot");
        for _ in 0..TRIES {
            fake.fault("PATCH", conflict());
        }
        let error = own.open(&gate(), Clock::System).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Conflict);
        assert_eq!(taints(&fake).len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn another_node_or_another_boot_is_left_alone() {
        for (uid, boot) in [("stranger", "boot"), ("u", "another")] {
            let fake = Fake::new();
            put(&fake, "u", "boot");
            let own = found(&fake).await;
            put(&fake, uid, boot);
            own.open(&gate(), Clock::System).await.unwrap_err();
            assert_eq!(taints(&fake).len(), 2);
        }
    }
}

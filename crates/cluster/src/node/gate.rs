//! What the gate does to Nodes: the condition of a verified network, and the one write that opens it.
//!
//! Owns the edit of taints and label, by key and effect, and the guarded write of one condition. Must not
//! touch a taint of anybody else, whatever its place in the list.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::Patch;
use serde_json::json;
use shipshape_api::conditions::NETWORK_VERIFIED;
use shipshape_engine::verify::effect::PublishedVerdict;
use shipshape_engine::verify::is_same_taint;

use super::Nodes;
use crate::error::{Result, call};
use crate::patch::{guard, named, params};

impl Nodes {
    /// Writes the condition if it says something else, and gives back the node as it is then. Taints are no
    /// part of the status: the server takes the two in two writes, and the second names the version that
    /// the first one made.
    pub async fn publish(
        &self,
        live: &Node,
        told: &PublishedVerdict,
        now: Timestamp,
    ) -> Result<Node> {
        let known = condition_of(live);
        let is_same = |known: &NodeCondition| {
            known.status == told.truth.as_str()
                && known.reason.as_deref() == Some(told.reason)
                && known.message.as_deref() == Some(told.message.as_str())
        };
        if known.is_some_and(is_same) {
            return Ok(live.clone());
        }
        let since = known
            .filter(|known| known.status == told.truth.as_str())
            .and_then(|known| known.last_transition_time.clone());
        let condition = NodeCondition {
            type_: NETWORK_VERIFIED.to_owned(),
            status: told.truth.as_str().to_owned(),
            reason: Some(told.reason.to_owned()),
            message: Some(told.message.clone()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: since.or(Some(Time(now))),
        };
        let object = named(live);
        let mut patch = json!({
            "metadata": { "uid": live.uid() },
            "status": { "conditions": [condition] },
        });
        guard(&mut patch, live, &object)?;
        let (name, params, patch) = (live.name_any(), params(), Patch::Strategic(patch));
        let request = self.api.patch_status(&name, &params, &patch);
        call("write the status of", object, request).await
    }
}

fn condition_of(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| one.type_ == NETWORK_VERIFIED)
}

/// Whether it is one of the gate's taints, told by key and effect.
fn is_gates(taint: &Taint, gate: &[Taint]) -> bool {
    let mut gate = gate.iter();
    gate.any(|one| is_same_taint(one, &taint.key, &taint.effect))
}

/// Whether the node carries a taint of the gate.
pub fn carries(node: &Node, gate: &[Taint]) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.is_some_and(|taints| taints.iter().any(|taint| is_gates(taint, gate)))
}

/// The node without the gate's taints.
pub fn without_gate(live: &Node, gate: &[Taint]) -> Node {
    let mut node = live.clone();
    if let Some(taints) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        taints.retain(|taint| !is_gates(taint, gate));
    }
    node
}

/// The node without the gate's taints and with the label of a verified one.
pub fn with_open_gate(live: &Node, gate: &[Taint], label: &(String, String)) -> Node {
    let mut node = without_gate(live, gate);
    node.labels_mut().insert(label.0.clone(), label.1.clone());
    node
}

#[cfg(test)]
mod tests {
    use shipshape_engine::condition::Truth;

    use super::*;
    use crate::error::ErrorClass;
    use crate::fake::{Fake, node};

    fn taint(key: &str, effect: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            ..Taint::default()
        }
    }

    #[test]
    fn the_gates_taints_go_by_key_and_effect_wherever_they_stand_and_no_other_does() {
        let gate = [taint("one", "NoSchedule"), taint("two", "NoExecute")];
        let mut node = Node::default();
        node.spec.get_or_insert_default().taints = Some(vec![
            taint("one", "NoSchedule"),
            taint("foreign", "NoSchedule"),
            taint("two", "NoExecute"),
            taint("two", "NoSchedule"),
        ]);
        let label = ("verified".to_owned(), "true".to_owned());
        let open = with_open_gate(&node, &gate, &label);
        let left = open.spec.as_ref().unwrap().taints.clone().unwrap();
        assert_eq!(
            left,
            [taint("foreign", "NoSchedule"), taint("two", "NoSchedule")]
        );
        assert_eq!(open.labels()["verified"], "true");
        assert_eq!(with_open_gate(&open, &gate, &label), open);
    }

    const PATH: &str = "/api/v1/nodes/n1";

    fn told() -> PublishedVerdict {
        PublishedVerdict {
            truth: Truth::True,
            reason: "Verified",
            message: "every check passed".to_owned(),
        }
    }

    fn put(fake: &Fake, kubelet: &str) -> Node {
        let mut object = node("n1");
        object["spec"]["taints"] = json!([
            { "key": "gate", "effect": "NoSchedule" }, { "key": "foreign", "effect": "NoSchedule" },
        ]);
        object["metadata"]["annotations"] = json!({ "kubelet": kubelet });
        serde_json::from_value(fake.put(PATH, object)).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn taints_and_label_go_in_one_write_that_names_the_version_after_the_condition() {
        let fake = Fake::new();
        let nodes = Nodes::new(fake.client());
        let live = put(&fake, "first");
        let told = nodes
            .publish(&live, &told(), Timestamp::UNIX_EPOCH)
            .await
            .unwrap();
        let label = ("verified".to_owned(), "true".to_owned());
        let open = with_open_gate(&told, &[taint("gate", "NoSchedule")], &label);
        nodes.write(&told, &open).await.unwrap();
        let body = fake.last_body();
        assert_eq!(
            body["metadata"]["resourceVersion"],
            json!(told.resource_version())
        );
        assert_eq!(body["metadata"]["labels"]["verified"], "true");
        assert_eq!(
            body["spec"]["taints"],
            json!([{ "key": "foreign", "effect": "NoSchedule" }])
        );
        assert_eq!(fake.writes().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_changed_since_it_was_read_is_neither_told_of_nor_opened() {
        let fake = Fake::new();
        let nodes = Nodes::new(fake.client());
        let live = put(&fake, "first");
        put(&fake, "second");
        let now = Timestamp::UNIX_EPOCH;
        let error = nodes.publish(&live, &told(), now).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Conflict);
        let open = with_open_gate(
            &live,
            &[taint("gate", "NoSchedule")],
            &("l".into(), "v".into()),
        );
        let error = nodes.write(&live, &open).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Conflict);
        let stored = fake.get(PATH).unwrap();
        assert_eq!(stored["spec"]["taints"].as_array().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_that_says_so_already_is_not_written_again() {
        let fake = Fake::new();
        let nodes = Nodes::new(fake.client());
        let live = put(&fake, "first");
        let now = Timestamp::UNIX_EPOCH;
        let once = nodes.publish(&live, &told(), now).await.unwrap();
        nodes.publish(&once, &told(), now).await.unwrap();
        assert_eq!(fake.writes().len(), 1);
    }
}

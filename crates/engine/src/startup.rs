//! Startup taints: what keeps pods off a node that says it is ready.
//!
//! A kubelet says Ready before others have done their part: the node controller lifts its own taint a moment
//! later, cloud controllers and agents theirs when they are at work. Owns which taints are of this kind. Must not
//! take a pool's own taints for them: those stay for good.

use crate::view::NodeView;

/// What the node controller lifts in the moment after a kubelet first says Ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Taints of a node that has no network yet.
pub const WITHOUT_NETWORK: [&str; 4] = [
    NOT_READY,
    "node.kubernetes.io/network-unavailable",
    "node.cilium.io/agent-not-ready",
    "node.cloudprovider.kubernetes.io/uninitialized",
];

/// Taints of a node that lacks something else.
const OTHERS: [&str; 3] = [
    "node.kubernetes.io/unreachable",
    "node.cluster.x-k8s.io/uninitialized",
    "karpenter.sh/unregistered",
];

/// How drivers and agents call theirs (`ebs.csi.aws.com/agent-not-ready`).
const OF_AGENTS: &str = "/agent-not-ready";

/// How the cluster autoscaler lets people name further ones, today and before.
const DECLARED: [&str; 2] = [
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
];

/// The effect that keeps nobody off.
const SOFT: &str = "PreferNoSchedule";

/// Key of a taint that keeps pods off the node, and goes when it can take them.
pub fn startup_taint(node: &NodeView) -> Option<&str> {
    let hard = node.taints.iter().filter(|taint| taint.effect != SOFT);
    hard.map(|taint| taint.key.as_str())
        .find(|key| goes_by_itself(key))
}

/// Whether a taint of this key is of a node that is starting, and not of its pool.
pub fn goes_by_itself(key: &str) -> bool {
    WITHOUT_NETWORK.contains(&key)
        || OTHERS.contains(&key)
        || key.ends_with(OF_AGENTS)
        || DECLARED.iter().any(|prefix| key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::TaintView;

    #[test]
    fn a_taint_that_goes_by_itself_is_told_from_one_that_stays() {
        let table = [
            ("node.kubernetes.io/not-ready", true),
            ("node.cloudprovider.kubernetes.io/uninitialized", true),
            ("ebs.csi.aws.com/agent-not-ready", true),
            ("disk.csi.azure.com/agent-not-ready", true),
            ("ignore-taint.cluster-autoscaler.kubernetes.io/cilium", true),
            ("startup-taint.cluster-autoscaler.kubernetes.io/gpu", true),
            ("node.kubernetes.io/disk-pressure", false),
            ("node.kubernetes.io/unschedulable", false),
            ("dedicated", false),
        ];
        for (key, starts) in table {
            let with = |effect: &str| NodeView {
                taints: vec![TaintView {
                    key: key.to_owned(),
                    effect: effect.to_owned(),
                }],
                ..NodeView::default()
            };
            assert_eq!(startup_taint(&with("NoSchedule")), starts.then_some(key));
            assert_eq!(startup_taint(&with("PreferNoSchedule")), None, "{key}");
        }
        assert_eq!(startup_taint(&NodeView::default()), None);
    }
}

//! Every name that is written into a cluster or a cloud: group, labels, annotations, taints,
//! finalizers, leases, tags.
//!
//! Owns the spelling, so that it exists once. Must not look anything up.

/// API group of all kinds.
pub const GROUP: &str = "shipshape.dev";
/// API version of all kinds.
pub const VERSION: &str = "v1alpha1";
/// Category under which `kubectl get shipshape` lists all kinds.
pub const CATEGORY: &str = "shipshape";
/// Field manager of every server-side apply.
pub const FIELD_MANAGER: &str = "shipshape";
/// Namespace of the operator unless a setting says otherwise.
pub const DEFAULT_NAMESPACE: &str = "shipshape-system";

/// Label on a task: UID of the run that asked for it.
pub const LABEL_RUN_UID: &str = "shipshape.dev/run-uid";
/// Label on a task: name of the run that asked for it.
pub const LABEL_RUN_NAME: &str = "shipshape.dev/run-name";
/// Label on a machine's record: name of the task that it belongs to.
pub const LABEL_TASK: &str = "shipshape.dev/task";

/// Annotation on a node lock: UID of the node that the lock is about.
pub const ANNOTATION_NODE_UID: &str = "shipshape.dev/node-uid";
/// Annotation on a node lock: id of the operation that holds it (the task's UID).
pub const ANNOTATION_OPERATION: &str = "shipshape.dev/operation";
/// Annotation on a node: the task that cordoned it. A cordon without it is not ours.
pub const ANNOTATION_CORDONED_BY: &str = "shipshape.dev/cordoned-by";

/// Annotation on a task: each new value tries the node again after the task has failed or is parked.
pub const ANNOTATION_RETRY: &str = "shipshape.dev/retry";
/// Annotation on a run: that many failures are known and do not pause the run any more.
pub const ANNOTATION_ACKNOWLEDGED: &str = "shipshape.dev/acknowledged-failures";
/// Annotation on a Deployment that is held at zero: its own replica count.
pub const ANNOTATION_ORIGINAL_REPLICAS: &str = "shipshape.dev/original-replicas";
/// Label on a Deployment that is held at zero: UID of the run that holds it. A label, so that all that
/// are held can be asked for.
pub const LABEL_HELD_BY: &str = "shipshape.dev/held-by";
/// Annotation by which the cluster autoscaler is told not to remove a node.
pub const ANNOTATION_SCALE_DOWN_DISABLED: &str =
    "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// Annotation on a node whose removal by the cluster autoscaler a run forbids: the run's UID. Without
/// it the other annotation is somebody else's.
pub const ANNOTATION_SCALE_DOWN_HELD_BY: &str = "shipshape.dev/scale-down-held-by";
/// Domain of the annotation on whatever a run has marked: its key ends in the run's UID, its value is
/// the run as `namespace/name`, so that whoever finds the mark can ask whether the run is still there.
pub const ANNOTATION_RUN_DOMAIN: &str = "run.shipshape.dev";
/// Taint on a node that a run is going to replace; its value is the run's UID and its effect
/// PreferNoSchedule, so that a moved pod does not land on the next node in line.
pub const TAINT_OUTDATED: &str = "shipshape.dev/outdated";

/// Label on the pods that check a node's network, so that all of them can be asked for.
pub const LABEL_WORKER: &str = "shipshape.dev/verifier";
/// Value of that label on a pod that checks the node it is on.
pub const WORKER_OF_NODE: &str = "node";
/// Value of that label on a pod that runs the same checks on a node in service, for comparison.
pub const WORKER_OF_CONTROL: &str = "control";
/// How the name of every such pod begins.
pub const WORKER_PREFIX: &str = "verify-";
/// Annotation on such a pod: name of the node that it is on.
pub const ANNOTATION_WORKER_NODE: &str = "shipshape.dev/verifies";
/// Taint, unless a setting names others, of a node that has not been verified.
pub const DEFAULT_GATE_TAINT: (&str, &str, &str) = ("node-ready/unverified", "true", "NoSchedule");
/// Label, unless a setting names another, of a node that has been.
pub const DEFAULT_VERIFIED_LABEL: (&str, &str) = ("node-ready/verified", "true");
/// The ConfigMap in which deletions of failed nodes are counted.
pub const DELETIONS_NAME: &str = "shipshape-deletions";

/// Finalizer on runs and tasks: what was changed is put back before the object goes.
pub const FINALIZER: &str = "shipshape.dev/cleanup";

/// Cloud tag: the cluster that owns the machine.
pub const TAG_CLUSTER_ID: &str = "shipshape.dev/cluster-id";
/// Cloud tag: the run that made the machine.
pub const TAG_RUN_UID: &str = "shipshape.dev/run-uid";
/// Cloud tag: the task that made the machine.
pub const TAG_TASK: &str = "shipshape.dev/task";
/// Cloud tag: id of the machine that this one replaces.
pub const TAG_REPLACES: &str = "shipshape.dev/replaces";
/// Cloud tag: how far the machine has come.
pub const TAG_STATE: &str = "shipshape.dev/state";
/// Cloud tag: idempotency key of the call that made the machine.
pub const TAG_TOKEN: &str = "shipshape.dev/token";
/// Cloud tag: hash of what that call asked for, so that a token with other words is noticed.
pub const TAG_REQUEST: &str = "shipshape.dev/request";
/// Cloud tag on a group: it is held while replacements come and go, and how.
pub const TAG_HELD: &str = "shipshape.dev/held";
/// Cloud tag on a group: its maximum before it was raised.
pub const TAG_ORIGINAL_MAX: &str = "shipshape.dev/original-max";

/// The ConfigMap in which slots are granted.
pub const LEDGER_NAME: &str = "shipshape-ledger";
/// The Lease by which controllers elect a leader.
pub const LEADER_LEASE: &str = "shipshape-controller";

/// Label key of a control plane node.
pub const LABEL_CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// Label key of a control plane node on older clusters.
pub const LABEL_MASTER: &str = "node-role.kubernetes.io/master";
/// All label keys that make a node a control plane.
pub const CONTROL_PLANE_LABELS: [&str; 2] = [LABEL_CONTROL_PLANE, LABEL_MASTER];
/// Label key of a node's zone.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";

/// Longest name of an object.
pub const NAME_MAX: usize = 253;

/// How the name of every node lock begins.
pub const LOCK_PREFIX: &str = "node-";

/// Name of the Lease that locks a node. The prefix keeps it apart from every other lease; a name
/// that would be too long ends in a hash of the whole.
pub fn lock_name(node_name: &str) -> String {
    bounded(&format!("{LOCK_PREFIX}{node_name}"), NAME_MAX)
}

/// Key of the annotation that names a run on what it has marked.
pub fn run_annotation(run_uid: &str) -> String {
    format!("{ANNOTATION_RUN_DOMAIN}/{run_uid}")
}

/// `name` if it fits, else its head and a hash of the whole, `max` bytes long.
///
/// Kubernetes names are ASCII; a name that is not is cut at a character's edge.
pub fn bounded(name: &str, max: usize) -> String {
    if name.len() <= max {
        return name.to_owned();
    }
    let tail = format!("-{:016x}", fingerprint(name));
    let room = max.saturating_sub(tail.len());
    let head: String = name
        .char_indices()
        .take_while(|(at, character)| at + character.len_utf8() <= room)
        .map(|(_, character)| character)
        .collect();
    format!("{}{tail}", head.trim_end_matches(['-', '.']))
}

/// FNV-1a, 64 bits: stable across releases, unlike the standard library's hashers.
pub fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_name_of_a_short_node_is_its_name_with_a_prefix() {
        assert_eq!(lock_name("worker-1"), "node-worker-1");
    }

    #[test]
    fn lock_names_of_two_long_nodes_fit_and_differ() {
        let first = lock_name(&format!("{}a", "n".repeat(252)));
        let second = lock_name(&format!("{}b", "n".repeat(252)));
        assert_eq!(first.len(), NAME_MAX);
        assert_eq!(second.len(), NAME_MAX);
        assert_ne!(first, second);
    }

    #[test]
    fn bounded_name_never_ends_its_head_in_a_separator() {
        let name = format!("{}.{}", "a".repeat(45), "b".repeat(40));
        let cut = bounded(&name, 63);
        assert!(cut.len() <= 63, "{cut}");
        assert!(!cut.contains(".-"), "{cut}");
    }
}

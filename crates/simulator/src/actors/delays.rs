//! How long things take in the embedded cluster.
//!
//! Owns plain values; must not hold state.

use std::time::Duration;

/// Delays of kubelets and controllers. The defaults are those of an ordinary cluster.
#[derive(Clone, Debug)]
pub struct Delays {
    /// From a booted machine to its Node.
    pub join: Duration,
    /// From the Node to its Ready condition.
    pub node_ready: Duration,
    /// From the binding of a pod to its containers running.
    pub pod_start: Duration,
    /// From running to ready.
    pub pod_ready: Duration,
    /// How long a pod takes to stop, unless its grace period is shorter.
    pub pod_stop: Duration,
    /// How long the pod of a Job runs.
    pub task_run: Duration,
    /// How long the checks of a node's network run.
    pub checks_run: Duration,
    /// From a volume's last pod to its detachment.
    pub detach: Duration,
    /// From a machine's end to the removal of its Node, as a cloud controller does it. `None`: Nodes
    /// stay.
    pub node_removal: Option<Duration>,
    /// How far up and down the delays vary, in percent.
    pub jitter: u8,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            join: Duration::from_secs(15),
            node_ready: Duration::from_secs(5),
            pod_start: Duration::from_secs(3),
            pod_ready: Duration::from_secs(1),
            pod_stop: Duration::from_secs(2),
            task_run: Duration::from_secs(30),
            checks_run: Duration::from_secs(2),
            detach: Duration::from_secs(6),
            node_removal: Some(Duration::from_secs(10)),
            jitter: 20,
        }
    }
}

//! `shipshape verify --patch-node`: the checks open the gate of their own node, where no controller does.
//!
//! Owns the step from a passed run to an open gate, and the wait for the end of the pod: a process that ended
//! would be started again, and check again. Nothing is changed when a check fails.

use shipshape_cluster::Clock;
use shipshape_cluster::own_node::OwnNode;
use shipshape_verifier::Settings;

use super::Stop;
use crate::cli::VerifyOptions;
use crate::connect::{self, ClusterOptions};
use crate::signals::Signals;

/// A node that waits for its checks, and who may end the wait after them.
pub(super) struct Patching {
    node: OwnNode,
    signals: Signals,
}

impl Patching {
    /// Finds the node, if that is asked for.
    pub(super) async fn begin(
        options: &VerifyOptions,
        settings: &Settings,
    ) -> Result<Option<Self>, Stop> {
        if options.own_gate.delete_failed_node {
            let why = "--delete-failed-node (or DELETE_FAILED_NODE) is true, and a node does not remove itself here; \
                       leave it out, and let a controller do that: nodeManagement.deleteFailedNodes";
            return Err(Stop::Wrong(why.to_owned()));
        }
        if !options.own_gate.patch_node {
            return Ok(None);
        }
        options.own_gate.check().map_err(Stop::Wrong)?;
        let name = settings.node_name.as_deref().ok_or_else(|| {
            let why = "--patch-node needs the name of the node; give --node-name or NODE_NAME";
            Stop::Wrong(why.to_owned())
        })?;
        if settings.dry_run {
            tracing::info!("the node stays as it is, since this is a dry run");
            return Ok(None);
        }
        let signals = Signals::listen().map_err(|error| Stop::Node(error.to_string()))?;
        let way = ClusterOptions {
            kubeconfig: options.own_gate.kubeconfig.clone(),
            ..ClusterOptions::default()
        };
        let config = connect::config(&way).await;
        let config = config.map_err(|failure| Stop::Node(failure.to_string()))?;
        let client = kube::Client::try_from(config).map_err(|error| Stop::node(&error))?;
        let gate = options.own_gate.gate();
        let node = OwnNode::find(client, name, &gate).await;
        let node = node.map_err(|error| Stop::node(&error))?;
        if !node.is_tainted() && !node.is_open() {
            let (key, effect) = (&gate.taint.key, &gate.taint.effect);
            tracing::warn!(
                "the node carries no taint {key}:{effect}; if every check passes it gets only the label and the condition"
            );
        }
        Ok(Some(Self { node, signals }))
    }

    /// Whether there is nothing to check for.
    pub(super) fn is_open(&self) -> bool {
        self.node.is_open()
    }

    /// Opens the gate.
    pub(super) async fn open(&self, options: &VerifyOptions) -> Result<(), Stop> {
        let opened = self
            .node
            .open(&options.own_gate.gate(), Clock::System)
            .await;
        opened.map_err(|error| Stop::node(&error))
    }

    /// Stays until the pod is removed: its DaemonSet wants it on nodes without the label alone.
    pub(super) async fn rest(mut self) {
        tracing::info!("the node is verified; waiting for the end of the pod");
        let asked = self.signals.asked().await;
        tracing::info!(?asked, "stopping");
    }
}

//! Act: the gate's effects on nodes, workers and the objects of others.
//!
//! Owns the translation from such an effect to calls. The node is read live before it is touched; another
//! UID or another boot than the one decided upon is left alone.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use shipshape_cluster::foreign;
use shipshape_cluster::node::{Live, with_open_gate};
use shipshape_cluster::patch::Written;
use shipshape_cluster::{Error, Key};
use shipshape_engine::decision::NodeTarget;
use shipshape_engine::verify::carries_any;
use shipshape_engine::verify::effect::{GateEffect, PublishedVerdict};
use shipshape_engine::view::NodeView;

use crate::context::Context;
use crate::error::PassError;

/// Carries out an effect.
pub(crate) async fn act(context: &Context, effect: &GateEffect) -> Result<(), PassError> {
    match effect {
        GateEffect::EnsureWorker(pod) => ensure_worker(context, pod).await,
        GateEffect::CheckFromHere(variables) => {
            check_from_here(context, variables);
            Ok(())
        }
        GateEffect::DeleteWorker(target) => Ok(context.workers.delete(target).await?),
        GateEffect::ReleaseNode {
            node,
            boot_id,
            taints,
            label,
            told,
        } => release(context, (node, boot_id), (taints, label), told).await,
        GateEffect::PublishVerdict {
            node,
            boot_id,
            told,
        } => publish(context, (node, boot_id), told).await,
        GateEffect::RecordRemovals(removals) => Ok(context.removals.write(removals).await?),
        GateEffect::RemoveNode(target) => {
            context.nodes.delete(&target.name, &target.uid).await?;
            Ok(())
        }
        GateEffect::DeleteForeign(target) => Ok(foreign::delete(&context.client, target).await?),
    }
}

/// Opens the gate for a node: the condition first, then taints and label in one write.
async fn release(
    context: &Context,
    (node, boot_id): (&NodeTarget, &str),
    (taints, label): (&[Taint], &(String, String)),
    told: &PublishedVerdict,
) -> Result<(), PassError> {
    let Some(live) = live(context, node, boot_id).await? else {
        return Ok(());
    };
    let now = context.clock.now();
    let told = context.nodes.publish(&live, told, now).await?;
    let wanted = with_open_gate(&told, taints, label);
    let written = context.nodes.write(&told, &wanted).await?;
    expect(context, node, &told, &written);
    if let Some(seconds) = age_at_opening(&live, (taints, label), now) {
        context.vitals.saw_opening(seconds);
    }
    Ok(())
}

/// How old a node is for which the gate opens the first time; `None` for a taint that had come back, and
/// for a node in service that was verified again.
fn age_at_opening(
    before: &Node,
    (taints, (key, value)): (&[Taint], &(String, String)),
    now: Timestamp,
) -> Option<f64> {
    let view = NodeView::of(before);
    let is_shut = carries_any(&view, taints);
    let is_first = view.labels.get(key) != Some(value);
    let made = before.metadata.creation_timestamp.as_ref()?;
    let age = now.duration_since(made.0).as_secs_f64();
    (is_shut && is_first).then_some(age.max(0.0))
}

/// Writes the condition of a node.
async fn publish(
    context: &Context,
    (node, boot_id): (&NodeTarget, &str),
    told: &PublishedVerdict,
) -> Result<(), PassError> {
    let Some(live) = live(context, node, boot_id).await? else {
        return Ok(());
    };
    let now = context.clock.now();
    let told = context.nodes.publish(&live, told, now).await?;
    expect(context, node, &told, &Written::Unchanged);
    Ok(())
}

/// Its end comes by time where the checks do not end: then it counts as one that was not run.
fn check_from_here(context: &Context, variables: &[(String, String)]) {
    if let Some(gate) = &context.gate {
        let within = gate.attempt_deadline().unsigned_abs();
        context.own_runs.begin(variables, within, context.clock);
    }
}

/// What is made is told to the store: else a pass that comes before the watch would ask for it again.
async fn ensure_worker(context: &Context, pod: &Pod) -> Result<(), PassError> {
    if context.stores.workers.get(&Key::of(pod)).is_some() {
        return Ok(());
    }
    if let Some(made) = context.workers.ensure(pod).await? {
        context.stores.workers.learn(made);
    }
    Ok(())
}

/// The node that was decided upon, if it is still the same boot of the same node.
async fn live(
    context: &Context,
    target: &NodeTarget,
    boot_id: &str,
) -> Result<Option<Box<Node>>, PassError> {
    let Live::Here(node) = context.nodes.live(&target.name, &target.uid).await? else {
        return Ok(None);
    };
    if NodeView::of(&node).boot_id != boot_id {
        let object = format!("Node {}", target.name);
        let why = "it has booted again since it was verified".to_owned();
        return Err(Error::Disagrees { object, why }.into());
    }
    Ok(Some(node))
}

/// The next look must see what was written: else it would be written again.
fn expect(context: &Context, target: &NodeTarget, told: &Node, written: &Written) {
    let version = written
        .version()
        .or(told.metadata.resource_version.as_deref());
    if let Some(version) = version {
        let key = Key::cluster(&target.name);
        context.stores.nodes.expect(&key, version);
    }
}

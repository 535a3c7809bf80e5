//! Act: carries effects out, in order, the first failure ends the pass.
//!
//! Owns the translation from an effect to calls. Must not decide, and must not take an answer for
//! progress: the next observation says what has come of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use shipshape_api::{NodePatchRun, NodePatchTask, PendingNode, ProviderRef, names};
use shipshape_cluster::deployment;
use shipshape_cluster::error::in_full;
use shipshape_cluster::evict::{self, Eviction, Mode, Target};
use shipshape_cluster::finalizer;
use shipshape_cluster::lock::Claim;
use shipshape_cluster::node::{Live, Seen, with_marks, with_renewed_mark};
use shipshape_cluster::patch::Written;
use shipshape_cluster::{Error, ErrorClass, Key};
use shipshape_engine::decision::{
    Effect, Kept, KeptKind, LockRequest, Marks, NodeTarget, PodTarget,
};
use shipshape_engine::drain::{Refusal, payer};
use shipshape_engine::ledger::{Ledger, Slot};
use shipshape_provider::Error as CloudError;

use crate::context::Context;
use crate::drain;
use crate::error::PassError;
use crate::evictions::{Grant, Refusing};
use crate::gate;

/// Carries out all effects of a decision. `provider` names the cloud that machine effects go to.
pub(crate) async fn perform(
    context: &Context,
    provider: Option<&ProviderRef>,
    effects: &[Effect],
) -> Result<(), PassError> {
    for effect in effects {
        tracing::debug!(effect = effect.name(), "act");
        perform_one(context, provider, effect).await?;
    }
    Ok(())
}

async fn perform_one(
    context: &Context,
    provider: Option<&ProviderRef>,
    effect: &Effect,
) -> Result<(), PassError> {
    match effect {
        Effect::GrantSlots { ledger, slots } => grant_slots(context, ledger, slots).await,
        Effect::EnsureTask(task) => ensure_task(context, task).await,
        Effect::AcquireLock(request) => acquire_lock(context, request).await,
        Effect::RenewLock { node, operation } => {
            context.locks.touch(node, operation).await?;
            Ok(())
        }
        Effect::EnsureReplacement(request) => {
            context
                .provider(provider)
                .await?
                .ensure_replacement(request)
                .await?;
            Ok(())
        }
        Effect::EnsureCordoned(target) => cordon(context, target).await,
        Effect::EnsureUncordoned(target) => uncordon(context, target).await,
        Effect::EnsureLabels { node, add, remove } => {
            write_labels(context, node, add, remove).await
        }
        Effect::MarkNode { node, run, marks } => mark(context, node, run, *marks).await,
        Effect::RenewMark { node, at } => renew_mark(context, node, *at).await,
        Effect::EvictPod(target) => evict_pod(context, target).await,
        Effect::MoveEtcdLeader { from, to } => context.move_etcd_leader(from, to).await,
        Effect::RemoveEtcdMember(id) => context.remove_etcd_member(id).await,
        Effect::DeleteMachine(id) => {
            let cloud = context.provider(provider).await?;
            Ok(cloud.delete_machine(id).await?)
        }
        Effect::RestoreGroups => {
            let cloud = context.provider(provider).await?;
            Ok(cloud.restore_groups().await?)
        }
        Effect::ProtectMachine { id, protected } => {
            let cloud = context.provider(provider).await?;
            gone_is_fine(cloud.protect(id, *protected).await)
        }
        Effect::TagMachine { id, state } => {
            let tags = [(names::TAG_STATE.to_owned(), (*state).to_owned())].into();
            let cloud = context.provider(provider).await?;
            gone_is_fine(cloud.tag(id, &tags).await)
        }
        Effect::DeleteNode(target) => {
            context.nodes.delete(&target.name, &target.uid).await?;
            Ok(())
        }
        Effect::ReleaseSlot { node_uid, task } => release_slot(context, node_uid, task).await,
        Effect::ReleaseLock { node, operation } => {
            context.locks.release(node, operation).await?;
            Ok(())
        }
        Effect::HoldDeployment { .. } | Effect::ReleaseDeployment { .. } => {
            scale_autoscaler(context, effect).await
        }
        Effect::EnsurePending(wanted) => ensure_pending(context, wanted).await,
        Effect::TurnPending { name, uid } => {
            let written = context.pending.turn(name, uid).await?;
            expect_pending(context, name, &written);
            Ok(())
        }
        Effect::ForgetPending { name, uid } => Ok(context.pending.forget(name, uid).await?),
        Effect::EnsureFinalizer(kept) => set_finalizer(context, kept, true).await,
        Effect::DropFinalizer(kept) => set_finalizer(context, kept, false).await,
        Effect::Gate(effect) => gate::act(context, effect).await,
    }
}

async fn scale_autoscaler(context: &Context, effect: &Effect) -> Result<(), PassError> {
    let client = context.client.clone();
    if let Effect::HoldDeployment {
        namespace,
        name,
        original,
        holder,
        run,
    } = effect
    {
        deployment::hold(client, (namespace, name), *original, (holder, run)).await?;
    } else if let Effect::ReleaseDeployment {
        namespace,
        name,
        replicas,
    } = effect
    {
        deployment::release(client, (namespace, name), *replicas).await?;
    }
    Ok(())
}

async fn grant_slots(
    context: &Context,
    read: &Ledger,
    slots: &[(String, Slot)],
) -> Result<(), PassError> {
    let mut ledger = read.clone();
    ledger.slots.extend(slots.iter().cloned());
    context.ledger.write(&ledger).await?;
    context.vitals.saw_ledger(&ledger);
    Ok(())
}

/// Reads the ledger anew: between the decision and now others may have written, and a slot that is
/// gone or another task's needs no write.
async fn release_slot(context: &Context, node_uid: &str, task: &str) -> Result<(), PassError> {
    let mut ledger = context.ledger.read().await?;
    if ledger
        .slots
        .get(node_uid)
        .is_some_and(|slot| slot.task == task)
    {
        ledger.slots.remove(node_uid);
        context.ledger.write(&ledger).await?;
        context.vitals.saw_ledger(&ledger);
    }
    Ok(())
}

/// Creates the task, or finds that it is there already and the same run's.
async fn ensure_task(context: &Context, task: &NodePatchTask) -> Result<(), PassError> {
    let namespace = task.metadata.namespace.as_deref().unwrap_or_default();
    let name = task.metadata.name.as_deref().unwrap_or_default();
    let object = format!("NodePatchTask {namespace}/{name}");
    let api: Api<NodePatchTask> = Api::namespaced(context.client.clone(), namespace);
    let params = PostParams {
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let error = match api.create(&params, task).await {
        Ok(made) => {
            // Else a pass that comes before the watch would ask for it again.
            context.stores.tasks.learn(made);
            return Ok(());
        }
        Err(error) => Error::request("create", object.clone(), error),
    };
    if error.class() != ErrorClass::Conflict {
        return Err(error.into());
    }
    let existing = api
        .get(name)
        .await
        .map_err(|error| Error::request("get", object.clone(), error))?;
    if existing.spec.run_uid == task.spec.run_uid {
        return Ok(());
    }
    let why = format!("it belongs to another run, {}", existing.spec.run_uid);
    Err(Error::Disagrees { object, why }.into())
}

/// The task's next pass must not run on a copy without the object, else it would be made again.
async fn ensure_pending(context: &Context, wanted: &PendingNode) -> Result<(), PassError> {
    let written = context.pending.ensure(wanted).await?;
    let name = wanted.metadata.name.as_deref().unwrap_or_default();
    expect_pending(context, name, &written);
    Ok(())
}

fn expect_pending(context: &Context, name: &str, written: &Written) {
    if let Some(version) = written.version() {
        context.stores.pending.expect(&Key::cluster(name), version);
    }
}

async fn acquire_lock(context: &Context, request: &LockRequest) -> Result<(), PassError> {
    let claim = Claim {
        node: &request.node,
        node_uid: &request.node_uid,
        operation: &request.operation,
        holder: &request.holder,
    };
    context.locks.acquire(claim).await?;
    Ok(())
}

/// Of the version that was read live for the decision, and no other.
async fn cordon(context: &Context, target: &NodeTarget) -> Result<(), PassError> {
    let seen = Seen {
        name: &target.name,
        uid: &target.uid,
        resource_version: &target.resource_version,
    };
    match context.nodes.cordon(seen, &target.operation).await {
        Err(error) if error.class() == ErrorClass::Gone => Ok(()),
        closed => Ok(closed.map(|_| ())?),
    }
}

async fn uncordon(context: &Context, target: &NodeTarget) -> Result<(), PassError> {
    match context.nodes.live(&target.name, &target.uid).await? {
        Live::Here(node) => {
            context.nodes.uncordon(&node, &target.operation).await?;
        }
        Live::Gone | Live::Replaced { .. } => {}
    }
    Ok(())
}

/// A key that the live node has by now keeps its value, whatever the decision saw.
async fn write_labels(
    context: &Context,
    target: &NodeTarget,
    add: &BTreeMap<String, String>,
    remove: &[String],
) -> Result<(), PassError> {
    let Live::Here(node) = context.nodes.live(&target.name, &target.uid).await? else {
        return Ok(());
    };
    let mut wanted = node.as_ref().clone();
    let labels = wanted.metadata.labels.get_or_insert_default();
    for (key, value) in add {
        labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    labels.retain(|key, _| !remove.contains(key));
    context.nodes.write(&node, &wanted).await?;
    Ok(())
}

/// The marks name their run by UID, so that two runs do not take off each other's.
async fn mark(
    context: &Context,
    target: &NodeTarget,
    run: &str,
    marks: Marks,
) -> Result<(), PassError> {
    let key = Key::cluster(&target.name);
    let nodes = &context.stores.nodes;
    let written = match context.nodes.live(&target.name, &target.uid).await? {
        Live::Here(node) => {
            let wanted = with_marks(&node, &target.operation, run, marks);
            Some(context.nodes.write(&node, &wanted).await?)
        }
        Live::Gone | Live::Replaced { .. } => None,
    };
    // The next look asks the store for nodes to mark; it must neither miss the latest nor ask for the
    // same one again because the watch is late.
    match written.as_ref().and_then(Written::version) {
        Some(version) => {
            nodes.expect(&key, version);
            nodes.wait_for(&key).await?;
        }
        None => {
            nodes.refetch(&key).await?;
        }
    }
    Ok(())
}

async fn renew_mark(
    context: &Context,
    target: &NodeTarget,
    at: Timestamp,
) -> Result<(), PassError> {
    if let Live::Here(node) = context.nodes.live(&target.name, &target.uid).await? {
        let wanted = with_renewed_mark(&node, &target.operation, at);
        context.nodes.write(&node, &wanted).await?;
    }
    Ok(())
}

/// A machine on its way out needs neither protection nor tags.
fn gone_is_fine(result: Result<(), CloudError>) -> Result<(), PassError> {
    match result {
        Err(CloudError::NotFound { .. }) => Ok(()),
        other => Ok(other?),
    }
}

async fn set_finalizer(context: &Context, kept: &Kept, present: bool) -> Result<(), PassError> {
    let (client, name) = (context.client.clone(), &kept.name);
    match kept.kind {
        KeptKind::Run => {
            let api: Api<NodePatchRun> = Api::namespaced(client, &kept.namespace);
            finalizer::set(&api, name, &kept.uid, present).await?;
        }
        KeptKind::Task => {
            let api: Api<NodePatchTask> = Api::namespaced(client, &kept.namespace);
            finalizer::set(&api, name, &kept.uid, present).await?;
        }
    }
    Ok(())
}

/// A refusal is not an error: the budget's next change wakes the drain. What has changed since the
/// decision is looked at once more, so that two drains do not spend the same room.
async fn evict_pod(context: &Context, target: &PodTarget) -> Result<(), PassError> {
    let key = Key::new(&target.namespace, &target.name);
    let stored = context.stores.pods.get(&key);
    let Some(pod) = stored.filter(|pod| pod.uid == target.uid && !pod.terminating) else {
        return Ok(());
    };
    let (evictions, now) = (&context.evictions, context.clock.now());
    // What others have taken is counted by `take`, and must not be twice.
    let budgets = drain::budgets_as_stored(context, [pod.as_ref()]);
    // What is in the way is named by the next look.
    let Ok(payer) = payer(&pod, &budgets) else {
        return Ok(());
    };
    if evictions.take(target, payer, now) == Grant::NoRoom {
        return Ok(());
    }
    let pod = Target {
        namespace: &target.namespace,
        name: &target.name,
        uid: &target.uid,
    };
    let outcome = evict::evict(&context.client, pod, Mode::Real).await;
    tracing::debug!(pod = %key, ?outcome, "evict");
    context.vitals.saw_eviction(word_of(&outcome));
    match outcome {
        Ok(Eviction::Accepted) => {}
        Ok(Eviction::Gone | Eviction::NamespaceTerminating) => evictions.give_back(&target.uid),
        Ok(refused) => {
            if let Some(why) = refusing(refused) {
                evictions.refused(target, why, now);
            }
        }
        // One pod that cannot be evicted must not hold up the others.
        Err(error) if matches!(error.class(), ErrorClass::Denied | ErrorClass::Invalid) => {
            let refusal = Refusal {
                budgets: Vec::new(),
                message: in_full(&error),
            };
            evictions.refused(target, Refusing::Other(refusal), now);
        }
        // Nobody knows whether the server acted: what was taken stays taken for a while.
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// What came of an eviction, in one word.
fn word_of(outcome: &Result<Eviction, Error>) -> &'static str {
    match outcome {
        Ok(Eviction::Accepted) => "accepted",
        Ok(Eviction::Blocked { .. }) => "blocked",
        Ok(Eviction::Refused { .. }) => "refused",
        Ok(Eviction::Gone | Eviction::NamespaceTerminating) => "gone",
        Err(_) => "error",
    }
}

/// What a refusal says about the pod.
pub(crate) fn refusing(outcome: Eviction) -> Option<Refusing> {
    let (budgets, message) = match outcome {
        Eviction::Blocked { budgets, message } => (budgets, message),
        Eviction::Refused { message } => (Vec::new(), message),
        Eviction::Accepted | Eviction::Gone | Eviction::NamespaceTerminating => return None,
    };
    Some(Refusing::Budget(Refusal { budgets, message }))
}

//! The controllers that bring pods back: Deployment, ReplicaSet, StatefulSet, DaemonSet and Job.
//!
//! Owns what they have in common: which object to look at when a pod changes, and how pods are made
//! and removed. They model what clients of a cluster see, not every setting of the real ones.

pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod job;
pub(crate) mod replica_set;
pub(crate) mod stateful_set;

use std::fmt::Debug;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::objects::{controlled_by, controller_of, is_active, selects};
use super::queue::Queue;
use super::store::{Index, Key, Store};
use super::work::{is_conflict, send_patch, unless_overtaken};
use crate::seed::Seed;

/// How many names are drawn for one pod; API servers try as often.
const NAME_TRIES: u32 = 8;

/// Queues the controlling owner of every pod that changes, when it is of this kind.
pub(crate) fn listen_to_children<C, K>(children: &Store<C>, queue: &Queue<Key>)
where
    C: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K: Resource<DynamicType = ()>,
{
    let queue = queue.clone();
    children.on_change(move |before, after| {
        for child in [before, after].into_iter().flatten() {
            if let Some(owner) = controller_of(child).filter(|owner| owner.kind == K::kind(&())) {
                queue.add(Key::new(
                    &child.namespace().unwrap_or_default(),
                    &owner.name,
                ));
            }
        }
    });
}

/// Queues every object of the kind that changes.
pub(crate) fn listen_to<K>(store: &Store<K>, queue: &Queue<Key>)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let queue = queue.clone();
    store.on_change(move |_, after| {
        if let Some(object) = after {
            queue.add(Key::of(object));
        }
    });
}

/// The pods that `owner` controls, sorted by name.
pub(crate) fn pods_of(pods: &Store<Pod>, owner: &impl Resource) -> Vec<std::sync::Arc<Pod>> {
    let uid = owner.meta().uid.as_deref();
    uid.map_or_else(Vec::new, |uid| pods.under(Index::Owner, uid))
}

/// Takes over the pods that a new owner selects and that nobody controls, as the real controllers do.
pub(crate) async fn adopt(
    client: &Client,
    store: &Store<Pod>,
    owner: &impl Resource<DynamicType = ()>,
    selector: &LabelSelector,
) -> Result<(), kube::Error> {
    let namespace = owner.namespace().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    for pod in store.within(&namespace) {
        let is_free = controller_of(pod.as_ref()).is_none() && is_active(&pod);
        if is_free && selects(Some(selector), pod.labels()) {
            let owners = json!({ "metadata": { "ownerReferences": [controlled_by(owner)] } });
            let params = PatchParams::default();
            let adopted = pods
                .patch(&pod.name_any(), &params, &Patch::Merge(owners))
                .await;
            if let Some(adopted) = unless_overtaken(adopted)? {
                store.show(&adopted);
            }
        }
    }
    Ok(())
}

/// Creates a pod and shows it in the store at once. A pod of that name that exists already is left.
pub(crate) async fn create_pod(
    client: &Client,
    store: &Store<Pod>,
    pod: &Pod,
) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    match pods.create(&PostParams::default(), pod).await {
        Ok(created) => store.show(&created),
        Err(error) if is_conflict(&error) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Creates a pod under a name that is drawn after `prefix`. A name that is taken is drawn anew, as API
/// servers do for `generateName`: an owner that took it for its own pod would stay one short.
pub(crate) async fn create_drawn(
    client: &Client,
    store: &Store<Pod>,
    chance: &mut Seed,
    prefix: &str,
    mut pod: Pod,
) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let mut tries = NAME_TRIES;
    loop {
        tries -= 1;
        pod.metadata.name = Some(format!("{prefix}-{}", chance.suffix(5)));
        match pods.create(&PostParams::default(), &pod).await {
            Ok(created) => {
                store.show(&created);
                return Ok(());
            }
            Err(error) if is_conflict(&error) && tries > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

/// Asks for the end of exactly this pod, with its own grace.
pub(crate) async fn delete_pod(
    client: &Client,
    store: &Store<Pod>,
    pod: &Pod,
) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: pod.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let answer = unless_overtaken(pods.delete(&pod.name_any(), &params).await)?;
    if let Some(answer) = answer
        && let Some(ending) = answer.left()
    {
        store.show(&ending);
    }
    Ok(())
}

/// Writes a status when it differs from the one in the store.
pub(crate) async fn write_status<K, S>(
    client: &Client,
    object: &K,
    before: Option<&S>,
    after: &S,
) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
    S: PartialEq + serde::Serialize,
{
    if before == Some(after) {
        return Ok(());
    }
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let patch = Patch::Merge(json!({ "status": after }));
    unless_overtaken(send_patch(&api, &object.name_any(), Some("status"), &patch).await)?;
    Ok(())
}

/// A count as Kubernetes writes it.
pub(crate) fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

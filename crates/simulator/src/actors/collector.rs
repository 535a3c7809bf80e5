//! The garbage collector: objects follow their owners, and namespaces take their contents along.
//!
//! Owns background, foreground and orphan deletion, and the end of namespaces. Must not delete an
//! object on the word of its caches alone: an owner that is not in the graph is asked for live.
//! It watches the kinds of the control plane, a few more, and every custom kind.

mod graph;
mod namespaces;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, Preconditions,
    PropagationPolicy,
};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinSet;

use super::informers::Informers;
use super::queue::Queue;
use super::store::{Key, Store};
use super::work::{self, Actor, Outcome, is_not_found, unless_overtaken};
use graph::{Entry, Graph};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    Object(String),
    Namespace(String),
}

type Shared = Arc<Mutex<Graph>>;

pub(crate) struct Collector {
    client: Client,
    graph: Shared,
    namespaces: Store<k8s_openapi::api::core::v1::Namespace>,
    queue: Queue<Item>,
}

impl Collector {
    pub(crate) async fn run(client: Client, informers: Informers) {
        let queue = Queue::new();
        let graph: Shared = Arc::default();
        graph::listen_to_all(&informers, &graph, &queue);
        let mut tasks = JoinSet::new();
        let namespaces = namespaces::follow(&client, &queue, &mut tasks);
        for (group, version, kind) in [
            ("", "v1", "ConfigMap"),
            ("", "v1", "Secret"),
            ("", "v1", "Service"),
        ] {
            follow_kind(
                &client,
                &GroupVersionKind::gvk(group, version, kind),
                None,
                (&graph, &queue),
                &mut tasks,
            );
        }
        tasks.spawn(follow_custom_kinds(
            client.clone(),
            Arc::clone(&graph),
            queue.clone(),
        ));
        let actor = Self {
            client,
            graph,
            namespaces,
            queue: queue.clone(),
        };
        work::run(actor, queue).await;
    }

    fn with<R>(&self, read: impl FnOnce(&Graph) -> R) -> R {
        read(&self.graph.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn api(&self, entry: &Entry) -> Api<DynamicObject> {
        api(&self.client, &entry.resource, &entry.key.namespace)
    }

    async fn look_at_object(&mut self, uid: &str) -> Outcome {
        let Some(entry) = self.with(|graph| graph.get(uid)) else {
            return Ok(None);
        };
        if entry.ending && entry.finalizers.iter().any(|name| name == ORPHAN) {
            return self.orphan_children(uid, &entry).await;
        }
        if entry.ending && entry.finalizers.iter().any(|name| name == FOREGROUND) {
            return self.delete_children(uid, &entry).await;
        }
        if entry.ending || entry.owners.is_empty() {
            return Ok(None);
        }
        for owner in &entry.owners {
            if self.is_there(owner, &entry).await? {
                return Ok(None);
            }
        }
        self.delete(uid, &entry, PropagationPolicy::Background)
            .await?;
        Ok(None)
    }

    /// Whether an owner exists, by the graph or by asking.
    async fn is_there(&self, owner: &OwnerReference, child: &Entry) -> Result<bool, kube::Error> {
        if let Some(known) = self.with(|graph| graph.get(&owner.uid)) {
            let leaving = known.ending && known.finalizers.iter().any(|name| name == FOREGROUND);
            return Ok(!leaving);
        }
        let Ok(kind) = GroupVersionKind::try_from(kube::core::TypeMeta {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
        }) else {
            return Ok(true);
        };
        let known = self.with(|graph| graph.resource_of(&kind));
        let resource = known.unwrap_or_else(|| ApiResource::from_gvk(&kind));
        let cluster_scoped = self.with(|graph| graph.is_cluster_scoped(&kind));
        let namespace = if cluster_scoped {
            ""
        } else {
            child.key.namespace.as_str()
        };
        let found = api(&self.client, &resource, namespace)
            .get_opt(&owner.name)
            .await?;
        Ok(found.is_some_and(|found| found.uid().as_deref() == Some(owner.uid.as_str())))
    }

    async fn delete(
        &self,
        uid: &str,
        entry: &Entry,
        policy: PropagationPolicy,
    ) -> Result<(), kube::Error> {
        let params = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        unless_overtaken(self.api(entry).delete(&entry.key.name, &params).await)?;
        Ok(())
    }

    async fn delete_children(&mut self, uid: &str, entry: &Entry) -> Outcome {
        let children = self.with(|graph| graph.children(uid));
        for (child, found) in &children {
            if !found.ending {
                self.delete(child, found, PropagationPolicy::Foreground)
                    .await?;
            }
        }
        let blocks = |found: &Entry| {
            found
                .owners
                .iter()
                .any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
        };
        if !children.iter().any(|(_, found)| blocks(found)) {
            self.drop_finalizer(entry, FOREGROUND).await?;
        }
        Ok(None)
    }

    async fn orphan_children(&mut self, uid: &str, entry: &Entry) -> Outcome {
        for (child, found) in self.with(|graph| graph.children(uid)) {
            let left: Vec<_> = found
                .owners
                .iter()
                .filter(|owner| owner.uid != uid)
                .collect();
            let patch =
                Patch::Merge(json!({ "metadata": { "uid": child, "ownerReferences": left } }));
            unless_overtaken(
                self.api(&found)
                    .patch(&found.key.name, &PatchParams::default(), &patch)
                    .await,
            )?;
        }
        self.drop_finalizer(entry, ORPHAN).await?;
        Ok(None)
    }

    /// Removes one finalizer from the object as it is now.
    async fn drop_finalizer(&self, entry: &Entry, finalizer: &str) -> Result<(), kube::Error> {
        let api = self.api(entry);
        let Some(live) = api.get_opt(&entry.key.name).await? else {
            return Ok(());
        };
        let left: Vec<_> = live
            .finalizers()
            .iter()
            .filter(|name| *name != finalizer)
            .collect();
        let patch = Patch::Merge(json!({
            "metadata": { "finalizers": left, "resourceVersion": live.resource_version() },
        }));
        // A conflict is an error here: nothing else would make the collector look again.
        match api
            .patch(&entry.key.name, &PatchParams::default(), &patch)
            .await
        {
            Err(error) if !is_not_found(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

fn api(client: &Client, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
    if namespace.is_empty() {
        Api::all_with(client.clone(), resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, resource)
    }
}

/// Takes every object of a kind into the graph.
fn follow_kind(
    client: &Client,
    kind: &GroupVersionKind,
    plural: Option<&str>,
    (graph, queue): (&Shared, &Queue<Item>),
    tasks: &mut JoinSet<()>,
) {
    let resource = plural.map_or_else(
        || ApiResource::from_gvk(kind),
        |plural| ApiResource::from_gvk_with_plural(kind, plural),
    );
    let store: Store<DynamicObject> = Store::new();
    graph::listen_to(&store, &resource, graph, queue);
    tasks.spawn(store.follow(Api::all_with(client.clone(), &resource), None));
}

/// Takes every custom kind into the graph, as soon as its definition is there.
async fn follow_custom_kinds(client: Client, graph: Shared, queue: Queue<Item>) {
    let definitions: Store<CustomResourceDefinition> = Store::new();
    let found: Queue<Key> = Queue::new();
    let news = found.clone();
    definitions.on_change(move |before, after| {
        if let (None, Some(definition)) = (before, after) {
            news.add(Key::of(definition));
        }
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(definitions.clone().follow(Api::all(client.clone()), None));
    loop {
        let key = found.next().await;
        // A definition is served a moment after it exists.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let Some(definition) = definitions.get(&key) else {
            continue;
        };
        let spec = &definition.spec;
        if let Some(version) = spec.versions.iter().find(|version| version.served) {
            let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
            follow_kind(
                &client,
                &kind,
                Some(&spec.names.plural),
                (&graph, &queue),
                &mut tasks,
            );
        }
    }
}

#[async_trait]
impl Actor for Collector {
    type Item = Item;

    async fn look(&mut self, item: &Item) -> Outcome {
        match item {
            Item::Object(uid) => self.look_at_object(uid).await,
            Item::Namespace(name) => self.look_at_namespace(name).await,
        }
    }
}

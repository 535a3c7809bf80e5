//! Who owns whom, from the watches.
//!
//! Owns the graph and which objects to look at when it changes; must not call the API.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ApiResource, GroupVersionKind};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::{Item, Shared};
use crate::actors::informers::Informers;
use crate::actors::objects::is_ending;
use crate::actors::queue::Queue;
use crate::actors::store::{Key, Store};

/// What the collector knows of an object.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) resource: Arc<ApiResource>,
    pub(super) key: Key,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) finalizers: Vec<String>,
    pub(super) ending: bool,
}

/// All objects by UID, and the children of each.
#[derive(Default)]
pub(super) struct Graph {
    entries: BTreeMap<String, Entry>,
    children: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<Entry> {
        self.entries.get(uid).cloned()
    }

    pub(super) fn children(&self, uid: &str) -> Vec<(String, Entry)> {
        let children = self.children.get(uid).into_iter().flatten();
        children
            .filter_map(|child| Some((child.clone(), self.get(child)?)))
            .collect()
    }

    /// Objects of a namespace.
    pub(super) fn within(&self, namespace: &str) -> Vec<(String, Entry)> {
        let inside = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.key.namespace == namespace);
        inside
            .map(|(uid, entry)| (uid.clone(), entry.clone()))
            .collect()
    }

    /// The resource of a kind, when an object of it is known.
    pub(super) fn resource_of(&self, kind: &GroupVersionKind) -> Option<ApiResource> {
        let same =
            |entry: &&Entry| entry.resource.kind == kind.kind && entry.resource.group == kind.group;
        self.entries
            .values()
            .find(same)
            .map(|entry| entry.resource.as_ref().clone())
    }

    /// Whether objects of the kind live outside namespaces, as far as is known.
    pub(super) fn is_cluster_scoped(&self, kind: &GroupVersionKind) -> bool {
        let same =
            |entry: &&Entry| entry.resource.kind == kind.kind && entry.resource.group == kind.group;
        let known = self
            .entries
            .values()
            .find(same)
            .map(|entry| entry.key.namespace.is_empty());
        known.unwrap_or(
            kind.group.is_empty()
                && matches!(
                    kind.kind.as_str(),
                    "Node" | "Namespace" | "PersistentVolume"
                ),
        )
    }

    fn insert(&mut self, uid: &str, entry: Entry) {
        self.unlink(uid);
        for owner in &entry.owners {
            self.children
                .entry(owner.uid.clone())
                .or_default()
                .insert(uid.to_owned());
        }
        self.entries.insert(uid.to_owned(), entry);
    }

    fn unlink(&mut self, uid: &str) {
        let Some(known) = self.entries.remove(uid) else {
            return;
        };
        for owner in known.owners {
            if let Some(children) = self.children.get_mut(&owner.uid) {
                children.remove(uid);
                if children.is_empty() {
                    self.children.remove(&owner.uid);
                }
            }
        }
    }
}

/// Whether nothing changed that the graph holds: most changes are heartbeats.
fn is_same(before: &impl Resource, after: &impl Resource) -> bool {
    before.uid() == after.uid()
        && before.owner_references() == after.owner_references()
        && before.finalizers() == after.finalizers()
        && is_ending(before) == is_ending(after)
}

/// Keeps the graph equal to a store, and queues what a change may concern.
pub(super) fn listen_to<K>(
    store: &Store<K>,
    resource: &ApiResource,
    graph: &Shared,
    queue: &Queue<Item>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (graph, queue, resource) = (Arc::clone(graph), queue.clone(), Arc::new(resource.clone()));
    store.on_change(move |before, after| {
        let known = before.filter(|before| after.is_some_and(|after| is_same(*before, after)));
        if known.is_some() {
            return;
        }
        let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = after {
            let uid = object.uid().unwrap_or_default();
            let entry = Entry {
                resource: Arc::clone(&resource),
                key: Key::of(object),
                owners: object.owner_references().to_vec(),
                finalizers: object.finalizers().to_vec(),
                ending: is_ending(object),
            };
            let fresh =
                before.is_none_or(|before| before.owner_references() != object.owner_references());
            if entry.ending || (fresh && !entry.owners.is_empty()) {
                queue.add(Item::Object(uid.clone()));
            }
            graph.insert(&uid, entry);
        }
        let gone = before.filter(|before| after.is_none_or(|after| after.uid() != before.uid()));
        if let Some(object) = gone {
            let uid = object.uid().unwrap_or_default();
            graph.unlink(&uid);
            for (child, _) in graph.children(&uid) {
                queue.add(Item::Object(child));
            }
            for owner in object.owner_references() {
                queue.add(Item::Object(owner.uid.clone()));
            }
            if let Some(namespace) = object.namespace() {
                queue.add(Item::Namespace(namespace));
            }
        }
    });
}

/// Takes the kinds of the control plane into the graph.
pub(super) fn listen_to_all(informers: &Informers, graph: &Shared, queue: &Queue<Item>) {
    fn note<K>(store: &Store<K>, graph: &Shared, queue: &Queue<Item>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        listen_to(store, &ApiResource::erase::<K>(&()), graph, queue);
    }
    note(&informers.pods, graph, queue);
    note(&informers.nodes, graph, queue);
    note(&informers.leases, graph, queue);
    note(&informers.replica_sets, graph, queue);
    note(&informers.deployments, graph, queue);
    note(&informers.stateful_sets, graph, queue);
    note(&informers.daemon_sets, graph, queue);
    note(&informers.jobs, graph, queue);
    note(&informers.budgets, graph, queue);
    note(&informers.claims, graph, queue);
}

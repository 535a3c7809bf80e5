//! The end of namespaces: their contents first, then the namespace.
//!
//! Owns the `kubernetes` finalizer in a namespace's spec. Sees the kinds that the graph sees.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{PostParams, PropagationPolicy};
use kube::{Api, Client, ResourceExt as _};
use tokio::task::JoinSet;

use super::{Collector, Item};
use crate::actors::objects::is_ending;
use crate::actors::queue::Queue;
use crate::actors::store::{Key, Store};
use crate::actors::work::{Outcome, unless_overtaken};

/// Watches namespaces and queues those on their way out.
pub(super) fn follow(
    client: &Client,
    queue: &Queue<Item>,
    tasks: &mut JoinSet<()>,
) -> Store<Namespace> {
    let store: Store<Namespace> = Store::new();
    let queue = queue.clone();
    store.on_change(move |_, after| {
        if let Some(namespace) = after.filter(|namespace| is_ending(*namespace)) {
            queue.add(Item::Namespace(namespace.name_any()));
        }
    });
    tasks.spawn(store.clone().follow(Api::all(client.clone()), None));
    store
}

impl Collector {
    /// Empties a namespace that is to go, and lets it go once it is empty.
    pub(super) async fn look_at_namespace(&mut self, name: &str) -> Outcome {
        let Some(namespace) = self.namespaces.get(&Key::new("", name)) else {
            return Ok(None);
        };
        if !is_ending(namespace.as_ref()) {
            return Ok(None);
        }
        let contents = self.with(|graph| graph.within(name));
        for (uid, entry) in contents.iter().filter(|(_, entry)| !entry.ending) {
            self.delete(uid, entry, PropagationPolicy::Background)
                .await?;
        }
        if !contents.is_empty() {
            return Ok(None);
        }
        let mut last = namespace.as_ref().clone();
        last.spec.get_or_insert_default().finalizers = Some(Vec::new());
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let answer = namespaces
            .replace_subresource("finalize", name, &PostParams::default(), &last)
            .await;
        unless_overtaken::<Namespace>(answer)?;
        self.queue
            .add(Item::Object(namespace.uid().unwrap_or_default()));
        Ok(None)
    }
}

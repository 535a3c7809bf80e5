//! The sides of a store that talk to the server: following it, and reading one object live.
//!
//! Owns the wait for our own writes and its deadline. Must not hang: a watch that is late is made up
//! for by a live read.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use kube::Resource;
use kube::api::Api;
use serde::de::DeserializeOwned;

use super::follow::Follower;
use super::spare::Spare;
use super::{CaughtUp, Change, Expectation, Following, Kept, Key, Settings, Source, Store};
use crate::error::{Error, Result, call, status_of};

impl<K, V> Store<K, V>
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
    K::DynamicType: Default,
    V: Kept + Send + Sync + 'static,
{
    /// Begins to follow the server. `on_change` hears every difference, and only differences; it must
    /// not wait. The following ends when the returned value is dropped.
    pub fn start(
        &self,
        api: Api<K>,
        settings: Settings,
        on_change: impl Fn(Change<V>) + Send + Sync + 'static,
    ) -> Following {
        let source = Source {
            client: api.clone().into_client(),
            on_change: Arc::new(on_change),
        };
        {
            let mut state = self.state();
            state.catch_up_within = settings.catch_up_within;
            state.source = Some(source);
        }
        let follower = Follower {
            store: self.clone(),
            api,
            settings,
            kind: K::kind(&K::DynamicType::default()).into_owned(),
        };
        Following(tokio::spawn(follower.run()))
    }

    /// Waits until the copy holds all our writes to this key; past the deadline reads it live.
    pub async fn wait_for(&self, key: &Key) -> Result<CaughtUp> {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            match self.outstanding(key) {
                None => return Ok(CaughtUp::Seen),
                Some(Expectation { version: None, .. }) => break,
                Some(Expectation { until, .. }) => {
                    tokio::select! {
                        biased;
                        () = &mut changed => (),
                        () = tokio::time::sleep_until(until) => break,
                    }
                }
            }
        }
        self.refetch(key).await?;
        Ok(CaughtUp::Refetched)
    }

    /// Reads one object live and takes it into the copy. If it is gone, a late event may still bring it
    /// back for the moment until the event of its deletion follows.
    pub async fn refetch(&self, key: &Key) -> Result<Option<Arc<V>>> {
        let kind = K::DynamicType::default();
        let object = format!("{} {key}", K::kind(&kind));
        let Some(source) = self.state().source.clone() else {
            return Err(Error::Malformed {
                object,
                field: "store".into(),
                why: "not started".into(),
            });
        };
        let namespace = (!key.namespace.is_empty()).then_some(key.namespace.as_str());
        let path = format!("{}/{}", K::url_path(&kind, namespace), key.name);
        let request = async {
            let request = http::Request::get(path)
                .body(vec![])
                .map_err(kube::Error::HttpError)?;
            match source.client.request::<Spare<K, V>>(request).await {
                Ok(found) => Ok(Some(found.object)),
                Err(error) if status_of(&error).is_some_and(|s| s.reason == "NotFound") => Ok(None),
                Err(error) => Err(error),
            }
        };
        let found = call("get", object, request).await?;
        if let Some(found) = found {
            self.apply(self.entry(found));
        } else {
            let change = self.state().table.remove(key);
            self.tell(change);
        }
        self.state().expected.remove(key);
        Ok(self.get(key))
    }
}

//! Keeps a store equal to the server: lists once, then watches.
//!
//! Owns the list-and-watch loop. Must not drop a difference or invent one. Written here and not taken
//! from kube-runtime's `watcher`, for three reasons: a watch that the server refuses at its start with
//! 410 is asked again for ever there instead of listed anew; calls have no deadline of their own; and
//! its default backoff has jitter, which would make two runs of one seed differ. Lists are always
//! consistent reads: no `resourceVersion=0`.

use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::Resource;
use kube::api::{Api, ListParams, Request, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::spare::{Spare, page};
use super::{Kept, Settings, Step, Store};
use crate::backoff::Backoff;
use crate::error::{Error, Result, call, in_full};

/// What the client waits longer than the server's own limit before it calls a watch dead.
const MARGIN: Duration = Duration::from_secs(5);

/// A watch that ends sooner than this is not worth a new one at once.
const SHORT: Duration = Duration::from_secs(1);

/// How a watch ended.
enum End {
    /// As planned, or because the connection went silent.
    Closed,
    /// The server no longer knows the version we are at.
    Expired,
    /// Anything else.
    Failed(Error),
}

pub(super) struct Follower<K, V> {
    pub(super) store: Store<K, V>,
    pub(super) api: Api<K>,
    pub(super) settings: Settings,
    pub(super) kind: String,
}

impl<K, V> Follower<K, V>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    V: Kept + Send + Sync + 'static,
{
    /// Runs until dropped.
    pub(super) async fn run(self) {
        let mut backoff = Backoff::new(self.settings.first_retry, self.settings.last_retry);
        let mut at: Option<String> = None;
        loop {
            let mut from = match at.take() {
                Some(version) => version,
                None => match self.list().await {
                    Ok(version) => version,
                    Err(error) => {
                        tracing::warn!(kind = self.kind, error = in_full(&error), "list failed");
                        tokio::time::sleep(backoff.wait()).await;
                        continue;
                    }
                },
            };
            let started = Instant::now();
            let end = self.watch(&mut from, &mut backoff).await;
            match end {
                End::Expired => tracing::debug!(kind = self.kind, from, "history expired"),
                End::Closed => at = Some(from),
                End::Failed(error) => {
                    tracing::warn!(kind = self.kind, error = in_full(&error), "watch failed");
                    at = Some(from);
                    tokio::time::sleep(backoff.wait()).await;
                    continue;
                }
            }
            if started.elapsed() < SHORT {
                tokio::time::sleep(backoff.wait()).await;
            }
        }
    }

    /// Takes in the whole list and returns its version.
    async fn list(&self) -> Result<String> {
        let mut entries = Vec::new();
        let mut params = ListParams {
            label_selector: self.settings.labels.clone(),
            field_selector: self.settings.fields.clone(),
            limit: Some(self.settings.page_size),
            ..ListParams::default()
        };
        loop {
            let page = call("list", &self.kind, page::<K, V>(&self.api, &params)).await?;
            let items = page.items.into_iter();
            entries.extend(items.map(|item| self.store.entry(item.object)));
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page.metadata.resource_version.unwrap_or_default();
                if version.is_empty() {
                    return Err(self.malformed("list without resourceVersion"));
                }
                tracing::trace!(kind = self.kind, version, objects = entries.len(), "listed");
                self.store.replace(entries, &version);
                return Ok(version);
            }
        }
    }

    /// What happens from a version on. `Api::watch` is not used because it reads whole objects.
    async fn events(
        &self,
        params: &WatchParams,
        from: &str,
    ) -> kube::Result<impl Stream<Item = kube::Result<WatchEvent<Spare<K, V>>>> + use<K, V>> {
        let request = Request::new(self.api.resource_url()).watch(params, from);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let client = self.api.clone().into_client();
        client.request_events(request).await
    }

    /// Follows the history from a version on; `from` is moved along with it.
    async fn watch(&self, from: &mut String, backoff: &mut Backoff) -> End {
        let seconds = self.settings.watch_for.as_secs().clamp(1, 290);
        let params = WatchParams {
            label_selector: self.settings.labels.clone(),
            field_selector: self.settings.fields.clone(),
            timeout: u32::try_from(seconds).ok(),
            bookmarks: true,
            ..WatchParams::default()
        };
        let stream = match call("watch", &self.kind, self.events(&params, from)).await {
            Ok(stream) => stream,
            Err(error) if is_expired(error.status()) => return End::Expired,
            Err(error) => return End::Failed(error),
        };
        let mut stream = pin!(stream);
        let patience = Duration::from_secs(seconds) + MARGIN;
        loop {
            match tokio::time::timeout(patience, stream.next()).await {
                Err(_) | Ok(None) => return End::Closed,
                Ok(Some(Err(source))) => {
                    let error = Error::request("watch", &self.kind, source);
                    return if is_expired(error.status()) {
                        End::Expired
                    } else {
                        End::Failed(error)
                    };
                }
                Ok(Some(Ok(event))) => {
                    if let Some(end) = self.take(event, from) {
                        return end;
                    }
                    backoff.reset();
                }
            }
        }
    }

    /// Takes in one event; tells if the watch is over by it.
    fn take(&self, event: WatchEvent<Spare<K, V>>, from: &mut String) -> Option<End> {
        let (version, change) = match event {
            WatchEvent::Added(item) | WatchEvent::Modified(item) => {
                let entry = self.store.entry(item.object);
                (entry.version().to_owned(), Step::Apply(entry))
            }
            WatchEvent::Deleted(item) => {
                let entry = self.store.entry(item.object);
                (entry.version().to_owned(), Step::Delete(entry))
            }
            WatchEvent::Bookmark(mark) => (mark.metadata.resource_version, Step::Mark),
            WatchEvent::Error(status) if is_expired(Some(&status)) => return Some(End::Expired),
            WatchEvent::Error(status) => {
                let error = Error::request("watch", &self.kind, kube::Error::Api(status));
                return Some(End::Failed(error));
            }
        };
        if version.is_empty() {
            return Some(End::Failed(self.malformed("event without resourceVersion")));
        }
        tracing::trace!(kind = self.kind, version, step = change.name(), "watched");
        self.store.step(change, &version);
        *from = version;
        None
    }

    fn malformed(&self, why: &str) -> Error {
        Error::Malformed {
            object: self.kind.clone(),
            field: "metadata.resourceVersion".into(),
            why: why.into(),
        }
    }
}

fn is_expired(status: Option<&kube::core::Status>) -> bool {
    status.is_some_and(|status| status.code == 410)
}

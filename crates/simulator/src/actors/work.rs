//! The loop that every actor runs: take an item, look at it, look again later if asked.
//!
//! Owns retries. Must not know what an item means.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use kube::{Api, Error, Resource};
use serde::Serialize;
use serde::de::IgnoredAny;

use super::queue::Queue;

/// When to look again, or what went wrong. Errors are looked at again after `RETRY`.
pub(crate) type Outcome = Result<Option<Duration>, Error>;

/// Pause before an item that failed is looked at again.
const RETRY: Duration = Duration::from_secs(1);

/// Something that looks at items.
#[async_trait]
pub(crate) trait Actor: Send {
    /// What it looks at.
    type Item: Ord + Clone + Debug + Send + Sync;

    /// Looks at one item and does what is needed; must be safe to repeat.
    async fn look(&mut self, item: &Self::Item) -> Outcome;
}

/// Feeds an actor from its queue, for ever.
pub(crate) async fn run<A: Actor>(mut actor: A, queue: Queue<A::Item>) {
    loop {
        let item = queue.next().await;
        match actor.look(&item).await {
            Ok(None) => {}
            Ok(Some(delay)) => queue.add_after(item, delay),
            Err(error) => {
                tracing::debug!(?item, %error, "looking again later");
                queue.add_after(item, RETRY);
            }
        }
    }
}

/// Patches an object, or a subresource of it, without reading the answer: the watch tells the same.
pub(crate) async fn send_patch<K: Resource + Clone>(
    api: &Api<K>,
    name: &str,
    subresource: Option<&str>,
    patch: &Patch<impl Serialize + Debug>,
) -> Result<(), Error> {
    let requests = Request::new(api.resource_url());
    let params = PatchParams::default();
    let request = match subresource {
        Some(subresource) => requests.patch_subresource(subresource, name, &params, patch),
        None => requests.patch(name, &params, patch),
    };
    let client = api.clone().into_client();
    let sent = request.map_err(Error::BuildRequest)?;
    client.request::<IgnoredAny>(sent).await.map(drop)
}

/// Whether the server said that there is no such object.
pub(crate) fn is_not_found(error: &Error) -> bool {
    has_code(error, 404)
}

/// Whether the server refused because the object is not as expected, or exists already.
pub(crate) fn is_conflict(error: &Error) -> bool {
    has_code(error, 409)
}

fn has_code(error: &Error, code: u16) -> bool {
    matches!(error, Error::Api(status) if status.code == code)
}

/// Takes "it is gone" and "it has changed" for an answer: the watch will tell the rest.
pub(crate) fn unless_overtaken<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

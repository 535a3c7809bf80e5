//! Many callers ask for one thing each, within a few milliseconds; the cloud is asked once for all.
//!
//! Owns the collecting and the handing out. Must not keep answers: a caller gets what was read after
//! it asked, never something older.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::failure::Failure;

/// Reads what stands behind some keys; a key without an answer is not in the map.
type Fetch<V> =
    dyn Fn(Vec<String>) -> BoxFuture<'static, Result<BTreeMap<String, V>, Failure>> + Send + Sync;
type Answer<V> = oneshot::Sender<Result<Option<V>, Failure>>;

/// Collects reads.
pub(crate) struct Batch<V> {
    shared: Arc<Shared<V>>,
}

struct Shared<V> {
    waiting: Mutex<BTreeMap<String, Vec<Answer<V>>>>,
    fetch: Box<Fetch<V>>,
    window: Duration,
    most: usize,
}

impl<V: Clone + Send + 'static> Batch<V> {
    /// Waits `window` for others before it reads at most `most` keys with one `fetch`.
    pub(crate) fn new(
        window: Duration,
        most: usize,
        fetch: impl Fn(Vec<String>) -> BoxFuture<'static, Result<BTreeMap<String, V>, Failure>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                waiting: Mutex::new(BTreeMap::new()),
                fetch: Box::new(fetch),
                window,
                most: most.max(1),
            }),
        }
    }

    /// What stands behind `key` now; `None` when the cloud does not list it.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<V>, Failure> {
        let (sender, receiver) = oneshot::channel();
        if self.shared.join(key, sender) {
            let shared = Arc::clone(&self.shared);
            // A task of its own: the first caller may go away while others wait for the answer.
            tokio::spawn(async move {
                tokio::time::sleep(shared.window).await;
                shared.read().await;
            });
        }
        receiver
            .await
            .unwrap_or_else(|_| Err(Failure::lost("the read was given up")))
    }
}

impl<V: Clone> Shared<V> {
    /// Adds a caller; true for the first one of a new batch.
    fn join(&self, key: &str, sender: Answer<V>) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = waiting.is_empty();
        waiting.entry(key.to_owned()).or_default().push(sender);
        is_first
    }

    async fn read(&self) {
        let all = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let mut all = all.into_iter();
        loop {
            let chunk: Vec<(String, Vec<Answer<V>>)> = all.by_ref().take(self.most).collect();
            if chunk.is_empty() {
                return;
            }
            let keys = chunk.iter().map(|(key, _)| key.clone()).collect();
            let found = (self.fetch)(keys).await;
            for (key, callers) in chunk {
                let answer = found.as_ref().map(|found| found.get(&key).cloned());
                for caller in callers {
                    // A caller that has gone away needs no answer.
                    drop(caller.send(answer.clone().map_err(Clone::clone)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::join_all;

    use super::*;

    fn batch(most: usize) -> (Batch<usize>, Arc<Mutex<Vec<usize>>>) {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&sizes);
        let batch = Batch::new(Duration::from_millis(5), most, move |keys: Vec<String>| {
            log.lock().unwrap().push(keys.len());
            let known = keys.into_iter().filter(|key| key != "unknown");
            let found = known.map(|key| (key.clone(), key.len())).collect();
            async move { Ok(found) }.boxed()
        });
        (batch, sizes)
    }

    #[tokio::test(start_paused = true)]
    async fn reads_of_the_same_moment_are_one_call() {
        let (batch, sizes) = batch(200);
        let keys: Vec<String> = (0..150).map(|number| format!("i-{number}")).collect();
        let found = join_all(keys.iter().map(|key| batch.get(key))).await;
        assert!(found.iter().all(|found| matches!(found, Ok(Some(_)))));
        assert_eq!(batch.get("unknown").await.unwrap(), None);
        assert_eq!(*sizes.lock().unwrap(), [150, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_fits_is_read_in_parts() {
        let (batch, sizes) = batch(4);
        let keys: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        join_all(keys.iter().map(|key| batch.get(key))).await;
        assert_eq!(*sizes.lock().unwrap(), [4, 4, 2]);
    }
}

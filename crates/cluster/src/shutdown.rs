//! The wish to stop, told once to many.
//!
//! Owns the flag and its waiters. Must not stop anything itself: whoever holds a clone finishes what
//! it has in hand and leaves. Used by the queue, the leader election and the binary.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A handle on the wish; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    raised: AtomicBool,
    waiters: Notify,
}

impl Shutdown {
    /// Nobody wishes to stop yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everybody to stop.
    pub fn begin(&self) {
        self.0.raised.store(true, Ordering::SeqCst);
        self.0.waiters.notify_waiters();
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }

    /// Waits until it begins.
    pub async fn begun(&self) {
        loop {
            let mut waiter = std::pin::pin!(self.0.waiters.notified());
            waiter.as_mut().enable();
            if self.has_begun() {
                return;
            }
            waiter.await;
        }
    }
}

//! Settings that may change while the operator runs.
//!
//! Owns the hand-over from whoever reads them to the operator. A change ends what is going on as a shutdown
//! would, pass by pass, and begins anew with what the cluster knows: so no pass ever sees two settings, and
//! nothing has to be told apart that a restart would not tell apart. Leadership is kept meanwhile.

use std::sync::Arc;

use shipshape_cluster::Shutdown;
use shipshape_engine::settings::Settings;
use shipshape_engine::verify::settings::GateSettings;
use tokio::sync::watch;

/// What decisions go by.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Deadlines and other constants of decisions.
    pub settings: Arc<Settings>,
    /// Settings of the gate that new nodes must pass; `None` where there is none.
    pub gate: Option<Arc<GateSettings>>,
}

/// The tuning as it is now, and the news of another.
#[derive(Clone, Debug)]
pub struct LiveTuning(watch::Receiver<Tuning>);

/// Where another tuning is handed in.
#[derive(Debug)]
pub struct Retune(watch::Sender<Tuning>);

impl LiveTuning {
    /// One that never changes.
    pub fn fixed(tuning: Tuning) -> Self {
        Self::live(tuning).1
    }

    /// One that whoever holds the other half can change.
    pub fn live(tuning: Tuning) -> (Retune, Self) {
        let (sender, receiver) = watch::channel(tuning);
        (Retune(sender), Self(receiver))
    }

    /// Works with the tuning as it is, and anew with each other one, until shutdown begins. The work is
    /// told to end by a wish of its own.
    pub(crate) async fn follow<W>(
        &self,
        shutdown: &Shutdown,
        mut work: impl FnMut(Tuning, Shutdown) -> W,
    ) where
        W: Future<Output = ()>,
    {
        let mut news = self.0.clone();
        while !shutdown.has_begun() {
            let tuning = news.borrow_and_update().clone();
            let end = Shutdown::new();
            let told = async {
                tokio::select! {
                    biased;
                    () = shutdown.begun() => {}
                    () = changed(&mut news) => {}
                }
                end.begin();
            };
            futures::join!(work(tuning, end.clone()), told);
        }
    }
}

impl Retune {
    /// Hands in another tuning.
    pub fn set(&self, tuning: Tuning) {
        self.0.send_replace(tuning);
    }
}

/// Waits for another tuning; for ever when nobody can hand one in.
async fn changed(news: &mut watch::Receiver<Tuning>) {
    if news.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn tuning(retries: Option<i32>) -> Tuning {
        Tuning {
            settings: Arc::new(Settings::default()),
            gate: retries.map(|retries| {
                let mut gate = GateSettings::default();
                gate.reconciliation.max_retries = retries;
                Arc::new(gate)
            }),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn another_tuning_ends_the_work_and_begins_it_anew_until_shutdown() {
        let (retune, live) = LiveTuning::live(tuning(None));
        let shutdown = Shutdown::new();
        let seen = Mutex::new(Vec::new());
        let work = |tuning: Tuning, end: Shutdown| {
            let seen = &seen;
            async move {
                let gate = tuning.gate.map(|gate| gate.reconciliation.max_retries);
                seen.lock().unwrap().push(gate);
                end.begun().await;
            }
        };
        let change = async {
            tokio::task::yield_now().await;
            retune.set(tuning(Some(3)));
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            retune.set(tuning(Some(4)));
            retune.set(tuning(Some(5)));
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            shutdown.begin();
        };
        futures::join!(live.follow(&shutdown, work), change);
        assert_eq!(*seen.lock().unwrap(), [None, Some(3), Some(5)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fixed_tuning_is_worked_with_once() {
        let shutdown = Shutdown::new();
        let count = Mutex::new(0);
        let work = |_: Tuning, end: Shutdown| {
            *count.lock().unwrap() += 1;
            async move { end.begun().await }
        };
        let end = async {
            tokio::time::sleep(std::time::Duration::from_mins(1)).await;
            shutdown.begin();
        };
        let fixed = LiveTuning::fixed(tuning(None));
        futures::join!(fixed.follow(&shutdown, work), end);
        assert_eq!(*count.lock().unwrap(), 1);
    }
}

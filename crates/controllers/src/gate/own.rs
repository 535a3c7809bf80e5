//! The same checks from where the controller stands, for clusters without a node in service.
//!
//! Owns the latest runs and that there is one at a time. A restart forgets them: the next comparison makes
//! another. Must not know how checks are run; the binary brings that along.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use shipshape_cluster::Clock;
use shipshape_engine::verify::outcome::{WorkerState, WorkerView, read};
use tokio::task::JoinHandle;

/// Runs that are remembered: what failed while another was under way may be compared with either.
const REMEMBERED: usize = 4;

/// Runs the checks of a worker in the network of this process.
#[async_trait]
pub trait OwnChecks: Send + Sync {
    /// Exit code and report, as a worker pod would leave them. The variables are those of a worker.
    async fn run(&self, variables: &[(String, String)]) -> (i32, String);
}

/// The controller's own runs.
#[derive(Clone, Default)]
pub(crate) struct OwnRuns {
    checks: Option<Arc<dyn OwnChecks>>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    runs: VecDeque<WorkerView>,
    under_way: Option<UnderWay>,
    /// Wakes those who wait for a comparison.
    wake: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// Ends the run when dropped.
struct UnderWay(JoinHandle<()>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl OwnRuns {
    pub(crate) fn new(checks: Option<Arc<dyn OwnChecks>>) -> Self {
        Self {
            checks,
            state: Arc::default(),
        }
    }

    /// Whether this process can run the checks at all.
    pub(crate) fn can_run(&self) -> bool {
        self.checks.is_some()
    }

    /// The latest runs, the one under way among them.
    pub(crate) fn runs(&self) -> Vec<WorkerView> {
        self.state().runs.iter().cloned().collect()
    }

    /// Names what wakes those who wait for the end of a run.
    pub(crate) fn wake_through(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.state().wake = Some(Arc::new(wake));
    }

    /// Begins a run, unless one is under way. It ends after `within` at the latest.
    pub(crate) fn begin(&self, variables: &[(String, String)], within: Duration, clock: Clock) {
        let Some(checks) = self.checks.clone() else {
            return;
        };
        let mut state = self.state();
        let last = state.runs.back();
        if last.is_some_and(|run| run.state == WorkerState::Running) {
            return;
        }
        state.runs.push_back(began(clock.now()));
        if state.runs.len() > REMEMBERED {
            state.runs.pop_front();
        }
        let variables = variables.to_vec();
        let weak = Arc::downgrade(&self.state);
        let run = async move {
            let ran = tokio::time::timeout(within, checks.run(&variables)).await;
            let late = |_| (1, format!("no end within {} s", within.as_secs()));
            let (code, report) = ran.unwrap_or_else(late);
            if let Some(state) = weak.upgrade() {
                end(&state, code, &report, clock.now());
            }
        };
        state.under_way = Some(UnderWay(tokio::spawn(run)));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Notes the end of the run under way and wakes whoever waits for it.
fn end(state: &Mutex<State>, code: i32, report: &str, now: Timestamp) {
    let ending = read(code, report, "the controller", now);
    tracing::info!(passed = ending.passed, "checked the network from here");
    let wake = {
        let mut state = lock(state);
        if let Some(run) = state.runs.back_mut() {
            run.state = WorkerState::Ended(Box::new(ending));
        }
        state.wake.clone()
    };
    if let Some(wake) = wake {
        wake();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run that has just begun. It has no pod, and its node is empty: that tells it from others.
fn began(now: Timestamp) -> WorkerView {
    WorkerView {
        namespace: String::new(),
        name: String::new(),
        uid: String::new(),
        owner_uid: None,
        node: String::new(),
        is_control: true,
        pulls: false,
        created: now,
        may_run: None,
        terminating: false,
        state: WorkerState::Running,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Checks that take three seconds, or for ever.
    struct Slow {
        began: AtomicU32,
        ends: bool,
    }

    #[async_trait]
    impl OwnChecks for Slow {
        async fn run(&self, _: &[(String, String)]) -> (i32, String) {
            self.began.fetch_add(1, Ordering::Relaxed);
            let wait = if self.ends { 3 } else { 3_000 };
            tokio::time::sleep(Duration::from_secs(wait)).await;
            (
                0,
                r#"{"verdict":"Passed","findings":[{"check":"network","target":"t","ok":true}]}"#
                    .to_owned(),
            )
        }
    }

    async fn ran(ends: bool) -> (u32, u32, Vec<WorkerView>) {
        let checks = Arc::new(Slow {
            began: AtomicU32::new(0),
            ends,
        });
        let woken = Arc::new(AtomicU32::new(0));
        let own = OwnRuns::new(Some(checks.clone()));
        own.wake_through({
            let woken = Arc::clone(&woken);
            move || {
                woken.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..3 {
            own.begin(&[], Duration::from_secs(10), Clock::System);
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
        let count = |number: &AtomicU32| number.load(Ordering::Relaxed);
        (count(&checks.began), count(&woken), own.runs())
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_who_ask_at_once_one_begins_a_run_and_its_end_wakes() {
        let (began, woken, runs) = ran(true).await;
        assert_eq!((began, woken, runs.len()), (1, 1, 1));
        let WorkerState::Ended(ending) = &runs.first().unwrap().state else {
            panic!("{runs:?}");
        };
        assert!(ending.passed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_does_not_end_is_over_by_its_deadline() {
        let (began, woken, runs) = ran(false).await;
        assert_eq!((began, woken), (1, 1));
        let WorkerState::Ended(ending) = &runs.first().unwrap().state else {
            panic!("{runs:?}");
        };
        let said = &ending.failures().next().unwrap().message;
        assert!(said.contains("no end within 10 s"), "{said}");
    }

    #[tokio::test]
    async fn a_process_without_checks_begins_none() {
        let own = OwnRuns::default();
        own.begin(&[], Duration::from_secs(10), Clock::System);
        assert!(!own.can_run() && own.runs().is_empty());
    }
}

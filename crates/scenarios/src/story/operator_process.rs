//! The operator as a story has it: a process that is started, dies, is started again and stops.
//!
//! Owns how it is wired to a stage and its troubles. Must not look into it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shipshape_api::names;
use shipshape_cluster::{Clock, Shutdown, leader};
use shipshape_controllers::{EtcdAccess, LiveTuning, Operator, Places, Providers, Tuning, Vitals};
use shipshape_engine::settings::Settings;
use shipshape_engine::verify::settings::GateSettings;
use shipshape_simulator::faults::{FaultyCloud, FaultyEtcd};
use tokio::task::{JoinHandle, JoinSet};

use super::own_checks::OperatorNetwork;
use super::{StoryError, Troubles};
use crate::stage::{OPERATOR, Stage};

/// The operator's process, as often as it is started.
pub struct OperatorProcess {
    making: Making,
    pub(super) running: Option<(JoinHandle<()>, Shutdown)>,
}

/// What each process is made from; clones count starts together.
#[derive(Clone)]
struct Making {
    stage: Stage,
    settings: Arc<Settings>,
    gate: Option<Arc<GateSettings>>,
    troubles: Troubles,
    always_leads: bool,
    starts: Arc<AtomicUsize>,
}

impl OperatorProcess {
    /// None runs yet.
    pub fn new(stage: &Stage, settings: &Settings) -> Self {
        Self::troubled(stage, settings, &Troubles::none())
    }

    /// None runs yet; each that does will meet these troubles.
    pub fn troubled(stage: &Stage, settings: &Settings, troubles: &Troubles) -> Self {
        let making = Making {
            stage: stage.clone(),
            settings: Arc::new(settings.clone()),
            gate: None,
            troubles: troubles.clone(),
            always_leads: false,
            starts: Arc::new(AtomicUsize::new(0)),
        };
        Self {
            making,
            running: None,
        }
    }

    /// The same, with a gate that new nodes must pass.
    pub(super) fn with_gate(mut self, gate: Option<&GateSettings>) -> Self {
        self.making.gate = gate.cloned().map(Arc::new);
        self
    }

    /// The same, but it works without asking who leads.
    pub(super) fn that_always_leads(mut self) -> Self {
        self.making.always_leads = true;
        self
    }

    /// Starts a process; it campaigns, and works once it leads. One that a fault kills is followed by
    /// the next.
    pub fn start(&mut self) {
        let shutdown = Shutdown::new();
        let handle = tokio::spawn(keep_running(self.making.clone(), shutdown.clone()));
        self.running = Some((handle, shutdown));
    }

    /// Ends the process where it stands.
    pub fn crash(&mut self) {
        if let Some((handle, _)) = self.running.take() {
            handle.abort();
        }
    }

    /// Asks the process to end and waits for it.
    pub async fn stop(&mut self) -> Result<(), StoryError> {
        if let Some((handle, shutdown)) = self.running.take() {
            shutdown.begin();
            handle.await.map_err(StoryError::Operator)?;
        }
        Ok(())
    }
}

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        self.crash();
    }
}

/// Runs one process after the other, until one ends by itself.
async fn keep_running(making: Making, shutdown: Shutdown) {
    let faults = making.troubles.faults.clone();
    let mut crashes = faults.crashes();
    loop {
        faults.revive();
        let operator = making.operator();
        let told = shutdown.clone();
        // Dropped with this task, so that a process never outlives it.
        let mut process = JoinSet::new();
        process.spawn(async move { operator.run(&told).await });
        tokio::select! {
            biased;
            _ = crashes.recv() => {}
            ended = process.join_next() => {
                if let Some(Err(error)) = ended
                    && let Ok(panic) = error.try_into_panic()
                {
                    std::panic::resume_unwind(panic);
                }
                return;
            }
        }
        drop(process);
        tokio::time::sleep(making.troubles.down).await;
    }
}

impl Making {
    fn operator(&self) -> Operator {
        let start = self.starts.fetch_add(1, Ordering::Relaxed);
        let faults = &self.troubles.faults;
        let cloud = FaultyCloud::new(Arc::new(self.stage.cloud.handle(OPERATOR)), faults);
        let mut providers = Providers::new();
        providers.insert("embedded".to_owned(), Arc::new(cloud));
        let word = if self.always_leads {
            "rival"
        } else {
            "operator"
        };
        let identity = format!("{word}-{}", start + 1);
        Operator {
            client: faults.client(self.stage.client(OPERATOR)),
            clock: self.clock(start),
            providers,
            etcd: self.etcd(),
            own_checks: Some(Arc::new(OperatorNetwork(self.stage.cloud.clone()))),
            tuning: LiveTuning::fixed(Tuning {
                settings: Arc::clone(&self.settings),
                gate: self.gate.clone(),
            }),
            election: (!self.always_leads).then(|| self.election(&identity)),
            places: Places::new(identity),
            vitals: Vitals::default(),
        }
    }

    /// Members are found by their pods, as in a cluster of kubeadm.
    fn etcd(&self) -> Option<EtcdAccess> {
        let model = self.stage.etcd.as_ref()?;
        let handle = Arc::new(model.handle(OPERATOR));
        Some(EtcdAccess {
            client: Arc::new(FaultyEtcd::new(handle, &self.troubles.faults)),
            endpoints: Vec::new(),
        })
    }

    /// The clock of the process with this number; the first one's is right.
    fn clock(&self, start: usize) -> Clock {
        let clocks = &self.troubles.clocks;
        let turn = start
            .checked_sub(1)
            .and_then(|turn| turn.checked_rem(clocks.len()));
        match (self.stage.clock, turn.and_then(|turn| clocks.get(turn))) {
            (Clock::Virtual { start, origin }, Some(off)) => Clock::Virtual {
                start: start.checked_add(*off).unwrap_or(start),
                origin,
            },
            (clock, _) => clock,
        }
    }

    /// The usual proportions: 15 s, 10 s, 2 s.
    fn election(&self, identity: &str) -> leader::Settings {
        let lease = self.stage.lease;
        leader::Settings {
            lease_duration: lease,
            renew_deadline: lease * 2 / 3,
            retry_period: lease * 2 / 15,
            ..leader::Settings::new(names::DEFAULT_NAMESPACE, identity)
        }
    }
}

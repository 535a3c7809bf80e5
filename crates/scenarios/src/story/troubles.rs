//! What an operator has to go through while a story plays.
//!
//! Owns the kinds of trouble and how they are brought about: faults between it and the API or its
//! cloud, a second leader, a clock that steps, an end of all that. Must not touch the world: what
//! happens there is told by the events of a scenario.

use std::time::Duration;

use jiff::SignedDuration;
use shipshape_simulator::faults::{Faults, Plan};
use shipshape_simulator::seed::Seed;
use tokio::task::JoinSet;

use super::OperatorProcess;
use crate::scenario::Scenario;
use crate::stage::Stage;

/// The troubles of one play. One value serves one play: faults keep count.
#[derive(Clone)]
pub struct Troubles {
    /// What befalls requests and cloud calls of the operator.
    pub faults: Faults,
    /// What befalls those of a second operator that thinks it leads, if there is one.
    pub rival: Option<Faults>,
    /// How long none runs after a crash that a fault brought about.
    pub down: Duration,
    /// How far off the clock of each further process is, in turn; empty means that all are right.
    pub clocks: Vec<SignedDuration>,
    /// After what time all faults cease.
    pub until: Option<Duration>,
    /// How long after the end the operator may still be busy with what it hears late.
    pub settle: Duration,
}

impl Troubles {
    /// None at all.
    pub fn none() -> Self {
        Self::of(Plan::default())
    }

    /// Only these faults.
    pub fn of(plan: Plan) -> Self {
        Self {
            faults: Faults::new(plan, &Seed::new(0)),
            rival: None,
            down: Duration::from_secs(1),
            clocks: Vec::new(),
            until: None,
            settle: Duration::ZERO,
        }
    }

    /// What the operators hear through.
    pub(super) fn ears(&self) -> Vec<Faults> {
        let rival = self.rival.clone();
        [self.faults.clone()].into_iter().chain(rival).collect()
    }

    /// How many faults took place.
    pub fn strikes(&self) -> usize {
        let rival = self.rival.as_ref();
        self.faults.strikes().len() + rival.map_or(0, |faults| faults.strikes().len())
    }

    /// No request meets a fault from now on.
    fn cease(&self) {
        self.faults.cease();
        if let Some(rival) = &self.rival {
            rival.cease();
        }
    }

    /// Ends all faults, and waits until nobody speaks of the past any more.
    pub(super) async fn end(&self) {
        self.cease();
        tokio::time::sleep(self.settle).await;
    }

    /// Starts the second leader; it ends when the returned value is dropped.
    pub(super) fn start_rival(
        &self,
        stage: &Stage,
        scenario: &Scenario,
    ) -> Option<OperatorProcess> {
        let faults = self.rival.clone()?;
        let alone = Self {
            faults,
            rival: None,
            ..self.clone()
        };
        let mut rival = OperatorProcess::troubled(stage, &scenario.settings, &alone)
            .with_gate(scenario.gate.as_ref())
            .that_always_leads();
        rival.start();
        Some(rival)
    }

    /// Ends all faults when their time has come, unless the returned value is dropped before.
    pub(super) fn end_later(&self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        if let Some(until) = self.until {
            let all = self.clone();
            tasks.spawn(async move {
                tokio::time::sleep(until).await;
                all.cease();
            });
        }
        tasks
    }
}

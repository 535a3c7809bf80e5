//! The operator as a story has it: a process that is started, dies, is started again and stops.
//!
//! Owns how it is wired to a stage. Must not look into it.

use std::sync::Arc;

use shipshape_api::names;
use shipshape_cluster::{Shutdown, leader};
use shipshape_controllers::{Operator, Places, Providers, Vitals};
use shipshape_engine::settings::Settings;
use tokio::task::JoinHandle;

use super::StoryError;
use crate::stage::{OPERATOR, Stage};

/// The operator's process, as often as it is started.
pub struct OperatorProcess {
    stage: Stage,
    settings: Arc<Settings>,
    starts: usize,
    pub(super) running: Option<(JoinHandle<()>, Shutdown)>,
}

impl OperatorProcess {
    /// None runs yet.
    pub fn new(stage: &Stage, settings: &Settings) -> Self {
        let settings = Arc::new(settings.clone());
        Self {
            stage: stage.clone(),
            settings,
            starts: 0,
            running: None,
        }
    }

    /// Starts a process; it campaigns, and works once it leads.
    pub fn start(&mut self) {
        self.starts += 1;
        let mut providers = Providers::new();
        let cloud = Arc::new(self.stage.cloud.handle(OPERATOR));
        providers.insert("embedded".to_owned(), cloud);
        let identity = format!("operator-{}", self.starts);
        let operator = Operator {
            client: self.stage.client(OPERATOR),
            clock: self.stage.clock,
            settings: Arc::clone(&self.settings),
            providers,
            election: Some(self.election(&identity)),
            places: Places::new(identity),
            vitals: Vitals::default(),
        };
        let shutdown = Shutdown::new();
        let told = shutdown.clone();
        let handle = tokio::spawn(async move { operator.run(&told).await });
        self.running = Some((handle, shutdown));
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

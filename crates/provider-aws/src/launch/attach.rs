//! Taking a machine that was made outside of its group into it.
//!
//! Owns the wait until it runs and the joining. Must not make a machine.

use shipshape_api::names::TAG_REQUEST;
use shipshape_engine::machine::{Machine, MachineState};
use shipshape_provider::{Error, Result};
use tokio::time::{Instant, sleep};

use super::Wanted;
use crate::Aws;
use crate::region::has_ended;

impl Aws {
    /// Goes on with a machine that the token has made.
    pub(super) async fn adopt(&self, found: Machine, wanted: &Wanted<'_>) -> Result<Machine> {
        if found.tags.get(TAG_REQUEST) != Some(&wanted.words) {
            return Err(wanted.refusal());
        }
        self.attach(found, wanted).await
    }

    /// Takes the machine into its group, once it runs. Nothing to do for one that is a member or
    /// that has ended.
    pub(super) async fn attach(&self, made: Machine, wanted: &Wanted<'_>) -> Result<Machine> {
        if made.group.is_some() || has_ended(made.state) {
            return Ok(made);
        }
        let Some(made) = self.running(made).await? else {
            return Err(Error::NoAnswer {
                what: format!("token {}", wanted.request.token),
                message: "its machine does not run yet".to_owned(),
            });
        };
        if made.group.is_some() || has_ended(made.state) {
            return Ok(made);
        }
        self.join_group(&made, wanted).await?;
        let made = Machine {
            group: Some(wanted.request.group.clone()),
            ..made
        };
        self.region.remember(&made);
        Ok(made)
    }

    /// Waits until the machine runs, within bounds.
    async fn running(&self, mut made: Machine) -> Result<Option<Machine>> {
        let deadline = Instant::now() + self.region.settings.run_wait;
        loop {
            if made.state == MachineState::Ready || has_ended(made.state) || made.group.is_some() {
                return Ok(Some(made));
            }
            if Instant::now() > deadline {
                return Ok(None);
            }
            sleep(self.region.settings.poll).await;
            made = self.region.machine(&made.id).await?;
        }
    }

    async fn join_group(&self, made: &Machine, wanted: &Wanted<'_>) -> Result<()> {
        let group = &wanted.request.group;
        {
            let _gate = self.region.gate.lock().await;
            let now = self.region.group(group).await?;
            self.make_room(&now, &made.zone).await?;
        }
        let groups = self.region.calls.groups();
        match groups.attach(group.as_str(), made.id.as_str()).await {
            Err(failure) if failure.says("ValidationError", "already part of") => Ok(()),
            other => other
                .map_err(|failure| failure.about(&format!("machine {} in group {group}", made.id))),
        }
    }
}

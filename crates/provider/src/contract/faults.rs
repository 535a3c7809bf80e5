//! What every provider must do when its cloud misbehaves, as checks that run against any cloud whose
//! faults can be switched on.
//!
//! Owns the promises about lost answers, throttling and missing capacity. Called from the tests of
//! each provider, once per check on a fresh stage.

use super::{Breach, Stage, desired, request, same, told};
use crate::{Error, ErrorClass};
use shipshape_engine::machine::Machine;

/// How often a caller comes back after an error that asks for it. A controller does so for minutes.
const TRIES: usize = 50;

/// A stage whose cloud can be made to misbehave.
pub trait FaultStage: Stage {
    /// Loses the answer of every changing call, or of none.
    fn lose_answers(&self, all: bool);
    /// Takes the capacity of every zone away, or gives it back.
    fn fill_zones(&self, full: bool);
    /// Lets so many calls through in a second.
    fn limit_calls(&self, per_second: Option<u32>);
    /// How many machines were ever made.
    fn made(&self) -> usize;
}

/// One promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCheck {
    /// A lost answer to a launch leaves one machine, which the next call finds.
    LostAnswerMakesOneMachine,
    /// A lost answer to a deletion takes one machine out of the desired size.
    LostAnswerDeletesOnce,
    /// A zone without capacity makes nothing, and says so.
    FullZoneMakesNothing,
    /// A group at its maximum makes nothing, and says so.
    FullGroupMakesNothing,
    /// A throttled launch is repeated, or can be, and makes one machine.
    ThrottlingMakesOneMachine,
}

impl FaultCheck {
    /// All promises.
    pub const ALL: [Self; 5] = [
        Self::LostAnswerMakesOneMachine,
        Self::LostAnswerDeletesOnce,
        Self::FullZoneMakesNothing,
        Self::FullGroupMakesNothing,
        Self::ThrottlingMakesOneMachine,
    ];

    /// Runs the check on a fresh stage.
    pub async fn run(self, stage: &dyn FaultStage) -> Result<(), Breach> {
        match self {
            Self::LostAnswerMakesOneMachine => lost_launch(stage).await,
            Self::LostAnswerDeletesOnce => lost_deletion(stage).await,
            Self::FullZoneMakesNothing => full_zone(stage).await,
            Self::FullGroupMakesNothing => full_group(stage).await,
            Self::ThrottlingMakesOneMachine => throttling(stage).await,
        }
    }
}

/// Asks for a replacement as a controller does: again, while the error says so.
async fn ensure(stage: &dyn FaultStage, token: &str) -> Result<Machine, Breach> {
    let request = request(stage, token).await?;
    let mut last = None;
    for _ in 0..TRIES {
        match stage.provider().ensure_replacement(&request).await {
            Ok(machine) => return Ok(machine),
            Err(error) if error.class() == ErrorClass::Transient => last = Some(error),
            Err(error) => return Err(told(error)),
        }
        stage.settle().await;
    }
    Err(format!("still no machine: {last:?}"))
}

async fn lost_launch(stage: &dyn FaultStage) -> Result<(), Breach> {
    // What a cloud prepares for the first machine of a group must not be what gets lost.
    ensure(stage, "before").await?;
    let before = (stage.made(), desired(stage).await?);
    let request = request(stage, "lost").await?;
    stage.lose_answers(true);
    match stage.provider().ensure_replacement(&request).await {
        Err(error) if error.class() == ErrorClass::Transient => {}
        other => return Err(format!("a lost answer gave {other:?}")),
    }
    stage.lose_answers(false);
    let made = ensure(stage, "lost").await?;
    stage.settle().await;
    let again = ensure(stage, "lost").await?;
    same("machine of a repeated token", &again.id, &made.id)?;
    let after = (stage.made(), desired(stage).await?);
    same("machines and size", &after, &(before.0 + 1, before.1 + 1))
}

async fn lost_deletion(stage: &dyn FaultStage) -> Result<(), Breach> {
    let before = desired(stage).await?;
    let old = stage.running();
    stage.lose_answers(true);
    // Whether the loss shows here or the provider has looked again by itself is its own affair.
    drop(stage.provider().delete_machine(&old).await);
    stage.lose_answers(false);
    for _ in 0..3 {
        stage.provider().delete_machine(&old).await.map_err(told)?;
        stage.settle().await;
    }
    same("desired size", &desired(stage).await?, &(before - 1))
}

async fn full_zone(stage: &dyn FaultStage) -> Result<(), Breach> {
    let before = (stage.made(), desired(stage).await?);
    let request = request(stage, "zone").await?;
    stage.fill_zones(true);
    match stage.provider().ensure_replacement(&request).await {
        Err(Error::NoCapacity { .. }) => {}
        other => return Err(format!("a full zone gave {other:?}")),
    }
    let during = (stage.made(), desired(stage).await?);
    same("machines and size while it is full", &during, &before)?;
    stage.fill_zones(false);
    ensure(stage, "zone").await?;
    let after = (stage.made(), desired(stage).await?);
    same("machines and size", &after, &(before.0 + 1, before.1 + 1))
}

async fn full_group(stage: &dyn FaultStage) -> Result<(), Breach> {
    let group = stage.provider().group(&stage.group()).await.map_err(told)?;
    let before = stage.made();
    let room = group.max - group.desired;
    for number in 0..room {
        ensure(stage, &format!("room-{number}")).await?;
    }
    let request = request(stage, "no-room").await?;
    match stage.provider().ensure_replacement(&request).await {
        Err(Error::NoCapacity { .. }) => {}
        other => return Err(format!("a full group gave {other:?}")),
    }
    let room = usize::try_from(room).map_err(told)?;
    same("machines made", &stage.made(), &(before + room))?;
    same("desired size", &desired(stage).await?, &group.max)
}

async fn throttling(stage: &dyn FaultStage) -> Result<(), Breach> {
    let before = (stage.made(), desired(stage).await?);
    let request = request(stage, "throttled").await?;
    stage.limit_calls(Some(2));
    match stage.provider().ensure_replacement(&request).await {
        Ok(_) | Err(Error::Throttled { .. } | Error::NoAnswer { .. }) => {}
        Err(other) => return Err(format!("throttling gave {other}")),
    }
    stage.limit_calls(None);
    ensure(stage, "throttled").await?;
    let after = (stage.made(), desired(stage).await?);
    same("machines and size", &after, &(before.0 + 1, before.1 + 1))
}

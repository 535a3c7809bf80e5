//! What a roller must be able to do to be measured.
//!
//! Owns the words that Shipshape and its rivals have in common. Must not measure.

use anyhow::Result;

use super::scene::{Case, Scene};

/// Somebody who replaces nodes.
pub(super) trait Roller: Sized {
    /// What people call it.
    const NAME: &'static str;
    /// How its user agent begins in the audit log.
    const AGENT: &'static str;
    /// What must be there before it can be started.
    type There;

    /// Brings its kinds and sees to it that there will be as many nodes as the case wants, at the
    /// latest when the workload asks for them.
    async fn enter(scene: &Scene, case: &Case, there: &Self::There) -> Result<Self>;

    /// With all pods in place: until it only waits for the word.
    async fn get_ready(&mut self, scene: &Scene) -> Result<()>;

    /// The process that is measured.
    fn pid(&self) -> Result<u32>;

    /// Gives the word: every node is to be replaced.
    async fn begin(&mut self, scene: &Scene, case: &Case) -> Result<()>;

    /// Until nothing of the roll is left to do: what is written after the last node counts too.
    async fn wait_for_rest(&self, scene: &Scene) -> Result<()>;

    /// What it said last, for an error message.
    fn last_words(&self) -> String;

    /// Ends it; an error when it had ended by itself.
    fn end(self) -> Result<()>;
}

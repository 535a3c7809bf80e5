//! Nodes that join while a run is under way.
//!
//! A group may launch machines from an old template for a while, and a node may lose its object and come
//! back under a new UID. Owns the last wave that such nodes get. Nodes that leave need nothing: they
//! are not waited for, and counted at the end.

use std::sync::Arc;

use super::{Draft, number, some_of};
use crate::decision::Notice;
use crate::plan;
use crate::view::Observed;

impl Draft<'_> {
    /// Whether the plan has every node that is outdated; if not, what follows is decided on.
    pub(super) fn is_plan_whole(&mut self) -> bool {
        let newcomers = match &self.snapshot.newcomers {
            Observed::Present(newcomers) => newcomers,
            Observed::Absent => return true,
            Observed::Unknown(why) => return self.cannot_tell(&why.clone()),
            Observed::NotAsked => return self.cannot_tell("nobody has looked yet"),
        };
        let late = match plan::outdated(newcomers) {
            Ok(late) => late,
            Err(why) => return self.cannot_tell(&why),
        };
        let names: Vec<String> = late.iter().map(|node| node.name.clone()).collect();
        let Some(text) = some_of(&names) else {
            return true;
        };
        let status = &mut self.decision.status;
        let grown = status
            .plan
            .as_ref()
            .and_then(|plan| plan::extended(plan, &late));
        let Some(grown) = grown else {
            return true;
        };
        status.total = Some(number(grown.total()));
        status.plan = Some(Arc::new(grown));
        // The newcomers get the marks that the others have.
        status.marked = None;
        status.last_round = None;
        self.forget_past_hold();
        let message = format!("outdated nodes joined late and get a wave of their own: {text}");
        self.decision
            .notices
            .push(Notice::normal("JoinedLate", message));
        self.decision.wake = Some(self.now);
        false
    }

    fn cannot_tell(&mut self, why: &str) -> bool {
        self.wait(format!("a look for nodes that joined late: {why}"));
        false
    }
}

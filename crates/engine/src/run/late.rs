//! Nodes that join while a run is under way.
//!
//! A group may launch machines from an old template for a while, and a node may lose its object and come
//! back under a new UID. Owns the last wave that such nodes get. Nodes that leave need nothing: they
//! are not waited for, and counted at the end.

use std::sync::Arc;

use shipshape_api::conditions::LATE_NODES_KNOWN;
use shipshape_api::reasons::LATE_NODES_UNKNOWN;

use super::{Draft, number, some_of};
use crate::condition::{self, Truth};
use crate::decision::Notice;
use crate::plan::{self, SortedOut};
use crate::view::Observed;

/// Nodes that a sentence names.
const NAMED_MAX: usize = 10;

impl Draft<'_> {
    /// Whether the plan has every node that is outdated; if not, what follows is decided on.
    pub(super) fn is_plan_whole(&mut self) -> bool {
        let newcomers = match &self.snapshot.newcomers {
            Observed::Present(newcomers) => newcomers,
            Observed::Absent => return true,
            Observed::Unknown(why) => return self.is_given_up(&[], why),
            Observed::NotAsked => {
                self.wait("a look for nodes that joined late: nobody has looked yet".to_owned());
                return false;
            }
        };
        let SortedOut { late, unclear } = plan::sort_out(newcomers);
        if let Some((first, why)) = unclear.first() {
            let names: Vec<&str> = unclear.iter().map(|(node, _)| node.name.as_str()).collect();
            if !self.is_given_up(&names, &format!("node {}: {why}", first.name)) {
                return false;
            }
        } else {
            self.has_answer();
        }
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
        self.ask_anew_for_late();
        self.forget_past_hold();
        let message = format!("outdated nodes joined late and get a wave of their own: {text}");
        self.decision
            .notices
            .push(Notice::normal("JoinedLate", message));
        self.decision.wake = Some(self.now);
        false
    }

    /// A look after further nodes has its whole time: what could not be told before was about others, or may be told
    /// by now.
    pub(super) fn ask_anew_for_late(&mut self) {
        let conditions = &mut self.decision.status.conditions;
        conditions.retain(|one| one.type_ != LATE_NODES_KNOWN);
    }

    /// Whether an answer about these nodes has been waited for long enough: they are left to the next run. The
    /// condition keeps since when, so that a restart does not begin the wait anew.
    fn is_given_up(&mut self, names: &[&str], why: &str) -> bool {
        let limit = self.settings.deadlines.lock;
        let mut conditions = self.decision.status.conditions.iter();
        let known = conditions.find(|one| one.type_ == LATE_NODES_KNOWN && one.status == "False");
        let since = known.map_or(self.now, |one| one.last_transition_time.0);
        let is_told = known.is_none_or(|one| one.reason == LATE_NODES_UNKNOWN);
        let is_over = self.now.duration_since(since) >= limit;
        let nodes = named(names);
        if !is_over {
            let message = format!(
                "nobody can tell yet whether {nodes} run an old image; past {limit:#} the run goes on without \
                 them"
            );
            self.claim(LATE_NODES_KNOWN, Truth::False, "NoAnswer", message);
            self.wait(format!("a look for nodes that joined late: {why}"));
            return false;
        }
        let message = format!(
            "nobody could tell for {limit:#} whether {nodes} run an old image: they are left to the next run"
        );
        if !is_told {
            let notice = Notice::warning(LATE_NODES_UNKNOWN, format!("{message}; last: {why}"));
            self.decision.notices.push(notice);
        }
        self.claim(LATE_NODES_KNOWN, Truth::False, LATE_NODES_UNKNOWN, message);
        true
    }

    fn has_answer(&mut self) {
        if condition::is_false(&self.decision.status.conditions, LATE_NODES_KNOWN) {
            let message = "the cloud has answered about every node that joined late".to_owned();
            self.claim(LATE_NODES_KNOWN, Truth::True, "Answered", message);
        }
    }
}

/// Nodes that joined late, in words that do not change while they are the same.
fn named(names: &[&str]) -> String {
    let told: Vec<&str> = names.iter().take(NAMED_MAX).copied().collect();
    match names.len().saturating_sub(NAMED_MAX) {
        _ if names.is_empty() => "nodes that joined late".to_owned(),
        0 => format!("nodes that joined late ({})", told.join(", ")),
        more => format!(
            "nodes that joined late ({} and {more} more)",
            told.join(", ")
        ),
    }
}

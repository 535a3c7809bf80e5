//! A look at others who have a say in the gate's taints, remembered for a moment.
//!
//! Owns how long an answer holds: a hundred nodes that join at once must not list the same rules a hundred
//! times. An answer that was none is asked for again soon. Nothing is asked while no node is at the gate.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use shipshape_cluster::neighbours;
use shipshape_engine::verify::neighbours::{
    Neighbours, POOL_LABEL, PoolView, RuleView, are_rules_needed,
};
use shipshape_engine::verify::settings::GateSettings;
use shipshape_engine::view::{NodeView, Observed};

use crate::answer::answer;
use crate::context::Context;

/// How long an answer holds.
const HOLDS: SignedDuration = SignedDuration::from_secs(15);
/// How long "no answer" does.
const SOON: SignedDuration = SignedDuration::from_secs(2);

/// The latest answers.
#[derive(Clone, Default)]
pub(crate) struct Neighbourhood {
    rules: Answer<RuleView>,
    pools: Answer<PoolView>,
}

/// How far a node is: others are asked only when their word may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No attempt has begun.
    Before,
    /// Nothing is known yet, or it has failed.
    UnderWay,
    /// It may be let go.
    After,
}

type Answer<T> = Arc<Mutex<Option<(Timestamp, Observed<Vec<T>>)>>>;

/// Asks for what a decision about the node needs.
pub(super) async fn look(
    context: &Context,
    settings: &GateSettings,
    node: &NodeView,
    stage: Stage,
) -> Neighbours {
    let known = &context.neighbourhood;
    let now = context.clock.now();
    let mut seen = Neighbours::default();
    if stage == Stage::After && are_rules_needed(node, settings) {
        seen.rules = match remembered(&known.rules, now) {
            Some(rules) => rules,
            None => {
                let rules = answer(neighbours::rules(&context.client).await);
                remember(&known.rules, now, rules)
            }
        };
    }
    if stage == Stage::Before && node.labels.contains_key(POOL_LABEL) {
        seen.pools = match remembered(&known.pools, now) {
            Some(pools) => pools,
            None => {
                let pools = answer(neighbours::pools(&context.client).await);
                remember(&known.pools, now, pools)
            }
        };
    }
    seen
}

fn remembered<T: Clone>(known: &Answer<T>, now: Timestamp) -> Option<Observed<Vec<T>>> {
    let known = known.lock().unwrap_or_else(PoisonError::into_inner);
    let (at, answer) = known.as_ref()?;
    let holds = match answer {
        Observed::Unknown(_) | Observed::NotAsked => SOON,
        Observed::Absent | Observed::Present(_) => HOLDS,
    };
    (now.duration_since(*at) < holds).then(|| answer.clone())
}

fn remember<T: Clone>(
    known: &Answer<T>,
    now: Timestamp,
    answer: Observed<Vec<T>>,
) -> Observed<Vec<T>> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    *known = Some((now, answer.clone()));
    answer
}

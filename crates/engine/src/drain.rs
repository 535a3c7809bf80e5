//! Drain: which pods of a node leave now, which wait, which are blocked and by what.
//!
//! Owns the skip rules and the order of evictions. Must not treat a call's answer as progress: the
//! drain is done when the pod list says so. A budget without room is seen here, before the call, so
//! that hardly any eviction is refused. Called by `replace` with a fresh view of the node's pods.

use std::collections::BTreeMap;

use crate::decision::PodTarget;
use crate::selector;
use crate::view::{BudgetView, PodView};

/// What shall become of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does not count.
    Skip(Skip),
    /// It is on its way out already.
    Leaving,
    /// It can go now.
    Evict,
    /// It can go once the ordinary pods have left.
    Later,
    /// It cannot go now.
    Blocked(Block),
}

/// Why a pod does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Its DaemonSet would put it back onto the same node.
    DaemonSet,
    /// It mirrors a static pod; only the kubelet can end it.
    Mirror,
    /// It has ended.
    Finished,
}

/// Why a pod cannot go now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Its disruption budget has no room.
    Budget(String),
    /// Two budgets guard it, and the API server refuses such an eviction for ever.
    ManyBudgets(Vec<String>),
    /// The budget's selector cannot be understood.
    BadSelector(String),
    /// No controller would bring it back.
    Bare,
}

impl Block {
    /// The budgets that are in the way.
    pub fn budgets(&self) -> String {
        match self {
            Self::Budget(name) | Self::BadSelector(name) => name.clone(),
            Self::ManyBudgets(names) => names.join(", "),
            Self::Bare => String::new(),
        }
    }

    /// One sentence that says what would unblock the pod.
    pub fn sentence(&self) -> String {
        match self {
            Self::Budget(name) => format!("disruption budget {name} allows no eviction now"),
            Self::ManyBudgets(names) => format!(
                "disruption budgets {} all select this pod; the API server refuses to evict it until \
                 only one does",
                names.join(" and ")
            ),
            Self::BadSelector(name) => {
                format!("the selector of disruption budget {name} is not valid")
            }
            Self::Bare => {
                "no controller would bring this pod back; delete it or give it an owner".to_owned()
            }
        }
    }
}

/// A pod that holds the drain up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedPod {
    /// The pod.
    pub pod: PodTarget,
    /// What is in its way.
    pub block: Block,
}

/// The next move of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainMove {
    /// Pods to evict now.
    pub evict: Vec<PodTarget>,
    /// Pods that are blocked.
    pub blocked: Vec<BlockedPod>,
    /// Pods that still have to go, all told.
    pub remaining: usize,
}

impl DrainMove {
    /// Whether nothing is left to move.
    pub fn is_done(&self) -> bool {
        self.remaining == 0
    }
}

/// Works out the next move from the pods of the node and the budgets around them.
pub fn next_move(pods: &[PodView], budgets: &[BudgetView]) -> DrainMove {
    let mut room: BTreeMap<(&str, &str), i32> = budgets
        .iter()
        .map(|budget| {
            (
                (budget.namespace.as_str(), budget.name.as_str()),
                budget.allowed,
            )
        })
        .collect();
    let has_ordinary = pods.iter().any(|pod| skip(pod).is_none() && !pod.critical);
    let mut result = DrainMove::default();
    for pod in pods {
        let verdict = verdict(pod, budgets, &mut room, has_ordinary);
        if !matches!(verdict, Verdict::Skip(_)) {
            result.remaining += 1;
        }
        match verdict {
            Verdict::Evict => result.evict.push(target(pod)),
            Verdict::Blocked(block) => {
                result.blocked.push(BlockedPod {
                    pod: target(pod),
                    block,
                });
            }
            Verdict::Skip(_) | Verdict::Leaving | Verdict::Later => {}
        }
    }
    result
}

fn skip(pod: &PodView) -> Option<Skip> {
    if pod.mirror {
        Some(Skip::Mirror)
    } else if pod.finished {
        Some(Skip::Finished)
    } else if pod
        .owner
        .as_ref()
        .is_some_and(|(kind, _)| kind == "DaemonSet")
    {
        Some(Skip::DaemonSet)
    } else {
        None
    }
}

fn verdict<'a>(
    pod: &PodView,
    budgets: &'a [BudgetView],
    room: &mut BTreeMap<(&'a str, &'a str), i32>,
    has_ordinary: bool,
) -> Verdict {
    if let Some(why) = skip(pod) {
        return Verdict::Skip(why);
    }
    if pod.terminating {
        return Verdict::Leaving;
    }
    if pod.owner.is_none() {
        return Verdict::Blocked(Block::Bare);
    }
    if pod.critical && has_ordinary {
        return Verdict::Later;
    }
    match guards(pod, budgets) {
        Err(block) => Verdict::Blocked(block),
        Ok(None) => Verdict::Evict,
        Ok(Some(budget)) => {
            let left = room.entry((&budget.namespace, &budget.name)).or_default();
            if *left > 0 {
                *left -= 1;
                Verdict::Evict
            } else {
                Verdict::Blocked(Block::Budget(budget.name.clone()))
            }
        }
    }
}

/// The budget that guards a pod, if exactly one does.
fn guards<'a>(pod: &PodView, budgets: &'a [BudgetView]) -> Result<Option<&'a BudgetView>, Block> {
    let mut found: Vec<&BudgetView> = Vec::new();
    for budget in budgets
        .iter()
        .filter(|budget| budget.namespace == pod.namespace)
    {
        let Some(selector) = &budget.selector else {
            continue;
        };
        match selector::matches(selector, &pod.labels) {
            Ok(true) => found.push(budget),
            Ok(false) => {}
            Err(_) => return Err(Block::BadSelector(budget.name.clone())),
        }
    }
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        many => Err(Block::ManyBudgets(
            many.iter().map(|budget| budget.name.clone()).collect(),
        )),
    }
}

fn target(pod: &PodView) -> PodTarget {
    PodTarget {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    }
}

#[cfg(test)]
mod tests;

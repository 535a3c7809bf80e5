//! Drain: which pods of a node leave now, which wait, which are blocked and by what.
//!
//! Owns the skip rules and the order of evictions: ordinary pods at once, pods with volumes one after
//! the other, the system's own pods last. Must not treat a call's answer as progress: the drain is
//! done when the pod list and the attachments say so. A budget without room is seen here, before the
//! call, so that hardly any eviction is refused. Called by everybody who empties a node.

mod awaited;
mod block;
mod record;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use shipshape_api::node_patch_task::DetachRecord;
use shipshape_api::{DrainOptions, PodRule, names};

pub use awaited::is_news;
pub use block::Block;
pub use record::{is_told, is_told_refused, named, of_task, record, with_standing_refusals};

use crate::decision::PodTarget;
use crate::selector;
use crate::settings::DrainSettings;
use crate::view::{AttachmentView, BudgetView, PodView};
use volumes::Volumes;

/// How pods of all sorts are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainPolicy {
    /// Pods that no controller would bring back.
    pub bare_pods: PodRule,
    /// Pods with emptyDir volumes.
    pub empty_dir: PodRule,
    /// How long a volume may stay attached after its pod has left before it is not waited for.
    pub detach_wait: SignedDuration,
    /// How long past its grace a pod may stay before it is called stuck.
    pub stuck_after: SignedDuration,
}

impl DrainPolicy {
    /// What a manifest asks for, with the operator's settings for the rest.
    pub fn of(options: Option<&DrainOptions>, settings: &DrainSettings) -> Self {
        let usual = DrainOptions::default();
        let options = options.unwrap_or(&usual);
        Self {
            bare_pods: options.bare_pods(),
            empty_dir: options.empty_dir(),
            detach_wait: settings.detach_wait,
            stuck_after: settings.stuck_after,
        }
    }
}

/// An eviction that the API server refused a moment ago.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The budgets that it named.
    pub budgets: Vec<String>,
    /// Its words.
    pub message: String,
}

/// What is around the pods of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Around {
    /// Volumes that are attached to the node.
    pub attachments: Vec<AttachmentView>,
    /// UIDs of pods whose DaemonSet is gone.
    pub orphans: BTreeSet<String>,
    /// Evictions that were refused a moment ago, by the pod's UID.
    pub refusals: BTreeMap<String, Refusal>,
}

/// Everything that one move of a drain is worked out from.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Pods bound to the node.
    pub pods: &'a [PodView],
    /// Budgets in the namespaces of those pods.
    pub budgets: &'a [BudgetView],
    /// What else is around them.
    pub around: &'a Around,
    /// Volumes that were seen attached without a pod before, and since when.
    pub detaching: &'a [DetachRecord],
    /// How pods of all sorts are treated.
    pub policy: DrainPolicy,
    /// The time.
    pub now: Timestamp,
}

/// What shall become of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does not count.
    Skip(Skip),
    /// It is on its way out already.
    Leaving,
    /// It can go now.
    Evict,
    /// It can go once others have left.
    Later(Later),
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
    /// It checks the node for the gate, which makes it and ends it.
    Verifier,
}

/// Whom a pod waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// It is one of the system's own and goes last.
    Critical,
    /// Another pod's volumes are being detached.
    Volume,
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrainMove {
    /// Pods to evict now.
    pub evict: Vec<PodTarget>,
    /// Pods that are blocked.
    pub blocked: Vec<BlockedPod>,
    /// Pods that still have to go, all told.
    pub remaining: usize,
    /// Volumes that are attached without a pod, and since when.
    pub detaching: Vec<DetachRecord>,
    /// Whether such a volume is still worth waiting for.
    pub awaits_detach: bool,
    /// When something changes without an event: a pod gets stuck, a volume is given up.
    pub look_at: Option<Timestamp>,
}

impl DrainMove {
    /// Whether nothing is left to move and no volume has to be waited for.
    pub fn is_done(&self) -> bool {
        self.remaining == 0 && !self.awaits_detach
    }

    /// What the drain waits for, if it is more than pods that are on their way.
    pub fn reason(&self) -> Option<String> {
        if let Some(first) = self.blocked.first() {
            let pod = format!("{}/{}", first.pod.namespace, first.pod.name);
            let more = self.blocked.len() - 1;
            let sentence = first.block.sentence();
            return Some(match more {
                0 => format!("pod {pod}: {sentence}"),
                _ => format!("pod {pod}: {sentence} ({more} more blocked)"),
            });
        }
        let volume = self.detaching.first().filter(|_| self.awaits_detach)?;
        let is_idle = self.evict.is_empty();
        is_idle.then(|| format!("volume {} to be detached", volume.volume))
    }
}

/// Works out the next move.
pub fn next_move(scene: &Scene<'_>) -> DrainMove {
    let volumes = Volumes::of(scene);
    let mut judge = Judge {
        scene,
        room: rooms(scene.budgets),
        has_ordinary: scene
            .pods
            .iter()
            .any(|pod| skip(pod, scene.around).is_none() && !pod.critical),
        volumes_busy: volumes.are_busy(),
    };
    let mut result = DrainMove {
        awaits_detach: volumes.awaits_detach(),
        look_at: volumes.look_at(),
        detaching: volumes.into_records(),
        ..DrainMove::default()
    };
    for pod in scene.pods {
        let verdict = judge.verdict(pod);
        if !matches!(verdict, Verdict::Skip(_)) {
            result.remaining += 1;
        }
        match verdict {
            Verdict::Evict => result.evict.push(target(pod)),
            Verdict::Blocked(block) => {
                let pod = target(pod);
                result.blocked.push(BlockedPod { pod, block });
            }
            Verdict::Leaving => {
                let stuck_at = stuck_at(pod, scene.policy);
                result.look_at = [result.look_at, stuck_at].into_iter().flatten().min();
            }
            Verdict::Skip(_) | Verdict::Later(_) => {}
        }
    }
    result
}

fn rooms(budgets: &[BudgetView]) -> BTreeMap<(&str, &str), i32> {
    budgets
        .iter()
        .map(|budget| {
            let key = (budget.namespace.as_str(), budget.name.as_str());
            (key, budget.allowed)
        })
        .collect()
}

/// Why a pod does not count, if it does not.
pub(crate) fn skip(pod: &PodView, around: &Around) -> Option<Skip> {
    if pod.mirror {
        Some(Skip::Mirror)
    } else if pod.finished {
        Some(Skip::Finished)
    } else if is_daemon(pod) && !around.orphans.contains(&pod.uid) {
        Some(Skip::DaemonSet)
    } else if is_verifier(pod) {
        Some(Skip::Verifier)
    } else {
        None
    }
}

pub(crate) fn is_daemon(pod: &PodView) -> bool {
    matches!(&pod.owner, Some((kind, _)) if kind == "DaemonSet")
}

/// Whether the gate has made the pod: it would come back until the checks are over, and nobody misses it.
fn is_verifier(pod: &PodView) -> bool {
    let mut labels = pod.labels.iter();
    pod.name.starts_with(names::WORKER_PREFIX) && labels.any(|(key, _)| key == names::LABEL_WORKER)
}

fn stuck_at(pod: &PodView, policy: DrainPolicy) -> Option<Timestamp> {
    pod.gone_by?.checked_add(policy.stuck_after).ok()
}

/// Whether nothing would bring the pod back: it has no controller, or its DaemonSet is gone.
pub(crate) fn is_bare(pod: &PodView, around: &Around) -> bool {
    pod.owner.is_none() || (is_daemon(pod) && around.orphans.contains(&pod.uid))
}

/// The first thing that is in the way of a pod whatever the budgets say.
pub(crate) fn policy_block(pod: &PodView, around: &Around, policy: DrainPolicy) -> Option<Block> {
    policy_blocks(pod, around, policy).next()
}

/// Everything that is in the way of a pod whatever the budgets say.
pub(crate) fn policy_blocks(
    pod: &PodView,
    around: &Around,
    policy: DrainPolicy,
) -> impl Iterator<Item = Block> {
    let is_kept = policy.bare_pods == PodRule::Block && is_bare(pod, around);
    let bare = if pod.owner.is_some() {
        Block::Orphaned
    } else {
        Block::Bare
    };
    let has_data = pod.local_data && policy.empty_dir == PodRule::Block;
    let bare = is_kept.then_some(bare).into_iter();
    bare.chain(has_data.then_some(Block::LocalData))
}

struct Judge<'a> {
    scene: &'a Scene<'a>,
    room: BTreeMap<(&'a str, &'a str), i32>,
    has_ordinary: bool,
    volumes_busy: bool,
}

impl<'a> Judge<'a> {
    fn verdict(&mut self, pod: &PodView) -> Verdict {
        let scene = self.scene;
        if let Some(why) = skip(pod, scene.around) {
            return Verdict::Skip(why);
        }
        if pod.terminating {
            return self.leaving(pod);
        }
        if let Some(block) = policy_block(pod, scene.around, scene.policy) {
            return Verdict::Blocked(block);
        }
        if pod.critical && self.has_ordinary {
            return Verdict::Later(Later::Critical);
        }
        let charged = match self.charged(pod) {
            Ok(charged) => charged,
            Err(block) => return Verdict::Blocked(block),
        };
        if let Some(refusal) = scene.around.refusals.get(&pod.uid) {
            return Verdict::Blocked(Block::Refused {
                budgets: refusal.budgets.clone(),
                message: refusal.message.clone(),
            });
        }
        if pod.has_volumes() {
            if self.volumes_busy {
                return Verdict::Later(Later::Volume);
            }
            self.volumes_busy = true;
        }
        if let Some(budget) = charged {
            *self
                .room
                .entry((&budget.namespace, &budget.name))
                .or_default() -= 1;
        }
        Verdict::Evict
    }

    fn leaving(&self, pod: &PodView) -> Verdict {
        let is_stuck = stuck_at(pod, self.scene.policy).is_some_and(|at| at <= self.scene.now);
        match pod.gone_by.filter(|_| is_stuck) {
            Some(since) => Verdict::Blocked(Block::Stuck {
                since,
                finalizers: pod.finalizers.clone(),
            }),
            None => Verdict::Leaving,
        }
    }

    /// The budget that pays for the pod, if one has to.
    fn charged(&self, pod: &PodView) -> Result<Option<&'a BudgetView>, Block> {
        let Some(budget) = payer(pod, self.scene.budgets)? else {
            return Ok(None);
        };
        let left = self
            .room
            .get(&(budget.namespace.as_str(), budget.name.as_str()));
        if left.is_some_and(|left| *left > 0) {
            return Ok(Some(budget));
        }
        Err(closed(budget))
    }
}

/// The budget that an eviction of the pod is charged to, as the API server sees it: none guards a pod
/// that has not begun to run, and one that is not healthy may be spared.
pub fn payer<'a>(
    pod: &PodView,
    budgets: impl IntoIterator<Item = &'a BudgetView>,
) -> Result<Option<&'a BudgetView>, Block> {
    if pod.pending {
        return Ok(None);
    }
    let guard = guard(pod, budgets)?;
    let is_charged =
        |budget: &&BudgetView| pod.ready || !(budget.spares_unhealthy || budget.is_satisfied());
    Ok(guard.filter(is_charged))
}

/// A budget without room, in words.
pub(crate) fn closed(budget: &BudgetView) -> Block {
    if budget.is_hopeless() {
        Block::Hopeless {
            budget: budget.name.clone(),
            demand: budget.demand(),
        }
    } else {
        Block::Budget(budget.name.clone())
    }
}

/// Whether the budget's selector takes the pod.
pub fn is_guarded(pod: &PodView, budget: &BudgetView) -> Result<bool, Block> {
    if budget.namespace != pod.namespace {
        return Ok(false);
    }
    let Some(selector) = budget.selector.as_ref() else {
        return Ok(false);
    };
    selector::matches(selector, &pod.labels).map_err(|_| Block::BadSelector(budget.name.clone()))
}

/// The budget that guards a pod, if exactly one does.
pub fn guard<'a>(
    pod: &PodView,
    budgets: impl IntoIterator<Item = &'a BudgetView>,
) -> Result<Option<&'a BudgetView>, Block> {
    let mut found: Vec<&BudgetView> = Vec::new();
    for budget in budgets {
        if is_guarded(pod, budget)? {
            found.push(budget);
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

pub(crate) fn target(pod: &PodView) -> PodTarget {
    PodTarget {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    }
}

#[cfg(test)]
mod tests;

//! Preflight: what would hold up the drains of the next wave, before the first node is touched.
//!
//! Owns the findings and their order. Must not ask the server: whoever calls asks the questions that
//! are returned here, as dry runs, and hands the answers back in `Around::refusals`. Called by the
//! run controller once for each wave, and by `plan`.

mod report;

use std::collections::{BTreeMap, BTreeSet};

use crate::decision::PodTarget;
use crate::drain::{self, Around, Block, DrainPolicy};
use crate::view::{BudgetView, PodView};

pub use report::{Report, pods_of_weight, report};

/// Most evictions that are asked for as dry runs in one wave.
const QUESTIONS_MAX: usize = 200;

/// The nodes of a wave and what is around their pods.
#[derive(Clone, Copy, Debug)]
pub struct Wave<'a> {
    /// Name and pods of each node.
    pub nodes: &'a [(String, Vec<PodView>)],
    /// Budgets in the namespaces of those pods.
    pub budgets: &'a [BudgetView],
    /// What else is around them.
    pub around: &'a Around,
    /// How pods of all sorts are treated.
    pub policy: DrainPolicy,
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The pod cannot be evicted until somebody does something.
    Blocks,
    /// The pod can be evicted, and something is lost.
    Loses,
}

/// One thing that is in the way of a drain, or that a drain would lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How grave it is.
    pub weight: Weight,
    /// The node.
    pub node: String,
    /// The pod.
    pub pod: PodTarget,
    /// The budgets it is about, or the empty string.
    pub budget: String,
    /// A stable word for programs.
    pub reason: &'static str,
    /// What it is.
    pub sentence: String,
    /// What would help.
    pub remedy: String,
}

/// Everything that would hold up or be lost by the drains of a wave: the gravest first, and of what
/// is equally grave one of each cause before the second of any.
pub fn findings(wave: &Wave<'_>) -> Vec<Finding> {
    let budgets = by_namespace(wave.budgets);
    let mut seen: BTreeMap<(&'static str, String, String), usize> = BTreeMap::new();
    let mut ranked: Vec<(Weight, usize, Finding)> = Vec::new();
    for (node, pod) in moving(wave) {
        for (weight, block) in judge(wave, pod, &budgets) {
            let cause = (block.word(), pod.namespace.clone(), cause_name(pod, &block));
            let times = seen.entry(cause).or_default();
            ranked.push((weight, *times, finding(node, pod, weight, &block)));
            *times += 1;
        }
    }
    ranked.sort_by_key(|(weight, times, _)| (*weight, *times));
    ranked.into_iter().map(|(_, _, finding)| finding).collect()
}

/// The evictions worth asking the server about: one pod of each owner that nothing seems to be in the
/// way of. Its siblings would get the same answer.
pub fn questions(wave: &Wave<'_>) -> Vec<PodTarget> {
    let budgets = by_namespace(wave.budgets);
    let mut asked: BTreeSet<(&str, Option<&(String, String)>)> = BTreeSet::new();
    moving(wave)
        .filter(|(_, pod)| !pod.terminating && is_open(wave, pod, &budgets))
        .filter(|(_, pod)| asked.insert((&pod.namespace, pod.owner.as_ref())))
        .map(|(_, pod)| drain::target(pod))
        .take(QUESTIONS_MAX)
        .collect()
}

type Budgets<'a> = BTreeMap<&'a str, Vec<&'a BudgetView>>;

fn by_namespace(budgets: &[BudgetView]) -> Budgets<'_> {
    let mut sorted = Budgets::new();
    for budget in budgets {
        sorted.entry(&budget.namespace).or_default().push(budget);
    }
    sorted
}

fn guard<'a>(pod: &PodView, budgets: &Budgets<'a>) -> Result<Option<&'a BudgetView>, Block> {
    let around = budgets.get(pod.namespace.as_str());
    drain::guard(pod, around.into_iter().flatten().copied())
}

/// The pods that would have to move.
fn moving<'a>(wave: &Wave<'a>) -> impl Iterator<Item = (&'a str, &'a PodView)> {
    let around = wave.around;
    wave.nodes
        .iter()
        .flat_map(|(node, pods)| pods.iter().map(move |pod| (node.as_str(), pod)))
        .filter(move |(_, pod)| drain::skip(pod, around).is_none())
}

/// All that is in the way of a pod, so that whoever has seen to one thing does not meet the next. What it
/// would lose is told of a pod that can go.
fn judge(wave: &Wave<'_>, pod: &PodView, budgets: &Budgets<'_>) -> Vec<(Weight, Block)> {
    if pod.terminating {
        return Vec::new();
    }
    let mut blocks: Vec<Block> = drain::policy_blocks(pod, wave.around, wave.policy).collect();
    // No budget guards a pod that has not begun to run, but it will have by the time of its drain.
    match guard(pod, budgets) {
        Err(block) => blocks.push(block),
        Ok(Some(budget)) if budget.is_hopeless() => blocks.push(drain::closed(budget)),
        Ok(_) => {}
    }
    let refusal = wave.around.refusals.get(&pod.uid);
    // The server may only repeat what is known.
    if let Some(refusal) = refusal.filter(|_| blocks.is_empty()) {
        blocks.push(Block::Refused {
            budgets: refusal.budgets.clone(),
            message: refusal.message.clone(),
        });
    }
    if !blocks.is_empty() {
        return blocks
            .into_iter()
            .map(|block| (Weight::Blocks, block))
            .collect();
    }
    let bare = drain::is_bare(pod, wave.around).then_some(Block::Bare);
    let data = pod.local_data.then_some(Block::LocalData);
    let lost = bare.into_iter().chain(data);
    lost.map(|block| (Weight::Loses, block)).collect()
}

/// Whether an eviction should be granted, from all that can be seen here.
fn is_open(wave: &Wave<'_>, pod: &PodView, budgets: &Budgets<'_>) -> bool {
    drain::policy_block(pod, wave.around, wave.policy).is_none()
        && guard(pod, budgets).is_ok_and(|budget| budget.is_none_or(|budget| budget.allowed > 0))
}

/// What makes two findings the same story: the budget, or else the owner.
fn cause_name(pod: &PodView, block: &Block) -> String {
    let budgets = block.budgets();
    match &pod.owner {
        _ if !budgets.is_empty() => budgets,
        Some((kind, name)) => format!("{kind} {name}"),
        None => pod.name.clone(),
    }
}

fn finding(node: &str, pod: &PodView, weight: Weight, block: &Block) -> Finding {
    let (sentence, remedy) = match (weight, block) {
        (Weight::Blocks, _) => (block.sentence(), block.remedy()),
        (Weight::Loses, Block::LocalData) => (
            "the content of its emptyDir volumes is lost when it moves".to_owned(),
            "set spec.drain.emptyDir: Block to keep it".to_owned(),
        ),
        (Weight::Loses, _) => (
            "no controller would bring it back once it is evicted".to_owned(),
            "set spec.drain.barePods: Block to keep it".to_owned(),
        ),
    };
    Finding {
        weight,
        node: node.to_owned(),
        pod: drain::target(pod),
        budget: block.budgets(),
        reason: block.word(),
        sentence,
        remedy,
    }
}

#[cfg(test)]
mod tests;

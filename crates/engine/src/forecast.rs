//! Forecast: how long a run takes and what it costs, before it begins.
//!
//! Owns the arithmetic: the same limits as `admit`, nodes in the order of the plan, pods under a
//! budget one after the other. Must not look at the world: how long machines and pods take is handed
//! in. A forecast is a guess with its assumptions named; nothing is decided by it. Called by `plan`.

mod fate;
mod load;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde::Serialize;
use shipshape_api::conditions::{DRAINED, NEW_NODE_READY, OLD_DELETED};
use shipshape_api::gates::ReplacementMode;
use shipshape_api::node_patch_run::Wave;
use shipshape_api::{NodePatchRunSpec, NodePatchTask, TaskStep};

use crate::span;
pub use fate::Fate;
pub use load::{load, room};

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From the request of a machine to a ready node.
    pub machine_ready: SignedDuration,
    /// From a pod's eviction until another has taken its place.
    pub pod_move: SignedDuration,
    /// From the request of a machine's end to its end.
    pub machine_gone: SignedDuration,
    /// When a drain that gets nowhere is given up.
    pub drain_limit: SignedDuration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            machine_ready: SignedDuration::from_mins(3),
            pod_move: SignedDuration::from_secs(30),
            machine_gone: SignedDuration::from_mins(1),
            drain_limit: SignedDuration::from_mins(30),
        }
    }
}

impl Pace {
    /// Takes the times of machines from nodes that were replaced here before: the middle of each.
    /// Says how many there were.
    pub fn measured(&mut self, tasks: &[NodePatchTask]) -> usize {
        let times: Vec<(SignedDuration, SignedDuration)> =
            tasks.iter().filter_map(machine_times).collect();
        let middle = |mut spans: Vec<SignedDuration>| {
            spans.sort();
            spans.get(spans.len() / 2).copied()
        };
        if let Some(ready) = middle(times.iter().map(|(ready, _)| *ready).collect()) {
            self.machine_ready = ready;
        }
        if let Some(gone) = middle(times.iter().map(|(_, gone)| *gone).collect()) {
            self.machine_gone = gone;
        }
        times.len()
    }
}

/// How long the new machine took to become a ready node, and the old one to go.
fn machine_times(task: &NodePatchTask) -> Option<(SignedDuration, SignedDuration)> {
    let status = task.status.as_ref()?;
    let is_plain = status.step_name() == TaskStep::Done && status.attempt.unwrap_or(1) == 1;
    if !is_plain || status.terminate_first == Some(true) {
        return None;
    }
    let at = |kind: &str| {
        let mut found = status.conditions.iter().filter(|one| one.type_ == kind);
        found.next().map(|one| one.last_transition_time.0)
    };
    let began = task.metadata.creation_timestamp.as_ref()?.0;
    let ready = at(NEW_NODE_READY)?.duration_since(began);
    let gone = at(OLD_DELETED)?.duration_since(at(DRAINED)?);
    Some((ready, gone))
}

/// What a node carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Name of the node.
    pub node: String,
    /// Its zone.
    pub zone: String,
    /// Whether it carries important pods.
    pub important: bool,
    /// Pods that must move.
    pub pods: usize,
    /// Of these, by the budget that guards them.
    pub guarded: BTreeMap<String, usize>,
    /// Of these, pods with volumes, which leave one after the other.
    pub with_volumes: usize,
    /// Whether a pod will not leave by itself.
    pub blocked: bool,
}

/// The nodes of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// What sets them apart, if anything does.
    pub wave: Option<Wave>,
    /// What they carry.
    pub loads: Vec<Load>,
}

/// When one node has its turn, from the start of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Name of the node.
    pub node: String,
    /// Its zone.
    pub zone: String,
    /// Whether it carries important pods.
    pub important: bool,
    /// Pods that must move.
    pub pods: usize,
    /// What becomes of it, where a pod does not leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fate: Option<Fate>,
    /// Seconds until it begins.
    pub begins: i64,
    /// Seconds until it is over.
    pub ends: i64,
}

/// When a wave is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaveTurn {
    /// What sets its nodes apart, if anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<Wave>,
    /// Its nodes, in the order in which they begin.
    pub nodes: Vec<Turn>,
    /// Seconds until it begins.
    pub begins: i64,
    /// Seconds until its last node is over.
    pub ends: i64,
    /// Seconds for which the canaries are watched then.
    pub soak: i64,
}

/// How long a run takes and what it costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// The waves, in order.
    pub waves: Vec<WaveTurn>,
    /// Seconds until the last node is over.
    pub seconds: i64,
    /// Hours of machines that exist beside those they replace.
    pub extra_node_hours: f64,
    /// Most nodes in work at once.
    pub most_at_once: usize,
}

/// Works the run out. `rooms` says how many pods each budget lets go at once when all are healthy.
pub fn forecast(
    spec: &NodePatchRunSpec,
    parts: &[Part],
    rooms: &BTreeMap<String, usize>,
    pace: &Pace,
) -> Forecast {
    let mut course = Course {
        spec,
        pace,
        lanes: rooms
            .iter()
            .map(|(name, room)| (name.clone(), vec![0; (*room).max(1)]))
            .collect(),
        begun: Vec::new(),
    };
    let mut forecast = Forecast::default();
    let mut now = 0;
    for part in parts {
        let is_canary = part.wave == Some(Wave::Canaries);
        let soak = spec.canary.as_ref().filter(|_| is_canary);
        let soak = soak.and_then(|canary| span::parse(canary.soak.as_deref()).ok());
        let soak = soak.map_or(0, |soak| soak.as_secs());
        let nodes = course.wave(part, now);
        let ends = nodes.iter().map(|node| node.ends).max().unwrap_or(now);
        forecast.waves.push(WaveTurn {
            wave: part.wave,
            begins: now,
            ends,
            soak,
            nodes,
        });
        now = ends + soak;
    }
    let turns = || forecast.waves.iter().flat_map(|wave| &wave.nodes);
    forecast.seconds = turns().map(|turn| turn.ends).max().unwrap_or(0);
    forecast.most_at_once = most_at_once(turns());
    if is_surge(spec) {
        let extra: i64 = turns().map(|turn| turn.ends - turn.begins).sum();
        forecast.extra_node_hours = SignedDuration::from_secs(extra).as_secs_f64() / 3600.0;
    }
    forecast
}

fn is_surge(spec: &NodePatchRunSpec) -> bool {
    spec.replacement != Some(ReplacementMode::TerminateFirst)
}

fn most_at_once<'a>(turns: impl Iterator<Item = &'a Turn>) -> usize {
    let turns: Vec<&Turn> = turns.collect();
    let at = |second: i64| {
        let open = turns
            .iter()
            .filter(|turn| turn.begins <= second && second < turn.ends);
        open.count()
    };
    turns.iter().map(|turn| at(turn.begins)).max().unwrap_or(0)
}

/// A run as it is worked out.
struct Course<'a> {
    spec: &'a NodePatchRunSpec,
    pace: &'a Pace,
    /// By budget, when each of its places is free again.
    lanes: BTreeMap<String, Vec<i64>>,
    /// When nodes began, for the limit by hour.
    begun: Vec<i64>,
}

impl Course<'_> {
    /// All nodes of a wave, each as soon as the limits allow.
    fn wave(&mut self, part: &Part, start: i64) -> Vec<Turn> {
        let is_alone = part.wave == Some(Wave::ControlPlanes);
        let mut now = start;
        let mut turns: Vec<Turn> = Vec::new();
        let mut waiting: Vec<&Load> = part.loads.iter().collect();
        while !waiting.is_empty() {
            waiting.retain(|load| {
                let is_free = !is_alone || turns.iter().all(|turn| turn.ends <= now);
                let fits = is_free && self.fits(load, &turns, now);
                if fits {
                    turns.push(self.turn(load, now));
                }
                !fits
            });
            if waiting.is_empty() {
                break;
            }
            let Some(next) = self.next_moment(&turns, now) else {
                break;
            };
            now = next;
        }
        turns
    }

    fn fits(&self, load: &Load, turns: &[Turn], now: i64) -> bool {
        let open = || turns.iter().filter(|turn| turn.ends > now);
        let alike = open()
            .filter(|turn| turn.important == load.important)
            .count();
        let cap = if load.important {
            self.spec.batch_size_important()
        } else {
            self.spec.batch_size_non_important()
        };
        let in_zone = open().filter(|turn| turn.zone == load.zone).count();
        let begun = self.begun.iter().filter(|begun| **begun > now - 3600);
        let limit = |cap: i32| usize::try_from(cap).unwrap_or(usize::MAX);
        alike < limit(cap)
            && self
                .spec
                .max_concurrent_per_zone()
                .is_none_or(|cap| in_zone < limit(cap))
            && self
                .spec
                .max_per_hour()
                .is_none_or(|cap| begun.count() < limit(cap))
    }

    /// When something changes that may let another node begin.
    fn next_moment(&self, turns: &[Turn], now: i64) -> Option<i64> {
        let ends = turns.iter().map(|turn| turn.ends);
        let hours = self.begun.iter().map(|begun| begun + 3600);
        let moments: BTreeSet<i64> = ends.chain(hours).filter(|at| *at > now).collect();
        moments.first().copied()
    }

    fn turn(&mut self, load: &Load, now: i64) -> Turn {
        self.begun.push(now);
        let pace = self.pace;
        let gate = self.gate(load);
        let surge = is_surge(self.spec);
        let before = if surge {
            pace.machine_ready.as_secs()
        } else {
            0
        };
        let after = if surge {
            0
        } else {
            pace.machine_ready.as_secs()
        };
        let drained = if load.blocked {
            now + before + gate + pace.drain_limit.as_secs()
        } else {
            self.drain(load, now + before + gate)
        };
        let fate = load.blocked.then(|| Fate::of(self.spec));
        let is_ended = fate.is_none_or(|fate| fate == Fate::Forced);
        let rest = if is_ended {
            gate + pace.machine_gone.as_secs() + after
        } else {
            0
        };
        Turn {
            node: load.node.clone(),
            zone: load.zone.clone(),
            important: load.important,
            pods: load.pods,
            fate,
            begins: now,
            ends: drained + rest,
        }
    }

    /// When the last pod has left: those under a budget as its room allows, whoever else drains.
    fn drain(&mut self, load: &Load, start: i64) -> i64 {
        let each = self.pace.pod_move.as_secs();
        let mut ends = if load.pods > 0 { start + each } else { start };
        for (budget, count) in &load.guarded {
            let lanes = self.lanes.entry(budget.clone()).or_insert_with(|| vec![0]);
            for _ in 0..*count {
                let Some(lane) = lanes.iter_mut().min() else {
                    break;
                };
                *lane = (*lane).max(start) + each;
                ends = ends.max(*lane);
            }
        }
        let volumes = i64::try_from(load.with_volumes).unwrap_or(i64::MAX);
        ends.max(start.saturating_add(each.saturating_mul(volumes)))
    }

    /// How long the important pods must be stable, before the drain and again after it.
    fn gate(&self, load: &Load) -> i64 {
        let Some(stability) = &self.spec.stability else {
            return 0;
        };
        let counts = load.important || !stability.important_only();
        let span = span::parse(stability.stable_for.as_deref());
        span.ok()
            .filter(|_| counts)
            .map_or(0, |span| span.as_secs())
    }
}

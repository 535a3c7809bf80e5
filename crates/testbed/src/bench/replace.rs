//! `bench replace`: every node of a cluster replaced, on the real control plane with kwok's nodes.
//!
//! Owns the order of a run and what counts as done: no old node left, as many new ones ready, all pods
//! ready. Shipshape and, where it is there, Karpenter are measured by this same code, one after the
//! other, each on a control plane of its own. Time, processor and memory are the roller's own, by the
//! kernel; counts are from the audit log.

mod eyes;
mod karpenter;
mod log;
mod report;
mod rival;
mod roller;
mod scene;
mod shipshape;

use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result};
use shipshape_cluster::Clock;
use tokio::time::Instant;

use super::Figure;
use super::usage::Process;
use super::writes::Actor;
use crate::apart;
use crate::kwok::Readiness;
use karpenter::KarpenterRoller;
use report::{Pair, Roll};
use rival::{Choice, Rival};
use roller::Roller;
use scene::{Case, Scene};
use shipshape::ShipshapeRoller;

/// How long slow pods take to be ready.
const SLOW: Readiness = Readiness::Between(Duration::from_secs(5), Duration::from_secs(6));

/// Which rolls.
#[derive(clap::Args, Debug)]
pub struct Settings {
    /// Nodes of the cluster; one roll each.
    #[arg(long, value_delimiter = ',', default_values_t = [50, 200])]
    pub nodes: Vec<u32>,
    /// Seconds from the request for a machine to its Node; one roll each.
    #[arg(long, value_delimiter = ',', default_values_t = [0])]
    pub boot: Vec<u64>,
    /// Outdated nodes are closed to the scheduler from the start (`outdatedTaintEffect: NoSchedule`).
    #[arg(long)]
    pub close_outdated: bool,
    /// No further roll, of the smallest cluster, with pods that take 5 to 6 s to be ready.
    #[arg(long)]
    pub no_slow: bool,
    /// Who is measured beside Shipshape; Karpenter where it is built, unless said otherwise.
    #[arg(long, value_enum)]
    pub rival: Option<Choice>,
    /// The bench says this to itself when it has gone into a network of its own.
    #[arg(long, hide = true)]
    pub apart: bool,
}

impl Settings {
    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for nodes in self.nodes.iter().copied() {
            cases.extend(self.boot.iter().map(|seconds| Case {
                nodes,
                boot: Duration::from_secs(*seconds),
                readiness: Readiness::AtOnce,
                closes_outdated: self.close_outdated,
            }));
        }
        let smallest = self.nodes.iter().min().filter(|_| !self.no_slow);
        cases.extend(smallest.map(|nodes| Case {
            nodes: *nodes,
            boot: Duration::ZERO,
            readiness: SLOW,
            closes_outdated: self.close_outdated,
        }));
        cases
    }
}

/// Runs this same bench in a network of its own, if that is needed and can be had. None means that it runs
/// here.
pub fn run_apart(settings: &Settings) -> Result<Option<ExitStatus>> {
    if settings.apart || !rival::is_wanted(settings)? {
        return Ok(None);
    }
    let words = std::env::args().skip(1).chain(["--apart".to_owned()]);
    apart::run(&words.collect::<Vec<_>>(), &[])
}

/// Rolls once for each case, and once more with the rival. What went wrong with the rival is told at the
/// end and does not cost our own figures.
pub async fn run(settings: &Settings) -> Result<Figure> {
    let rival = rival::choose(settings)?;
    let mut pairs = Vec::new();
    for case in settings.cases() {
        let ours = Box::pin(roll::<ShipshapeRoller>(case, &())).await?;
        let theirs = match &rival {
            Rival::Karpenter(there) => Some(Box::pin(roll::<KarpenterRoller>(case, there)).await),
            Rival::Nobody(_) => None,
        };
        pairs.push(Pair { ours, theirs });
    }
    Ok(report::figure(&pairs, rival.absence()))
}

async fn roll<R: Roller>(case: Case, there: &R::There) -> Result<Roll> {
    let name = R::NAME;
    tracing::info!("{name}, {case}: nodes and pods come up");
    let rolled = measure::<R>(case, there).await;
    let roll = rolled.with_context(|| format!("{name}'s roll, {case}"))?;
    tracing::info!(
        "{name}, {case}: over after {:.1} s",
        roll.wall.as_secs_f64()
    );
    tracing::debug!(?roll, name, "rolled");
    Ok(roll)
}

async fn measure<R: Roller>(case: Case, there: &R::There) -> Result<Roll> {
    let scene = Scene::open(&case).await?;
    let mut roller = R::enter(&scene, &case, there).await?;
    scene.fill(&case).await?;
    roller.get_ready(&scene).await?;
    let process = Process(roller.pid()?);
    process.reset_peak()?;
    let cpu_before = process.cpu()?;

    let old = scene.eyes.node_names();
    let since = Clock::System.now();
    let start = Instant::now();
    roller.begin(&scene, &case).await?;
    let rolled = scene.wait_until_rolled(&case, &old).await;
    rolled.with_context(|| roller.last_words())?;
    let wall = start.elapsed();
    roller.wait_for_rest(&scene).await?;

    let actor = Actor {
        agent: R::AGENT,
        since,
    };
    let closures = scene.eyes.closures();
    let roll = Roll {
        case,
        replaced: old.len(),
        wall,
        cpu: process.cpu()?.saturating_sub(cpu_before),
        peak: process.peak()?,
        closed: closures.most,
        counts: log::count(&scene.plane.audit()?, actor, &closures),
    };
    roller.end()?;
    Ok(roll)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        settings: Settings,
    }

    fn settings(words: &[&str]) -> Settings {
        let all = ["bench"].into_iter().chain(words.iter().copied());
        Words::try_parse_from(all).unwrap().settings
    }

    #[test]
    fn every_size_is_rolled_with_every_boot_and_the_smallest_with_slow_pods() {
        let settings = settings(&["--nodes", "20,10", "--boot", "0,60"]);
        let seen: Vec<_> = settings
            .cases()
            .iter()
            .map(|case| {
                let is_slow = case.readiness != Readiness::AtOnce;
                (case.nodes, case.boot.as_secs(), is_slow)
            })
            .collect();
        assert_eq!(
            seen,
            [
                (20, 0, false),
                (20, 60, false),
                (10, 0, false),
                (10, 60, false),
                (10, 0, true)
            ]
        );
    }

    #[test]
    fn the_rival_is_a_word_of_the_command_line() {
        assert_eq!(settings(&[]).rival, None);
        let asked = settings(&["--rival", "karpenter"]);
        assert_eq!(asked.rival, Some(Choice::Karpenter));
        let refused = settings(&["--rival", "none"]);
        assert_eq!(refused.rival, Some(Choice::None));
    }
}

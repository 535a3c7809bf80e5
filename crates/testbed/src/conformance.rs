//! Holds the embedded cluster against the real API server: same requests, answers compared.
//!
//! Owns the run: fixed sequences (text files beside this module), random sequences from a seed,
//! the list of accepted differences and the report. It must not repair anything. Called by
//! `cargo xtask conformance`.

use anyhow::Result;

use crate::{ControlPlane, Options};

mod accepted;
mod compare;
mod examples;
mod fixed;
mod normalise;
mod random;
mod report;
mod script;
mod world;

use report::Kind;
pub use report::Report;
use script::Sequence;
use world::World;

/// How much to compare.
#[derive(Debug, Clone, clap::Args)]
pub struct Settings {
    /// Seed of the random sequences.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many random sequences.
    #[arg(long, default_value_t = 500)]
    pub sequences: u32,
    /// Only the sequences whose name contains this text.
    #[arg(long)]
    pub only: Option<String>,
    /// Compare two real control planes instead: what differs then is this program's fault.
    #[arg(long)]
    pub twins: bool,
    /// Print every answer, not only those that differ.
    #[arg(long)]
    pub verbose: bool,
}

impl Settings {
    fn wants(&self, name: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|text| name.contains(text.as_str()))
    }
}

/// Starts both worlds, sends everything to both and compares.
pub async fn run(settings: &Settings) -> Result<Report> {
    let options = Options {
        controllers: false,
        ..Options::default()
    };
    let plane = ControlPlane::start(options.clone()).await?;
    let twin = if settings.twins {
        Some(ControlPlane::start(options).await?)
    } else {
        None
    };
    let mut left = match &twin {
        Some(twin) => World::real(twin).await?,
        None => World::embedded(),
    };
    let mut right = World::real(&plane).await?;
    for definition in fixed::definitions()? {
        left.define(&definition).await?;
        right.define(&definition).await?;
    }
    let mut report = Report::new(settings.seed, settings.verbose);
    for sequence in fixed::sequences()?
        .iter()
        .filter(|one| settings.wants(&one.name))
    {
        compare_one(&mut left, &mut right, sequence, &mut report, Kind::Fixed).await?;
    }
    for index in 0..settings.sequences {
        let sequence = random::sequence(settings.seed, index)?;
        if settings.wants(&sequence.name) {
            compare_one(&mut left, &mut right, &sequence, &mut report, Kind::Random).await?;
        }
    }
    let complete = settings.only.is_none() && settings.sequences > 0 && twin.is_none();
    report.finish(complete);
    Ok(report)
}

async fn compare_one(
    left: &mut World,
    right: &mut World,
    sequence: &Sequence,
    report: &mut Report,
    kind: Kind,
) -> Result<()> {
    left.begin();
    right.begin();
    for (index, request) in sequence.requests.iter().enumerate() {
        let (one, other) = tokio::join!(
            left.perform(request, sequence),
            right.perform(request, sequence)
        );
        report.note(
            kind,
            sequence,
            index,
            &compare::pair(request, &one?, &other?),
        );
    }
    Ok(())
}

//! `shipshape verify`: the checks of a node's network, from wherever it is run.
//!
//! Owns the exit codes of this command, which are those of kube-node-ready's worker, and where the result goes. The
//! checks themselves are in `shipshape-verifier`.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use shipshape_cluster::error::in_full;
use shipshape_verifier::{Report, Settings, SettingsError, Verdict, table, termination_message};
use thiserror::Error;
use tokio::time::Instant;

use crate::cli::{Format, LogFormat, VerifyOptions};
use crate::output::{complain, say};
use crate::{logs, panics};

/// The exit code for what nobody has thought of.
const UNEXPECTED: u8 = 10;

/// Why there is no verdict.
#[derive(Debug, Error)]
enum Stop {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{0}")]
    Logs(String),
    #[error(transparent)]
    Client(#[from] shipshape_verifier::Error),
    #[error("cannot {action}")]
    Unexpected {
        action: &'static str,
        source: io::Error,
    },
}

impl Stop {
    fn code(&self) -> u8 {
        match self {
            Self::Settings(_) | Self::Logs(_) => 2,
            Self::Client(_) => 3,
            Self::Unexpected { .. } => UNEXPECTED,
        }
    }
}

/// Runs all checks.
pub(crate) fn run(options: &VerifyOptions) -> anyhow::Result<ExitCode> {
    panics::end_with(UNEXPECTED.into());
    crate::block_on(async {
        Ok(match verify(options).await {
            Ok(Verdict::Passed) => ExitCode::SUCCESS,
            Ok(Verdict::Failed) => ExitCode::from(1),
            Err(stop) => {
                complain(&in_full(&stop));
                ExitCode::from(stop.code())
            }
        })
    })
}

async fn verify(options: &VerifyOptions) -> Result<Verdict, Stop> {
    let settings = Settings::load(options.config.as_deref(), options.overrides())?;
    let format = match settings.logging.format {
        shipshape_verifier::LogFormat::Json => LogFormat::Json,
        shipshape_verifier::LogFormat::Console => LogFormat::Console,
    };
    let level = &settings.logging.level;
    logs::start(format, "--log-level (or LOG_LEVEL, logging.level)", level)
        .map_err(|error| Stop::Logs(in_full(error.as_ref())))?;
    tracing::info!(
        node = settings.node_name,
        namespace = settings.namespace,
        dry_run = settings.dry_run,
        "checking the network"
    );
    let begin = Instant::now();
    let report = shipshape_verifier::verify(&settings).await?;
    if !settings.dry_run {
        leave_for_the_kubelet(&report, &options.termination_log)?;
    }
    let usual = if io::stdout().is_terminal() {
        Format::Text
    } else {
        Format::Json
    };
    let text = match options.output.unwrap_or(usual) {
        Format::Text => table(&report, begin.elapsed()),
        Format::Json => format!("{}\n", serde_json::json!(report)),
    };
    say(&text).map_err(|source| Stop::Unexpected {
        action: "write the result",
        source,
    })?;
    Ok(report.verdict)
}

/// The kubelet makes the file; where there is none nobody reads it.
fn leave_for_the_kubelet(report: &Report, file: &Path) -> Result<(), Stop> {
    if !file.exists() {
        return Ok(());
    }
    std::fs::write(file, termination_message(report)).map_err(|source| Stop::Unexpected {
        action: "leave the result for the kubelet",
        source,
    })
}

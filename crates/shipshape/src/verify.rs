//! `shipshape verify`: the checks of a node's network, from wherever it is run.
//!
//! Owns the exit codes of this command, which are those of kube-node-ready's worker, and where the result goes. The
//! checks themselves are in `shipshape-verifier`.

mod metrics;
mod own_node;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use shipshape_cluster::Clock;
use shipshape_cluster::error::in_full;
use shipshape_verifier::{Report, Settings, SettingsError, Verdict, table, termination_message};
use thiserror::Error;
use tokio::time::Instant;

use crate::cli::{Format, LogFormat, VerifyOptions};
use crate::controller::serve::{self, BindAddress, Serving};
use crate::output::{complain, say};
use crate::{logs, panics};
use own_node::Patching;

/// The exit code for what nobody has thought of.
const UNEXPECTED: u8 = 10;

/// Why there is no verdict.
#[derive(Debug, Error)]
enum Stop {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{0}")]
    Logs(String),
    #[error("{0}")]
    Wrong(String),
    #[error("cannot open the gate of this node: {0}")]
    Node(String),
    #[error("cannot serve --metrics-port: {0}")]
    Metrics(String),
    #[error(transparent)]
    Client(#[from] shipshape_verifier::Error),
    #[error("cannot {action}")]
    Unexpected {
        action: &'static str,
        source: io::Error,
    },
}

impl Stop {
    fn node(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Node(in_full(error))
    }

    fn code(&self) -> u8 {
        match self {
            Self::Settings(_) | Self::Logs(_) | Self::Wrong(_) => 2,
            Self::Client(_) | Self::Node(_) | Self::Metrics(_) => 3,
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
    // A node that does not reach the API server is what the checks are for.
    let (mut patching, unreached) = match Patching::begin(options, &settings).await {
        Err(stop @ Stop::Node(_)) => (None, Some(stop)),
        begun => (begun?, None),
    };
    if let Some(patching) = patching.take_if(|patching| patching.is_open()) {
        let _serving = serve_metrics(options, &settings, None).await?;
        patching.rest().await;
        return Ok(Verdict::Passed);
    }
    let begin = Instant::now();
    let report = shipshape_verifier::verify(&settings).await?;
    let usual = if io::stdout().is_terminal() {
        Format::Text
    } else {
        Format::Json
    };
    let text = match options.output.unwrap_or(usual) {
        Format::Text => table(&report, begin.elapsed()),
        Format::Json => format!("{}\n", serde_json::json!(report)),
    };
    // First what the gate goes by: nobody may be reading the rest.
    let left = if settings.dry_run {
        Ok(())
    } else {
        leave_for_the_kubelet(&report, &options.termination_log)
    };
    let said = say(&text).map_err(|source| Stop::Unexpected {
        action: "write the result",
        source,
    });
    if report.verdict == Verdict::Failed {
        // What the checks found matters more than who can read it.
        for stop in left.err().into_iter().chain(said.err()) {
            complain(&in_full(&stop));
        }
        return Ok(report.verdict);
    }
    left?;
    said?;
    if let Some(stop) = unreached {
        return Err(stop);
    }
    if let Some(patching) = patching {
        patching.open(options).await?;
        let _serving = serve_metrics(options, &settings, Some(&report)).await?;
        patching.rest().await;
    }
    Ok(report.verdict)
}

/// Serves what the checks came to, if that is asked for; ends when the returned value is dropped. Where an earlier
/// process has run them there is no report.
async fn serve_metrics(
    options: &VerifyOptions,
    settings: &Settings,
    report: Option<&Report>,
) -> Result<Option<Serving>, Stop> {
    let Some(port) = options.metrics_port() else {
        return Ok(None);
    };
    let node = settings.node_name.as_deref().unwrap_or_default();
    let text = match report {
        Some(report) => metrics::text(node, report, Clock::System.now()),
        None => metrics::text_of_open(node),
    };
    let serving = serve::text(&BindAddress::Everywhere(port), text).await;
    serving.map_err(|error| Stop::Metrics(in_full(error.as_ref())))
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;
    use shipshape_engine::verify::outcome::{WorkerState, WorkerView};
    use shipshape_verifier::{Check, Evidence, Finding, Phase};

    use super::*;

    #[test]
    fn what_a_worker_leaves_for_the_kubelet_is_what_the_gate_reads() {
        let finding = |check, ok: bool| Finding {
            check,
            target: "target".to_owned(),
            ok,
            phase: (!ok).then_some(Phase::Tls),
            message: "words".to_owned(),
            milliseconds: 7,
        };
        let report = Report {
            verdict: Verdict::Failed,
            findings: vec![
                finding(Check::Network, true),
                finding(Check::ApiVersion, false),
            ],
            omitted: 2,
            evidence: Some(Evidence {
                resolv_conf: "nameserver 10.96.0.10".to_owned(),
                addresses: vec!["10.0.0.7".to_owned()],
                routes: Vec::new(),
            }),
        };
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "verify-n" },
            "status": { "phase": "Failed", "containerStatuses": [{
                "name": "verify", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "terminated": { "exitCode": 1, "message": termination_message(&report) } },
            }] },
        }))
        .unwrap();
        let WorkerState::Ended(ending) = WorkerView::of(&pod).state else {
            panic!("it has ended");
        };
        assert!(!ending.passed);
        let first = ending.failures().next().unwrap();
        assert_eq!(
            (first.check.as_str(), first.phase.as_deref()),
            ("api-version", Some("tls"))
        );
        assert_eq!((ending.findings.len(), ending.omitted), (2, 2));
        assert_eq!(ending.evidence.unwrap().addresses, ["10.0.0.7"]);
    }
}

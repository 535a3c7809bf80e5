//! Logs: where they go and in which form.
//!
//! Owns the subscriber. Logs always go to standard error, so that answers can be piped.

use std::fmt;

use anyhow::Context;
use tokio::time::Instant;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::cli::LogFormat;

/// Begins to log.
pub(crate) fn start(format: LogFormat, level: &str) -> anyhow::Result<()> {
    let filter = filter(level)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .try_init(),
        LogFormat::Console => {
            let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
            builder.with_ansi(is_terminal).try_init()
        }
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}

/// Begins to log what happens in a world of virtual time, with that world's seconds.
pub(crate) fn start_virtual(level: &str) -> anyhow::Result<()> {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter(level)?)
        .with_writer(std::io::stderr)
        .with_ansi(is_terminal)
        .with_timer(VirtualSeconds(Instant::now()))
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}

fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(level)
        .with_context(|| format!("--log-level {level:?} is not a level such as info or debug"))
}

/// Seconds of tokio's clock, which stands still while a paused runtime works.
struct VirtualSeconds(Instant);

impl FormatTime for VirtualSeconds {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:>12.3}s", self.0.elapsed().as_secs_f64())
    }
}

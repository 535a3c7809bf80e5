//! Logs: where they go and in which form.
//!
//! Owns the subscriber. Logs always go to standard error, so that answers can be piped.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// Begins to log.
pub(crate) fn start(format: LogFormat, level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level)
        .with_context(|| format!("--log-level {level:?} is not a level such as info or debug"))?;
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

//! Logs: where they go and in which form.
//!
//! Owns the subscriber. Logs always go to standard error, so that answers can be piped.

use std::fmt;

use anyhow::Context;
use tokio::time::Instant;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::cli::LogFormat;

/// Begins to log. `field` is where the level was given, for a complaint about it.
pub(crate) fn start(format: LogFormat, field: &str, level: &str) -> anyhow::Result<()> {
    let filter = filter(field, level)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Its way to complain of a log that cannot be written is a panic.
        .log_internal_errors(false)
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
        .with_env_filter(filter("--log-level", level)?)
        // Its way to complain of a log that cannot be written is a panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_ansi(is_terminal)
        .with_timer(VirtualSeconds(Instant::now()))
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}

/// What is logged. To the library a word that is no level is the name of a target, so that a slip of the
/// pen would log nothing at all.
fn filter(field: &str, level: &str) -> anyhow::Result<EnvFilter> {
    let wrong = || {
        format!(
            "{field} is {level:?}; right would be off, error, warn, info, debug or trace, \
             or a filter such as shipshape_controllers=debug,info"
        )
    };
    // To the library no word at all is a level, too.
    let is_level = |part: &str| !part.is_empty() && part.parse::<LevelFilter>().is_ok();
    let is_part = |part: &str| part.contains('=') || is_level(part);
    anyhow::ensure!(level.split(',').all(is_part), wrong());
    EnvFilter::try_new(level).with_context(wrong)
}

/// Seconds of tokio's clock, which stands still while a paused runtime works.
struct VirtualSeconds(Instant);

impl FormatTime for VirtualSeconds {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:>12.3}s", self.0.elapsed().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_or_a_filter_is_taken_and_other_words_are_not() {
        for right in [
            "off",
            "info",
            "DEBUG",
            "shipshape_controllers=debug,info",
            "info,kube=warn",
        ] {
            assert!(filter("level", right).is_ok(), "{right}");
        }
        for wrong in [
            "",
            "bogus",
            "inof",
            "kube",
            "kube=bogus",
            "info,bogus",
            "info,",
        ] {
            let told = filter("level", wrong).unwrap_err().to_string();
            assert!(told.contains("right would be off, error"), "{told}");
            assert!(told.contains(&format!("{wrong:?}")), "{told}");
        }
    }
}

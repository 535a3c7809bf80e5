//! `shipshape peer`: the other end of the checks `peer` and `udp-loss`, for nodes in service.
//!
//! Owns nothing but its life; what it does and refuses to do is in `shipshape-verifier`.

use std::process::ExitCode;

use anyhow::Context;
use shipshape_verifier::Responder;

use crate::cli::PeerOptions;
use crate::logs;
use crate::signals::Signals;

/// Serves until somebody asks it to end.
pub(crate) fn run(options: &PeerOptions) -> anyhow::Result<ExitCode> {
    crate::block_on(async {
        logs::start(options.log_format, "--log-level", &options.log_level)?;
        let mut signals = Signals::listen()?;
        let responder = Responder::bind(options.listen).await.with_context(|| {
            format!(
                "cannot listen on {}, by TCP and UDP (--listen; 0.0.0.0:PORT where there is no IPv6)",
                options.listen
            )
        })?;
        tracing::info!(address = %responder.address()?, "ready to dial back");
        tokio::select! {
            () = responder.serve() => {}
            asked = signals.asked() => tracing::info!(?asked, "stopping"),
        }
        Ok(ExitCode::SUCCESS)
    })
}

//! One step of a check on a socket, with a deadline and a name for where it failed; and plain connections.
//!
//! Owns the words for a step that takes too long.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::report::{Phase, Trouble};

/// Waits for a step until its time is over.
pub(crate) async fn step<T>(
    until: Instant,
    phase: Phase,
    work: impl Future<Output = io::Result<T>>,
) -> Result<T, Trouble> {
    match timeout_at(until, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Trouble::new(phase, error.to_string())),
        Err(_) => Err(Trouble::new(phase, late(phase))),
    }
}

/// Connects, or says why not.
pub(crate) async fn connect(address: SocketAddr, until: Instant) -> Result<TcpStream, Trouble> {
    step(until, Phase::Connect, TcpStream::connect(address)).await
}

fn late(phase: Phase) -> &'static str {
    match phase {
        Phase::Dns => "no answer in time",
        Phase::Connect => "no answer in time to the attempt to connect",
        Phase::Tls => {
            "connected, but the TLS handshake did not end in time; are large packets lost on the way (path MTU)?"
        }
        Phase::Http => {
            "the TLS handshake is done, but no whole answer came in time; are large packets lost on the way (path MTU)?"
        }
    }
}

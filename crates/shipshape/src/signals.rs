//! The two ways to ask a process to end: Ctrl-C and the signal of a service manager.
//!
//! Owns their handlers and the exit codes that say which it was. A process that wants a word with
//! its user first listens from its start; the first moment without a handler is the one that counts.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Ctrl-C.
    Interrupt,
    /// A service manager, or `kill`.
    Terminate,
}

impl Asked {
    /// What a shell expects from a process that was ended so.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// Hears both.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to listen; from now on neither ends the process by itself.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot hear signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits until somebody asks.
    pub(crate) async fn asked(&mut self) -> Asked {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Asked::Terminate,
            _ = self.interrupt.recv() => Asked::Interrupt,
        }
    }
}

//! The ways to speak to whoever called: answers to standard output, complaints and progress to standard
//! error.
//!
//! Owns the handling of a reader that went away. Progress is for terminals only.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Least time between two words about progress.
const PAUSE: Duration = Duration::from_millis(100);

/// Writes an answer. A reader that has seen enough is not an error.
pub(crate) fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a complaint. If even that fails, nobody is there to hear it.
pub(crate) fn complain(text: &str) {
    let written = writeln!(io::stderr().lock(), "shipshape: {text}");
    drop(written);
}

/// One line about what takes long, drawn over by the next and gone in the end.
pub(crate) struct Progress {
    is_shown: bool,
    last: Option<Instant>,
}

impl Progress {
    /// Says nothing yet; never says anything where nobody looks.
    pub(crate) fn new() -> Self {
        Self {
            is_shown: io::stderr().is_terminal(),
            last: None,
        }
    }

    /// Says what is going on, unless it did so a moment ago.
    pub(crate) fn tell(&mut self, words: impl FnOnce() -> String) {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= PAUSE);
        if self.is_shown && is_due {
            self.last = Some(wall_clock());
            draw(&words());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last.is_some() {
            draw("");
        }
    }
}

/// Draws over the line; a long one is cut by the terminal.
fn draw(words: &str) {
    let mut err = io::stderr().lock();
    let written = write!(err, "\r\x1b[?7l\x1b[2K{words}\x1b[?7h");
    drop(written.and_then(|()| err.flush()));
}

#[expect(
    clippy::disallowed_methods,
    reason = "how often somebody is told has nothing to do with the cluster's time"
)]
fn wall_clock() -> Instant {
    Instant::now()
}

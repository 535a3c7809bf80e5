//! The ways to speak to whoever called: answers to standard output, complaints and progress to standard
//! error.
//!
//! Owns the handling of a reader that went away. Progress is for terminals only.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

/// Least time between two words about progress.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether somebody still reads what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// As far as one can tell.
    There,
    /// It has seen enough: whoever has more to say ends.
    Gone,
}

/// What a shell expects from a process whose reader has gone, as of one that the signal has ended.
const READER_GONE: u8 = 141;

/// How a command ends that had more to say than its reader wanted: without a word.
pub(crate) fn unheard() -> ExitCode {
    ExitCode::from(READER_GONE)
}

/// Writes an answer. A reader that has seen enough is not an error.
pub(crate) fn say(text: &str) -> io::Result<Reader> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => {
            let words = format!("cannot write to standard output: {error}");
            Err(io::Error::new(error.kind(), words))
        }
    }
}

/// Returns when the other end of a pipe is closed, and never where standard output is none. A command
/// that waits for changes would learn of it with the next one only.
pub(crate) async fn reader_gone() {
    // What cannot be watched, such as a file, has no reader to lose. Nothing is written this way: other ways
    // to say it is a pipe would make writes to it end early while it is full.
    if !io::stdout().is_terminal()
        && let Ok(out) = io::stdout().as_fd().try_clone_to_owned()
        && let Ok(out) = Sender::from_owned_fd_unchecked(out)
        && out.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
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

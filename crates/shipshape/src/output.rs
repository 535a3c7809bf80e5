//! The two ways to speak to whoever called: answers to standard output, complaints to standard error.
//!
//! Owns the handling of a reader that went away.

use std::io::{self, Write};

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

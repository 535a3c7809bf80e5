//! How things look: bars, colours, tables, spans of time, and a picture that is drawn over.
//!
//! Owns the one way to do each. Colours and cursor movements are for terminals only. Used by `demo`,
//! `status`, `explain` and `plan`.

use std::io::IsTerminal;

use jiff::{SignedDuration, Timestamp};
use shipshape_api::TaskStep;

use crate::output::say;

const BAR: usize = 24;
/// Tells the terminal to cut long lines.
const NO_WRAP: &str = "\x1b[?7l";
/// Tells the terminal to wrap long lines again.
const WRAP: &str = "\x1b[?7h";

/// Whether answers go to a terminal.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether answers may have colours: on a terminal, unless the user's environment says otherwise.
pub(crate) fn is_coloured() -> bool {
    is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How far something is.
pub(crate) fn bar(done: i32, total: i32) -> String {
    let done = usize::try_from(done).unwrap_or(0);
    let total = usize::try_from(total).unwrap_or(0);
    let filled = (done * BAR / total.max(1)).min(BAR);
    format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled))
}

/// The colour of a step.
pub(crate) fn colour(step: TaskStep) -> &'static str {
    match step {
        TaskStep::Lock
        | TaskStep::Provision
        | TaskStep::Join
        | TaskStep::Transfer
        | TaskStep::Settle => "\x1b[34m",
        TaskStep::Cordon | TaskStep::Drain | TaskStep::Recover => "\x1b[33m",
        TaskStep::Undo | TaskStep::Backoff | TaskStep::Parked => "\x1b[36m",
        TaskStep::RemoveMember | TaskStep::Remove | TaskStep::Forget | TaskStep::Release => {
            "\x1b[35m"
        }
        TaskStep::Done => "\x1b[32m",
        TaskStep::Failed => "\x1b[31m",
    }
}

/// A text in a colour, or as it is.
pub(crate) fn paint(text: &str, colour: &str, is_coloured: bool) -> String {
    if is_coloured && !colour.is_empty() {
        format!("{colour}{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// A span of time in the two units that matter, such as `1h03m`.
pub(crate) fn short(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    match (
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    ) {
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) if minutes < 10 => format!("{minutes}m{seconds:02}s"),
        (0, 0, minutes, _) => format!("{minutes}m"),
        (0, hours, minutes, _) => format!("{hours}h{minutes:02}m"),
        (days, hours, ..) => format!("{days}d{hours:02}h"),
    }
}

/// When something happens, from now: `in 5m` or `5m ago`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", short(at.duration_since(now)))
    } else {
        format!("{} ago", short(now.duration_since(at)))
    }
}

/// A cell of a table and its colour.
pub(crate) type Cell = (String, &'static str);

/// Lines with aligned columns. The last column is as long as it is.
pub(crate) fn table(rows: &[Vec<Cell>], is_coloured: bool) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|(text, _)| text.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<Cell>| {
        let mut line = String::new();
        for ((text, colour), width) in row.iter().zip(&widths) {
            line.push_str(&paint(text, colour, is_coloured));
            let gap = width.saturating_sub(text.chars().count()) + 2;
            line.push_str(&" ".repeat(gap));
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A picture that is drawn over the last one.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    /// Lines of the last picture.
    drawn: usize,
}

impl Canvas {
    /// Draws the lines over those of the last call.
    pub(crate) fn draw(&mut self, lines: &[String]) -> std::io::Result<()> {
        // A line that wraps would take two rows, and the next picture would be drawn one row off.
        let mut text = NO_WRAP.to_owned();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A", self.drawn));
        }
        for line in lines {
            text.push_str(&format!("\x1b[2K{line}\n"));
        }
        text.push_str("\x1b[0J");
        text.push_str(WRAP);
        self.drawn = lines.len();
        say(&text)
    }
}

/// How many lines the terminal shows, if it says; the cursor stands on one of its own.
pub(crate) fn rows() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_row > 0).then(|| usize::from(size.ws_row) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_the_two_units_that_matter() {
        for (seconds, text) in [
            (-5, "0s"),
            (59, "59s"),
            (61, "1m01s"),
            (754, "12m"),
            (3780, "1h03m"),
            (90_000, "1d01h"),
        ] {
            assert_eq!(short(SignedDuration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn columns_are_aligned_whatever_the_colours_and_letters() {
        let row = |cells: [&str; 3]| {
            let cells = cells.into_iter().map(|text| (text.to_owned(), "\x1b[31m"));
            cells.collect::<Vec<Cell>>()
        };
        let rows = [row(["NODE", "STEP", "WAITS"]), row(["näher", "Drain", ""])];
        assert_eq!(table(&rows, false), ["NODE   STEP   WAITS", "näher  Drain"]);
        assert!(table(&rows, true)[0].starts_with("\x1b[31mNODE\x1b[0m   "));
    }

    #[test]
    fn a_bar_is_never_longer_than_itself() {
        for (done, total) in [(0, 0), (1, 2), (5, 3), (-1, 2)] {
            assert_eq!(bar(done, total).chars().count(), BAR);
        }
    }
}

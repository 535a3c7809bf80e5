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
    if is_coloured && !colour.is_empty() && !text.is_empty() {
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

/// The last column of a table is wrapped while this much room is left for it.
const LEAST: usize = 20;

/// Lines with aligned columns, the first row being the head. Where they are wider than `width`, the last
/// column is wrapped; where even that does not help, each row becomes a few lines of its own.
pub(crate) fn table(rows: &[Vec<Cell>], width: Option<usize>, is_coloured: bool) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|(text, _)| length(text)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let before: usize = widths.iter().rev().skip(1).map(|width| width + GAP).sum();
    let last = widths.last().copied().unwrap_or(0);
    match width {
        Some(width) if before + last <= width => lines(rows, &widths, last, is_coloured),
        Some(width) if before + LEAST <= width => lines(rows, &widths, width - before, is_coloured),
        Some(width) => blocks(rows, width, is_coloured),
        None => lines(rows, &widths, last, is_coloured),
    }
}

/// Spaces between two columns.
const GAP: usize = 2;

fn length(text: &str) -> usize {
    text.chars().count()
}

fn lines(rows: &[Vec<Cell>], widths: &[usize], last: usize, is_coloured: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        let Some((tail, cells)) = row.split_last() else {
            continue;
        };
        let mut head = String::new();
        for ((text, colour), width) in cells.iter().zip(widths) {
            head.push_str(&paint(text, colour, is_coloured));
            head.push_str(&" ".repeat(width.saturating_sub(length(text)) + GAP));
        }
        let shift: usize = widths.iter().take(cells.len()).map(|one| one + GAP).sum();
        for (place, piece) in wrapped(&tail.0, last).iter().enumerate() {
            let before = if place == 0 {
                head.clone()
            } else {
                " ".repeat(shift)
            };
            let line = format!("{before}{}", paint(piece, tail.1, is_coloured));
            lines.push(line.trim_end().to_owned());
        }
    }
    lines
}

/// Each row as its first cell, then the others with their heads.
fn blocks(rows: &[Vec<Cell>], width: usize, is_coloured: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let Some((heads, rows)) = rows.split_first() else {
        return lines;
    };
    for row in rows {
        if let Some((first, colour)) = row.first() {
            lines.push(paint(first, colour, is_coloured));
        }
        let others = row.iter().zip(heads).skip(1);
        let others = others.filter(|((text, _), _)| !text.is_empty());
        let others: Vec<String> = others
            .map(|((text, _), (head, _))| format!("{head} {text}").trim_start().to_owned())
            .collect();
        let pieces = wrapped(&others.join(", "), width.saturating_sub(GAP));
        lines.extend(pieces.iter().map(|piece| format!("  {piece}")));
    }
    lines
}

/// A text in pieces of at most `width` letters, between words where that is possible; at least one piece.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for word in text.split(' ') {
        if !piece.is_empty() && length(&piece) + 1 + length(word) > width {
            pieces.push(std::mem::take(&mut piece));
        }
        if !piece.is_empty() {
            piece.push(' ');
        }
        for letter in word.chars() {
            if length(&piece) == width {
                pieces.push(std::mem::take(&mut piece));
            }
            piece.push(letter);
        }
    }
    pieces.push(piece);
    pieces
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
        say(&text).map(drop)
    }
}

/// How many letters wide the terminal is, less an indent; `None` where there is none.
pub(crate) fn columns(indent: usize) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    let columns = usize::from(size.ws_col);
    (columns > 0).then(|| columns.saturating_sub(indent))
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
        let wide = ["NODE   STEP   WAITS", "näher  Drain"];
        assert_eq!(table(&rows, None, false), wide);
        assert_eq!(table(&rows, Some(80), false), wide);
        assert!(table(&rows, None, true)[0].starts_with("\x1b[31mNODE\x1b[0m   "));
    }

    #[test]
    fn a_narrow_terminal_gets_wrapped_lines_and_a_narrower_one_a_few_lines_a_row() {
        let row = |cells: [&str; 3]| cells.map(|text| (text.to_owned(), "")).to_vec();
        let rows = [
            row(["NODE", "STEP", "WAITS FOR"]),
            row([
                "node-workers-003",
                "Drain",
                "pod shop/web-1 to leave this node",
            ]),
        ];
        assert_eq!(
            table(&rows, Some(46), false),
            [
                "NODE              STEP   WAITS FOR",
                "node-workers-003  Drain  pod shop/web-1 to",
                "                         leave this node",
            ]
        );
        assert_eq!(
            table(&rows, Some(30), false),
            [
                "node-workers-003",
                "  STEP Drain, WAITS FOR pod",
                "  shop/web-1 to leave this",
                "  node",
            ]
        );
        for width in 1..100 {
            let lines = table(&rows, Some(width), false);
            let longest = lines.iter().skip(1).map(|line| length(line)).max();
            assert!(
                longest.unwrap() <= width.max(16),
                "{width}\n{}",
                lines.join("\n")
            );
        }
    }

    #[test]
    fn a_word_that_fits_no_line_is_cut_and_nothing_is_lost() {
        for width in 1..12 {
            let pieces = wrapped("ab abcdefghij c", width);
            assert!(
                pieces.iter().all(|piece| length(piece) <= width),
                "{pieces:?}"
            );
            let letters: String = pieces.concat().replace(' ', "");
            assert_eq!(letters, "ababcdefghijc");
        }
        assert_eq!(wrapped("", 5), [""]);
    }

    #[test]
    fn a_bar_is_never_longer_than_itself() {
        for (done, total) in [(0, 0), (1, 2), (5, 3), (-1, 2)] {
            assert_eq!(bar(done, total).chars().count(), BAR);
        }
    }
}

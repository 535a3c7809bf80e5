//! Lengths of time as manifests write them: `90s`, `1h30m`.
//!
//! Owns the reading and the writing of such text. Must not guess: text that is no length of time is an error with the
//! text in it. The schema has refused most of it before it gets here.

use jiff::SignedDuration;
use thiserror::Error;

/// Text that is no length of time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a length of time such as 90s, 10m or 1h30m")]
pub struct NotASpan(pub String);

/// Reads a length of time; absent, empty and `0` are zero.
pub fn parse(text: Option<&str>) -> Result<SignedDuration, NotASpan> {
    match text {
        None | Some("" | "0") => Ok(SignedDuration::ZERO),
        Some(text) => text
            .parse::<SignedDuration>()
            .ok()
            .filter(|span| !span.is_negative())
            .ok_or_else(|| NotASpan(text.to_owned())),
    }
}

/// A length of time as a person writes it. The library calls a negative one a time that was so long ago.
pub fn written(span: SignedDuration) -> String {
    let sign = if span.is_negative() { "-" } else { "" };
    format!("{sign}{:#}", span.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        let table = [
            (None, 0),
            (Some(""), 0),
            (Some("0"), 0),
            (Some("0s"), 0),
            (Some("90s"), 90),
            (Some("10m"), 600),
            (Some("1h30m"), 5400),
            (Some("1.5h"), 5400),
            (Some("1h30.5m"), 5430),
            (Some("1h1m1.5s"), 3661),
            (Some("1m2s3ms4us5ns"), 62),
            (Some("99999h9999999m999999999s"), 1_959_996_339),
        ];
        for (text, seconds) in table {
            assert_eq!(parse(text).unwrap().as_secs(), seconds, "{text:?}");
        }
    }

    #[test]
    fn spans_are_written_as_people_write_them() {
        for (seconds, text) in [(0, "0s"), (90, "1m 30s"), (-300, "-5m")] {
            assert_eq!(written(SignedDuration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn other_text_is_refused_with_its_words() {
        for text in ["soon", "-5m", "10"] {
            assert!(
                parse(Some(text)).unwrap_err().to_string().contains(text),
                "{text}"
            );
        }
    }
}

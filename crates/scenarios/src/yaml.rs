//! Reads a YAML file that a person wrote, and tells them where it is wrong.
//!
//! Owns the words: line, column, field and what is the matter there. Must not know any format.
//! Called for scenario files and for the controller's configuration.

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, UserMessageFormatter, with_deserializer_from_str};

/// Reads the one document of a text; the error is a sentence for people.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut field = String::new();
    let read = with_deserializer_from_str(text, |document| {
        serde_path_to_error::deserialize(document).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    read.map_err(|error| complaint(&error, &field))
}

fn complaint(error: &Error, field: &str) -> String {
    let place = error
        .location()
        .map(|at| format!("line {}, column {}: ", at.line(), at.column()))
        .unwrap_or_default();
    let field = field.trim_end_matches(".?");
    let field = match field {
        "" | "." | "?" => String::new(),
        field => format!("{field}: "),
    };
    format!("{place}{field}{}", message(error))
}

/// The library's words without its places, and without its names of number types.
fn message(error: &Error) -> String {
    let bare = error.without_snippet();
    let text = bare.render_with_formatter(&UserMessageFormatter);
    let text = match text.rfind(" at line ") {
        Some(end) if bare.location().is_some() => text.get(..end).unwrap_or(&text),
        _ => &text,
    };
    in_plain_words(text)
}

/// What would be right, where the library says in words of its own what is wrong.
fn in_plain_words(text: &str) -> String {
    let plain = match text {
        "invalid u8" | "invalid u16" | "invalid u32" | "invalid u64" | "invalid usize" => {
            "not a whole number from 0 up, or too large"
        }
        "invalid i8" | "invalid i16" | "invalid i32" | "invalid i64" => {
            "not a whole number, or too large"
        }
        "invalid boolean" => "right would be true or false",
        "expected sequence start" => "right would be a list, such as [a, b]",
        "expected mapping start" => "right would be keys with their values, such as { key: value }",
        "expected string scalar" => "right would be one text, and neither a list nor keys",
        "unexpected end of file" => "the text is empty or ends too early",
        text if text.contains("duration format") || text.contains("ISO 8601 duration") => {
            "not a length of time; right would be one such as 90s, 15m, 2h or 1h30m"
        }
        text => return renamed(text),
    };
    plain.to_owned()
}

fn renamed(text: &str) -> String {
    let unknown = text.strip_prefix("unknown variant ");
    let unknown = unknown.and_then(|rest| rest.split_once(", expected one of "));
    if let Some((given, right)) = unknown {
        return format!("{given} is not known here; right would be one of {right}");
    }
    let twice = text.strip_prefix("duplicate mapping key: ");
    match twice.and_then(|rest| rest.strip_suffix(" not allowed here")) {
        Some(key) => format!("{key} is given twice"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it can be read is asked")]
    struct File {
        world: World,
        #[serde(default)]
        rest: BTreeMap<String, String>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it can be read is asked")]
    struct World {
        nodes: u32,
        #[serde(default)]
        zones: Vec<u8>,
        #[serde(default)]
        boot: jiff::SignedDuration,
        #[serde(default)]
        is_on: bool,
        #[serde(default)]
        name: String,
        #[serde(default)]
        kind: Kind,
    }

    #[derive(Debug, Default, Deserialize)]
    enum Kind {
        #[default]
        Job,
        DaemonSet,
    }

    #[test]
    fn a_complaint_says_what_would_be_right_in_words_of_the_file() {
        let right = |of: &str| format!("; right would be {of}");
        let time = format!(
            "not a length of time{}",
            right("one such as 90s, 15m, 2h or 1h30m")
        );
        let table = [
            ("world: [1]", "world: right would be keys with their values"),
            ("just words", "right would be keys with their values"),
            (
                "world: { nodes: 1, zones: a }",
                "world.zones: right would be a list, such as [a, b]",
            ),
            (
                "world: { nodes: 1, name: [a] }",
                "world.name: right would be one text",
            ),
            (
                "world: { nodes: 1, is_on: perhaps }",
                "world.is_on: right would be true or false",
            ),
            (
                "world: { nodes: 1, kind: Pod }",
                "world.kind: `Pod` is not known here; right would be one of Job, DaemonSet",
            ),
            (
                "world: { nodes: 1, nodes: 2 }",
                "world: nodes is given twice",
            ),
            ("world: { nodes: 1, boot: 1y }", &time),
            ("world: { nodes: 1, boot: 45 }", &time),
            ("world: { nodes: 1, boot: PT }", &time),
            ("", "the text is empty"),
        ];
        for (text, expected) in table {
            let complaint = read::<File>(text).unwrap_err();
            assert!(complaint.contains(expected), "{text}\n{complaint}");
            for word in [
                "sequence", "mapping", "scalar", "variant", "friendly", "jiff",
            ] {
                assert!(!complaint.contains(word), "{text}\n{complaint}");
            }
        }
    }

    #[test]
    fn a_complaint_names_line_column_and_field_and_no_name_of_a_library() {
        let table = [
            (
                "world:\n  nodes: abc",
                "line 2, column 10: world.nodes: not a whole number from 0 up, or too large",
            ),
            (
                "world: {nodes: 1, zones: [1, x]}",
                "line 1, column 30: world.zones[1]: not a whole number from 0 up, or too large",
            ),
            (
                "world: {nodez: 1}",
                "line 1, column 9: world.nodez: unknown field",
            ),
            ("world: {nodes: 1, nodes: 2}", "line 1, column 19: world"),
            ("world: {nodes: 1}\n---\nworld: {nodes: 2}", "line 3"),
            ("{}", "line 1, column 1: missing field `world`"),
            ("world: {nodes: [}", "line 1"),
            ("", ""),
        ];
        for (text, expected) in table {
            let complaint = read::<File>(text).unwrap_err();
            assert!(complaint.starts_with(expected), "{text}\n{complaint}");
            for word in ["from_str", "Policy", "Options", "u32", "<input>"] {
                assert!(!complaint.contains(word), "{text}\n{complaint}");
            }
        }
    }
}

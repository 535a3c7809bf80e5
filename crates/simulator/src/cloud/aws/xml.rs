//! Writing the answers' XML.
//!
//! Owns escaping. Must not know any action.

/// An element around finished XML.
pub(super) fn element(name: &str, inner: &str) -> String {
    format!("<{name}>{inner}</{name}>")
}

/// An element around text.
pub(super) fn text(name: &str, value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            other => escaped.push(other),
        }
    }
    element(name, &escaped)
}

/// A list whose entries are all named `entry`.
pub(super) fn list(name: &str, entry: &str, entries: impl IntoIterator<Item = String>) -> String {
    let inner: String = entries
        .into_iter()
        .map(|inner| element(entry, &inner))
        .collect();
    element(name, &inner)
}

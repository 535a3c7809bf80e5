//! Whether an object may be stored: names, labels, and fields that may not change.

use serde_json::Value;

use super::{
    failure::{Cause, Failure, Outcome},
    kinds::Kind,
    meta,
};

/// Judges a new object.
pub(super) fn created(kind: &Kind, value: &Value) -> Outcome<()> {
    let mut causes = Vec::new();
    if meta::meta_text(value, "name").is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    }
    finish(kind, value, &causes)
}

/// Judges the next state of an object.
pub(super) fn updated(kind: &Kind, old: &Value, new: &Value, _status_only: bool) -> Outcome<()> {
    let mut causes = Vec::new();
    if meta::is_deleting(old) {
        let added: Vec<String> = meta::finalizers(new)
            .filter(|f| !meta::finalizers(old).any(|o| o == *f))
            .map(|f| format!("\"{f}\""))
            .collect();
        if !added.is_empty() {
            causes.push(Cause::forbidden(
                "metadata.finalizers",
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.join(", ")
                ),
            ));
        }
    }
    finish(kind, new, &causes)
}

fn finish(kind: &Kind, value: &Value, causes: &[Cause]) -> Outcome<()> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(
        kind,
        meta::meta_text(value, "name"),
        causes,
    ))
}

/// Whether a text is a label key: an optional DNS prefix, a slash and a short name.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    prefix.is_none_or(is_dns_subdomain) && is_label_text(name) && !name.is_empty()
}

/// Letters, digits, dashes, underscores and dots, at most 63, with a letter or digit at both ends.
pub(crate) fn is_label_text(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().last())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// A DNS label: lower case letters, digits and dashes, at most 63.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(|c| edge(c) || c == '-')
        && text.chars().next().is_some_and(edge)
        && text.chars().last().is_some_and(edge)
}

/// DNS labels with dots between, at most 253; the labels may be longer than 63.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !text.is_empty()
        && text.len() <= 253
        && text.split('.').all(|part| {
            part.chars().all(|c| edge(c) || c == '-')
                && part.chars().next().is_some_and(edge)
                && part.chars().last().is_some_and(edge)
        })
}

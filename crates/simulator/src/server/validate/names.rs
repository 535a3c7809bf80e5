//! Names, labels and annotations.

use serde_json::Value;

use super::name_rule;
use crate::{
    schema::{FieldError, FieldErrorKind},
    server::{kinds::Kind, meta},
};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SERVICE_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const KEY_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Which names a kind takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Label,
    ServiceLabel,
    Subdomain,
}

/// Judges the metadata of a new object.
pub(super) fn metadata(kind: &Kind, value: &Value) -> Vec<FieldError> {
    let mut causes = Vec::new();
    let name = meta::meta_text(value, "name");
    if name.is_empty() {
        causes.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        causes.extend(
            faults(name, name_rule(kind))
                .into_iter()
                .map(|rule| FieldError::invalid("metadata.name", &name.into(), &rule)),
        );
    }
    causes.extend(generated(kind, value));
    causes.extend(labels(value));
    causes.extend(annotations(value));
    causes.extend(owners(value));
    causes.extend(finalizers(value));
    causes
}

/// The beginning of a name that the server completes; a dash at its end is no fault yet.
fn generated(kind: &Kind, value: &Value) -> Option<FieldError> {
    let prefix = meta::meta_text(value, "generateName");
    let rule = faults(&format!("{prefix}a"), name_rule(kind))
        .into_iter()
        .next()?;
    (!prefix.is_empty())
        .then(|| FieldError::invalid("metadata.generateName", &prefix.into(), &rule))
}

/// Owners are named in full, and one of them at most controls.
fn owners(value: &Value) -> Vec<FieldError> {
    let field = "metadata.ownerReferences";
    let owners = meta::items(value, &["metadata", "ownerReferences"]);
    let mut causes: Vec<FieldError> = owners
        .iter()
        .flat_map(|owner| {
            ["apiVersion", "kind", "name", "uid"]
                .into_iter()
                .filter(move |key| meta::text(owner, &[key]).is_empty())
        })
        .map(|key| FieldError::invalid(&format!("{field}.{key}"), &"".into(), "must not be empty"))
        .collect();
    let controllers = owners
        .iter()
        .filter(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    if controllers.count() > 1 {
        causes.push(FieldError::invalid(
            field,
            &owners.into(),
            "Only one reference can have Controller set to true",
        ));
    }
    causes
}

/// Judges what changed in the metadata of an object.
pub(super) fn changed_metadata(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut causes = Vec::new();
    let changed =
        |key: &str| meta::at(old, &["metadata", key]) != meta::at(new, &["metadata", key]);
    if changed("labels") {
        causes.extend(labels(new));
    }
    if changed("annotations") {
        causes.extend(annotations(new));
    }
    if changed("ownerReferences") {
        causes.extend(owners(new));
    }
    if changed("finalizers") {
        causes.extend(finalizers(new));
    }
    causes
}

fn faults(name: &str, rule: Rule) -> Vec<String> {
    let (longest, fits, text) = match rule {
        Rule::Label => (63, is_dns_label(name), LABEL),
        Rule::ServiceLabel => (
            63,
            is_dns_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase()),
            SERVICE_LABEL,
        ),
        Rule::Subdomain => (253, is_dns_subdomain(name), SUBDOMAIN),
    };
    let mut faults = Vec::new();
    if name.len() > longest {
        faults.push(format!("must be no more than {longest} bytes"));
    } else if !fits {
        faults.push(text.to_owned());
    }
    faults
}

/// Judges one DNS label at a field.
pub(super) fn label_at(field: &str, name: &str) -> Option<FieldError> {
    let rule = faults(name, Rule::Label).into_iter().next()?;
    Some(FieldError::invalid(field, &name.into(), &rule))
}

fn pairs<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a str)> {
    meta::at(value, &["metadata", key])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

fn labels(value: &Value) -> Vec<FieldError> {
    label_map("metadata.labels", pairs(value, "labels"))
}

/// Judges labels at a field.
pub(super) fn label_map<'a>(
    field: &str,
    labels: impl Iterator<Item = (&'a String, &'a str)>,
) -> Vec<FieldError> {
    let mut causes = Vec::new();
    for (key, value) in labels {
        causes.extend(key_fault(field, key));
        if value.len() > 63 {
            causes.push(FieldError::invalid(
                field,
                &value.into(),
                "must be no more than 63 bytes",
            ));
        } else if !is_label_text(value) {
            causes.push(FieldError::invalid(field, &value.into(), LABEL_VALUE));
        }
    }
    causes
}

fn annotations(value: &Value) -> Vec<FieldError> {
    const MOST: usize = 256 * 1024;
    let field = "metadata.annotations";
    let mut causes: Vec<FieldError> = pairs(value, "annotations")
        .filter_map(|(key, _)| key_fault(field, &key.to_lowercase()))
        .collect();
    let size: usize = pairs(value, "annotations")
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if size > MOST {
        causes.push(FieldError::bare(
            FieldErrorKind::TooLong,
            field,
            &format!("may not be more than {MOST} bytes"),
        ));
    }
    causes
}

fn key_fault(field: &str, key: &str) -> Option<FieldError> {
    if is_qualified_name(key) {
        return None;
    }
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(p, n)| (Some(p), n));
    let rule = match prefix {
        Some("") => "prefix part must be non-empty".to_owned(),
        Some(prefix) if !is_dns_subdomain(prefix) => format!("prefix part {SUBDOMAIN}"),
        _ if name.is_empty() => "name part must be non-empty".to_owned(),
        _ if name.len() > 63 => "name part must be no more than 63 bytes".to_owned(),
        _ => KEY_NAME.to_owned(),
    };
    Some(FieldError::invalid(field, &key.into(), &rule))
}

fn finalizers(value: &Value) -> Vec<FieldError> {
    const KNOWN: &[&str] = &["orphan", "foregroundDeletion", "kubernetes"];
    meta::finalizers(value)
        .enumerate()
        .filter_map(|(index, name)| {
            if !is_qualified_name(name) {
                return key_fault("metadata.finalizers", name);
            }
            let field = format!("metadata.finalizers[{index}]");
            (!name.contains('/') && !KNOWN.contains(&name)).then(|| {
                FieldError::invalid(
                    &field,
                    &name.into(),
                    "name is neither a standard finalizer name nor is it fully qualified",
                )
            })
        })
        .collect()
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

fn is_dns_part(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.chars().all(|c| edge(c) || c == '-')
        && text.chars().next().is_some_and(edge)
        && text.chars().last().is_some_and(edge)
}

fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// DNS labels with dots between, at most 253; the labels may be longer than 63.
fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

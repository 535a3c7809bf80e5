//! Whether an object may be stored: names, labels, schemas, and fields that may not change.
//!
//! Owns the order of the checks. Must not change objects. Checks of a single kind are in
//! `validate/`.

use serde_json::Value;

use super::{
    admission,
    failure::{Failure, Outcome, forbidden_field},
    kinds::{BuiltIn, Kind, Nature},
    meta,
};
use crate::schema::FieldError;

mod fields;
mod immutable;
mod names;
mod objects;

pub(crate) use names::{is_label_text, is_qualified_name};

/// Judges a new object.
pub(super) fn created(kind: &Kind, value: &Value) -> Outcome<()> {
    let mut causes = names::metadata(kind, value);
    match &kind.nature {
        Nature::BuiltIn(which, _) => causes.extend(objects::check(*which, value)),
        Nature::Custom(custom) => {
            let typed = admission::with_type(kind, value.clone());
            causes.extend(custom.schema.validate(&typed, None));
            causes.extend(fields::scaled(custom, value));
        }
    }
    finish(kind, value, &causes)
}

/// Judges the next state of an object.
pub(super) fn updated(kind: &Kind, old: &Value, new: &Value, status_only: bool) -> Outcome<()> {
    let mut causes = names::changed_metadata(old, new);
    causes.extend(new_finalizers(old, new));
    // The real server asks twice, once for all kinds and once for each.
    causes.extend(causes.clone());
    match &kind.nature {
        Nature::BuiltIn(which, _) if !status_only => {
            let (mut content, mut change) = (
                objects::check(*which, new),
                immutable::check(*which, old, new),
            );
            // Causes come in the order in which the real server finds them.
            if *which == BuiltIn::DaemonSet {
                std::mem::swap(&mut content, &mut change);
            } else if *which == BuiltIn::Node {
                content.extend(content.clone());
            }
            causes.append(&mut content);
            causes.append(&mut change);
        }
        Nature::BuiltIn(which, _) => causes.extend(fields::status(*which, new)),
        Nature::Custom(custom) => {
            let old = admission::with_type(kind, old.clone());
            let new = admission::with_type(kind, new.clone());
            causes.extend(fields::scaled(custom, &new));
            causes.extend(if status_only {
                custom.schema.validate_status(&new, &old)
            } else {
                custom.schema.validate(&new, Some(&old))
            });
        }
    }
    finish(kind, new, &causes)
}

fn new_finalizers(old: &Value, new: &Value) -> Option<FieldError> {
    if !meta::is_deleting(old) {
        return None;
    }
    let added: Vec<String> = meta::finalizers(new)
        .filter(|f| !meta::finalizers(old).any(|o| o == *f))
        .map(|f| format!("\"{f}\""))
        .collect();
    (!added.is_empty()).then(|| {
        forbidden_field(
            "metadata.finalizers",
            &format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            ),
        )
    })
}

fn finish(kind: &Kind, value: &Value, causes: &[FieldError]) -> Outcome<()> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(
        kind,
        meta::meta_text(value, "name"),
        causes,
    ))
}

/// Whether names of this kind are single DNS labels.
fn name_rule(kind: &Kind) -> names::Rule {
    match kind.built_in() {
        Some(BuiltIn::Namespace) => names::Rule::Label,
        Some(BuiltIn::Service) => names::Rule::ServiceLabel,
        Some(_) | None => names::Rule::Subdomain,
    }
}

//! Whether the rules of a schema are ones the API server would take.
//!
//! Owns the checks of `x-kubernetes-validations`. Types are not checked and costs not estimated.
//! Called by `structural`.

use serde_json::Value;

use super::text;
use crate::schema::field_error::{FieldError, FieldErrorKind, quote};
use crate::schema::rules::Rule;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Errors of the rules that stand on one schema.
pub(super) fn check(schema: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let sources = schema
        .get("x-kubernetes-validations")
        .and_then(Value::as_array);
    let sources = sources.into_iter().flatten();
    for (index, (source, rule)) in sources.zip(Rule::read_all(schema)).enumerate() {
        let field = format!("{field}.x-kubernetes-validations[{index}]");
        check_texts(source, &field, errors);
        if text(source, "rule").trim().is_empty() {
            errors.push(FieldError::required(
                &format!("{field}.rule"),
                "rule is not specified",
            ));
        } else if let Some(fault) = rule.fault() {
            // The text points below the faulty place; the API server indents it by one more.
            let fault = fault.replace("\n|", "\n |");
            errors.push(FieldError::with_text(
                FieldErrorKind::Invalid,
                &format!("{field}.rule"),
                Some(&as_shown(source)),
                &format!("compilation failed: {fault}"),
            ));
        }
    }
}

fn check_texts(source: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let reason = text(source, "reason");
    if !reason.is_empty() && !REASONS.contains(&reason) {
        errors.push(FieldError::not_supported(
            &format!("{field}.reason"),
            &Value::from(reason),
            &REASONS.map(Value::from),
        ));
    }
    let message = text(source, "message");
    if message.contains('\n') {
        errors.push(FieldError::invalid(
            &format!("{field}.message"),
            &Value::from(message),
            "must not contain line breaks",
        ));
    }
}

/// A rule as the API server prints it: all members, in the order of their declaration.
fn as_shown(source: &Value) -> String {
    let quoted = |name: &str| quote(text(source, name));
    let optional = |name: &str| source.get(name).cloned().unwrap_or_default();
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        quoted("rule"),
        quoted("message"),
        quoted("messageExpression"),
        optional("reason"),
        quoted("fieldPath"),
        optional("optionalOldSelf"),
    )
}

//! Answers in the words of an API server.

use serde_json::{Value, json};

/// Status code and body.
pub(crate) type Answer = (u16, Value);

/// A `Status` of failure.
pub(crate) fn failure(code: u16, reason: &str, message: &str) -> Answer {
    failure_with(code, reason, message, json!([]))
}

/// A `Status` of failure with causes.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write the causes in place"
)]
pub(crate) fn failure_with(code: u16, reason: &str, message: &str, causes: Value) -> Answer {
    let status = json!({
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": { "causes": causes },
    });
    (code, status)
}

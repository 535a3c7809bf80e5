//! Refusals of the API, as the `Status` objects that clients see.
//!
//! Owns codes, reasons and messages. Must not decide when to refuse: the verbs do that.

use serde_json::{Value, json};

use super::kinds::Kind;
use crate::schema::{FieldError, FieldErrorKind, summarize};

/// What a verb yields: a value, or a refusal.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// A refusal, ready to be sent as a `Status`.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// HTTP status code.
    pub(crate) code: u16,
    /// Machine-readable reason; empty when the real server gives none.
    pub(crate) reason: &'static str,
    /// Sentence for people.
    pub(crate) message: String,
    /// The `details` of the status.
    pub(crate) details: Value,
}

impl Failure {
    /// A refusal without details.
    pub(crate) fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    fn about(kind: &Kind, name: &str) -> Value {
        let mut details = json!({ "kind": kind.plural });
        if let Some(map) = details.as_object_mut() {
            if !name.is_empty() {
                map.insert("name".into(), name.into());
            }
            if !kind.group.is_empty() {
                map.insert("group".into(), kind.group.clone().into());
            }
        }
        details
    }

    /// The path leads nowhere.
    pub(crate) fn no_such_path() -> Self {
        Self {
            details: json!({}),
            ..Self::plain(
                404,
                "NotFound",
                "the server could not find the requested resource",
            )
        }
    }

    /// The verb exists, but not here.
    pub(crate) fn method_not_allowed() -> Self {
        Self {
            details: json!({}),
            ..Self::plain(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
        }
    }

    /// The object does not exist.
    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self {
            details: Self::about(kind, name),
            ..Self::plain(
                404,
                "NotFound",
                format!("{} \"{name}\" not found", kind.qualified()),
            )
        }
    }

    /// An object of that name is there already.
    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self {
            details: Self::about(kind, name),
            ..Self::plain(
                409,
                "AlreadyExists",
                format!("{} \"{name}\" already exists", kind.qualified()),
            )
        }
    }

    /// The request rests on a state that is no longer.
    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        Self {
            details: Self::about(kind, name),
            ..Self::plain(
                409,
                "Conflict",
                format!(
                    "Operation cannot be fulfilled on {} \"{name}\": {why}",
                    kind.qualified()
                ),
            )
        }
    }

    /// The object is not the one that the client means.
    pub(crate) fn precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let mut failure = Self::conflict(kind, name, why);
        let qualified = if kind.group.is_empty() {
            kind.kind.clone()
        } else {
            format!("{}.{}", kind.kind, kind.group)
        };
        failure.message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        if let Some(details) = failure.details.as_object_mut() {
            details.insert("kind".into(), kind.kind.clone().into());
        }
        failure
    }

    /// The lost update: somebody else wrote first.
    pub(crate) fn stale(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The server understands the request and will not do it.
    pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let subject = if name.is_empty() {
            kind.qualified()
        } else {
            format!("{} \"{name}\"", kind.qualified())
        };
        Self {
            details: Self::about(kind, name),
            ..Self::plain(403, "Forbidden", format!("{subject} is forbidden: {why}"))
        }
    }

    /// The object breaks rules, each named.
    pub(crate) fn invalid(kind: &Kind, name: &str, causes: &[FieldError]) -> Self {
        Self::invalid_kind(&kind.group, &kind.kind, name, causes)
    }

    /// As `invalid`, for something that is no kind of the table.
    pub(crate) fn invalid_kind(group: &str, kind: &str, name: &str, causes: &[FieldError]) -> Self {
        let text = summarize(causes);
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let mut details = json!({
            "kind": kind,
            "causes": causes.iter().map(FieldError::cause).collect::<Vec<_>>(),
        });
        if let Some(map) = details.as_object_mut() {
            if !group.is_empty() {
                map.insert("group".into(), group.into());
            }
            if !name.is_empty() {
                map.insert("name".into(), name.into());
            }
        }
        Self {
            details,
            ..Self::plain(
                422,
                "Invalid",
                format!("{qualified} \"{name}\" is invalid: {text}"),
            )
        }
    }

    /// The request cannot be read.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message)
    }

    /// The history the client asks for is gone.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::plain(410, "Expired", message)
    }

    /// The client has seen a version that this server has not.
    pub(crate) fn too_large_version(asked: u64, current: u64) -> Self {
        Self {
            details: json!({
                "retryAfterSeconds": 1,
                "causes": [{
                    "reason": "ResourceVersionTooLarge",
                    "message": "Too large resource version",
                }],
            }),
            ..Self::plain(
                504,
                "Timeout",
                format!("Timeout: Too large resource version: {asked}, current: {current}"),
            )
        }
    }

    /// The body is of a type the server does not read.
    pub(crate) fn unsupported_media(accepted: &[&str]) -> Self {
        Self::plain(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                accepted.join(", ")
            ),
        )
    }

    /// The body is protobuf, which the real server reads and this one does not.
    pub(crate) fn bare_protobuf() -> Self {
        let message = "the embedded cluster does not read application/vnd.kubernetes.protobuf; send \
                       application/json or application/yaml (kubectl apply and create -f do)";
        Self::plain(415, "UnsupportedMediaType", message)
    }

    /// The body is longer than any request may be.
    pub(crate) fn too_large_body(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::plain(413, "RequestEntityTooLarge", message)
    }

    /// The client accepts nothing that the server writes.
    pub(crate) fn wrong_shape() -> Self {
        let message =
            "the server was unable to respond with a content type that the client supports";
        Self::plain(406, "NotAcceptable", message)
    }

    /// Nothing that the client accepts can be written.
    pub(crate) fn not_acceptable() -> Self {
        Self {
            details: json!({}),
            ..Self::plain(
                406,
                "NotAcceptable",
                "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
            )
        }
    }

    /// The `Status` object.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if let Some(map) = status.as_object_mut() {
            if !self.reason.is_empty() {
                map.insert("reason".into(), self.reason.into());
            }
            if !self.details.is_null() {
                map.insert("details".into(), self.details.clone());
            }
        }
        status
    }

    /// Seconds after which the client may try again, for the header of that name.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds")?.as_u64()
    }
}

/// A change that nobody may make.
pub(crate) fn forbidden_field(field: &str, rule: &str) -> FieldError {
    FieldError::bare(FieldErrorKind::Forbidden, field, rule)
}

/// A word outside of an enumeration.
pub(crate) fn unsupported_word(field: &str, word: &str, allowed: &[&str]) -> FieldError {
    let allowed: Vec<Value> = allowed.iter().map(|word| (*word).into()).collect();
    FieldError::not_supported(field, &word.into(), &allowed)
}

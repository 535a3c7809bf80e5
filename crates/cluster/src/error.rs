//! What can go wrong between the operator and the API server, and what each failure means.
//!
//! Owns the one error type of this crate and its classes. Must not decide what to do next: a class
//! only says what is known. Returned by every module here; read by the controllers' queue.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use kube::core::Status;

/// Longest wait for one answer. A lost response must not hold a pass for ever.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// Result of a call to the API server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed call, with what was tried on which object.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server, or the way to it, said no.
    #[error("cannot {action} {object}")]
    Request {
        /// The verb, as in "cannot VERB".
        action: &'static str,
        /// The object, as `kind namespace/name`.
        object: String,
        /// What came back.
        source: Box<kube::Error>,
    },
    /// No answer came. Whether the server acted is unknown.
    #[error("cannot {action} {object}: no answer within {limit:?}")]
    Timeout {
        /// The verb, as in "cannot VERB".
        action: &'static str,
        /// The object, as `kind namespace/name`.
        object: String,
        /// How long we waited.
        limit: Duration,
    },
    /// The live object is not the one the decision was made for.
    #[error("{object} is not as decided upon: {why}")]
    Disagrees {
        /// The object, as `kind namespace/name`.
        object: String,
        /// What differs.
        why: String,
    },
    /// An object holds something that we cannot read. It is never skipped.
    #[error("{object} is malformed at {field}: {why}")]
    Malformed {
        /// The object, as `kind namespace/name`.
        object: String,
        /// Where in the object.
        field: String,
        /// What is wrong there.
        why: String,
    },
}

/// What a failure means for the pass that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorClass {
    /// Try again later; nothing is wrong with the request.
    Transient,
    /// The snapshot was stale; observe again.
    Conflict,
    /// The object is gone, or the version asked for is.
    Gone,
    /// We lack a right.
    Denied,
    /// The server understood and refuses the content; only a change of input helps.
    Invalid,
    /// We sent or received something that cannot be.
    Bug,
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Transient => "transient",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::Bug => "bug",
        })
    }
}

impl Error {
    /// Names what was tried on which object.
    pub fn request(action: &'static str, object: impl Into<String>, source: kube::Error) -> Self {
        Self::Request {
            action,
            object: object.into(),
            source: Box::new(source),
        }
    }

    /// What the failure means.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Request { source, .. } => class_of(source),
            Self::Timeout { .. } => ErrorClass::Transient,
            Self::Disagrees { .. } => ErrorClass::Conflict,
            Self::Malformed { .. } => ErrorClass::Invalid,
        }
    }

    /// The server's own words, when it answered at all.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Request { source, .. } => status_of(source),
            Self::Timeout { .. } | Self::Disagrees { .. } | Self::Malformed { .. } => None,
        }
    }
}

/// An error and its causes in one sentence: what the logs, a status and a person get to read.
///
/// Our errors leave their cause to their source. Others repeat it in their own words; a cause that
/// has been said is not said again.
pub fn in_full(error: &(dyn std::error::Error + 'static)) -> String {
    let mut sentence = words_of(error);
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = words_of(next);
        if !sentence.contains(&words) {
            sentence = format!("{sentence}: {words}");
        }
        cause = next.source();
    }
    sentence
}

/// What one error says. The client prints a refusal with all its fields; the server's message says
/// the same for people.
fn words_of(error: &(dyn std::error::Error + 'static)) -> String {
    let refusal = error
        .downcast_ref::<kube::Error>()
        .or_else(|| error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref))
        .and_then(status_of)
        .or_else(|| error.downcast_ref::<Status>())
        .or_else(|| error.downcast_ref::<Box<Status>>().map(AsRef::as_ref));
    match refusal {
        Some(status) if status.message.is_empty() => {
            format!("{} {}", status.code, status.reason)
        }
        Some(status) => status.message.clone(),
        None => error.to_string(),
    }
}

/// Waits for one answer, but not for ever, and names the call in its error.
pub async fn call<T>(
    action: &'static str,
    object: impl Into<String>,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T> {
    match tokio::time::timeout(REQUEST_LIMIT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(Error::request(action, object, source)),
        Err(_) => Err(Error::Timeout {
            action,
            object: object.into(),
            limit: REQUEST_LIMIT,
        }),
    }
}

pub(crate) fn status_of(error: &kube::Error) -> Option<&Status> {
    if let kube::Error::Api(status) = error {
        Some(status)
    } else {
        None
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "which variants exist depends on the features of the client that others turn on"
)]
fn class_of(error: &kube::Error) -> ErrorClass {
    match error {
        kube::Error::Api(status) => class_of_status(status),
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
            ErrorClass::Transient
        }
        kube::Error::Auth(_) => ErrorClass::Denied,
        _ => ErrorClass::Bug,
    }
}

fn class_of_status(status: &Status) -> ErrorClass {
    match status.code {
        403 if has_cause(status, "NamespaceTerminating") => ErrorClass::Gone,
        401 | 403 => ErrorClass::Denied,
        // A 404 without the reason comes from a proxy, or from a server that does not serve the kind
        // yet. Neither says anything about the object.
        404 if status.reason != "NotFound" => ErrorClass::Transient,
        404 | 410 => ErrorClass::Gone,
        409 => ErrorClass::Conflict,
        408 | 429 | 500..=599 => ErrorClass::Transient,
        400..=499 => ErrorClass::Invalid,
        _ => ErrorClass::Bug,
    }
}

pub(crate) fn has_cause(status: &Status, reason: &str) -> bool {
    status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .any(|cause| cause.reason == reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::response::{StatusCause, StatusDetails};

    fn api(code: u16, reason: &str) -> Error {
        let status = Status::failure("not with me", reason).with_code(code);
        Error::request("get", "Node n1", kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn answers_of_the_server_fall_into_their_classes() {
        let table = [
            (400, "BadRequest", ErrorClass::Invalid),
            (401, "Unauthorized", ErrorClass::Denied),
            (403, "Forbidden", ErrorClass::Denied),
            (404, "NotFound", ErrorClass::Gone),
            (404, "Failed to parse error data", ErrorClass::Transient),
            (405, "MethodNotAllowed", ErrorClass::Invalid),
            (408, "", ErrorClass::Transient),
            (409, "AlreadyExists", ErrorClass::Conflict),
            (409, "Conflict", ErrorClass::Conflict),
            (410, "Expired", ErrorClass::Gone),
            (410, "Gone", ErrorClass::Gone),
            (413, "RequestEntityTooLarge", ErrorClass::Invalid),
            (415, "UnsupportedMediaType", ErrorClass::Invalid),
            (422, "Invalid", ErrorClass::Invalid),
            (429, "TooManyRequests", ErrorClass::Transient),
            (500, "InternalError", ErrorClass::Transient),
            (500, "ServerTimeout", ErrorClass::Transient),
            (502, "", ErrorClass::Transient),
            (503, "ServiceUnavailable", ErrorClass::Transient),
            (504, "Timeout", ErrorClass::Transient),
            (302, "", ErrorClass::Bug),
        ];
        for (code, reason, class) in table {
            assert_eq!(api(code, reason).class(), class, "{code} {reason}");
        }
    }

    #[test]
    fn a_namespace_on_its_way_out_is_gone_not_denied() {
        let cause = StatusCause {
            reason: "NamespaceTerminating".into(),
            message: String::new(),
            field: String::new(),
        };
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: vec![cause],
            retry_after_seconds: 0,
        };
        let status = Status::failure("no", "Forbidden")
            .with_code(403)
            .with_details(details);
        let error = Error::request("create", "Lease a/b", kube::Error::Api(status.boxed()));
        assert_eq!(error.class(), ErrorClass::Gone);
    }

    #[test]
    fn an_undecodable_answer_is_a_bug() {
        let broken = serde_json::from_str::<u8>("x").unwrap_err();
        let error = Error::request("get", "Node n1", kube::Error::SerdeError(broken));
        assert_eq!(error.class(), ErrorClass::Bug);
    }

    #[test]
    fn the_whole_sentence_names_action_and_object_and_quotes_the_server_once() {
        let text = in_full(&api(403, "Forbidden"));
        assert_eq!(text, "cannot get Node n1: not with me");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_ends_at_its_deadline() {
        let started = tokio::time::Instant::now();
        let silent = std::future::pending::<kube::Result<()>>();
        let error = call("get", "Node n1", silent).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Transient);
        assert_eq!(started.elapsed(), REQUEST_LIMIT);
    }
}

//! What went wrong with one call, in the cloud's own code, and which class of error that is.
//!
//! Owns the table of codes. Must not retry: `pace` does. A code that nobody has heard of is a
//! refusal: it is shown to a person and never taken for success.

use std::fmt;

use shipshape_provider::Error;

/// One call that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The service answered with an error of its own.
    Answered {
        /// The service's code, for example `InsufficientInstanceCapacity`.
        code: String,
        /// Its words.
        message: String,
    },
    /// There was no answer, or none that can be read. The effect may have taken place.
    Lost {
        /// What the transport said.
        message: String,
    },
}

/// What a failure means for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Too many calls; nothing happened.
    Throttled,
    /// The service is away or busy with the same thing.
    Away,
    /// No room for a machine.
    Full,
    /// The thing does not exist.
    Unknown,
    /// Rights or credentials are missing.
    Denied,
    /// A client token was used before with other words.
    OtherWords,
    /// The service does not have this call, or not for this group.
    NotServed,
    /// The request is wrong as it stands.
    Refused,
}

const THROTTLED: [&str; 9] = [
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
];
const AWAY: [&str; 9] = [
    "IdempotentCallInProgress",
    "InternalError",
    "InternalFailure",
    "RequestTimeout",
    "RequestTimeoutException",
    "ResourceContention",
    "ScalingActivityInProgress",
    "ServiceUnavailable",
    "Unavailable",
];
const FULL: [&str; 9] = [
    "InstanceLimitExceeded",
    "InsufficientCapacity",
    "InsufficientFreeAddressesInSubnet",
    "InsufficientHostCapacity",
    "InsufficientInstanceCapacity",
    "InsufficientReservedInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "UnfulfillableCapacity",
    "VcpuLimitExceeded",
];
const DENIED: [&str; 14] = [
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "Blocked",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "MissingAuthenticationToken",
    "OptInRequired",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnauthorizedOperation",
    "UnrecognizedClientException",
];
const NOT_SERVED: [&str; 5] = [
    "InvalidAction",
    "NotImplemented",
    "UnknownOperationException",
    "UnsupportedOperation",
    "UnsupportedOperationException",
];

impl Failure {
    pub(crate) fn lost(error: impl fmt::Display) -> Self {
        Self::Lost {
            message: error.to_string(),
        }
    }

    pub(crate) fn answered(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Answered {
            code: code.into(),
            message: message.into(),
        }
    }

    pub(crate) fn meaning(&self) -> Meaning {
        let Self::Answered { code, .. } = self else {
            return Meaning::Away;
        };
        // Newer partitions prefix the side that is at fault.
        let code = code.trim_start_matches("Client.");
        match code {
            code if THROTTLED.contains(&code) => Meaning::Throttled,
            code if AWAY.contains(&code) || code.starts_with("Server.") => Meaning::Away,
            code if FULL.contains(&code) => Meaning::Full,
            code if DENIED.contains(&code) => Meaning::Denied,
            code if NOT_SERVED.contains(&code) => Meaning::NotServed,
            "IdempotentParameterMismatch" => Meaning::OtherWords,
            code if code.ends_with(".NotFound") || code.ends_with(".Malformed") => Meaning::Unknown,
            _ => Meaning::Refused,
        }
    }

    /// Whether the service answered with this code and a message that holds these words.
    pub(crate) fn says(&self, wanted: &str, words: &str) -> bool {
        matches!(self, Self::Answered { code, message } if code == wanted && message.contains(words))
    }

    /// The error of the `Provider` trait, for a call that was about `what`.
    pub(crate) fn about(self, what: &str) -> Error {
        let meaning = self.meaning();
        let message = self.to_string();
        let what = what.to_owned();
        match meaning {
            Meaning::Throttled => Error::Throttled { message },
            Meaning::Away => Error::NoAnswer { what, message },
            Meaning::Full => Error::NoCapacity {
                zone: what,
                message,
            },
            Meaning::Unknown => Error::NotFound { what },
            Meaning::Denied => Error::Denied { what, message },
            Meaning::OtherWords | Meaning::NotServed | Meaning::Refused => {
                Error::Refused { what, message }
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { code, message } => write!(formatter, "{code}: {message}"),
            Self::Lost { message } => formatter.write_str(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_meaning() {
        let all = [&THROTTLED[..], &AWAY, &FULL, &DENIED, &NOT_SERVED].concat();
        let mut once = all.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), all.len());
    }

    #[test]
    fn a_code_that_nobody_has_heard_of_is_a_refusal() {
        let failure = Failure::answered("Surprise", "something new");
        assert_eq!(failure.meaning(), Meaning::Refused);
        assert_eq!(
            failure.about("a thing").to_string(),
            "the cloud refused a thing: Surprise: something new"
        );
    }

    #[test]
    fn a_lost_answer_is_never_a_refusal() {
        let error = Failure::lost("connection closed").about("RunInstances");
        assert!(matches!(error, Error::NoAnswer { .. }));
    }
}

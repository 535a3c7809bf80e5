//! What can go wrong when a cloud is asked, and what to do about it.
//!
//! Owns the classes; must not decide how long to wait: the caller maps a class to its next step.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Result of a provider call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed provider call.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Error {
    /// The cloud is sure that the thing does not exist.
    #[error("{what} is not known to the cloud")]
    NotFound {
        /// What was asked for, kind and id.
        what: String,
    },
    /// There is no room for the machine now: the zone is full, or the group is at its maximum.
    #[error("no capacity in zone {zone}: {message}")]
    NoCapacity {
        /// The zone asked for.
        zone: String,
        /// The cloud's own words.
        message: String,
    },
    /// The request can never succeed as it stands.
    #[error("the cloud refused {what}: {message}")]
    Refused {
        /// What was asked for.
        what: String,
        /// The cloud's own words.
        message: String,
    },
    /// Too many calls.
    #[error("the cloud asks for fewer calls: {message}")]
    Throttled {
        /// The cloud's own words.
        message: String,
    },
    /// The answer was lost or the cloud is away. The effect may have taken place.
    #[error("no answer from the cloud to {what}: {message}")]
    NoAnswer {
        /// What was asked for.
        what: String,
        /// What the transport said.
        message: String,
    },
    /// Credentials are missing, expired or too weak.
    #[error("the cloud denied {what}: {message}")]
    Denied {
        /// What was asked for.
        what: String,
        /// The cloud's own words.
        message: String,
    },
}

/// What kind of failure it was: the caller's next step hangs on this, never on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// Ask again later; the effect may have taken place.
    Transient,
    /// The thing is gone.
    Gone,
    /// No capacity: try again, elsewhere or later.
    Capacity,
    /// Rights are missing; a person must act.
    Denied,
    /// The request is wrong; repeating it is useless.
    Invalid,
}

impl Error {
    /// The class of this failure.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotFound { .. } => ErrorClass::Gone,
            Self::NoCapacity { .. } => ErrorClass::Capacity,
            Self::Refused { .. } => ErrorClass::Invalid,
            Self::Throttled { .. } | Self::NoAnswer { .. } => ErrorClass::Transient,
            Self::Denied { .. } => ErrorClass::Denied,
        }
    }
}

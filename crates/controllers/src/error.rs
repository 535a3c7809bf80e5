//! What can end a pass early.
//!
//! Owns the sum of all sides' errors and their common class. Must not decide how long to wait: the
//! queue's backoff does.

use shipshape_cluster::ErrorClass;
use shipshape_etcd as etcd;
use shipshape_provider as provider;

/// A pass that did not get through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    /// The cluster's side.
    #[error(transparent)]
    Cluster(#[from] shipshape_cluster::Error),
    /// The cloud's side.
    #[error(transparent)]
    Cloud(#[from] provider::Error),
    /// etcd's side.
    #[error(transparent)]
    Etcd(#[from] etcd::Error),
    /// A member shall leave an etcd that nobody has said how to reach.
    #[error("the controller's file has no etcd block")]
    NoEtcd,
    /// The object names no cloud, or one that this operator does not speak to.
    #[error("{}", no_provider(.wanted, .known))]
    NoProvider {
        /// The type that it names, empty where it names none.
        wanted: String,
        /// The types that this operator speaks to.
        known: Vec<String>,
    },
}

impl PassError {
    /// Whether a cloud has no room for what was asked.
    pub(crate) fn is_no_room(&self) -> bool {
        matches!(self, Self::Cloud(error) if error.class() == provider::ErrorClass::Capacity)
    }

    /// What the failure means for the next attempt.
    pub(crate) fn class(&self) -> ErrorClass {
        match self {
            Self::Cluster(error) => error.class(),
            Self::Cloud(error) => match error.class() {
                provider::ErrorClass::Transient | provider::ErrorClass::Capacity => {
                    ErrorClass::Transient
                }
                provider::ErrorClass::Gone => ErrorClass::Gone,
                provider::ErrorClass::Denied => ErrorClass::Denied,
                provider::ErrorClass::Invalid => ErrorClass::Invalid,
            },
            Self::Etcd(error) => match error.class() {
                etcd::ErrorClass::Transient => ErrorClass::Transient,
                etcd::ErrorClass::Denied => ErrorClass::Denied,
            },
            Self::NoProvider { .. } | Self::NoEtcd => ErrorClass::Invalid,
        }
    }
}

/// Names the field, and what it may be.
fn no_provider(wanted: &str, known: &[String]) -> String {
    let known = match known.join(", ") {
        none if none.is_empty() => "none".to_owned(),
        known => known,
    };
    if wanted.is_empty() {
        format!("spec.provider.type is not set; supported here: {known}")
    } else {
        format!("spec.provider.type {wanted:?} is not supported here; supported: {known}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_cloud_is_told_with_the_field_and_the_known_ones() {
        let told = |wanted: &str, known: &[&str]| {
            let known = known.iter().map(|one| (*one).to_owned()).collect();
            let wanted = wanted.to_owned();
            PassError::NoProvider { wanted, known }.to_string()
        };
        assert_eq!(
            told("", &["aws", "embedded"]),
            "spec.provider.type is not set; supported here: aws, embedded"
        );
        assert_eq!(
            told("gcp", &[]),
            "spec.provider.type \"gcp\" is not supported here; supported: none"
        );
    }
}

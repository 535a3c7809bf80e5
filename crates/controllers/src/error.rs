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
    /// The task names a cloud that this operator does not speak to.
    #[error("no provider of type {0:?} is configured")]
    NoProvider(String),
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
            Self::NoProvider(_) | Self::NoEtcd => ErrorClass::Invalid,
        }
    }
}

//! Why a command could not do what it was asked to, in one sentence with what to do about it.
//!
//! Owns the sentences about the way to a cluster, and the exit code that goes with each.

use shipshape_cluster::error::in_full;
use thiserror::Error;

/// How to get the kinds into a cluster.
const INSTALL: &str = "shipshape crds | kubectl apply --server-side -f -";

/// A command that came to nothing.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// There is no way to any cluster.
    #[error(
        "no cluster is named: give --kubeconfig FILE, set KUBECONFIG, or have a ~/.kube/config ({0})"
    )]
    NoCluster(String),
    /// The way to the cluster is described wrongly.
    #[error("{0}")]
    WrongInput(String),
    /// The cluster does not answer.
    #[error(
        "the cluster at {address} does not answer: {why}; is it up, and is the context the right one?"
    )]
    Unreachable { address: String, why: String },
    /// The cluster does not know our kinds.
    #[error(
        "the cluster at {address} does not know the kinds of Shipshape; install them: {INSTALL}"
    )]
    NoKinds { address: String },
    /// The cluster refuses.
    #[error("the cluster does not allow you to {action}: {why}")]
    Denied { action: String, why: String },
    /// The cluster has no such object, or asking makes no sense now.
    #[error("{0}")]
    Refused(String),
    /// Something else went wrong.
    #[error("cannot {action}: {why}")]
    Other { action: String, why: String },
}

impl Failure {
    /// 2 for wrong input, 1 for everything that the cluster says.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::NoCluster(_) | Self::WrongInput(_) => 2,
            Self::Unreachable { .. }
            | Self::NoKinds { .. }
            | Self::Denied { .. }
            | Self::Refused(_)
            | Self::Other { .. } => 1,
        }
    }

    /// What an answer of the API server means, to an action such as "list nodes".
    pub(crate) fn of(action: &str, address: &str, error: &kube::Error) -> Self {
        let why = in_full(error);
        let (action, address) = (action.to_owned(), address.to_owned());
        if let kube::Error::Api(status) = error {
            return match status.code {
                401 | 403 => Self::Denied { action, why },
                404 => Self::NoKinds { address },
                _ => Self::Other { action, why },
            };
        }
        if matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_)) {
            return Self::Unreachable {
                address,
                why: last_cause(error),
            };
        }
        Self::Other { action, why }
    }
}

/// The innermost cause says what happened; those around it say where in the client.
fn last_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

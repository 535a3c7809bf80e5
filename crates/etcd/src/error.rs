//! What can go wrong between us and etcd.
//!
//! Owns the classes that decide what follows. Must not carry what certificates or keys say.

/// A result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// A call that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The answer was lost, came too late or made no sense. The effect may have taken place.
    #[error("no answer from etcd at {endpoint} to {what}: {message}")]
    NoAnswer {
        /// Whom we asked.
        endpoint: String,
        /// What was asked for.
        what: &'static str,
        /// What the transport said.
        message: String,
    },
    /// etcd said no.
    #[error("etcd at {endpoint} refused {what}: {message}")]
    Refused {
        /// Whom we asked.
        endpoint: String,
        /// What was asked for.
        what: &'static str,
        /// The code of the answer: etcd's own where its body has one, else that of HTTP.
        code: u16,
        /// etcd's own words.
        message: String,
    },
    /// The settings are of no use: a file that cannot be read, an address that is none.
    #[error("cannot speak to etcd: {0}")]
    Unusable(String),
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// Ask again later; the effect may have taken place.
    Transient,
    /// A person must act.
    Denied,
}

impl Error {
    /// Whether etcd knows no such member.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404 | 5, .. })
    }

    /// The class of this failure. etcd refuses what it would not survive now; later it may not.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Refused {
                code: 401 | 403 | 7 | 16,
                ..
            }
            | Self::Unusable(_) => ErrorClass::Denied,
            Self::NoAnswer { .. } | Self::Refused { .. } => ErrorClass::Transient,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16) -> Error {
        Error::Refused {
            endpoint: String::new(),
            what: "",
            code,
            message: String::new(),
        }
    }

    #[test]
    fn codes_of_etcd_and_of_http_mean_the_same() {
        for code in [404, 5] {
            assert!(refused(code).is_not_found());
        }
        for code in [401, 403, 7, 16] {
            assert_eq!(refused(code).class(), ErrorClass::Denied);
        }
        // What etcd would not survive now.
        assert_eq!(refused(14).class(), ErrorClass::Transient);
    }
}

//! The words of a store: keys, changes and settings.
//!
//! Owns plain values only.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::{Resource, ResourceExt};

/// Which object of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Empty for kinds without namespaces.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl Key {
    /// The key of an object in a namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of an object of a kind without namespaces.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self::new("", name)
    }

    /// The key of a given object.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::new(object.namespace().unwrap_or_default(), object.name_any())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            formatter.write_str(&self.name)
        } else {
            write!(formatter, "{}/{}", self.namespace, self.name)
        }
    }
}

/// One difference, as told to whoever maps objects to work.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// An object is new or different.
    Applied {
        /// What was known before.
        old: Option<Arc<K>>,
        /// What is known now.
        new: Arc<K>,
    },
    /// An object is gone.
    Deleted {
        /// What was known last.
        old: Arc<K>,
    },
}

impl<K> Change<K> {
    /// The newest state known.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Applied { new, .. } => new,
            Self::Deleted { old } => old,
        }
    }
}

/// How a store follows the server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Only objects with these labels.
    pub labels: Option<String>,
    /// Only objects with these fields.
    pub fields: Option<String>,
    /// Objects per page of a list. A page is held whole while it is read, many times as large as what is
    /// kept of it.
    pub page_size: u32,
    /// How long one watch may last, at most 290 s.
    pub watch_for: Duration,
    /// Wait after the first failure.
    pub first_retry: Duration,
    /// Longest wait between attempts.
    pub last_retry: Duration,
    /// How long a pass waits for its own write before the object is read live.
    pub catch_up_within: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            labels: None,
            fields: None,
            page_size: 250,
            watch_for: Duration::from_secs(290),
            first_retry: Duration::from_secs(1),
            last_retry: Duration::from_secs(30),
            catch_up_within: Duration::from_secs(5),
        }
    }
}

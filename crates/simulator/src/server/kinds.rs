//! The table of kinds: what the API serves, and how each is stored and read.
//!
//! Owns names, scope, verbs and subresources. Must not hold objects. Built-in kinds are in
//! `kinds/rows.rs`; kinds of CustomResourceDefinitions join the table when these are written.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use crate::{
    apply::KindShape,
    schema::{Schema, builtin},
    table::Layout,
};

mod rows;

pub(crate) use rows::BuiltIn;

/// Decodes an object into its typed form and back, so that wrong types are refused and unknown
/// fields fall away.
pub(crate) type Normalize = fn(Value) -> Result<Value, serde_json::Error>;

/// Where the objects of a kind are kept: `plural.group`, without version.
pub(crate) type Storage = Arc<str>;

/// One kind in one served version.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what a kind has is independent of what else it has"
)]
pub(crate) struct Kind {
    /// API group; empty for the core one.
    pub(crate) group: String,
    /// Served version.
    pub(crate) version: String,
    /// `group/version`, or the version alone for the core group.
    pub(crate) api_version: String,
    /// Kind in camel case.
    pub(crate) kind: String,
    /// Kind of its lists.
    pub(crate) list_kind: String,
    /// Resource name in paths.
    pub(crate) plural: String,
    /// Name for one of them.
    pub(crate) singular: String,
    /// Names that kubectl takes instead.
    pub(crate) short_names: Vec<String>,
    /// Groups of resources such as `all`.
    pub(crate) categories: Vec<String>,
    /// Whether objects live in a namespace.
    pub(crate) namespaced: bool,
    /// Whether there is a status subresource.
    pub(crate) has_status: bool,
    /// Whether there is a scale subresource.
    pub(crate) has_scale: bool,
    /// Whether the server counts generations.
    pub(crate) counts_generation: bool,
    /// Where its objects are kept.
    pub(crate) storage: Storage,
    /// What the server knows about it beyond its names.
    pub(crate) nature: Nature,
    /// What is worked out when it is first needed.
    pub(crate) derived: Derived,
}

/// What follows from a kind and costs something to work out.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    shape: OnceLock<KindShape>,
    layout: OnceLock<Layout>,
    schema: OnceLock<Option<Schema>>,
}

/// What the server knows about a kind beyond its names.
#[derive(Clone, Debug)]
pub(crate) enum Nature {
    /// Compiled in.
    BuiltIn(BuiltIn, Normalize),
    /// Defined by a CustomResourceDefinition.
    Custom(Arc<super::crds::CustomKind>),
}

impl Kind {
    /// `plural.group`, as messages name it.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Which built-in kind it is.
    pub(crate) fn built_in(&self) -> Option<BuiltIn> {
        match &self.nature {
            Nature::BuiltIn(which, _) => Some(*which),
            Nature::Custom(_) => None,
        }
    }

    /// What patches and field owners must know of it.
    pub(crate) fn shape(&self) -> &KindShape {
        self.derived.shape.get_or_init(|| match &self.nature {
            Nature::BuiltIn(..) => {
                KindShape::core(&self.api_version, &self.kind).unwrap_or_else(KindShape::unknown)
            }
            Nature::Custom(custom) => KindShape::custom(custom.schema.source(), self.has_status),
        })
    }

    /// Its columns in tables.
    pub(crate) fn layout(&self) -> &Layout {
        self.derived.layout.get_or_init(|| match &self.nature {
            Nature::BuiltIn(..) => Layout::built_in(&self.group, &self.kind),
            Nature::Custom(custom) => Layout::of_crd_version(&custom.version),
        })
    }

    /// Its schema; none for a built-in kind that publishes none.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        match &self.nature {
            Nature::Custom(custom) => Some(&custom.schema),
            Nature::BuiltIn(..) => self
                .derived
                .schema
                .get_or_init(|| builtin::schemas().schema(&self.group, &self.version, &self.kind))
                .as_ref(),
        }
    }

    /// Whether it is a given built-in kind.
    pub(crate) fn is(&self, which: BuiltIn) -> bool {
        self.built_in() == Some(which)
    }

    /// Whether a write without resourceVersion replaces whatever is there.
    pub(crate) fn allows_unconditional_update(&self) -> bool {
        match self.built_in() {
            Some(which) => !matches!(
                which,
                BuiltIn::Lease
                    | BuiltIn::PodDisruptionBudget
                    | BuiltIn::VolumeAttachment
                    | BuiltIn::CustomResourceDefinition
            ),
            None => false,
        }
    }

    /// Whether a PUT to a name that is free creates the object.
    pub(crate) fn allows_create_on_update(&self) -> bool {
        matches!(
            self.built_in(),
            Some(BuiltIn::Lease | BuiltIn::Event | BuiltIn::Service | BuiltIn::Endpoints)
        )
    }
}

/// `group/version`, or the version alone for the core group.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// All kinds the API serves at this moment.
#[derive(Debug)]
pub(crate) struct Kinds {
    served: BTreeMap<(String, String, String), Arc<Kind>>,
}

impl Kinds {
    /// The built-in kinds.
    pub(crate) fn built_in() -> Self {
        // One table for all clusters of a process: what a kind derives is worked out once.
        static TABLE: OnceLock<Vec<Arc<Kind>>> = OnceLock::new();
        let mut kinds = Self {
            served: BTreeMap::new(),
        };
        for kind in TABLE.get_or_init(|| rows::table().into_iter().map(Arc::new).collect()) {
            kinds.add(Arc::clone(kind));
        }
        kinds
    }

    /// Adds or replaces a kind.
    pub(crate) fn add(&mut self, kind: Arc<Kind>) {
        let key = (
            kind.group.clone(),
            kind.version.clone(),
            kind.plural.clone(),
        );
        self.served.insert(key, kind);
    }

    /// Removes all versions of a resource.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.served
            .retain(|(g, _, p), _| !(g == group && p == plural));
    }

    /// Finds a kind by the parts of a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.served.get(&key).cloned()
    }

    /// Whether anything is served under a group and version.
    pub(crate) fn serves(&self, group: &str, version: &str) -> bool {
        let from = (group.to_owned(), version.to_owned(), String::new());
        self.served
            .range(from..)
            .next()
            .is_some_and(|((g, v, _), _)| g == group && v == version)
    }

    /// All kinds, by group, version and plural.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.served.values()
    }
}

/// A subresource as discovery shows it.
#[derive(Clone, Debug)]
pub(crate) struct Subresource {
    /// Last part of its path.
    pub(crate) name: &'static str,
    /// Its kind, when it is not that of its parent.
    pub(crate) kind: Option<String>,
    /// Group and version of its kind, when they are not those of its parent.
    pub(crate) home: Option<(&'static str, &'static str)>,
    /// What can be done with it.
    pub(crate) verbs: &'static [&'static str],
}

impl Kind {
    /// What can be done with its objects.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        const ALL: &[&str] = &[
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ];
        const ONE_BY_ONE: &[&str] = &[
            "create", "delete", "get", "list", "patch", "update", "watch",
        ];
        const CUSTOM: &[&str] = &[
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch",
        ];
        match self.built_in() {
            Some(BuiltIn::Namespace) => ONE_BY_ONE,
            Some(_) => ALL,
            None => CUSTOM,
        }
    }

    /// Its subresources, in the order in which the real server lists them.
    pub(crate) fn subresources(&self) -> Vec<Subresource> {
        const CHANGE: &[&str] = &["get", "patch", "update"];
        let mut all = Vec::new();
        let mut add = |name, kind: Option<&str>, home, verbs| {
            all.push(Subresource {
                name,
                kind: kind.map(str::to_owned),
                home,
                verbs,
            });
        };
        if self.is(BuiltIn::Pod) {
            add("binding", Some("Binding"), None, &["create"]);
            add(
                "eviction",
                Some("Eviction"),
                Some(("policy", "v1")),
                &["create"],
            );
        }
        if self.is(BuiltIn::Namespace) {
            add("finalize", None, None, &["update"]);
        }
        if self.has_scale {
            add("scale", Some("Scale"), Some(("autoscaling", "v1")), CHANGE);
        }
        if self.has_status {
            add("status", None, None, CHANGE);
        }
        if self.built_in().is_none() {
            all.reverse();
        }
        all
    }
}

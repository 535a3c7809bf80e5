//! The kinds that are compiled in, one row each.
//!
//! Owns their names and typed forms. What the server does differently for one of them is matched
//! on `BuiltIn` where it is done.

use k8s_openapi::{
    api::{
        apps::v1 as apps, batch::v1 as batch, coordination::v1 as coordination, core::v1 as core,
        discovery::v1 as discovery, events::v1 as events, policy::v1 as policy,
        scheduling::v1 as scheduling, storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Derived, Kind, Nature, Normalize, api_version};

/// The built-in kinds by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BuiltIn {
    Namespace,
    Node,
    Pod,
    Service,
    Endpoints,
    ConfigMap,
    Secret,
    ServiceAccount,
    Event,
    PersistentVolume,
    PersistentVolumeClaim,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    ControllerRevision,
    Job,
    PodDisruptionBudget,
    Lease,
    VolumeAttachment,
    PriorityClass,
    EndpointSlice,
    CustomResourceDefinition,
}

fn typed<T: Serialize + DeserializeOwned>(value: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(value)?)
}

/// One row: names, then what the kind can do.
struct Row {
    which: BuiltIn,
    group: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    traits: &'static [Trait],
    normalize: Normalize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trait {
    ClusterWide,
    Status,
    Scale,
    Generation,
    All,
}

use BuiltIn as B;
use Trait::{All, ClusterWide, Generation, Scale, Status};

const APPS: &str = "apps";
const EXTENSIONS: &str = "apiextensions.k8s.io";

const fn row(
    which: BuiltIn,
    group: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    rest: (&'static [Trait], Normalize),
) -> Row {
    Row {
        which,
        group,
        plural,
        short,
        traits: rest.0,
        normalize: rest.1,
    }
}

fn core_rows() -> Vec<Row> {
    vec![
        row(
            B::Namespace,
            "",
            "namespaces",
            &["ns"],
            (&[ClusterWide, Status], typed::<core::Namespace>),
        ),
        row(
            B::Node,
            "",
            "nodes",
            &["no"],
            (&[ClusterWide, Status], typed::<core::Node>),
        ),
        row(
            B::Pod,
            "",
            "pods",
            &["po"],
            (&[Status, Generation, All], typed::<core::Pod>),
        ),
        row(
            B::Service,
            "",
            "services",
            &["svc"],
            (&[Status, All], typed::<core::Service>),
        ),
        row(
            B::Endpoints,
            "",
            "endpoints",
            &["ep"],
            (&[], typed::<core::Endpoints>),
        ),
        row(
            B::ConfigMap,
            "",
            "configmaps",
            &["cm"],
            (&[], typed::<core::ConfigMap>),
        ),
        row(B::Secret, "", "secrets", &[], (&[], typed::<core::Secret>)),
        row(
            B::ServiceAccount,
            "",
            "serviceaccounts",
            &["sa"],
            (&[], typed::<core::ServiceAccount>),
        ),
        row(B::Event, "", "events", &["ev"], (&[], typed::<core::Event>)),
        row(
            B::PersistentVolume,
            "",
            "persistentvolumes",
            &["pv"],
            (&[ClusterWide, Status], typed::<core::PersistentVolume>),
        ),
        row(
            B::PersistentVolumeClaim,
            "",
            "persistentvolumeclaims",
            &["pvc"],
            (&[Status], typed::<core::PersistentVolumeClaim>),
        ),
    ]
}

fn group_rows() -> Vec<Row> {
    vec![
        row(
            B::Deployment,
            APPS,
            "deployments",
            &["deploy"],
            (&[Status, Scale, Generation, All], typed::<apps::Deployment>),
        ),
        row(
            B::ReplicaSet,
            APPS,
            "replicasets",
            &["rs"],
            (&[Status, Scale, Generation, All], typed::<apps::ReplicaSet>),
        ),
        row(
            B::StatefulSet,
            APPS,
            "statefulsets",
            &["sts"],
            (
                &[Status, Scale, Generation, All],
                typed::<apps::StatefulSet>,
            ),
        ),
        row(
            B::DaemonSet,
            APPS,
            "daemonsets",
            &["ds"],
            (&[Status, Generation, All], typed::<apps::DaemonSet>),
        ),
        row(
            B::ControllerRevision,
            APPS,
            "controllerrevisions",
            &[],
            (&[], typed::<apps::ControllerRevision>),
        ),
        row(
            B::Job,
            "batch",
            "jobs",
            &[],
            (&[Status, Generation, All], typed::<batch::Job>),
        ),
        row(
            B::PodDisruptionBudget,
            "policy",
            "poddisruptionbudgets",
            &["pdb"],
            (&[Status, Generation], typed::<policy::PodDisruptionBudget>),
        ),
        row(
            B::Lease,
            "coordination.k8s.io",
            "leases",
            &[],
            (&[], typed::<coordination::Lease>),
        ),
    ]
}

fn cluster_rows() -> Vec<Row> {
    vec![
        row(
            B::VolumeAttachment,
            "storage.k8s.io",
            "volumeattachments",
            &[],
            (&[ClusterWide, Status], typed::<storage::VolumeAttachment>),
        ),
        row(
            B::PriorityClass,
            "scheduling.k8s.io",
            "priorityclasses",
            &["pc"],
            (
                &[ClusterWide, Generation],
                typed::<scheduling::PriorityClass>,
            ),
        ),
        row(
            B::EndpointSlice,
            "discovery.k8s.io",
            "endpointslices",
            &[],
            (&[Generation], typed::<discovery::EndpointSlice>),
        ),
        row(
            B::CustomResourceDefinition,
            EXTENSIONS,
            "customresourcedefinitions",
            &["crd", "crds"],
            (
                &[ClusterWide, Status, Generation],
                typed::<extensions::CustomResourceDefinition>,
            ),
        ),
        row(
            B::Event,
            "events.k8s.io",
            "events",
            &["ev"],
            (&[], typed::<events::Event>),
        ),
    ]
}

/// All built-in kinds.
pub(super) fn table() -> Vec<Kind> {
    core_rows()
        .into_iter()
        .chain(group_rows())
        .chain(cluster_rows())
        .map(|row| kind(&row))
        .collect()
}

fn kind(row: &Row) -> Kind {
    let name = format!("{:?}", row.which);
    let has = |what| row.traits.contains(&what);
    // Events are one collection, served in two groups with other field names.
    let home = if row.which == B::Event { "" } else { row.group };
    let categories = if row.which == B::CustomResourceDefinition {
        vec!["api-extensions".to_owned()]
    } else if has(All) {
        vec!["all".to_owned()]
    } else {
        Vec::new()
    };
    Kind {
        group: row.group.to_owned(),
        version: "v1".to_owned(),
        api_version: api_version(row.group, "v1"),
        list_kind: format!("{name}List"),
        plural: row.plural.to_owned(),
        singular: name.to_lowercase(),
        short_names: row.short.iter().map(|s| (*s).to_owned()).collect(),
        categories,
        namespaced: !has(ClusterWide),
        has_status: has(Status),
        has_scale: has(Scale),
        counts_generation: has(Generation),
        storage: format!("{}.{home}", row.plural).into(),
        nature: Nature::BuiltIn(row.which, row.normalize),
        kind: name,
        derived: Derived::default(),
    }
}

//! The schemas of the kinds that every cluster has.
//!
//! Owns the list of built-in kinds with a schema and its reading from `k8s-openapi`. Must not serve
//! them: `openapi` does. Called by the server to prune built-in objects and to check their fields.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::Schema;
use super::node::{Definitions, Node};

/// What references to other schemas begin with.
pub(crate) const REFERENCE_PREFIX: &str = "#/components/schemas/";
/// The one schema that contains itself many times over; its content is checked by `structural`.
const SELF_REFERRING: &str = "JSONSchemaProps";
/// The schema of metadata.
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Every schema by the name that OpenAPI documents use, such as `io.k8s.api.core.v1.Pod`.
#[derive(Debug)]
pub struct BuiltinSchemas {
    definitions: BTreeMap<String, Value>,
    kinds: BTreeMap<(String, String, String), String>,
}

static SCHEMAS: LazyLock<BuiltinSchemas> = LazyLock::new(BuiltinSchemas::generate);
static META: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(SCHEMAS.read(OBJECT_META)));

/// All built-in schemas.
pub fn schemas() -> &'static BuiltinSchemas {
    &SCHEMAS
}

/// The schema of every object's metadata.
pub fn object_meta() -> &'static Node {
    META.root()
}

impl BuiltinSchemas {
    /// The schema of a kind, read; `None` for kinds without one. Reading takes time: keep the result.
    pub fn schema(&self, group: &str, version: &str, kind: &str) -> Option<Schema> {
        self.name(group, version, kind).map(|name| self.read(name))
    }

    /// The OpenAPI name of a kind.
    pub fn name(&self, group: &str, version: &str, kind: &str) -> Option<&str> {
        let key = (group.to_owned(), version.to_owned(), kind.to_owned());
        self.kinds.get(&key).map(String::as_str)
    }

    /// The raw schema of a name.
    pub fn definition(&self, name: &str) -> Option<&Value> {
        self.definitions.get(name)
    }

    /// The kinds with a schema, as group, version, kind and OpenAPI name.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &str, &str, &str)> {
        self.kinds.iter().map(|((group, version, kind), name)| {
            (
                group.as_str(),
                version.as_str(),
                kind.as_str(),
                name.as_str(),
            )
        })
    }

    fn read(&self, name: &str) -> Schema {
        let source = self.definitions.get(name).cloned().unwrap_or_default();
        let mut root = Node::read(&source, self);
        root.keep_open_objects();
        Schema::from_parts(root, source)
    }

    fn generate() -> Self {
        let mut collector = Collector::new();
        collector.core();
        collector.workloads();
        collector.cluster();
        collector.finish()
    }
}

impl Definitions for BuiltinSchemas {
    fn resolve(&self, reference: &str) -> Option<&Value> {
        static ANYTHING: LazyLock<Value> =
            LazyLock::new(|| json!({"x-kubernetes-preserve-unknown-fields": true}));
        let name = reference.strip_prefix(REFERENCE_PREFIX)?;
        if name.contains(SELF_REFERRING) {
            return Some(&ANYTHING);
        }
        self.definitions.get(name)
    }
}

struct Collector {
    generator: SchemaGenerator,
    kinds: BTreeMap<(String, String, String), String>,
}

impl Collector {
    fn new() -> Self {
        let settings = SchemaSettings::openapi3();
        Self {
            generator: settings.into_generator(),
            kinds: BTreeMap::new(),
        }
    }

    fn add<K: JsonSchema + k8s_openapi::Resource>(&mut self) {
        drop(self.generator.subschema_for::<K>());
        let key = (
            K::GROUP.to_owned(),
            K::VERSION.to_owned(),
            K::KIND.to_owned(),
        );
        self.kinds.insert(key, K::schema_name().into_owned());
    }

    fn core(&mut self) {
        use k8s_openapi::api::core::v1;
        self.add::<v1::Binding>();
        self.add::<v1::ConfigMap>();
        self.add::<v1::Endpoints>();
        self.add::<v1::Event>();
        self.add::<v1::LimitRange>();
        self.add::<v1::Namespace>();
        self.add::<v1::Node>();
        self.add::<v1::PersistentVolume>();
        self.add::<v1::PersistentVolumeClaim>();
        self.add::<v1::Pod>();
        self.add::<v1::PodTemplate>();
        self.add::<v1::ReplicationController>();
        self.add::<v1::ResourceQuota>();
        self.add::<v1::Secret>();
        self.add::<v1::Service>();
        self.add::<v1::ServiceAccount>();
    }

    fn workloads(&mut self) {
        use k8s_openapi::api::{apps, autoscaling, batch, policy, scheduling};
        self.add::<apps::v1::ControllerRevision>();
        self.add::<apps::v1::DaemonSet>();
        self.add::<apps::v1::Deployment>();
        self.add::<apps::v1::ReplicaSet>();
        self.add::<apps::v1::StatefulSet>();
        self.add::<autoscaling::v1::Scale>();
        self.add::<autoscaling::v2::HorizontalPodAutoscaler>();
        self.add::<batch::v1::CronJob>();
        self.add::<batch::v1::Job>();
        self.add::<policy::v1::Eviction>();
        self.add::<policy::v1::PodDisruptionBudget>();
        self.add::<scheduling::v1::PriorityClass>();
    }

    fn cluster(&mut self) {
        use k8s_openapi::api::{coordination, discovery, events, networking, rbac, storage};
        use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
        use k8s_openapi::apimachinery::pkg::apis::meta;
        self.add::<coordination::v1::Lease>();
        self.add::<discovery::v1::EndpointSlice>();
        self.add::<events::v1::Event>();
        self.add::<networking::v1::NetworkPolicy>();
        self.add::<rbac::v1::ClusterRole>();
        self.add::<rbac::v1::ClusterRoleBinding>();
        self.add::<rbac::v1::Role>();
        self.add::<rbac::v1::RoleBinding>();
        self.add::<storage::v1::CSIDriver>();
        self.add::<storage::v1::CSINode>();
        self.add::<storage::v1::StorageClass>();
        self.add::<storage::v1::VolumeAttachment>();
        self.add::<apiextensions::v1::CustomResourceDefinition>();
        drop(self.generator.subschema_for::<meta::v1::ObjectMeta>());
        drop(self.generator.subschema_for::<meta::v1::ListMeta>());
        drop(self.generator.subschema_for::<meta::v1::DeleteOptions>());
        drop(self.generator.subschema_for::<meta::v1::Status>());
    }

    fn finish(mut self) -> BuiltinSchemas {
        let definitions = self.generator.take_definitions(true);
        BuiltinSchemas {
            definitions: definitions.into_iter().collect(),
            kinds: self.kinds,
        }
    }
}

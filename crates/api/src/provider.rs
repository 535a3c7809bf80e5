//! Which cloud a run works in.
//!
//! Owns the settings of each cloud as a manifest gives them. Unknown clouds are admitted: the
//! controller refuses them with a condition that a person can read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A cloud and its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::rule_on(
    "aws",
    "self.type != 'aws' || has(self.aws)",
    "aws is required when type is aws",
))]
pub struct ProviderRef {
    /// Name of the cloud, for example aws.
    #[schemars(transform = schema::some_text(63))]
    pub r#type: String,
    /// Settings of Amazon Web Services; required when type is aws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsProvider>,
}

/// Settings of Amazon Web Services.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::rule_on(
    "clusterID",
    "!has(self.clusterId) || !has(self.clusterID) || self.clusterId == self.clusterID",
    "clusterId and clusterID are two spellings of one setting and must not differ",
))]
pub struct AwsProvider {
    /// Region of the cluster.
    #[schemars(transform = schema::some_text(schema::WORD))]
    pub region: String,
    /// Whether a new machine must be in the zone of the one it replaces.
    #[serde(rename = "strictAZ", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub strict_az: Option<bool>,
    /// Tags added to every machine that is launched.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = schema::string_map(50, 256))]
    pub extra_tags: BTreeMap<String, String>,
    /// Name of the cluster in tags; without it no machine is ever cleaned up as an orphan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(256))]
    pub cluster_id: Option<String>,
    /// Another spelling of clusterId.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(256))]
    pub cluster_id_alias: Option<String>,
}

impl AwsProvider {
    /// Name of the cluster in tags, whichever spelling was used. Empty is the same as absent.
    pub fn cluster_id(&self) -> Option<&str> {
        [&self.cluster_id, &self.cluster_id_alias]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .find(|id| !id.is_empty())
    }

    /// Whether a new machine must be in the zone of the one it replaces.
    pub fn strict_az(&self) -> bool {
        self.strict_az.unwrap_or(true)
    }
}

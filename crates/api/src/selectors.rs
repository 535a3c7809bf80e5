//! How a manifest points at pods.
//!
//! Owns the words; matching is the engine's business.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Pods by namespace and labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSelector {
    /// Namespace to look in; empty or absent means all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::namespace)]
    pub namespace: Option<String>,
    /// Labels that a pod must have; must not be empty.
    #[schemars(schema_with = "schema::filled_label_selector")]
    pub label_selector: LabelSelector,
}

impl PodSelector {
    /// The namespace to look in, or `None` for all of them.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|name| !name.is_empty())
    }
}

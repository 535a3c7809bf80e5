//! The latest removals of failed nodes, as a ConfigMap: one key per node UID.
//!
//! Owns reading and the guarded writing of that one object. Must not count: `engine::verify::removal` does. A
//! value that cannot be read is an error that names its key, because a removal that is overlooked would be
//! allowed twice.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use shipshape_api::names::{DELETIONS_NAME, FIELD_MANAGER};
use shipshape_engine::verify::removal::{Removals, RemovedNode};

use crate::error::{Error, Result, call};

/// Where removals are kept.
#[derive(Clone, Debug)]
pub struct RemovalStore {
    api: Api<ConfigMap>,
    namespace: String,
}

impl RemovalStore {
    /// The removals in the operator's namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
        }
    }

    /// Reads them live. None at all have no version.
    pub async fn read(&self) -> Result<Removals> {
        let found = call("get", self.object(), self.api.get_opt(DELETIONS_NAME)).await?;
        let Some(found) = found else {
            return Ok(Removals::default());
        };
        let resource_version = found.resource_version();
        let mut nodes = BTreeMap::new();
        for (uid, text) in found.data.unwrap_or_default() {
            let removed: RemovedNode =
                serde_json::from_str(&text).map_err(|error| Error::Malformed {
                    object: self.object(),
                    field: format!("data.{uid}"),
                    why: error.to_string(),
                })?;
            nodes.insert(uid, removed);
        }
        Ok(Removals {
            resource_version,
            nodes,
        })
    }

    /// Writes them if nobody wrote since they were read; else an error of class Conflict, and nothing may
    /// be removed.
    pub async fn write(&self, removals: &Removals) -> Result<()> {
        let mut wanted = ConfigMap::default();
        wanted.metadata.name = Some(DELETIONS_NAME.into());
        wanted.metadata.namespace = Some(self.namespace.clone());
        let version = &removals.resource_version;
        wanted.metadata.resource_version.clone_from(version);
        wanted.data = Some(self.encode(removals)?);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PostParams::default()
        };
        if version.is_some() {
            let request = self.api.replace(DELETIONS_NAME, &params, &wanted);
            call("replace", self.object(), request).await?;
        } else {
            call("create", self.object(), self.api.create(&params, &wanted)).await?;
        }
        Ok(())
    }

    fn encode(&self, removals: &Removals) -> Result<BTreeMap<String, String>> {
        let encode = |(uid, removed): (&String, &RemovedNode)| {
            let text = serde_json::to_string(removed).map_err(|error| {
                Error::request("encode", self.object(), kube::Error::SerdeError(error))
            })?;
            Ok((uid.clone(), text))
        };
        removals.nodes.iter().map(encode).collect()
    }

    fn object(&self) -> String {
        format!("ConfigMap {}/{DELETIONS_NAME}", self.namespace)
    }
}

#[cfg(test)]
mod tests;

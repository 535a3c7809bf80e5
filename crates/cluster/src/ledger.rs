//! The ledger of slots, as a ConfigMap: one key per node UID.
//!
//! Owns reading and the guarded writing of that one object. Must not read from a copy, count, or
//! grant: `engine::ledger` does the arithmetic. A value that cannot be read is handed on with its key and
//! written back as it was: it may be a slot, and one that is overlooked would be granted twice. Called by
//! admission and release.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use shipshape_engine::ledger::{Ledger, Slot};

use crate::error::{Error, Result, call};
use crate::patch::Written;
use shipshape_api::names::{FIELD_MANAGER, LEDGER_NAME};

/// Where the ledger is kept.
#[derive(Clone, Debug)]
pub struct LedgerStore {
    api: Api<ConfigMap>,
    namespace: String,
}

impl LedgerStore {
    /// The ledger in the operator's namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
        }
    }

    /// Where it is, for whoever follows its changes.
    pub fn api(&self) -> &Api<ConfigMap> {
        &self.api
    }

    /// Reads it live. One that does not exist is empty and has no version.
    pub async fn read(&self) -> Result<Ledger> {
        let found = call("get", self.object(), self.api.get_opt(LEDGER_NAME)).await?;
        let Some(found) = found else {
            return Ok(Ledger::default());
        };
        Ok(decode(&found))
    }

    /// Writes it if nobody wrote since it was read; else an error of class Conflict, and the grant
    /// has not happened.
    pub async fn write(&self, ledger: &Ledger) -> Result<Written> {
        let mut wanted = ConfigMap::default();
        wanted.metadata.name = Some(LEDGER_NAME.into());
        wanted.metadata.namespace = Some(self.namespace.clone());
        wanted
            .metadata
            .resource_version
            .clone_from(&ledger.resource_version);
        wanted.data = Some(self.encode(ledger)?);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PostParams::default()
        };
        let answer = if ledger.resource_version.is_some() {
            let request = self.api.replace(LEDGER_NAME, &params, &wanted);
            call("replace", self.object(), request).await?
        } else {
            call("create", self.object(), self.api.create(&params, &wanted)).await?
        };
        crate::patch::written(&answer)
    }

    fn encode(&self, ledger: &Ledger) -> Result<BTreeMap<String, String>> {
        let encode = |(node_uid, slot): (&String, &Slot)| {
            let text = serde_json::to_string(slot).map_err(|error| {
                Error::request("encode", self.object(), kube::Error::SerdeError(error))
            })?;
            Ok((node_uid.clone(), text))
        };
        let mut data = ledger.unreadable.clone();
        for slot in ledger.slots.iter().map(encode) {
            let (node_uid, text) = slot?;
            data.insert(node_uid, text);
        }
        Ok(data)
    }

    fn object(&self) -> String {
        format!("ConfigMap {}/{LEDGER_NAME}", self.namespace)
    }
}

/// What the object says.
pub fn decode(object: &ConfigMap) -> Ledger {
    let mut ledger = Ledger {
        resource_version: object.resource_version(),
        ..Ledger::default()
    };
    for (node_uid, text) in object.data.iter().flatten() {
        match serde_json::from_str(text) {
            Ok(slot) => {
                ledger.slots.insert(node_uid.clone(), slot);
            }
            Err(error) => {
                tracing::debug!(key = node_uid, %error, "no slot that we can read");
                ledger.unreadable.insert(node_uid.clone(), text.clone());
            }
        }
    }
    ledger
}

#[cfg(test)]
mod tests;

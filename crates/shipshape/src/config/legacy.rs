//! The block `config` of kube-node-ready's older files.
//!
//! Owns its keys and what each means to the gate. A key there is weaker than the same one in its new place.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;
use shipshape_api::names;
use shipshape_engine::verify::settings::{Backoff, GateSettings, LabelSettings};

/// The block.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Legacy {
    taint_key: Option<String>,
    taint_value: Option<String>,
    taint_effect: Option<String>,
    verified_label: Option<String>,
    verified_label_value: Option<String>,
    dns_test_domains: Vec<String>,
    cluster_dns_ip: Option<String>,
    max_retries: Option<i32>,
    retry_backoff: Option<Backoff>,
    initial_timeout: Option<SignedDuration>,
    check_timeout: Option<SignedDuration>,
    delete_failed_node: Option<bool>,
}

impl Legacy {
    /// Says it where the new places still have their defaults.
    pub(crate) fn apply(&self, gate: &mut GateSettings) {
        let usual = GateSettings::default();
        let management = &mut gate.node_management;
        let names_taint = self.taint_key.is_some() || self.taint_effect.is_some();
        if names_taint && management.taints == usual.node_management.taints {
            let (key, value, effect) = names::DEFAULT_GATE_TAINT;
            let or = |given: &Option<String>, usual: &str| {
                given.clone().unwrap_or_else(|| usual.to_owned())
            };
            management.taints = vec![Taint {
                key: or(&self.taint_key, key),
                value: Some(or(&self.taint_value, value)),
                effect: or(&self.taint_effect, effect),
                time_added: None,
            }];
        }
        if let Some(key) = &self.verified_label
            && management.verified_label == usual.node_management.verified_label
        {
            let value = self.verified_label_value.clone();
            management.verified_label = LabelSettings {
                key: key.clone(),
                value: value.unwrap_or_else(|| names::DEFAULT_VERIFIED_LABEL.1.to_owned()),
            };
        }
        management.delete_failed_nodes |= self.delete_failed_node.unwrap_or_default();
        let worker = &mut gate.worker;
        if worker.dns_test_domains.is_empty() {
            worker.dns_test_domains.clone_from(&self.dns_test_domains);
        }
        let seconds = |span: SignedDuration| u32::try_from(span.as_secs()).ok();
        let (whole, one) = (self.initial_timeout, self.check_timeout);
        worker.timeout_seconds = worker.timeout_seconds.or(whole.and_then(seconds));
        worker.check_timeout_seconds = worker.check_timeout_seconds.or(one.and_then(seconds));
        worker.cluster_dns_ip = worker.cluster_dns_ip.take().or(self.cluster_dns_ip.clone());
        let reconciliation = &mut gate.reconciliation;
        if let Some(most) = self.max_retries
            && reconciliation.max_retries == usual.reconciliation.max_retries
        {
            reconciliation.max_retries = most;
        }
        if let Some(backoff) = self.retry_backoff
            && reconciliation.retry_backoff == usual.reconciliation.retry_backoff
        {
            reconciliation.retry_backoff = backoff;
        }
    }
}

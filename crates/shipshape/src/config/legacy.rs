//! The block `config` of kube-node-ready's older files.
//!
//! Owns its keys and what each means to the gate. A key there is weaker than the same one in its new place.

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::Value;
use shipshape_engine::span::written;
use shipshape_engine::verify::settings::{
    Backoff, GateSettings, NodeManagementSettings, WorkerSettings,
};

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

/// Which keys of the block count, each after the one in whose place it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken(Vec<(&'static str, &'static str)>);

impl Taken {
    /// A complaint about a key of the new places, by the key that was written.
    pub(super) fn by_its_key(&self, complaint: String) -> String {
        let found = self.0.iter().find_map(|(new, older)| {
            let rest = complaint.strip_prefix(new)?;
            rest.starts_with([' ', ':', '[', ';'])
                .then(|| format!("config.{older}{rest}"))
        });
        found.unwrap_or(complaint)
    }
}

/// What was written in the new places, and what is taken from the older one.
struct Merge<'a> {
    written: &'a Value,
    taken: Taken,
}

impl Merge<'_> {
    fn is_written(&self, new: &str) -> bool {
        let pointer = format!("/{}", new.replace('.', "/"));
        let there = self.written.pointer(&pointer);
        there.is_some_and(|value| !value.is_null())
    }

    /// Puts a value of the older block into its new place, unless that was written.
    fn put<T>(
        &mut self,
        (new, older): (&'static str, &'static str),
        value: Option<T>,
        place: &mut T,
    ) {
        if let Some(value) = value.filter(|_| !self.is_written(new)) {
            *place = value;
            self.taken.0.push((new, older));
        }
    }
}

/// Charts write nothing for nothing.
fn some(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

/// Whole seconds, and a part of one is one.
fn seconds(key: &str, span: Option<SignedDuration>) -> Result<Option<u32>, String> {
    let Some(span) = span else {
        return Ok(None);
    };
    let whole = span.as_secs() + i64::from(span.subsec_nanos() > 0);
    match u32::try_from(whole) {
        Ok(whole) if whole > 0 => Ok(Some(whole)),
        _ => Err(format!(
            "config.{key} is {}; right would be a time above 0s, such as 10s",
            written(span)
        )),
    }
}

impl Legacy {
    /// Says it where the new places say nothing.
    pub(crate) fn apply(&self, gate: &mut GateSettings, written: &Value) -> Result<Taken, String> {
        let mut merge = Merge {
            written,
            taken: Taken::default(),
        };
        self.apply_to_nodes(&mut gate.node_management, &mut merge);
        self.apply_to_worker(&mut gate.worker, &mut merge)?;
        let reconciliation = &mut gate.reconciliation;
        merge.put(
            ("reconciliation.maxRetries", "maxRetries"),
            self.max_retries,
            &mut reconciliation.max_retries,
        );
        merge.put(
            ("reconciliation.retryBackoff", "retryBackoff"),
            self.retry_backoff,
            &mut reconciliation.retry_backoff,
        );
        Ok(merge.taken)
    }

    fn apply_to_nodes(&self, management: &mut NodeManagementSettings, merge: &mut Merge<'_>) {
        merge.put(
            ("nodeManagement.deleteFailedNodes", "deleteFailedNode"),
            self.delete_failed_node,
            &mut management.delete_failed_nodes,
        );
        // A list is one value: who writes it has written all of it.
        if !merge.is_written("nodeManagement.taints")
            && let Some(taint) = management.taints.first_mut()
        {
            let value = some(self.taint_value.as_ref()).map(Some);
            merge.put(
                ("nodeManagement.taints[0].key", "taintKey"),
                some(self.taint_key.as_ref()),
                &mut taint.key,
            );
            merge.put(
                ("nodeManagement.taints[0].value", "taintValue"),
                value,
                &mut taint.value,
            );
            merge.put(
                ("nodeManagement.taints[0].effect", "taintEffect"),
                some(self.taint_effect.as_ref()),
                &mut taint.effect,
            );
        }
        if !merge.is_written("nodeManagement.verifiedLabel") {
            let label = &mut management.verified_label;
            merge.put(
                ("nodeManagement.verifiedLabel.key", "verifiedLabel"),
                some(self.verified_label.as_ref()),
                &mut label.key,
            );
            merge.put(
                ("nodeManagement.verifiedLabel.value", "verifiedLabelValue"),
                some(self.verified_label_value.as_ref()),
                &mut label.value,
            );
        }
    }

    fn apply_to_worker(
        &self,
        worker: &mut WorkerSettings,
        merge: &mut Merge<'_>,
    ) -> Result<(), String> {
        let names = Some(self.dns_test_domains.clone()).filter(|names| !names.is_empty());
        merge.put(
            ("worker.dnsTestDomains", "dnsTestDomains"),
            names,
            &mut worker.dns_test_domains,
        );
        merge.put(
            ("worker.clusterDnsIp", "clusterDnsIp"),
            some(self.cluster_dns_ip.as_ref()).map(Some),
            &mut worker.cluster_dns_ip,
        );
        let one = seconds("checkTimeout", self.check_timeout)?;
        merge.put(
            ("worker.checkTimeoutSeconds", "checkTimeout"),
            one.map(Some),
            &mut worker.check_timeout_seconds,
        );
        let whole = seconds("initialTimeout", self.initial_timeout)?;
        merge.put(
            ("worker.timeoutSeconds", "initialTimeout"),
            whole.map(Some),
            &mut worker.timeout_seconds,
        );
        // In older files there was no other bound; unless there is one now, it grows with that time.
        let job = &mut worker.job.active_deadline_seconds;
        let longer = worker.timeout_seconds.filter(|whole| *whole > *job);
        if whole.is_some() && !merge.is_written("worker.job.activeDeadlineSeconds") {
            *job = longer.unwrap_or(*job);
        }
        Ok(())
    }
}

//! How the pod ends that checks its node's network: as the network of this world has it.
//!
//! Owns the report in the form of `shipshape verify` (docs/verify.md). Must not know what it leads to.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use shipshape_api::names::LABEL_WORKER;

use super::pods::End;
use crate::cloud::Network;

/// Whether the pod checks the node that it is on.
pub(super) fn is_worker(pod: &Pod) -> bool {
    pod.labels().contains_key(LABEL_WORKER)
}

/// Exit code and message of the checks, for somebody who runs them without a pod.
pub fn checked(network: Network) -> (i32, String) {
    let End { code, message } = end(network);
    (code, message)
}

/// Exit code and message of the checks.
pub(super) fn end(network: Network) -> End {
    let name = "kubernetes.default.svc.cluster.local. @10.96.0.10:53";
    let findings = [
        finding("dns-udp", name, "dns", network.has_dns),
        finding("dns-tcp", name, "dns", network.has_dns),
        finding("network", "10.96.0.1:443", "connect", network.has_services),
    ];
    let passed = network.has_dns && network.has_services;
    let verdict = if passed { "Passed" } else { "Failed" };
    let mut report = json!({ "verdict": verdict, "findings": findings });
    if !passed && let Some(report) = report.as_object_mut() {
        let evidence = json!({
            "resolvConf": "nameserver 10.96.0.10",
            "addresses": ["10.0.0.7"],
            "routes": ["0.0.0.0/0 via 10.0.0.1 dev eth0"],
        });
        report.insert("evidence".to_owned(), evidence);
    }
    End {
        code: i32::from(!passed),
        message: report.to_string(),
    }
}

fn finding(check: &str, target: &str, phase: &str, ok: bool) -> Value {
    let mut finding = json!({
        "check": check, "target": target, "ok": ok, "milliseconds": if ok { 4 } else { 5000 },
        "message": if ok { "answered" } else { "no answer in time" },
    });
    if !ok && let Some(finding) = finding.as_object_mut() {
        finding.insert("phase".to_owned(), phase.into());
    }
    finding
}

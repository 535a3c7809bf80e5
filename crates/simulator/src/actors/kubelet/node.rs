//! The Node object of a machine: what the kubelet registers and what it reports.
//!
//! Owns pure construction; must not call the API.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::Mode;
use crate::cloud::MachineFacts;
use crate::seed::Seed;

/// The kubelet of images that name none.
const KUBELET: &str = "v1.35.0";

/// The Node as the kubelet creates it: not ready, and saying so by taint until it is.
pub(super) fn registration(facts: &MachineFacts, name: &str) -> Node {
    let mut labels = facts.labels.clone();
    let group = facts
        .machine
        .group
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    for (key, value) in [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("topology.kubernetes.io/zone", &facts.machine.zone),
        ("topology.kubernetes.io/region", &facts.region),
        ("node.kubernetes.io/instance-type", "embedded.large"),
        ("embedded.shipshape.dev/group", &group),
    ] {
        labels
            .entry(key.to_owned())
            .or_insert_with(|| value.to_owned());
    }
    let mut taints = facts.taints.clone();
    taints.push(Taint {
        key: "node.kubernetes.io/not-ready".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    });
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(facts.machine.provider_id.0.clone()),
            taints: Some(taints),
            ..NodeSpec::default()
        }),
        status: None,
    }
}

/// What the Ready condition shall say.
pub(super) fn ready_word(mode: &Mode) -> &'static str {
    if mode.started && mode.healthy {
        "True"
    } else {
        "False"
    }
}

/// The status the kubelet reports now.
pub(super) fn status(
    facts: &MachineFacts,
    mode: &Mode,
    before: Option<&Node>,
    now: Timestamp,
) -> NodeStatus {
    let word = ready_word(mode);
    let (reason, message) = match word {
        "True" => ("KubeletReady", "kubelet is posting ready status"),
        _ => ("KubeletNotReady", "container runtime network not ready"),
    };
    let ready = condition(("Ready", word, reason, message), before, now);
    let pressure = |kind, reason, message| condition((kind, "False", reason, message), before, now);
    let capacity = capacity(facts);
    NodeStatus {
        addresses: Some(vec![NodeAddress {
            type_: "Hostname".to_owned(),
            address: crate::cloud::node_name(&facts.machine.id),
        }]),
        allocatable: Some(capacity.clone()),
        capacity: Some(capacity),
        conditions: Some(vec![
            pressure(
                "MemoryPressure",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            pressure(
                "DiskPressure",
                "KubeletHasNoDiskPressure",
                "kubelet has no disk pressure",
            ),
            pressure(
                "PIDPressure",
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
            ),
            ready,
        ]),
        node_info: Some(info(facts, mode)),
        ..NodeStatus::default()
    }
}

fn condition(
    words: (&str, &str, &str, &str),
    before: Option<&Node>,
    now: Timestamp,
) -> NodeCondition {
    let (kind, status, reason, message) = words;
    let known = before
        .and_then(|node| node.status.as_ref()?.conditions.as_ref())
        .and_then(|list| {
            list.iter()
                .find(|item| item.type_ == kind && item.status == status)
        });
    let since = known.and_then(|item| item.last_transition_time.clone());
    NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: since.or(Some(Time(now))),
    }
}

fn capacity(facts: &MachineFacts) -> BTreeMap<String, Quantity> {
    BTreeMap::from([
        (
            "cpu".to_owned(),
            Quantity(format!("{}m", facts.size.cpu_millis)),
        ),
        (
            "memory".to_owned(),
            Quantity(format!("{}Mi", facts.size.memory_mib)),
        ),
        ("pods".to_owned(), Quantity(facts.size.pods.to_string())),
    ])
}

fn info(facts: &MachineFacts, mode: &Mode) -> NodeSystemInfo {
    let id = |what: &str| {
        let mut drawn = Seed::new(0).fork(facts.machine.id.as_str()).fork(what);
        let (high, low) = (drawn.draw(), drawn.draw());
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    };
    NodeSystemInfo {
        architecture: "amd64".to_owned(),
        boot_id: id(&format!("boot {}", mode.boot)),
        container_runtime_version: "containerd://2.1.4".to_owned(),
        kernel_version: "6.12.0".to_owned(),
        kube_proxy_version: String::new(),
        kubelet_version: facts
            .kubelet_version
            .clone()
            .unwrap_or_else(|| KUBELET.to_owned()),
        machine_id: id("machine"),
        operating_system: "linux".to_owned(),
        os_image: facts.machine.image.0.clone(),
        system_uuid: id("system"),
        ..NodeSystemInfo::default()
    }
}

//! What kubeadm is told when a cluster begins and when a node joins it.
//!
//! Owns the words of its files. Must not run anything. Called by `nodes`.

use serde_json::{Value, json};

use super::machine::address;
use crate::binaries::KUBERNETES;
use crate::binaries::nodes::REPOSITORY;

/// Where the API servers are reached: the first one's address.
pub(super) const ENDPOINT: &str = "10.200.0.11:6443";
/// Only machines of the same private network can use it, and with it go after minutes.
const TOKEN: &str = "abcdef.0123456789abcdef";
const API: &str = "kubeadm.k8s.io/v1beta4";

/// A taint of a node that joins: key, value and effect.
pub type Taint<'a> = (&'a str, &'a str, &'a str);

/// The file of `kubeadm init`.
pub(super) fn init(name: &str, number: u8) -> String {
    documents(&[
        json!({
            "apiVersion": API, "kind": "InitConfiguration",
            "bootstrapTokens": [{ "token": TOKEN }],
            "localAPIEndpoint": { "advertiseAddress": address(number) },
            "nodeRegistration": registration(name),
        }),
        json!({
            "apiVersion": API, "kind": "ClusterConfiguration",
            "kubernetesVersion": format!("v{KUBERNETES}"),
            "controlPlaneEndpoint": ENDPOINT,
            "imageRepository": REPOSITORY,
            "networking": { "podSubnet": "10.244.0.0/16" },
        }),
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "cgroupDriver": "systemd",
            // The host may still have cgroups of the first version.
            "failCgroupV1": false,
            // The disk is that of the host, and images cannot be had again.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": { "memory.available": "50Mi" },
        }),
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
            // The table of connections is the kernel's, and the kernel is the host's.
            "conntrack": { "maxPerCore": 0 },
        }),
    ])
}

/// The file of `kubeadm join` for a node without the control plane.
pub(super) fn join(name: &str, taints: &[Taint<'_>]) -> String {
    let taints: Vec<Value> = taints
        .iter()
        .map(|(key, value, effect)| json!({ "key": key, "value": value, "effect": effect }))
        .collect();
    let mut registration = registration(name);
    if let Some(object) = registration.as_object_mut() {
        object.insert("taints".to_owned(), taints.into());
    }
    documents(&[json!({
        "apiVersion": API, "kind": "JoinConfiguration",
        "discovery": { "bootstrapToken": {
            "token": TOKEN, "apiServerEndpoint": ENDPOINT, "unsafeSkipCAVerification": true,
        } },
        "nodeRegistration": registration,
    })])
}

fn registration(name: &str) -> Value {
    json!({
        "name": name,
        "criSocket": "unix:///run/containerd/containerd.sock",
        // It looks at the kernel's configuration, and wants cgroups of the second version.
        "ignorePreflightErrors": ["SystemVerification"],
    })
}

/// JSON is YAML, if each object is a document of its own.
fn documents(objects: &[Value]) -> String {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    texts.join("\n---\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_registers_with_its_taints_and_nothing_else_of_its_own() {
        let text = join("n2", &[("node-ready/unverified", "true", "NoSchedule")]);
        let file: Value = serde_json::from_str(&text).unwrap();
        let taints = file.pointer("/nodeRegistration/taints").unwrap();
        let wanted =
            json!([{ "key": "node-ready/unverified", "value": "true", "effect": "NoSchedule" }]);
        assert_eq!(taints, &wanted);
        assert_eq!(file.pointer("/nodeRegistration/name").unwrap(), "n2");
    }
}

//! The pod that runs the checks on one node, and the one that runs them elsewhere for comparison.
//!
//! Owns their words: pinned to a node by name, without token, right or CPU limit, under the restricted
//! profile, named after what they are for. Must not decide when one is needed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, ConfigMapVolumeSource, Container, EnvVar, NodeAffinity, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSecurityContext, PodSpec,
    ResourceRequirements, SeccompProfile, SecurityContext, Toleration, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use shipshape_api::{PendingNode, names};

use super::settings::{CONTAINER, GateSettings};
use crate::naming::hex;
use crate::view::NodeView;

/// Longest name of a pod that is also a host name.
const NAME_MAX: usize = 63;
/// Digits of the hash that ends a name.
const HASH_DIGITS: usize = 10;
/// Most name servers that are asked by themselves.
pub const NAME_SERVERS_MAX: usize = 8;
/// Any user but root.
const USER: i64 = 65_532;
/// Where the authority of the API server is mounted; every namespace has its ConfigMap.
const AUTHORITY_MAP: &str = "kube-root-ca.crt";
const AUTHORITY_PATH: &str = "/var/run/shipshape/authority";
/// Where settings of the checks are mounted, and the file there.
const CONFIG_PATH: &str = "/etc/kube-node-ready";
const CONFIG_FILE: &str = "worker-config.yaml";
/// The variable that names that file.
pub const CONFIG_VARIABLE: &str = "WORKER_CONFIG_PATH";
/// Resources that every node has.
const ORDINARY: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Effects of a taint that keep a pod away.
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// Name of the worker of one attempt: the same attempt always has the same, a reboot another.
pub fn worker_name(node: &NodeView, attempt: i32) -> String {
    let hash = hex(
        &[&node.uid, &node.boot_id, &attempt.to_string()],
        HASH_DIGITS,
    );
    readable(names::WORKER_PREFIX, &node.name, &hash)
}

/// Name of a run on a node in service: within one interval there is one, and one that pulls.
pub fn control_name(
    node: &NodeView,
    pulls: bool,
    settings: &GateSettings,
    now: Timestamp,
) -> String {
    let interval = settings.interval().as_secs().max(1);
    let bucket = now.as_second().div_euclid(interval).to_string();
    let kind = if pulls { "pulls" } else { "runs" };
    let hash = hex(&[&node.uid, &node.boot_id, &bucket, kind], HASH_DIGITS);
    let prefix = format!("{}control-", names::WORKER_PREFIX);
    readable(&prefix, &node.name, &hash)
}

fn readable(prefix: &str, node: &str, hash: &str) -> String {
    let plain = node.replace('.', "-");
    let room = NAME_MAX - HASH_DIGITS - 1;
    let cut: String = format!("{prefix}{plain}").chars().take(room).collect();
    format!("{}-{hash}", cut.trim_end_matches('-'))
}

/// The worker of one attempt at a node. It goes with the object that remembers its result.
pub fn of_attempt(
    node: &NodeView,
    record: &PendingNode,
    attempt: i32,
    settings: &GateSettings,
) -> Pod {
    let mut pod = pod(
        node,
        worker_name(node, attempt),
        names::WORKER_OF_NODE,
        settings,
    );
    pod.metadata.owner_references = Some(vec![OwnerReference {
        api_version: format!("{}/{}", names::GROUP, names::VERSION),
        kind: "PendingNode".to_owned(),
        name: record.metadata.name.clone().unwrap_or_default(),
        uid: record.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    pod
}

/// A run of the same checks on a node in service. With `pulls` its image is asked for anew, which the node
/// most likely has: so the registry is compared too. It drives nobody away from a node that is full, and leaves
/// devices alone: the network can be compared without them.
pub fn of_control(node: &NodeView, pulls: bool, settings: &GateSettings, now: Timestamp) -> Pod {
    let name = control_name(node, pulls, settings, now);
    let mut pod = pod(node, name, names::WORKER_OF_CONTROL, settings);
    if let Some(spec) = &mut pod.spec {
        spec.priority_class_name = None;
        for container in &mut spec.containers {
            container.resources.iter_mut().for_each(keep_ordinary);
            if pulls {
                container.image_pull_policy = Some("Always".to_owned());
            }
        }
    }
    pod
}

/// Leaves out what only some nodes have.
fn keep_ordinary(resources: &mut ResourceRequirements) {
    for amounts in [&mut resources.requests, &mut resources.limits] {
        let amounts = amounts.iter_mut();
        amounts.for_each(|all| all.retain(|name, _| ORDINARY.contains(&name.as_str())));
    }
}

/// Tells the checks which name servers stand behind the service: each is asked by itself, so that one dead
/// among many shows.
pub(super) fn with_name_servers(mut pod: Pod, servers: &[IpAddr]) -> Pod {
    let Some(variable) = endpoints(servers) else {
        return pod;
    };
    let containers = pod.spec.iter_mut().flat_map(|spec| &mut spec.containers);
    for container in containers {
        let env = container.env.get_or_insert_default();
        env.push(as_given(variable.clone()));
    }
    pod
}

fn endpoints(servers: &[IpAddr]) -> Option<(String, String)> {
    let list = servers.iter().take(NAME_SERVERS_MAX);
    let list: Vec<String> = list.map(ToString::to_string).collect();
    (!list.is_empty()).then(|| ("DNS_ENDPOINTS".to_owned(), list.join(",")))
}

/// What a worker is told of its checks, for whoever runs them without a pod of its own.
pub(super) fn variables(settings: &GateSettings, servers: &[IpAddr]) -> Vec<(String, String)> {
    let mut variables = of_checks(settings);
    variables.extend(endpoints(servers));
    variables
}

fn as_given((name, value): (String, String)) -> EnvVar {
    EnvVar {
        name,
        value: Some(value),
        value_from: None,
    }
}

fn pod(node: &NodeView, name: String, kind: &str, settings: &GateSettings) -> Pod {
    let worker = &settings.worker;
    let map = |list: &[(&str, &str)]| {
        let entries = list.iter();
        entries
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    Pod {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: worker.namespace.clone(),
            // A sidecar would keep the pod from ending, and its proxy would be what is checked.
            labels: Some(map(&[
                (names::LABEL_WORKER, kind),
                ("app.kubernetes.io/name", "shipshape"),
                ("app.kubernetes.io/component", "worker"),
                ("sidecar.istio.io/inject", "false"),
            ])),
            annotations: Some(map(&[
                (names::ANNOTATION_WORKER_NODE, &node.name),
                ("linkerd.io/inject", "disabled"),
            ])),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            restart_policy: Some("Never".to_owned()),
            automount_service_account_token: Some(false),
            service_account_name: worker.service_account_name.clone(),
            priority_class_name: Some(
                worker
                    .priority_class_name
                    .clone()
                    .unwrap_or_else(|| "system-node-critical".to_owned()),
            ),
            active_deadline_seconds: Some(worker.job.active_deadline_seconds.into()),
            termination_grace_period_seconds: Some(1),
            affinity: Some(pinned(&node.name)),
            tolerations: Some(tolerations(settings)),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(USER),
                run_as_group: Some(USER),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    ..SeccompProfile::default()
                }),
                ..PodSecurityContext::default()
            }),
            init_containers: Some(worker.init_containers.clone())
                .filter(|containers| !containers.is_empty()),
            containers: vec![container(node, settings)],
            volumes: Some(volumes(settings)),
            ..PodSpec::default()
        }),
        status: None,
    }
}

/// By name, which every node has; a host name label may differ from it.
fn pinned(node: &str) -> Affinity {
    let name = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm {
        match_fields: Some(vec![name]),
        match_expressions: None,
    };
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![term],
            }),
            preferred_during_scheduling_ignored_during_execution: None,
        }),
        ..Affinity::default()
    }
}

/// Whatever keeps pods off the node keeps off the ones that are to be protected, not the worker: any taint
/// against scheduling, and what a gate with effect NoExecute would drive away.
fn tolerations(settings: &GateSettings) -> Vec<Toleration> {
    let exists = |key: Option<&str>, effect: &str| Toleration {
        key: key.map(str::to_owned),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    };
    let mut all = vec![
        exists(None, NO_SCHEDULE),
        exists(Some("node.kubernetes.io/not-ready"), NO_EXECUTE),
        exists(Some("node.kubernetes.io/unreachable"), NO_EXECUTE),
    ];
    let gates = settings.node_management.taints.iter();
    let driving = gates.filter(|taint| taint.effect == NO_EXECUTE);
    all.extend(driving.map(|taint| exists(Some(&taint.key), NO_EXECUTE)));
    all.extend(settings.worker.tolerations.iter().cloned());
    all
}

fn container(node: &NodeView, settings: &GateSettings) -> Container {
    let worker = &settings.worker;
    let image = &worker.image;
    let args = [
        "verify",
        "--ca-file",
        &format!("{AUTHORITY_PATH}/ca.crt"),
        "--output",
        "json",
    ];
    let mut mounts = vec![mount("authority", AUTHORITY_PATH)];
    if worker.config_map_name.is_some() {
        mounts.push(mount("config", CONFIG_PATH));
    }
    Container {
        name: CONTAINER.to_owned(),
        image: Some(format!("{}:{}", image.repository, image.tag)),
        image_pull_policy: Some(
            image
                .pull_policy
                .clone()
                .unwrap_or_else(|| "IfNotPresent".to_owned()),
        ),
        args: Some(args.map(str::to_owned).to_vec()),
        env: Some(environment(node, settings)),
        resources: Some(ResourceRequirements {
            requests: Some(worker.resources.requests.clone()).filter(|map| !map.is_empty()),
            limits: Some(worker.resources.limits.clone()).filter(|map| !map.is_empty()),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                add: None,
            }),
            ..SecurityContext::default()
        }),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

fn environment(node: &NodeView, settings: &GateSettings) -> Vec<EnvVar> {
    let name = ("NODE_NAME".to_owned(), node.name.clone());
    let all = std::iter::once(name).chain(of_checks(settings));
    all.map(as_given).collect()
}

/// What the settings say of the checks, in the variables that `shipshape verify` reads.
fn of_checks(settings: &GateSettings) -> Vec<(String, String)> {
    let worker = &settings.worker;
    let seconds = |value: Option<u32>| value.map(|seconds| format!("{seconds}s"));
    let domains = Some(worker.dns_test_domains.join(",")).filter(|list| !list.is_empty());
    let file = worker
        .config_map_name
        .as_ref()
        .map(|_| format!("{CONFIG_PATH}/{CONFIG_FILE}"));
    let variables = [
        ("DNS_TEST_DOMAINS", domains),
        ("CHECK_TIMEOUT", seconds(worker.check_timeout_seconds)),
        ("INITIAL_TIMEOUT", seconds(worker.timeout_seconds)),
        ("CLUSTER_DNS_IP", worker.cluster_dns_ip.clone()),
        (CONFIG_VARIABLE, file),
    ];
    let given = variables.into_iter();
    given
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

fn volumes(settings: &GateSettings) -> Vec<Volume> {
    let volume = |name: &str, map: &str| Volume {
        name: name.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: map.to_owned(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let mut volumes = vec![volume("authority", AUTHORITY_MAP)];
    let config = settings.worker.config_map_name.as_deref();
    volumes.extend(config.map(|map| volume("config", map)));
    volumes
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

//! The words of a worker pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::*;

fn made(settings: &GateSettings) -> Pod {
    let node = node("n");
    let record = recorded(&node, Verification::default());
    worker::of_attempt(&node, &record, 1, settings)
}

fn spec(settings: &GateSettings) -> PodSpec {
    made(settings).spec.unwrap()
}

#[test]
fn it_is_pinned_by_name_and_owned_by_the_record() {
    let pod = made(&settings());
    let owner = &pod.metadata.owner_references.unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str()),
        ("PendingNode", "record-uid")
    );
    let affinity = pod.spec.unwrap().affinity.unwrap().node_affinity.unwrap();
    let terms = affinity
        .required_during_scheduling_ignored_during_execution
        .unwrap()
        .node_selector_terms;
    let field = &terms[0].match_fields.as_ref().unwrap()[0];
    assert_eq!(field.key, "metadata.name");
    assert_eq!(field.values, Some(vec!["n".to_owned()]));
}

#[test]
fn it_has_no_token_no_right_to_be_root_and_no_limit_of_cpu() {
    let spec = spec(&settings());
    assert_eq!(spec.automount_service_account_token, Some(false));
    assert_eq!(spec.host_network, None);
    assert_eq!(spec.restart_policy.as_deref(), Some("Never"));
    assert_eq!(spec.security_context.unwrap().run_as_non_root, Some(true));
    let container = &spec.containers[0];
    let security = container.security_context.as_ref().unwrap();
    assert_eq!(security.allow_privilege_escalation, Some(false));
    assert_eq!(
        security.capabilities.as_ref().unwrap().drop,
        Some(vec!["ALL".to_owned()])
    );
    let limits = container
        .resources
        .as_ref()
        .unwrap()
        .limits
        .as_ref()
        .unwrap();
    assert!(!limits.contains_key("cpu"));
}

#[test]
fn it_tolerates_what_keeps_pods_off_a_new_node_and_what_settings_add() {
    let mut settings = settings();
    settings.node_management.taints[0].effect = "NoExecute".to_owned();
    settings.worker.tolerations.push(Toleration {
        key: Some("extra".to_owned()),
        ..Toleration::default()
    });
    let all = spec(&settings).tolerations.unwrap();
    let has = |key: Option<&str>, effect: Option<&str>| {
        all.iter()
            .any(|one| one.key.as_deref() == key && one.effect.as_deref() == effect)
    };
    assert!(has(None, Some("NoSchedule")));
    assert!(has(Some("node-ready/unverified"), Some("NoExecute")));
    assert!(has(Some("node.kubernetes.io/not-ready"), Some("NoExecute")));
    assert!(has(Some("extra"), None));
}

#[test]
fn it_takes_init_containers_resources_and_settings_of_the_checks() {
    let mut settings = settings();
    settings.worker.init_containers.push(Container {
        name: "warm-up".to_owned(),
        ..Container::default()
    });
    let gpu = ("nvidia.com/gpu".to_owned(), Quantity("1".to_owned()));
    settings.worker.resources.limits.extend([gpu]);
    settings.worker.check_timeout_seconds = Some(10);
    settings.worker.dns_test_domains = vec!["a.example".to_owned(), "b.example".to_owned()];
    settings.worker.config_map_name = Some("checks".to_owned());
    let spec = spec(&settings);
    assert_eq!(spec.init_containers.unwrap()[0].name, "warm-up");
    let container = &spec.containers[0];
    let limits = container
        .resources
        .as_ref()
        .unwrap()
        .limits
        .as_ref()
        .unwrap();
    assert!(limits.contains_key("nvidia.com/gpu"));
    let value = |name: &str| {
        let env = container.env.as_ref().unwrap();
        let found = env.iter().find(|one| one.name == name);
        found.and_then(|one| one.value.clone()).unwrap_or_default()
    };
    assert_eq!(value("CHECK_TIMEOUT"), "10s");
    assert_eq!(value("DNS_TEST_DOMAINS"), "a.example,b.example");
    assert_eq!(
        value("WORKER_CONFIG_PATH"),
        "/etc/kube-node-ready/worker-config.yaml"
    );
    assert_eq!(spec.volumes.unwrap().len(), 2);
}

#[test]
fn names_of_long_nodes_fit_a_host_name_and_differ() {
    let long = |end: &str| NodeView {
        name: format!("{}.{end}", "node".repeat(50)),
        uid: end.to_owned(),
        ..node("n")
    };
    let (one, two) = (long("a"), long("b"));
    for name in [
        worker::worker_name(&one, 1),
        worker::control_name(&one, false, &settings(), at(0)),
    ] {
        assert!(name.len() <= 63, "{name}");
    }
    assert_ne!(worker::worker_name(&one, 1), worker::worker_name(&two, 1));
    assert!(record::record_name(&one).len() <= 253);
}

#[test]
fn within_one_interval_there_is_one_run_elsewhere() {
    let node = node("n");
    let name = |second: i64| worker::control_name(&node, false, &settings(), at(second));
    assert_eq!(name(0), name(9));
    assert_ne!(name(0), name(10));
}

#[test]
fn it_is_told_the_name_servers_of_the_moment_and_so_is_the_run_that_it_is_compared_with() {
    let node = node("n");
    let told = |decision: &Decision<PendingNodeStatus>| {
        let made = decision.effects.iter().find_map(|effect| {
            let Effect::Gate(GateEffect::EnsureWorker(pod)) = effect else {
                return None;
            };
            pod.spec.as_ref()
        });
        let env = made.and_then(|spec| spec.containers[0].env.clone());
        let mut env = env.unwrap_or_default().into_iter();
        env.find(|one| one.name == "DNS_ENDPOINTS")
            .and_then(|one| one.value)
    };
    let mut seen = snapshot(node.clone(), Some(Verification::default()));
    assert_eq!(told(&decide(&seen, &settings(), at(0))), None);
    seen.name_servers = vec!["10.0.0.3".parse().unwrap(), "fd00::3".parse().unwrap()];
    let expected = Some("10.0.0.3,fd00::3".to_owned());
    assert_eq!(told(&decide(&seen, &settings(), at(0))), expected);
    seen.record = Observed::Present(recorded(&node, under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 1, &report(&[("dns-udp", false)]), 40));
    seen.control = ControlView {
        runs: Vec::new(),
        ..control(&[], 0, 0)
    };
    assert_eq!(told(&decide(&seen, &settings(), at(41))), expected);
    seen.name_servers = (0..20_u8).map(|last| [10, 0, 0, last].into()).collect();
    let many = told(&decide(&seen, &settings(), at(41))).unwrap();
    assert_eq!(many.split(',').count(), 8);
}

/// A node in service may be full, and its devices in use: a comparison drives nobody away and needs none.
#[test]
fn a_comparison_has_no_priority_and_asks_for_no_device() {
    let mut settings = settings();
    let gpu = ("nvidia.com/gpu".to_owned(), Quantity("1".to_owned()));
    settings.worker.resources.limits.extend([gpu.clone()]);
    settings.worker.resources.requests.extend([gpu]);
    settings.worker.priority_class_name = Some("high".to_owned());
    let spec = worker::of_control(&node("n"), false, &settings, at(0)).spec;
    let spec = spec.unwrap();
    assert_eq!(spec.priority_class_name, None);
    let resources = spec.containers[0].resources.clone().unwrap();
    let names = |amounts: Option<BTreeMap<String, Quantity>>| {
        amounts.unwrap().into_keys().collect::<Vec<String>>()
    };
    assert_eq!(names(resources.limits), ["memory"]);
    assert_eq!(names(resources.requests), ["cpu", "memory"]);
}

//! Tests of the configuration file: what is taken, and the sentence about what is not.

use super::*;

fn refusal(text: &str) -> Option<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let loaded = Config::load(Some(file.path()));
    loaded.err().map(|error| format!("{error:#}"))
}

/// What users of kube-node-ready have in their files.
const SEED: &str = r#"
worker:
  image: { repository: example/shipshape, tag: "1", pullPolicy: IfNotPresent }
  namespace: kube-system
  serviceAccountName: worker
  priorityClassName: system-node-critical
  configMapName: worker-config
  timeoutSeconds: 300
  checkTimeoutSeconds: 10
  dnsTestDomains: [kubernetes.default.svc.cluster.local]
  resources:
    requests: { cpu: 50m, memory: 64Mi }
    limits: { memory: 64Mi, nvidia.com/gpu: "1" }
  job: { activeDeadlineSeconds: 300, backoffLimit: 2, completions: 1, ttlSecondsAfterFinished: 600 }
  tolerations: [{ key: dedicated, operator: Exists }]
  initContainers: [{ name: wait, image: busybox, command: [sleep, "1"] }]
reconciliation: { intervalSeconds: 30, maxRetries: 5, retryBackoff: exponential }
nodeManagement:
  deleteFailedNodes: false
  taints: [{ key: node-ready/unverified, value: "true", effect: NoSchedule }]
  verifiedLabel: { key: node-ready/verified, value: "true" }
leaderElection: { enabled: true, id: kube-node-ready-leader, namespace: kube-system }
metrics: { enabled: true, port: 8080 }
health: { port: 8081 }
logging: { level: info, format: json }
kubernetes: { kubeconfigPath: "", qps: 50, burst: 100 }
"#;

#[test]
fn the_examples_of_the_gate_are_taken() {
    for name in [
        "controller",
        "controller-cluster-autoscaler",
        "controller-publish-only",
    ] {
        let path = format!(
            "{}/../../examples/gate/{name}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let config = Config::load(Some(Path::new(&path))).unwrap();
        assert!(config.gate().is_some(), "{name}");
    }
}

#[test]
fn a_file_of_the_gates_predecessor_is_taken_as_it_is() {
    assert_eq!(refusal(SEED), None);
    let config = Config::read(SEED).unwrap();
    let gate = config.gate().unwrap();
    assert_eq!(gate.reconciliation.interval_seconds, 30);
    assert_eq!(gate.worker.tolerations.len(), 1);
    assert_eq!(gate.worker.init_containers[0].name, "wait");
    assert!(
        Config::default().gate().is_none(),
        "no gate unless asked for"
    );
}

#[test]
fn the_older_block_is_taken_where_the_new_keys_say_nothing() {
    let older = "
config:
  taintKey: my-custom/unverified
  dnsTestDomains: [cluster.example]
  maxRetries: 10
  initialTimeout: 600s
worker: { image: { repository: r, tag: t }, dnsTestDomains: [new.example] }
";
    let config = Config::read(older).unwrap();
    let gate = config.gate().unwrap();
    assert_eq!(gate.node_management.taints[0].key, "my-custom/unverified");
    assert_eq!(gate.node_management.taints[0].effect, "NoSchedule");
    assert_eq!(gate.reconciliation.max_retries, 10);
    assert_eq!(gate.worker.timeout_seconds, Some(600));
    assert_eq!(gate.worker.dns_test_domains, ["new.example"]);
}

#[test]
fn a_wrong_key_of_the_gate_is_refused_by_its_path() {
    let table = [
        ("maxRetries: 5", "maxTries: 5", "reconciliation.maxTries"),
        (
            "maxRetries: 5",
            "maxRetries: 0",
            "reconciliation.maxRetries",
        ),
        ("exponential", "random", "reconciliation.retryBackoff"),
        ("tag: \"1\"", "tag: \"\"", "worker.image.tag"),
        (
            "effect: NoSchedule",
            "effect: Never",
            "nodeManagement.taints[0].effect",
        ),
        (
            "limits: { memory",
            "limits: { cpu: 1, memory",
            "worker.resources.limits.cpu",
        ),
        ("format: json", "format: yaml", "logging.format"),
        ("qps: 50", "qpss: 50", "kubernetes.qpss"),
    ];
    for (right, wrong, path) in table {
        let told = refusal(&SEED.replace(right, wrong)).unwrap();
        assert!(told.contains(path), "{path}: {told}");
    }
}

#[test]
fn a_time_or_a_namespace_that_makes_no_sense_is_refused_by_its_field() {
    assert_eq!(refusal("settings: { cloudLag: 0s }"), None);
    let table = [
        (
            "settings: { deadlines: { join: -5m } }",
            "settings.deadlines.join is -5m; right would be",
        ),
        (
            "settings: { sweep: { every: 0s } }",
            "settings.sweep.every is 0s; right would be",
        ),
        (
            "leaderElection: { retryPeriod: -1s }",
            "leaderElection.retryPeriod is -1s; right would be",
        ),
        (
            "leaderElection: { leaseDuration: 0s }",
            "leaderElection.renewDeadline is 10s; right would be",
        ),
        ("namespace: ''", "namespace: \"\" is not"),
        ("namespace: Ship_Shape", "namespace: \"Ship_Shape\" is not"),
        ("lockNamespace: a/b", "lockNamespace: \"a/b\" is not"),
    ];
    for (text, expected) in table {
        let told = refusal(text).unwrap();
        assert!(told.contains(expected), "{text}\n{told}");
    }
}

#[test]
fn settings_of_the_gate_without_its_pods_are_refused() {
    for block in [
        "reconciliation: { maxRetries: 3 }",
        "nodeManagement: { deleteFailedNodes: true }",
        "verification: { mode: DryRun }",
        "config: { maxRetries: 3 }",
    ] {
        let told = refusal(block).unwrap();
        assert!(told.contains("name worker.image"), "{block}: {told}");
    }
}

#[test]
fn an_etcd_block_that_is_of_no_use_is_refused_by_its_field() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let there = file.path().display();
    let files = |ca: &str| format!("etcd: {{ caFile: {ca}, certFile: {there}, keyFile: {there}");
    let whole = files(&there.to_string());
    assert_eq!(refusal(&format!("{whole} }}")), None);
    let table = [
        (format!("{} }}", files("/no/such/file")), "etcd.caFile"),
        (format!("{whole}, timeout: 0s }}"), "etcd.timeout"),
        (
            format!("{whole}, endpoints: [\"10.0.0.4:2379\"] }}"),
            "etcd.endpoints",
        ),
        (format!("etcd: {{ caFile: {there} }}"), "certFile"),
    ];
    for (text, field) in table {
        let told = refusal(&text).unwrap();
        assert!(told.contains(field), "{told}");
    }
}

#[test]
fn a_value_that_makes_no_sense_is_refused_with_its_path_the_value_and_what_would_be_right() {
    let sixty_five = vec!["a.example"; 65].join(", ");
    let names = format!("dnsTestDomains: [{sixty_five}]");
    let table = [
        (
            "clusterDnsIp: foo",
            "worker.clusterDnsIp: \"foo\" is not an address",
        ),
        (
            "dnsTestDomains: ['a b']",
            "worker.dnsTestDomains[0]: \"a b\" is not a name",
        ),
        (
            "dnsTestDomains: [8.8.8.8]",
            "worker.dnsTestDomains[0]: 8.8.8.8 is an address",
        ),
        (
            "dnsTestDomains: ['127.1']",
            "worker.dnsTestDomains[0]: \"127.1\" ends in a number",
        ),
        (&names, "worker.dnsTestDomains: has 65 entries, 64"),
        (
            "checkTimeoutSeconds: 0",
            "worker.checkTimeoutSeconds is 0; right would be from 1",
        ),
        (
            "timeoutSeconds: 0",
            "worker.timeoutSeconds is 0; right would be from 1",
        ),
        (
            "timeoutSeconds: 400",
            "worker.timeoutSeconds is 400; right would be from 1 to 300",
        ),
        (
            "namespace: A_b",
            "worker.namespace is \"A_b\"; right would be",
        ),
        ("namespace: ''", "worker.namespace is \"\"; right would be"),
        (
            "priorityClassName: 'A B'",
            "worker.priorityClassName is \"A B\"",
        ),
        ("configMapName: ''", "worker.configMapName is \"\""),
        (
            "resources: { limits: { memory: lots } }",
            "worker.resources.limits.memory is \"lots\"",
        ),
        (
            "resources: { limits: { memory: 32Mi } }",
            "worker.resources.requests.memory is \"64Mi\"; right would be at most",
        ),
        (
            "tolerations: [{ operator: Foo }]",
            "worker.tolerations[0].operator is \"Foo\"",
        ),
        (
            "initContainers: [{ name: wait }]",
            "worker.initContainers[0].image is \"\"",
        ),
        (
            "initContainers: [{ name: verify, image: a }]",
            "worker.initContainers[0].name is \"verify\"",
        ),
    ];
    for (key, expected) in table {
        let told = refusal(&format!(
            "worker: {{ image: {{ repository: r, tag: t }}, {key} }}"
        ));
        let told = told.unwrap_or_default();
        assert!(told.contains(expected), "{key}\n{told}");
    }
}

#[test]
fn an_image_or_a_block_that_makes_no_sense_is_refused_too() {
    let gate = "worker: { image: { repository: r, tag: t } }";
    let table = [
        (
            "worker: { image: { repository: 'S S', tag: t } }",
            "worker.image.repository is \"S S\"",
        ),
        (
            "worker: { image: { repository: r, tag: ':1' } }",
            "worker.image.tag is \":1\"",
        ),
        (
            "worker: { image: { repository: r, tag: t, pullPolicy: Sometimes } }",
            "worker.image.pullPolicy is \"Sometimes\"; right would be Always",
        ),
        (
            "nodeManagement: { taints: [{ key: 'a b', effect: NoSchedule }] }",
            "nodeManagement.taints[0].key is \"a b\"",
        ),
        (
            "nodeManagement: { taints: [{ key: a, effect: NoSchedule }, { key: a, effect: NoSchedule }] }",
            "nodeManagement.taints[1] is \"a:NoSchedule\"",
        ),
        (
            "nodeManagement: { taints: [{ key: node.kubernetes.io/not-ready, effect: NoSchedule }] }",
            "nodeManagement.taints[0].key is \"node.kubernetes.io/not-ready\"",
        ),
        (
            "nodeManagement: { verifiedLabel: { key: kubernetes.io/hostname } }",
            "nodeManagement.verifiedLabel.key is \"kubernetes.io/hostname\"",
        ),
        (
            "nodeManagement: { verifiedLabel: { key: a, value: 'a b' } }",
            "nodeManagement.verifiedLabel.value is \"a b\"",
        ),
        (
            "verification: { dnsPods: {} }",
            "verification.dnsPods is {}",
        ),
        (
            "leaderElection: { id: 'A b' }",
            "leaderElection.id: \"A b\" is not",
        ),
        (
            "leaderElection: { namespace: A }",
            "leaderElection.namespace: \"A\" is not",
        ),
        (
            "metrics: { port: 8081 }",
            "metrics.port is 8081, and so is health.port",
        ),
        (
            "kubernetes: { qps: -1 }",
            "kubernetes.qps is -1; right would be",
        ),
    ];
    for (block, expected) in table {
        let text = if block.starts_with("worker") {
            block.to_owned()
        } else {
            format!("{gate}\n{block}")
        };
        let told = refusal(&text).unwrap_or_default();
        assert!(told.contains(expected), "{block}\n{told}");
    }
}

#[test]
fn a_cloud_that_this_process_does_not_speak_to_is_refused() {
    let told = |cloud: &str, rest: &str| {
        let gate = "worker: { image: { repository: r, tag: t } }";
        refusal(&format!(
            "{gate}\nnodeManagement: {{ provider: {{ type: {cloud} }} }}\n{rest}"
        ))
    };
    let foo = told("foo", "").unwrap_or_default();
    assert!(
        foo.contains("nodeManagement.provider.type is \"foo\""),
        "{foo}"
    );
    let embedded = told("embedded", "").unwrap_or_default();
    assert!(embedded.contains("providers.embedded"), "{embedded}");
    let served = "providers: { embedded: { endpoint: '127.0.0.1:9' } }";
    assert_eq!(told("embedded", served), None);
    let aws = told("aws", "").unwrap_or_default();
    let expected = if cfg!(feature = "aws") {
        "nodeManagement.provider.aws is missing"
    } else {
        "nodeManagement.provider.type is \"aws\", which is not spoken to here"
    };
    assert!(aws.contains(expected), "{aws}");
}

#[test]
fn a_new_key_is_stronger_than_the_older_block_even_where_it_equals_its_default() {
    let gate = |rest: &str| {
        let text = format!("worker: {{ image: {{ repository: r, tag: t }} }}\n{rest}");
        assert_eq!(refusal(&text), None, "{text}");
        Config::read(&text).unwrap().gate().unwrap()
    };
    let both = "nodeManagement: { deleteFailedNodes: false }\nreconciliation: { maxRetries: 5 }\n\
                config: { deleteFailedNode: true, maxRetries: 10, retryBackoff: linear }";
    let both = gate(both);
    assert!(!both.node_management.delete_failed_nodes);
    assert_eq!(both.reconciliation.max_retries, 5);
    assert_ne!(
        both.reconciliation.retry_backoff,
        ReconciliationSettings::default().retry_backoff
    );
    let older = gate("config: { deleteFailedNode: true, taintValue: x, verifiedLabelValue: y }");
    assert!(older.node_management.delete_failed_nodes);
    assert_eq!(older.node_management.taints[0].value.as_deref(), Some("x"));
    assert_eq!(older.node_management.verified_label.value, "y");
    let times = gate("config: { checkTimeout: 500ms, initialTimeout: 600s }");
    assert_eq!(times.worker.check_timeout_seconds, Some(1));
    assert_eq!(times.worker.job.active_deadline_seconds, 600);
}

#[test]
fn a_wrong_value_of_the_older_block_is_told_by_the_key_that_was_written() {
    for (block, expected) in [
        ("maxRetries: 0", "config.maxRetries is 0"),
        ("taintKey: 'a b'", "config.taintKey is \"a b\""),
        ("taintEffect: Never", "config.taintEffect is \"Never\""),
        (
            "verifiedLabelValue: 'a b'",
            "config.verifiedLabelValue is \"a b\"",
        ),
        ("clusterDnsIp: foo", "config.clusterDnsIp: \"foo\""),
        (
            "dnsTestDomains: ['a b']",
            "config.dnsTestDomains[0]: \"a b\"",
        ),
        ("checkTimeout: -3s", "config.checkTimeout is -3s"),
        ("initialTimeout: 0s", "config.initialTimeout is 0s"),
    ] {
        let text =
            format!("worker: {{ image: {{ repository: r, tag: t }} }}\nconfig: {{ {block} }}");
        let told = refusal(&text).unwrap_or_default();
        assert!(told.contains(expected), "{block}\n{told}");
    }
}

//! Tests of the settings: defaults, what wins, and the sentence about each mistake.

use super::*;

const MINIMUM: &str = "apiServer: {host: 10.96.0.1}";

fn of(text: &str) -> Result<Settings, SettingsError> {
    Settings::of(text, Overrides::default())
}

#[test]
fn defaults_are_those_of_a_pod_and_ask_for_nothing_outside_the_cluster() {
    let settings = of(MINIMUM).unwrap();
    assert_eq!(settings.names, ["kubernetes.default.svc.cluster.local"]);
    assert_eq!(settings.check_timeout, Duration::from_secs(5));
    assert_eq!(settings.run_timeout, Duration::from_mins(5));
    assert_eq!(
        (settings.max_retries, settings.backoff),
        (1, Backoff::Linear)
    );
    assert_eq!(settings.egress, []);
    assert!(settings.metadata.is_none() && !settings.dry_run);
    assert_eq!(settings.network[0].to_string(), "10.96.0.1:443");
    let api = settings.api.unwrap();
    assert_eq!(api.server_name, api.target.host);
}

#[test]
fn every_key_of_the_worker_file_that_people_have_is_read() {
    let settings = of("
dnsTestDomains: [kubernetes.default.svc.cluster.local, example.com]
checkTimeoutSeconds: 10
initialCheckTimeoutSeconds: 600
maxRetries: 3
retryBackoff: exponential
clusterDnsIp: 10.96.0.10
dryRun: true
logging: {level: debug, format: console}
")
    .unwrap();
    assert_eq!(settings.names.len(), 2);
    assert_eq!(settings.dns_servers, ["10.96.0.10:53".parse().unwrap()]);
    assert_eq!(settings.run_timeout, Duration::from_mins(10));
    assert_eq!(settings.logging.format, LogFormat::Console);
    assert!(settings.dry_run && settings.api.is_none());
}

#[test]
fn flags_and_variables_win_over_the_file() {
    let overrides = Overrides {
        k8s_service_host: Some("fd00::1".to_owned()),
        k8s_service_port: Some(6443),
        check_timeout: Some(2),
        dns_test_domains: Some(vec!["a.example".to_owned()]),
        ..Overrides::default()
    };
    let settings = Settings::of("checkTimeoutSeconds: 9\nmaxRetries: 4", overrides).unwrap();
    assert_eq!(settings.check_timeout, Duration::from_secs(2));
    assert_eq!(
        (settings.max_retries, settings.names),
        (4, vec!["a.example".to_owned()])
    );
    assert_eq!(settings.network[0].to_string(), "[fd00::1]:6443");
}

#[test]
fn what_a_chart_renders_for_nothing_is_nothing() {
    let settings =
        of("clusterDnsIp: ''\nnetwork: []\nservices: []\napiServer: {host: a, serverName: ''}");
    let settings = settings.unwrap();
    assert_eq!(settings.dns_servers, []);
    assert_eq!((settings.network.len(), settings.services.len()), (0, 0));
    assert!(of("").is_err() && of("dryRun: true").is_ok());
}

/// A file, how the complaint about it begins, and what it holds.
const MISTAKES: [(&str, &str, &str); 35] = [
    (
        "dnsTestDomain: []",
        "dnsTestDomain: unknown field",
        "`dnsTestDomains`",
    ),
    ("dns: {repeat: 1}", "dns.repeat: unknown field", "`repeats`"),
    (
        "checkTimeoutSeconds: soon",
        "checkTimeoutSeconds: ",
        "a whole number from 0 up",
    ),
    (
        "checkTimeoutSeconds: 0",
        "checkTimeoutSeconds: ",
        "from 1 to 86400",
    ),
    ("retryBackoff: cubic", "retryBackoff: ", "`exponential`"),
    ("maxRetries: 0", "maxRetries: ", "from 1"),
    (
        "dnsTestDomains: [a, 8.8.8.8]",
        "dnsTestDomains[1]: 8.8.8.8 is an address",
        "egress",
    ),
    ("dnsTestDomains: a", "dnsTestDomains: ", "a list"),
    (
        "dnsTestDomains: ['127.1']",
        "dnsTestDomains[0]: \"127.1\" ends in a number",
        "give a name",
    ),
    (
        "timeoutSeconds: 5\ninitialCheckTimeoutSeconds: 5",
        "timeoutSeconds: is given beside initialCheckTimeoutSeconds",
        "one of the two",
    ),
    ("clusterDnsIp: dns", "clusterDnsIp: ", "10.96.0.10"),
    (
        "dns: {endpoints: [10.0.0.1, x]}",
        "dns.endpoints[1]: ",
        "10.96.0.10:53",
    ),
    ("dns: {repeats: 21}", "dns.repeats: ", "from 1 to 20"),
    (
        "services: [kubernetes.default]",
        "services[0]: ",
        "HOST:PORT",
    ),
    ("egress: ['fd00::1']", "egress[0]: ", "[fd00::1]:443"),
    ("metadata: {expect: open}", "metadata.expect: ", "`blocked`"),
    ("metadata: {}", "metadata: ", "`expect`"),
    ("peers: [node-7]", "peers[0]: ", "HOST:PORT"),
    ("peers: a", "peers: ", "a list"),
    (
        "udp: {}",
        "udp: needs somebody to send to",
        "set peers to a list",
    ),
    (
        "peers: ['a:1']\nudp: {packets: 9}",
        "udp.packets: ",
        "from 10 to 1000",
    ),
    (
        "peers: ['a:1']\nudp: {bytes: 9000}",
        "udp.bytes: ",
        "from 20 to 1400",
    ),
    (
        "peers: ['a:1']\nudp: {maxLossPercent: 100}",
        "udp.maxLossPercent: ",
        "from 0 to 99",
    ),
    (
        "peers: ['a:1']\nudp: {loss: 1}",
        "udp.loss: unknown field",
        "`maxLossPercent`",
    ),
    (
        "host: {maxConntrackPercent: 0}",
        "host.maxConntrackPercent: ",
        "from 1 to 100",
    ),
    (
        "host: {kubeProxy: here}",
        "host.kubeProxy: ",
        "10.96.0.10:10256",
    ),
    (
        "host: {nodeLocalDns: x}",
        "host.nodeLocalDns: ",
        "10.96.0.10",
    ),
    (
        "host: {conntrack: 1}",
        "host.conntrack: unknown field",
        "`kubeProxy`",
    ),
    (
        "apiServer: {port: 0, host: a}",
        "apiServer.port: ",
        "from 1",
    ),
    (
        "apiServer: {port: 70000}",
        "apiServer.port: ",
        "a whole number",
    ),
    (
        "apiServer: {host: a, largeAnswerPath: livez}",
        "apiServer.largeAnswerPath: ",
        "/livez",
    ),
    ("logging: {format: xml}", "logging.format: ", "`console`"),
    ("- a", "settings: ", "a map of settings"),
    ("a: [", "settings: ", "not YAML"),
    (
        "{}",
        "apiServer.host: is missing",
        "KUBERNETES_SERVICE_HOST",
    ),
];

#[test]
fn a_mistake_gets_its_path_and_what_would_be_right() {
    for (text, begins, right) in MISTAKES {
        let complaint = of(text).unwrap_err().to_string();
        assert!(complaint.starts_with(begins), "{text}\n{complaint}");
        assert!(complaint.contains(right), "{text}\n{complaint}");
        for word in ["u64", "u32", "struct", "line 1 column"] {
            assert!(!complaint.contains(word), "{text}\n{complaint}");
        }
    }
}

#[test]
fn peers_lost_packets_and_the_host_are_left_alone_unless_asked_for() {
    let settings = of(MINIMUM).unwrap();
    assert!(settings.peers.is_empty() && settings.udp.is_none() && settings.host.is_none());
    let asked = "peers: ['a.example:47299', '[fd00::1]:47299']\nudp: {}\nhost: {kubeProxy: ''}";
    let settings = of(&format!("{MINIMUM}\n{asked}")).unwrap();
    assert_eq!(settings.peers.len(), 2);
    let udp = settings.udp.unwrap();
    assert_eq!(
        (udp.packets, udp.bytes, udp.max_loss_percent),
        (100, 1200, 5)
    );
    assert_eq!(settings.host, None, "a flag asks for it, not the file");
    let many = vec!["a.example:1"; 17].join(", ");
    let complaint = of(&format!("peers: [{many}]")).unwrap_err().to_string();
    assert!(
        complaint.starts_with("peers: has 17 entries, 16"),
        "{complaint}"
    );
}

#[test]
fn for_the_host_no_api_server_is_needed() {
    let overrides = || Overrides {
        host: true,
        ..Overrides::default()
    };
    let host = Settings::of("", overrides()).unwrap().host.unwrap();
    assert_eq!(host.max_conntrack_percent, 90);
    assert_eq!(host.kube_proxy, Some("127.0.0.1:10256".parse().unwrap()));
    assert_eq!(host.node_local_dns, None);
    let text = "host: {kubeProxy: '', nodeLocalDns: 169.254.20.10}";
    let host = Settings::of(text, overrides()).unwrap().host.unwrap();
    assert_eq!(host.kube_proxy, None);
    assert_eq!(
        host.node_local_dns,
        Some("169.254.20.10:53".parse().unwrap())
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Settings::load(Some(Path::new("no/such.yaml")), Overrides::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no/such.yaml: cannot be read: ")
    );
}

#[test]
fn times_are_read_as_numbers_and_with_units() {
    for (text, expected) in [("90", 90), ("90s", 90), ("1m30s", 90), ("5m", 300)] {
        assert_eq!(read_seconds(text), Ok(expected));
    }
    for wrong in ["", "-1s", "1.5s", "500ms", "soon"] {
        assert!(read_seconds(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn name_servers_of_flags_are_asked_besides_those_of_the_file() {
    let overrides = Overrides {
        dns_endpoints: vec!["10.0.0.2".to_owned(), "10.0.0.1".to_owned()],
        dry_run: true,
        ..Overrides::default()
    };
    let settings = Settings::of("dns: {endpoints: [10.0.0.1]}", overrides).unwrap();
    let asked: Vec<String> = settings
        .dns_endpoints
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(asked, ["10.0.0.1:53", "10.0.0.2:53"]);
}

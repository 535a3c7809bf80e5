//! `shipshape verify` as a process: its exit codes, and what it leaves behind.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

struct Machine {
    files: TempDir,
}

impl Machine {
    fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let machine = Self { files };
        machine.write("resolv.conf", "");
        machine.write("ca.crt", &authority());
        machine.write("termination-log", "");
        machine
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs the command with settings that ask for nothing, and these on top.
    fn verify(&self, settings: &str, options: &[&str], variables: &[(&str, &str)]) -> Output {
        let quiet = format!(
            "dns: {{resolvConf: {}}}\nservices: []\n",
            self.path("resolv.conf")
        );
        self.write("settings.yaml", &format!("{quiet}{settings}\n"));
        Command::new(env!("CARGO_BIN_EXE_shipshape"))
            .args(["verify", "--config", &self.path("settings.yaml")])
            .args(["--termination-log", &self.path("termination-log")])
            .args(["--ca-file", &self.path("ca.crt")])
            .args(options)
            .env_clear()
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }
}

/// A certificate authority that signs nothing.
fn authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::default();
    params.self_signed(&key).unwrap().pem()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An address on loopback where nobody listens.
fn nobody() -> (String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    (at.ip().to_string(), at.port().to_string())
}

#[test]
fn a_dry_run_with_nothing_to_check_passes_and_leaves_nothing_behind() {
    let machine = Machine::new();
    let options = [
        "--dry-run",
        "--log-format=console",
        "--log-level=debug",
        "--output",
        "text",
    ];
    let output = machine.verify("dnsTestDomains: []", &options, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Passed: 0 findings"));
    assert_eq!(machine.read("termination-log"), "");
}

#[test]
fn a_failed_check_is_told_to_the_caller_and_to_the_kubelet() {
    let machine = Machine::new();
    let (host, port) = nobody();
    let variables = [
        ("KUBERNETES_SERVICE_HOST", host.as_str()),
        ("KUBERNETES_SERVICE_PORT", port.as_str()),
        ("DNS_TEST_DOMAINS", "a.example,b.example"),
        ("CHECK_TIMEOUT", "2s"),
        ("NODE_NAME", "node-1"),
    ];
    let output = machine.verify("", &[], &variables);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verdict"], "Failed");
    let findings = report["findings"].as_array().unwrap();
    let network = findings
        .iter()
        .find(|finding| finding["check"] == "network");
    assert_eq!(network.unwrap()["phase"], "connect");
    let left: Value = serde_json::from_str(&machine.read("termination-log")).unwrap();
    assert_eq!(left, report);
    assert!(complaint(&output).contains("node-1"));
}

#[test]
fn wrong_settings_end_with_a_sentence_and_code_two() {
    let machine = Machine::new();
    for (settings, variables, words) in [
        (
            "checkTimeout: 5",
            [("A", "b")],
            "checkTimeout: unknown field",
        ),
        (
            "",
            [("DNS_TEST_DOMAINS", "8.8.8.8")],
            "8.8.8.8 is an address",
        ),
        ("", [("CHECK_TIMEOUT", "soon")], "90s"),
        ("", [("RETRY_BACKOFF", "cubic")], "linear or exponential"),
        ("", [("A", "b")], "KUBERNETES_SERVICE_HOST"),
        ("dryRun: true", [("LOG_LEVEL", "a=b=c")], "log-level"),
    ] {
        let output = machine.verify(settings, &[], &variables);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn checks_that_cannot_begin_end_with_code_three() {
    let machine = Machine::new();
    std::fs::remove_file(machine.path("ca.crt")).unwrap();
    let output = machine.verify("apiServer: {host: 127.0.0.1}", &[], &[]);
    let said = complaint(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("apiServer.caFile") && said.contains("No such file"),
        "{said}"
    );
}

#[test]
fn a_result_that_cannot_be_left_behind_is_printed_all_the_same() {
    let machine = Machine::new();
    std::fs::remove_file(machine.path("termination-log")).unwrap();
    std::fs::create_dir(machine.path("termination-log")).unwrap();
    let (host, port) = nobody();
    let failing = format!("dnsTestDomains: []\napiServer: {{host: {host}, port: {port}}}");
    let passing = "dnsTestDomains: []\nhost: {kubeProxy: ''}";
    for (settings, options, code, verdict) in [
        (failing.as_str(), &[][..], 1, "Failed"),
        (passing, &["--host"][..], 10, "Passed"),
    ] {
        let output = machine.verify(settings, options, &[]);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains("for the kubelet"), "{said}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["verdict"], verdict);
    }
}

#[test]
fn logs_that_cannot_be_written_change_nothing() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_shipshape"))
        .args(["verify", "--dry-run", "--host", "--log-level=debug"])
        .args(["--config", "/dev/null", "--output", "json"])
        .env_clear()
        .stderr(full)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let code = i32::from(report["verdict"] == "Failed");
    assert_eq!(output.status.code(), Some(code));
}

#[test]
fn empty_variables_are_none_and_wrong_numbers_get_a_sentence() {
    let machine = Machine::new();
    let empty = [
        ("DRY_RUN", ""),
        ("CHECK_TIMEOUT", ""),
        ("MAX_RETRIES", ""),
        ("KUBERNETES_SERVICE_PORT", ""),
        ("DNS_TEST_DOMAINS", ""),
        ("LOG_LEVEL", ""),
    ];
    let options = [
        "--dry-run",
        "--enable-metrics",
        "--metrics-port=8080",
        "--klog-verbosity=2",
    ];
    let output = machine.verify("dnsTestDomains: []", &options, &empty);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    for (options, words) in [
        (["--check-timeout", "-3s"], "is not a time in whole seconds"),
        (["--max-retries", "-1"], "is not a whole number from 1 up"),
        (
            ["--dry-run", "--delete-failed-node"],
            "does not remove itself",
        ),
    ] {
        let output = machine.verify("dnsTestDomains: []", &options, &[]);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_node_that_shall_open_its_own_gate_must_be_named_and_removes_nothing() {
    let machine = Machine::new();
    let (host, port) = nobody();
    let server = [
        ("KUBERNETES_SERVICE_HOST", host.as_str()),
        ("KUBERNETES_SERVICE_PORT", port.as_str()),
    ];
    let named = [("NODE_NAME", "n1"), ("DELETE_FAILED_NODE", "true")];
    for (more, code, words) in [
        (&[][..], 2, "give --node-name or NODE_NAME"),
        (&named[..], 2, "a node does not remove itself here"),
        (&named[..1], 1, "api-version"),
    ] {
        let variables: Vec<_> = server.iter().chain(more).copied().collect();
        let output = machine.verify("dnsTestDomains: []", &["--patch-node"], &variables);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
    }
    let options = ["--patch-node", "--taint-effect", "Never"];
    let output = machine.verify("", &options, &server);
    assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
}

#[test]
fn a_gate_that_the_settings_would_refuse_is_refused_before_any_check() {
    let machine = Machine::new();
    let (host, port) = nobody();
    let server = [
        ("KUBERNETES_SERVICE_HOST", host.as_str()),
        ("KUBERNETES_SERVICE_PORT", port.as_str()),
        ("NODE_NAME", "n1"),
    ];
    for (flag, value, words) in [
        (
            "--taint-key",
            "bad key",
            "--taint-key (or TAINT_KEY) is \"bad key\"",
        ),
        (
            "--taint-key",
            "node.kubernetes.io/unreachable",
            "belongs to whoever puts it on",
        ),
        (
            "--verified-label",
            "bad label",
            "--verified-label (or VERIFIED_LABEL) is \"bad label\"",
        ),
        (
            "--verified-label",
            "kubernetes.io/hostname",
            "a label of your own",
        ),
        (
            "--verified-label-value",
            "bad value!",
            "VERIFIED_LABEL_VALUE) is \"bad value!\"",
        ),
    ] {
        for more in ["--output=json", "--dry-run"] {
            let options = ["--patch-node", flag, value, more];
            let output = machine.verify("dnsTestDomains: []", &options, &server);
            let said = complaint(&output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(
                said.contains(words) && said.contains("right would be"),
                "{said}"
            );
            assert!(output.stdout.is_empty(), "nothing was checked");
        }
    }
}

/// A peer of this machine's own.
struct Peer {
    child: Child,
    address: String,
    /// Somebody must be there to read them.
    _logs: BufReader<ChildStderr>,
}

impl Peer {
    fn start() -> Self {
        let (host, port) = nobody();
        let address = format!("{host}:{port}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_shipshape"))
            .args(["peer", "--listen", &address])
            .env_clear()
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut logs = BufReader::new(child.stderr.take().unwrap());
        logs.read_line(&mut said).unwrap();
        assert!(said.contains("ready to dial back"), "{said}");
        Self {
            child,
            address,
            _logs: logs,
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_peer_dials_back_until_it_is_asked_to_end() {
    let machine = Machine::new();
    let mut peer = Peer::start();
    let settings = format!(
        "dnsTestDomains: []\npeers: ['{}']\nudp: {{packets: 10}}",
        peer.address
    );
    let output = machine.verify(&settings, &["--dry-run"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks: Vec<&Value> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| &finding["check"])
        .collect();
    assert_eq!(checks, ["peer", "udp-loss"]);
    let pid = peer.child.id().to_string();
    let asked = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(asked.unwrap().success());
    assert_eq!(peer.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_peer_that_cannot_listen_says_where() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_shipshape"))
        .args(["peer", "--listen", &address])
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = complaint(&output);
    assert!(
        said.contains(&format!("cannot listen on {address}")),
        "{said}"
    );
}

#[test]
fn for_the_host_only_its_own_checks_are_run_and_no_api_server_is_needed() {
    let machine = Machine::new();
    let (host, port) = nobody();
    let settings = format!("host: {{kubeProxy: '{host}:{port}'}}");
    let output = machine.verify(&settings, &["--host"], &[]);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 2, "{report}");
    assert_eq!(findings[0]["check"], "host-conntrack");
    assert_eq!(findings[1]["check"], "host-kube-proxy");
    assert_eq!(findings[1]["phase"], "connect");
}

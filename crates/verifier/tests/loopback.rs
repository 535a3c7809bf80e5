//! The checks against servers on loopback: what they make of answers that are wrong rather than lost.

#![expect(
    clippy::unwrap_used,
    reason = "the steps of the tests are functions, which the lint does not take for tests"
)]

#[path = "namespaces/servers.rs"]
#[expect(
    dead_code,
    reason = "what goes wrong on the way is for the tests in namespaces"
)]
mod servers;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;

use servers::{Addresses, Authority, Cluster, Manner};
use shipshape_verifier::{
    Check, Error, Finding, Overrides, Phase, Report, Responder, Settings, Verdict, verify,
};
use tempfile::TempDir;
use tokio::sync::oneshot;

const NAME: &str = "kubernetes.default.svc.cluster.local";

/// Servers on loopback and the files of a pod that knows them.
struct Pod {
    files: TempDir,
    addresses: Addresses,
    /// The servers end with it.
    _stop: oneshot::Sender<()>,
}

impl Pod {
    async fn start(cluster: Cluster) -> Self {
        let files = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        std::fs::write(files.path().join("ca.crt"), authority.pem()).unwrap();
        std::fs::write(files.path().join("resolv.conf"), "search a.example\n").unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let wanted = Addresses {
            dns: vec![any],
            api: vec![any],
        };
        let (ready, is_ready) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(async move { cluster.serve(&authority, wanted, ready, stopped).await });
        let addresses = tokio::task::spawn_blocking(move || is_ready.recv().unwrap());
        Self {
            files,
            addresses: addresses.await.unwrap(),
            _stop: stop,
        }
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    fn settings(&self, more: &str) -> Settings {
        self.settings_of(more, "127.0.0.1")
    }

    fn settings_of(&self, more: &str, server_name: &str) -> Settings {
        let api = self.addresses.api.first().unwrap();
        let services = format!("{NAME}:{}", api.port());
        let dns = format!("clusterDnsIp: {}", self.addresses.dns.first().unwrap());
        let text = format!(
            "checkTimeoutSeconds: 5\nservices: ['{services}']\ndns: {{resolvConf: {}}}\n\
             apiServer: {{host: {}, port: {}, serverName: {server_name}, caFile: {}}}\n{}{more}\n",
            self.file("resolv.conf"),
            api.ip(),
            api.port(),
            self.file("ca.crt"),
            if more.contains("clusterDnsIp") {
                String::new()
            } else {
                dns + "\n"
            },
        );
        Settings::of(&text, Overrides::default()).unwrap()
    }

    /// Without any Service to dial.
    fn quiet(&self, more: &str) -> Settings {
        let dns = self.addresses.dns.first().unwrap();
        let resolv_conf = self.file("resolv.conf");
        let text = format!(
            "dryRun: true\nservices: []\nclusterDnsIp: {dns}\ndns: {{resolvConf: {resolv_conf}}}\n{more}\n"
        );
        Settings::of(&text, Overrides::default()).unwrap()
    }

    async fn verify(&self, more: &str) -> Report {
        verify(&self.settings(more)).await.unwrap()
    }
}

/// A cluster whose service is on loopback.
fn cluster(manner: Manner) -> Cluster {
    Cluster {
        service: vec!["127.0.0.1".parse().unwrap()],
        manner,
        ..Cluster::healthy()
    }
}

fn failed(report: &Report) -> Vec<&Finding> {
    report
        .findings
        .iter()
        .filter(|finding| !finding.ok)
        .collect()
}

#[track_caller]
fn assert_failed(report: &Report, expected: &[(Check, Phase, &str)]) {
    let failed = failed(report);
    assert_eq!(failed.len(), expected.len(), "{failed:#?}");
    for (finding, (check, phase, words)) in failed.iter().zip(expected) {
        assert_eq!(
            (finding.check, finding.phase),
            (*check, Some(*phase)),
            "{finding:?}"
        );
        assert!(finding.message.contains(words), "{finding:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_fine_passes_and_the_version_is_told() {
    let pod = Pod::start(cluster(Manner::Polite)).await;
    let report = pod.verify("").await;
    assert_failed(&report, &[]);
    assert_eq!(report.verdict, Verdict::Passed);
    let mut findings = report.findings.iter();
    let version = findings.find(|finding| finding.check == Check::ApiVersion);
    assert_eq!(version.unwrap().message, "v1.35.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nobody_knows_fails_with_the_servers_word_for_it() {
    let pod = Pod::start(cluster(Manner::Polite)).await;
    let report = pod.verify("dnsTestDomains: [nobody.example]").await;
    assert_failed(
        &report,
        &[
            (Check::DnsUdp, Phase::Dns, "NXDOMAIN"),
            (Check::DnsTcp, Phase::Dns, "NXDOMAIN"),
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_server_that_does_not_run_is_said_to_refuse() {
    let pod = Pod::start(cluster(Manner::Polite)).await;
    // A port that was free a moment ago.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    let report = pod.verify(&format!("clusterDnsIp: {nobody}")).await;
    assert_failed(
        &report,
        &[
            (Check::DnsUdp, Phase::Dns, "5 of 5 lookups failed"),
            (Check::DnsTcp, Phase::Connect, "refused"),
            (Check::Service, Phase::Dns, "refused"),
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_any_name_server_is_told_so() {
    let pod = Pod::start(cluster(Manner::Polite)).await;
    let report = pod.verify("clusterDnsIp: ''").await;
    assert_failed(
        &report,
        &[
            (Check::DnsUdp, Phase::Dns, "names no name server"),
            (Check::Service, Phase::Dns, "no name server is configured"),
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_turns_strangers_away_is_reached() {
    for status in [401, 403] {
        let pod = Pod::start(cluster(Manner::Curt(status))).await;
        let report = pod.verify("").await;
        assert_failed(&report, &[]);
        let mut findings = report.findings.iter();
        let large = findings.find(|finding| finding.check == Check::ApiLargeAnswer);
        assert!(
            large
                .unwrap()
                .message
                .contains("proves nothing about large packets")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_fails_is_not_fine() {
    let pod = Pod::start(cluster(Manner::Curt(503))).await;
    let report = pod.verify("").await;
    assert_failed(&report, &[(Check::ApiVersion, Phase::Http, "answers 503")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_no_api_server_is_found_out() {
    let pod = Pod::start(cluster(Manner::Curt(200))).await;
    let report = pod.verify("").await;
    assert_failed(&report, &[(Check::ApiVersion, Phase::Http, "gitVersion")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_cannot_be_compared_is_not_taken_for_right() {
    let pod = Pod::start(cluster(Manner::Timeless)).await;
    let report = pod.verify("").await;
    assert_failed(&report, &[(Check::ApiClock, Phase::Http, "no Date")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_host_fails_in_the_handshake() {
    let pod = Pod::start(cluster(Manner::Polite)).await;
    let report = verify(&pod.settings_of("", "api.example")).await.unwrap();
    assert_failed(
        &report,
        &[(Check::ApiVersion, Phase::Tls, "not valid for name")],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_begins_that_the_time_of_the_run_does_not_allow() {
    let pod = Pod::start(cluster(Manner::Curt(503))).await;
    let begin = tokio::time::Instant::now();
    let report = pod
        .verify("maxRetries: 1000\ninitialCheckTimeoutSeconds: 4")
        .await;
    assert_eq!(report.verdict, Verdict::Failed);
    assert!(begin.elapsed().as_secs() < 4, "{:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_the_authoritys_certificates_cannot_begin() {
    let pod = Pod::start(cluster(Manner::Polite)).await;
    std::fs::remove_file(pod.file("ca.crt")).unwrap();
    let error = verify(&pod.settings("")).await.unwrap_err();
    let Error::File { path, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(path, Path::new(&pod.file("ca.crt")));
    assert!(error.to_string().contains("apiServer.caFile"), "{error}");
}

#[tokio::test]
async fn a_peer_on_the_same_machine_dials_back() {
    let pod = Pod::start(cluster(Manner::Polite)).await;
    let responder = Responder::bind("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let address = responder.address().unwrap();
    tokio::spawn(async move { responder.serve().await });
    let report = pod
        .verify(&format!("peers: ['{address}']\nudp: {{packets: 10}}"))
        .await;
    assert_eq!(report.verdict, Verdict::Passed, "{report:#?}");
    let checks: Vec<Check> = report
        .findings
        .iter()
        .map(|finding| finding.check)
        .collect();
    assert!(
        checks.ends_with(&[Check::Peer, Check::UdpLoss]),
        "{checks:?}"
    );
}

#[tokio::test]
async fn a_name_that_stands_for_no_peer_yet_passes_and_one_that_is_not_known_fails() {
    let empty = Cluster {
        service: Vec::new(),
        ..cluster(Manner::Polite)
    };
    let pod = Pod::start(empty).await;
    let asked = |name: &str| format!("dnsTestDomains: []\npeers: ['{name}:47299']");
    let report = verify(&pod.quiet(&asked(NAME))).await.unwrap();
    assert_failed(&report, &[]);
    let said = &report.findings.last().unwrap().message;
    assert!(said.contains("no peer is in service yet"), "{said}");
    let report = verify(&pod.quiet(&asked("nobody.example"))).await.unwrap();
    assert_failed(
        &report,
        &[(Check::Peer, Phase::Dns, "there is no such name")],
    );
}

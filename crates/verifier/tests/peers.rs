//! Peers in network namespaces of the test's own: ways that are open in one direction only, and packets that get lost; and
//! what only the network of a host shows.
//!
//! Needs root, `ip` and `nft`; nothing is sent outside the namespaces.

#![expect(
    clippy::unwrap_used,
    reason = "the steps of the tests are functions, which the lint does not take for tests"
)]

#[path = "namespaces/servers.rs"]
#[expect(dead_code, reason = "what is wrong with an answer is for other tests")]
mod servers;
#[path = "namespaces/stage.rs"]
#[expect(dead_code, reason = "some of it is for the tests of other checks")]
mod stage;

use std::io::{Read, Write};
use std::net::TcpListener;

use servers::Cluster;
use shipshape_verifier::{Check, Finding, Overrides, Phase, Report, Verdict};
use stage::{Families, PEER, PEER_V6, Stage};

fn settings(stage: &Stage, more: &str) -> String {
    let peers: Vec<String> = stage.peers().iter().map(|at| format!("'{at}'")).collect();
    format!("peers: [{}]\n{more}", peers.join(", "))
}

fn of(report: &Report, check: Check) -> &Finding {
    let mut findings = report.findings.iter();
    findings.find(|finding| finding.check == check).unwrap()
}

#[track_caller]
fn assert_only(report: &Report, expected: &[(Check, Phase)]) {
    let failed = report.findings.iter().filter(|finding| !finding.ok);
    let failed: Vec<_> = failed
        .map(|finding| (finding.check, finding.phase.unwrap()))
        .collect();
    assert_eq!(failed, expected, "{report:#?}");
    assert_eq!(report.verdict == Verdict::Passed, expected.is_empty());
}

/// Drops packets on the way, of those that match.
fn on_the_way(stage: &Stage, rule: &str) {
    stage.nft(&format!(
        "table inet faults {{ chain way {{ type filter hook forward priority 0; {rule} }}; }}"
    ));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_peer_dials_back_and_echoes_every_packet() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let _peers = stage.start_peers();
    let report = stage.verify(&settings(&stage, "udp: {packets: 50, maxLossPercent: 0}"));
    assert_only(&report, &[]);
    let dialled = of(&report, Check::Peer);
    assert_eq!(dialled.message, format!("{PEER}: dialled back"));
    let echoed = of(&report, Check::UdpLoss);
    assert!(
        echoed
            .message
            .ends_with("all 50 packets of 1200 bytes came back"),
        "{echoed:?}"
    );
}

#[test]
#[ignore = "needs root and network namespaces"]
fn peers_of_both_families_dial_back() {
    let stage = Stage::start(Families::Both, Cluster::healthy());
    let _peers = stage.start_peers();
    let report = stage.verify(&settings(&stage, "udp: {packets: 10}"));
    assert_only(&report, &[]);
    let six = report.findings.iter().find(|finding| {
        finding.check == Check::Peer && finding.message == format!("{PEER_V6}: dialled back")
    });
    assert!(six.is_some(), "{report:#?}");
    on_the_way(&stage, "meta nfproto ipv6 iifname c0 ct state new drop;");
    let report = stage.verify(&settings(&stage, ""));
    assert_only(&report, &[(Check::Peer, Phase::Connect)]);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn one_peer_that_listens_everywhere_serves_both_families() {
    let stage = Stage::start(Families::Both, Cluster::healthy());
    let _peers = stage.start_peers_at(vec!["[::]:47299".parse().unwrap()]);
    let report =
        stage.verify("peers: ['10.77.2.2:47299', '[fd77:2::2]:47299']\nudp: {packets: 10}");
    assert_only(&report, &[]);
    let checks = report.findings.iter().map(|finding| finding.check);
    let seen = checks.filter(|check| [Check::Peer, Check::UdpLoss].contains(check));
    assert_eq!(seen.count(), 4);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_node_that_can_dial_and_cannot_be_dialled_fails_by_its_peer_alone() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let _peers = stage.start_peers();
    // As a security group does: what the node began may come back, nothing else comes in.
    on_the_way(&stage, "iifname c0 ct state new drop;");
    let report = stage.verify(&settings(&stage, "udp: {packets: 20}"));
    assert_only(&report, &[(Check::Peer, Phase::Connect)]);
    let said = &of(&report, Check::Peer).message;
    assert!(
        said.contains("the peer could not reach this node: no route back?"),
        "{said}"
    );
    assert!(of(&report, Check::UdpLoss).ok);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_refused_dial_back_is_told_in_the_peers_words() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let _peers = stage.start_peers();
    on_the_way(
        &stage,
        "iifname c0 ct state new reject with icmpx host-unreachable;",
    );
    let report = stage.verify(&settings(&stage, ""));
    assert_only(&report, &[(Check::Peer, Phase::Connect)]);
    let said = &of(&report, Check::Peer).message;
    assert!(
        said.contains("unreachable") && said.contains("route"),
        "{said}"
    );
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_peer_without_a_route_to_the_node_cannot_be_asked() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let _peers = stage.start_peers();
    // Only what leaves from the peer's address has no way; the API server and the name servers have.
    stage.in_cluster(&format!(
        "ip rule add from {PEER} to 10.77.1.0/24 blackhole"
    ));
    let report = stage.verify(&settings(&stage, "udp: {}"));
    assert_only(&report, &[(Check::Peer, Phase::Connect)]);
    let said = &of(&report, Check::Peer).message;
    assert!(said.contains("cannot reach the peer"), "{said}");
    assert!(
        !report
            .findings
            .iter()
            .any(|one| one.check == Check::UdpLoss)
    );
}

#[test]
#[ignore = "needs root and network namespaces"]
fn an_address_that_is_translated_on_the_way_is_told() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let _peers = stage.start_peers();
    stage.nft("table ip faults { chain out { type nat hook postrouting priority 100; oifname c0 masquerade; }; }");
    let report = stage.verify(&settings(&stage, ""));
    assert_only(&report, &[(Check::Peer, Phase::Connect)]);
    let said = &of(&report, Check::Peer).message;
    assert!(
        said.contains("it sees this node as 10.77.2.1 instead of 10.77.1.2"),
        "{said}"
    );
}

#[test]
#[ignore = "needs root and network namespaces"]
fn lost_packets_are_counted_by_the_way_on_which_they_were_lost() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let _peers = stage.start_peers();
    on_the_way(&stage, "udp dport 47299 numgen random mod 100 < 30 drop;");
    let report = stage.verify(&settings(&stage, "udp: {packets: 200, maxLossPercent: 5}"));
    assert_only(&report, &[(Check::UdpLoss, Phase::Connect)]);
    let said = &of(&report, Check::UdpLoss).message;
    assert!(said.contains("200 packets of 1200 bytes sent"), "{said}");
    assert!(
        said.ends_with(" on the way there, 0 on the way back"),
        "{said}"
    );
    // The same is no failure to whoever allows it.
    let report = stage.verify(&settings(&stage, "udp: {packets: 200, maxLossPercent: 60}"));
    assert_only(&report, &[]);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn packets_that_are_all_lost_on_the_way_back_are_told_so() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let _peers = stage.start_peers();
    on_the_way(&stage, "udp sport 47299 drop;");
    let report = stage.verify(&settings(&stage, "udp: {packets: 50}"));
    assert_only(&report, &[(Check::UdpLoss, Phase::Connect)]);
    let said = &of(&report, Check::UdpLoss).message;
    assert!(said.contains("50 lost (100.0 %"), "{said}");
    assert!(
        said.ends_with("0 on the way there, 50 on the way back"),
        "{said}"
    );
}

#[test]
#[ignore = "needs root and network namespaces"]
fn something_else_at_a_peers_address_is_no_peer() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    // A server of TLS: it does not know the words.
    let report = stage.verify(&format!("peers: ['{}:443']", servers::API));
    assert_only(&report, &[(Check::Peer, Phase::Http)]);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_host_is_asked_for_what_only_its_network_shows() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let of_host = || Overrides {
        host: true,
        ..Overrides::default()
    };
    let more = format!("host: {{nodeLocalDns: {}}}", stage::DNS);
    // Nobody plays kube-proxy yet.
    let report = stage.verify_with(&more, of_host());
    assert_only(&report, &[(Check::HostKubeProxy, Phase::Connect)]);
    let answer_with = |status: &'static str| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let proxy = stage.node_thread(move |_| {
            let listener = TcpListener::bind("127.0.0.1:10256").unwrap();
            ready.send(()).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 1000];
            let length = stream.read(&mut buffer).unwrap();
            assert!(
                buffer
                    .get(..length)
                    .unwrap()
                    .starts_with(b"GET /healthz HTTP/1.1")
            );
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}").unwrap();
        });
        is_ready.recv().unwrap();
        proxy
    };
    for (status, expected) in [
        ("200 OK", vec![]),
        (
            "503 Service Unavailable",
            vec![(Check::HostKubeProxy, Phase::Http)],
        ),
    ] {
        let proxy = answer_with(status);
        assert_only(&stage.verify_with(&more, of_host()), &expected);
        proxy.join().unwrap();
    }
    let checks = stage.verify_with(&more, of_host()).findings.len();
    assert_eq!(checks, 3, "none but those of the host");
}

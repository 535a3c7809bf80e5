//! The checks in network namespaces of the test's own, with one thing wrong in each: exactly the checks that should notice
//! fail, each in the phase that it should name.
//!
//! Needs root, `ip` and `nft`; nothing is sent outside the namespaces.

#![expect(
    clippy::unwrap_used,
    reason = "the steps of the tests are functions, which the lint does not take for tests"
)]

#[path = "namespaces/servers.rs"]
#[expect(
    dead_code,
    reason = "what is wrong with an answer is for the tests on loopback"
)]
mod servers;
#[path = "namespaces/stage.rs"]
#[expect(dead_code, reason = "peers are for tests of their own")]
mod stage;

use std::time::Duration;

use servers::{API, API_V6, Certificate, Cluster};
use shipshape_verifier::{Check, Phase, Report, Verdict};
use stage::{DNS, DNS_V6, ENDPOINTS, Families, Stage};
use tokio::time::Instant;

/// What failed, and where.
fn failures(report: &Report) -> Vec<(Check, Phase)> {
    let failed = report.findings.iter().filter(|finding| !finding.ok);
    let mut seen: Vec<_> = failed
        .map(|finding| (finding.check, finding.phase.unwrap()))
        .collect();
    seen.sort();
    seen.dedup();
    seen
}

#[track_caller]
fn assert_failures(report: &Report, expected: &[(Check, Phase)]) {
    assert_eq!(failures(report), expected, "{report:#?}");
    let verdict = if expected.is_empty() {
        Verdict::Passed
    } else {
        Verdict::Failed
    };
    assert_eq!(report.verdict, verdict);
}

/// Drops packets on their way between node and cluster.
fn drop_on_the_way(stage: &Stage, matching: &str) {
    stage.nft(&format!(
        "table inet faults {{ chain way {{ type filter hook forward priority 0; {matching} drop; }}; }}"
    ));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_healthy_network_passes_in_under_three_seconds() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let begin = Instant::now();
    let endpoints = ENDPOINTS.join(", ");
    let report = stage.verify(&format!("dns: {{endpoints: [{endpoints}]}}"));
    let took = begin.elapsed();
    assert_failures(&report, &[]);
    assert_eq!(report.evidence, None);
    let checks: Vec<Check> = report
        .findings
        .iter()
        .map(|finding| finding.check)
        .collect();
    for check in [
        Check::DnsUdp,
        Check::DnsTcp,
        Check::DnsSearch,
        Check::DnsEndpoint,
        Check::ApiVersion,
        Check::ApiLargeAnswer,
        Check::ApiLargeRequest,
        Check::ApiClock,
        Check::Network,
        Check::Service,
    ] {
        assert!(checks.contains(&check), "{check} is missing: {report:#?}");
    }
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
#[ignore = "needs root and network namespaces"]
fn dropped_udp_to_name_servers_is_seen_by_all_that_resolve() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    drop_on_the_way(&stage, "udp dport 53");
    assert_failures(
        &stage.verify(""),
        &[
            (Check::DnsUdp, Phase::Dns),
            (Check::DnsSearch, Phase::Dns),
            (Check::Service, Phase::Dns),
        ],
    );
}

#[test]
#[ignore = "needs root and network namespaces"]
fn dropped_tcp_to_name_servers_is_seen_though_names_resolve() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    drop_on_the_way(&stage, "tcp dport 53");
    assert_failures(&stage.verify(""), &[(Check::DnsTcp, Phase::Connect)]);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn one_dead_name_server_of_three_is_named() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let [first, second, dead] = ENDPOINTS;
    drop_on_the_way(&stage, &format!("ip daddr {dead}"));
    let report = stage.verify(&format!("dns: {{endpoints: [{first}, {second}, {dead}]}}"));
    assert_failures(&report, &[(Check::DnsEndpoint, Phase::Dns)]);
    let failed = report.findings.iter().filter(|finding| !finding.ok);
    let targets: Vec<&str> = failed.map(|finding| finding.target.as_str()).collect();
    assert_eq!(
        targets,
        [format!("kubernetes.default.svc.cluster.local. @{dead}:53")]
    );
}

#[test]
#[ignore = "needs root and network namespaces"]
fn one_dead_name_server_of_three_is_noticed_behind_the_service_too() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let [first, second, dead] = ENDPOINTS;
    stage.nft(&format!(
        "table ip faults {{
           chain service {{ type nat hook prerouting priority -100;
             ip daddr {DNS} dnat to numgen inc mod 3 map {{ 0: {first}, 1: {second}, 2: {dead} }}; }}
           chain way {{ type filter hook forward priority 0; ip daddr {dead} drop; }}; }}"
    ));
    let report = stage.verify("services: []");
    let seen = failures(&report);
    assert!(seen.contains(&(Check::DnsUdp, Phase::Dns)), "{report:#?}");
    assert!(
        seen.contains(&(Check::DnsTcp, Phase::Connect)),
        "{report:#?}"
    );
    assert!(!seen.iter().any(|(check, _)| *check == Check::ApiVersion));
}

/// A tunnel in the middle takes less than both ends believe, and nobody tells them.
fn narrow(stage: &Stage) {
    stage.narrow_the_way(1280);
    stage.nft(
        "table inet faults { chain said { type filter hook output priority 0; \
         meta l4proto { icmp, ipv6-icmp } drop; }; }",
    );
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_path_mtu_black_hole_is_seen_in_the_handshake() {
    let cluster = Cluster {
        certificate: Certificate::Large,
        ..Cluster::healthy()
    };
    let stage = Stage::start(Families::V4, cluster);
    narrow(&stage);
    assert_failures(&stage.verify(""), &[(Check::ApiVersion, Phase::Tls)]);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_path_mtu_black_hole_behind_a_small_certificate_is_seen_by_large_messages() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    narrow(&stage);
    assert_failures(
        &stage.verify(""),
        &[
            (Check::ApiLargeAnswer, Phase::Http),
            (Check::ApiLargeRequest, Phase::Http),
        ],
    );
}

#[test]
#[ignore = "needs root and network namespaces"]
fn without_a_route_back_nothing_answers() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    stage.in_cluster("ip route del default");
    let report = stage.verify("");
    let evidence = report.evidence.as_ref().unwrap();
    assert_eq!(evidence.addresses, ["10.77.1.2"]);
    assert_eq!(
        evidence.routes,
        ["10.77.1.0/24 dev eth0", "default via 10.77.1.1 dev eth0"]
    );
    assert!(evidence.resolv_conf.contains(DNS), "{evidence:?}");
    assert_failures(
        &report,
        &[
            (Check::DnsUdp, Phase::Dns),
            (Check::DnsTcp, Phase::Connect),
            (Check::DnsSearch, Phase::Dns),
            (Check::ApiVersion, Phase::Connect),
            (Check::Network, Phase::Connect),
            (Check::Service, Phase::Dns),
        ],
    );
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_service_that_resolves_to_a_wrong_address_cannot_be_dialled() {
    let cluster = Cluster {
        service: vec!["10.77.2.99".parse().unwrap()],
        ..Cluster::healthy()
    };
    let stage = Stage::start(Families::V4, cluster);
    assert_failures(&stage.verify(""), &[(Check::Service, Phase::Connect)]);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_service_address_that_leads_to_a_stranger_fails_in_the_handshake() {
    let cluster = Cluster {
        certificate: Certificate::OfAnotherAuthority,
        ..Cluster::healthy()
    };
    let stage = Stage::start(Families::V4, cluster);
    assert_failures(&stage.verify(""), &[(Check::ApiVersion, Phase::Tls)]);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_clock_that_is_thirty_seconds_off_is_seen() {
    let cluster = Cluster {
        clock_offset: -30,
        ..Cluster::healthy()
    };
    let stage = Stage::start(Families::V4, cluster);
    let report = stage.verify("");
    assert_failures(&report, &[(Check::ApiClock, Phase::Http)]);
    let said = report.findings.iter().find(|finding| !finding.ok).unwrap();
    assert!(said.message.contains("s ahead of"), "{}", said.message);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_cluster_of_ipv6_alone_passes() {
    let cluster = Cluster {
        service: vec![API_V6.parse().unwrap()],
        ..Cluster::healthy()
    };
    let stage = Stage::start(Families::V6, cluster);
    let report = stage.verify("");
    assert_failures(&report, &[]);
    let asked = |address: &str| {
        let mut findings = report.findings.iter();
        findings.any(|finding| finding.target.contains(address))
    };
    assert!(asked(DNS_V6) && asked(API_V6), "{report:#?}");
}

#[test]
#[ignore = "needs root and network namespaces"]
fn of_two_families_the_broken_one_is_noticed() {
    let cluster = Cluster {
        service: vec![API.parse().unwrap(), API_V6.parse().unwrap()],
        ..Cluster::healthy()
    };
    let stage = Stage::start(Families::Both, cluster);
    assert_failures(&stage.verify(""), &[]);
    drop_on_the_way(&stage, "meta nfproto ipv6 tcp dport 443");
    assert_failures(&stage.verify(""), &[(Check::Service, Phase::Connect)]);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn ways_out_and_the_metadata_endpoint_are_dialled_when_asked_for() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let open = format!("egress: ['{API}:443']\nmetadata: {{address: '{API}:443', expect: ");
    assert_failures(&stage.verify(&format!("{open}reachable}}")), &[]);
    assert_failures(
        &stage.verify(&format!("{open}blocked}}")),
        &[(Check::Metadata, Phase::Connect)],
    );
    let shut = "egress: ['10.77.2.98:443']\nmetadata: {address: '10.77.2.98:80', expect: blocked}";
    assert_failures(&stage.verify(shut), &[(Check::Egress, Phase::Connect)]);
}

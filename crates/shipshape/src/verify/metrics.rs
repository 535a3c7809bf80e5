//! `/metrics` of a node that has checked itself: the `node_check_*` series of kube-node-ready's DaemonSet.
//!
//! Owns their text. Served while the pod of an open node waits for its end; where checks fail the process ends, and
//! the kubelet tells how. Must not serve anything unless asked to.

use std::collections::BTreeMap;

use jiff::Timestamp;
use shipshape_engine::verify::kind::kind_of;
use shipshape_verifier::{Finding, Report, Verdict};

/// What the first of them says.
const STATUS: &str = "1 if the node is verified.";

/// The series of a node that an earlier process of this pod, or somebody else, has opened: nobody knows how long its
/// checks took.
pub(super) fn text_of_open(node: &str) -> String {
    let node = label(node);
    format!(
        "# HELP node_check_status {STATUS}\n# TYPE node_check_status gauge\nnode_check_status{{node=\"{node}\"}} 1\n"
    )
}

/// The series of one node, in the text form of Prometheus.
pub(super) fn text(node: &str, report: &Report, at: Timestamp) -> String {
    let node = label(node);
    let status = u8::from(report.verdict == Verdict::Passed);
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, value: String| {
        text.push_str(&format!(
            "# HELP {name} {help}\n# TYPE {name} gauge\n{name}{{node=\"{node}\"}} {value}\n"
        ));
    };
    gauge("node_check_status", STATUS, status.to_string());
    gauge(
        "node_check_dns_duration_seconds",
        "The slowest question for a name.",
        seconds(report, "dns"),
    );
    gauge(
        "node_check_api_duration_seconds",
        "The slowest check of the API server.",
        seconds(report, "api"),
    );
    gauge(
        "node_check_completion_timestamp",
        "When the checks ended, in seconds since 1970.",
        at.as_second().to_string(),
    );
    text.push_str("# HELP node_check_failures_total Failed checks, by kind.\n");
    text.push_str("# TYPE node_check_failures_total counter\n");
    let mut failures: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in &report.findings {
        *failures.entry(kind(finding)).or_default() += usize::from(!finding.ok);
    }
    for (kind, count) in failures {
        text.push_str(&format!(
            "node_check_failures_total{{node=\"{node}\",check=\"{kind}\"}} {count}\n"
        ));
    }
    text
}

/// The kind of a finding's check, as the controller's metrics have it.
fn kind(finding: &Finding) -> &'static str {
    kind_of(&finding.check.to_string())
}

/// The longest that a check of this kind took.
fn seconds(report: &Report, wanted: &str) -> String {
    let findings = report.findings.iter();
    let of_kind = findings.filter(|finding| kind(finding) == wanted);
    let longest = of_kind.map(|finding| finding.milliseconds).max();
    let longest = longest.unwrap_or_default();
    format!("{}.{:03}", longest / 1000, longest % 1000)
}

/// A value of a label, in which three characters have a meaning.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use shipshape_verifier::Check;

    use super::*;

    #[test]
    fn the_series_have_the_names_and_labels_of_the_daemonset() {
        let finding = |check, milliseconds, ok| Finding {
            check,
            target: "target".to_owned(),
            ok,
            phase: None,
            message: "words".to_owned(),
            milliseconds,
        };
        let report = Report {
            verdict: Verdict::Passed,
            findings: vec![
                finding(Check::DnsUdp, 12, false),
                finding(Check::DnsTcp, 123, false),
                finding(Check::ApiVersion, 1456, true),
            ],
            omitted: 0,
            evidence: None,
        };
        let text = text("node-1", &report, Timestamp::from_second(99).unwrap());
        for line in [
            "node_check_status{node=\"node-1\"} 1",
            "node_check_dns_duration_seconds{node=\"node-1\"} 0.123",
            "node_check_api_duration_seconds{node=\"node-1\"} 1.456",
            "node_check_completion_timestamp{node=\"node-1\"} 99",
            "node_check_failures_total{node=\"node-1\",check=\"api\"} 0",
            "node_check_failures_total{node=\"node-1\",check=\"dns\"} 2",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
        assert!(!text.contains("dns-"), "one series for each kind: {text}");
    }

    #[test]
    fn a_node_that_was_open_before_says_so_and_claims_no_durations() {
        let text = text_of_open("node-1");
        let mut lines = text.lines();
        assert!(lines.any(|it| it == "node_check_status{node=\"node-1\"} 1"));
        assert!(!text.contains("duration"), "{text}");
    }

    #[test]
    fn names_cannot_break_out_of_their_label() {
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}

//! What came of the checks.
//!
//! Owns the JSON form that controllers and people read; docs/verify.md documents it. Names in it do not change.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;

/// The outcome of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether everything is well.
    pub verdict: Verdict,
    /// What each check saw.
    pub findings: Vec<Finding>,
    /// How many findings had to be left out to keep the object short.
    #[serde(default, skip_serializing_if = "is_none")]
    pub omitted: usize,
    /// The network as the node saw it; only when something failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
fn is_none(omitted: &usize) -> bool {
    *omitted == 0
}

/// Whether everything is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Every check is fine.
    Passed,
    /// At least one is not.
    Failed,
}

/// What one check saw at one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which check.
    pub check: Check,
    /// What was asked, of whom.
    pub target: String,
    /// Whether it is fine.
    pub ok: bool,
    /// Where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// What was seen.
    pub message: String,
    /// How long it took.
    pub milliseconds: u64,
}

/// The checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// A full name, from every name server of the pod, by UDP.
    DnsUdp,
    /// The same by TCP.
    DnsTcp,
    /// A short name by way of the search list.
    DnsSearch,
    /// A name, from a name server behind the service.
    DnsEndpoint,
    /// The API server answers.
    ApiVersion,
    /// An answer of the API server that does not fit into one packet.
    ApiLargeAnswer,
    /// A request to it that does not.
    ApiLargeRequest,
    /// Its clock and ours agree.
    ApiClock,
    /// An address of the service network can be dialled.
    Network,
    /// A Service can be resolved and dialled.
    Service,
    /// A host outside the cluster can be resolved and dialled.
    Egress,
    /// The cloud's metadata endpoint can be reached, or cannot, as it should be.
    Metadata,
    /// A peer on another node can dial this one.
    Peer,
    /// Packets to a peer come back.
    UdpLoss,
    /// The host has room to track connections.
    HostConntrack,
    /// kube-proxy of the host is well.
    HostKubeProxy,
    /// The name server of the node answers.
    HostDns,
}

/// Where on its way a check failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// A name got no answer, or a wrong one.
    Dns,
    /// No connection.
    Connect,
    /// Connected, but the handshake failed.
    Tls,
    /// Secured, but the answer is missing or wrong.
    Http,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DnsUdp => "dns-udp",
            Self::DnsTcp => "dns-tcp",
            Self::DnsSearch => "dns-search",
            Self::DnsEndpoint => "dns-endpoint",
            Self::ApiVersion => "api-version",
            Self::ApiLargeAnswer => "api-large-answer",
            Self::ApiLargeRequest => "api-large-request",
            Self::ApiClock => "api-clock",
            Self::Network => "network",
            Self::Service => "service",
            Self::Egress => "egress",
            Self::Metadata => "metadata",
            Self::Peer => "peer",
            Self::UdpLoss => "udp-loss",
            Self::HostConntrack => "host-conntrack",
            Self::HostKubeProxy => "host-kube-proxy",
            Self::HostDns => "host-dns",
        })
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Http => "http",
        })
    }
}

/// Why a check failed, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) phase: Phase,
    pub(crate) message: String,
}

impl Trouble {
    pub(crate) fn new(phase: Phase, message: impl Into<String>) -> Self {
        Self {
            phase,
            message: message.into(),
        }
    }
}

impl Report {
    /// The verdict follows from the findings.
    pub(crate) fn of(findings: Vec<Finding>) -> Self {
        let verdict = if findings.iter().all(|finding| finding.ok) {
            Verdict::Passed
        } else {
            Verdict::Failed
        };
        Self {
            verdict,
            findings,
            omitted: 0,
            evidence: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_people_are_those_of_the_json_form() {
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
            Check::Egress,
            Check::Metadata,
            Check::Peer,
            Check::UdpLoss,
            Check::HostConntrack,
            Check::HostKubeProxy,
            Check::HostDns,
        ] {
            assert_eq!(serde_json::json!(check), check.to_string());
        }
        for phase in [Phase::Dns, Phase::Connect, Phase::Tls, Phase::Http] {
            assert_eq!(serde_json::json!(phase), phase.to_string());
        }
    }

    #[test]
    fn a_finding_that_is_fine_has_no_phase_in_its_json_form() {
        let finding = Finding {
            check: Check::Network,
            target: "10.96.0.1:443".to_owned(),
            ok: true,
            phase: None,
            message: "connected".to_owned(),
            milliseconds: 3,
        };
        let report = serde_json::json!(Report::of(vec![finding]));
        assert_eq!(
            report,
            serde_json::json!({
                "verdict": "Passed",
                "findings": [{
                    "check": "network", "target": "10.96.0.1:443", "ok": true,
                    "message": "connected", "milliseconds": 3,
                }],
            })
        );
    }
}

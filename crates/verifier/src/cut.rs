//! The pod's termination message: the report, cut to what a kubelet keeps, and still JSON.
//!
//! Owns what is given up first: words, then findings that are fine, then all but the beginning of the evidence, then
//! later failures, those first of whose check another one stays: whoever compares two reports goes by the checks. The
//! verdict and the first failure always stay, and so does a little evidence.

use crate::evidence::Evidence;
use crate::report::{Finding, Report};

/// What a kubelet keeps of a termination message.
pub const TERMINATION_BYTES: usize = 4096;

/// Lengths to which texts are cut, one after the other; with the last a failure always fits.
const TEXT_BYTES: [usize; 4] = [400, 200, 100, 50];

/// The report in at most [`TERMINATION_BYTES`] bytes of JSON.
pub fn termination_message(report: &Report) -> String {
    let mut short = report.clone();
    let mut text = json(&short);
    if text.len() > TERMINATION_BYTES {
        put_in_order_of_need(&mut short.findings);
    }
    let mut lengths = TEXT_BYTES.into_iter();
    while text.len() > TERMINATION_BYTES {
        if !give_up_something(&mut short, &mut lengths) {
            break;
        }
        text = json(&short);
    }
    text
}

/// Puts the first failure of each check first, then the others, then what is fine, each in the order they had.
fn put_in_order_of_need(findings: &mut Vec<Finding>) {
    let (fine, failures): (Vec<_>, Vec<_>) = findings.drain(..).partition(|one| one.ok);
    let mut seen = Vec::new();
    let is_first = |one: &Finding| {
        let is_first = !seen.contains(&one.check);
        seen.push(one.check);
        is_first
    };
    let (firsts, repeated): (Vec<_>, Vec<_>) = failures.into_iter().partition(is_first);
    findings.extend(firsts.into_iter().chain(repeated).chain(fine));
}

/// Gives up what is needed least; whether there was anything.
fn give_up_something(short: &mut Report, lengths: &mut impl Iterator<Item = usize>) -> bool {
    if let Some(bytes) = lengths.next() {
        short
            .findings
            .iter_mut()
            .for_each(|finding| cut(finding, bytes));
        return true;
    }
    let is_failure_last = short.findings.last().is_some_and(|finding| !finding.ok);
    if is_failure_last && short.evidence.as_mut().is_some_and(Evidence::shorten) {
        return true;
    }
    if short.findings.len() > 1 {
        short.findings.pop();
        short.omitted += 1;
        return true;
    }
    short.evidence.take().is_some()
}

fn json(report: &Report) -> String {
    serde_json::json!(report).to_string()
}

fn cut(finding: &mut Finding, bytes: usize) {
    for text in [&mut finding.target, &mut finding.message] {
        if text.len() > bytes {
            let end = text.floor_char_boundary(bytes);
            text.truncate(end);
            text.push('…');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::{Check, Phase};

    fn any_finding() -> impl Strategy<Value = Finding> {
        // All kinds of characters, those included that JSON writes with six bytes.
        let text = proptest::collection::vec(any::<char>(), 0..600)
            .prop_map(|characters| characters.into_iter().collect::<String>());
        let control = "[\u{0}-\u{1f}\"\\\\]{0,600}".prop_map(String::from);
        let text = prop_oneof![text, control].boxed();
        (text.clone(), text, any::<bool>(), any::<u64>()).prop_map(
            |(target, message, ok, milliseconds)| Finding {
                check: Check::ApiLargeRequest,
                target,
                ok,
                phase: (!ok).then_some(Phase::Connect),
                message,
                milliseconds,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_message_of_any_report_fits_and_keeps_verdict_and_first_failure(
            findings in proptest::collection::vec(any_finding(), 0..40),
            routes in proptest::collection::vec("[ -~]{0,120}", 0..17),
        ) {
            let mut report = Report::of(findings);
            report.evidence = Some(Evidence { routes, ..Evidence::default() });
            let message = termination_message(&report);
            prop_assert!(message.len() <= TERMINATION_BYTES, "{} bytes", message.len());
            let read: Report = serde_json::from_str(&message).unwrap();
            prop_assert_eq!(read.verdict, report.verdict);
            prop_assert_eq!(read.findings.len() + read.omitted, report.findings.len());
            let first = |report: &Report| report.findings.iter().find(|finding| !finding.ok)
                .map(|finding| (finding.check, finding.phase, finding.milliseconds));
            prop_assert_eq!(first(&read), first(&report));
        }
    }

    #[test]
    fn repeated_failures_leave_room_for_the_beginning_of_the_evidence() {
        let failure = Finding {
            check: Check::DnsUdp,
            target: "kubernetes.default.svc.cluster.local. @10.96.0.10:53".to_owned(),
            ok: false,
            phase: Some(Phase::Dns),
            message: "no answer in time, though asked 3 times".to_owned(),
            milliseconds: 5000,
        };
        let mut report = Report::of(vec![failure; 64]);
        report.evidence = Some(Evidence {
            resolv_conf: format!("nameserver 10.96.0.10\n{}", "# x\n".repeat(120)),
            addresses: vec!["10.0.0.7".to_owned(); 16],
            routes: vec!["default via 10.0.0.1 dev eth0".to_owned(); 16],
        });
        let message = termination_message(&report);
        assert!(message.len() <= TERMINATION_BYTES, "{}", message.len());
        let read: Report = serde_json::from_str(&message).unwrap();
        let evidence = read.evidence.unwrap();
        assert!(evidence.resolv_conf.starts_with("nameserver 10.96.0.10"));
        assert_eq!(evidence.addresses, ["10.0.0.7"; 3]);
        assert!(read.findings.len() > 10, "{}", read.findings.len());
    }

    #[test]
    fn a_short_report_is_not_touched() {
        let report = Report::of(Vec::new());
        assert_eq!(
            termination_message(&report),
            r#"{"findings":[],"verdict":"Passed"}"#
        );
    }

    #[test]
    fn a_failure_of_every_check_stays_before_a_second_of_any() {
        let failure = |check, number: usize| Finding {
            check,
            target: format!("{number}: {}", "x".repeat(90)),
            ok: false,
            phase: Some(Phase::Connect),
            message: "y".repeat(90),
            milliseconds: 1,
        };
        let mut findings: Vec<Finding> = (0..40)
            .map(|number| failure(Check::ApiLargeRequest, number))
            .collect();
        findings.push(failure(Check::Service, 40));
        let report = Report::of(findings);
        let told: Report = serde_json::from_str(&termination_message(&report)).unwrap();
        assert!(told.omitted > 0);
        assert!(told.findings.iter().any(|one| one.check == Check::Service));
        assert_eq!(told.findings[0].check, Check::ApiLargeRequest, "the first");
    }
}

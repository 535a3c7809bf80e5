//! The report for people.

use std::time::Duration;

use crate::report::{Report, Verdict};

/// Narrower than this the columns would jump from run to run.
const TARGET: usize = 24;

/// One line a finding, failures marked, and what it comes to.
pub fn table(report: &Report, took: Duration) -> String {
    let width = report
        .findings
        .iter()
        .map(|finding| finding.target.chars().count())
        .max()
        .unwrap_or(0)
        .max(TARGET);
    let mut text = format!(
        "{:<18} {:<width$} {:>8}  RESULT\n",
        "CHECK", "TARGET", "TIME"
    );
    for finding in &report.findings {
        let result = match finding.phase {
            None => "ok".to_owned(),
            Some(phase) => format!("FAILED at {phase}"),
        };
        text += &format!(
            "{:<18} {:<width$} {:>5} ms  {result}: {}\n",
            finding.check, finding.target, finding.milliseconds, finding.message
        );
    }
    let failed = report.findings.iter().filter(|finding| !finding.ok).count();
    let all = report.findings.len();
    let seconds = took.as_secs_f64();
    text += &match report.verdict {
        Verdict::Passed => format!("\nPassed: {all} findings in {seconds:.1} s\n"),
        Verdict::Failed => format!("\nFailed: {failed} of {all} findings, in {seconds:.1} s\n"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Check, Finding, Phase};

    #[test]
    fn the_table_lines_up_and_says_what_failed_where() {
        let finding = |check, target: &str, phase| Finding {
            check,
            target: target.to_owned(),
            ok: phase != Some(Phase::Tls),
            phase,
            message: "words".to_owned(),
            milliseconds: 12,
        };
        let report = Report::of(vec![
            finding(Check::Network, "10.96.0.1:443", None),
            finding(
                Check::ApiVersion,
                "https://10.96.0.1:443/version",
                Some(Phase::Tls),
            ),
        ]);
        assert_eq!(
            table(&report, Duration::from_millis(1240)),
            "CHECK              TARGET                            TIME  RESULT\n\
             network            10.96.0.1:443                    12 ms  ok: words\n\
             api-version        https://10.96.0.1:443/version    12 ms  FAILED at tls: words\n\
             \nFailed: 1 of 2 findings, in 1.2 s\n"
        );
    }
}

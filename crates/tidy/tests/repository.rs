//! The whole repository obeys its own rules.

#[test]
fn the_repository_is_tidy() {
    let report = shipshape_tidy::check(&shipshape_tidy::repository()).expect("a look around");
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.files > 50, "saw too little: {report:?}");
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
}

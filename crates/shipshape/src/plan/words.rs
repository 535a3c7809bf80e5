//! A plan for people.

use std::path::Path;

use jiff::SignedDuration;
use shipshape_api::node_patch_run::{FindingRecord, Wave};
use shipshape_engine::forecast::{Fate, WaveTurn};

use super::Preview;
use crate::cli::PlanOptions;
use crate::drawing::{Cell, columns, paint, short, table};

/// Nodes of a wave that are listed unless somebody wants all.
const NODES_MAX: usize = 12;
/// Spaces before each line of a table.
const INDENT: usize = 2;
const BOLD: &str = "\x1b[1m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";

pub(super) fn of(preview: &Preview, options: &PlanOptions, is_coloured: bool) -> String {
    let mut lines = head(preview, is_coloured);
    let waves = preview.forecast.waves.len();
    for (index, wave) in preview.forecast.waves.iter().enumerate() {
        lines.push(String::new());
        lines.push(paint(&title(wave, index, waves), BOLD, is_coloured));
        lines.extend(nodes(wave, options, is_coloured));
        let found = preview.findings.get(index).map(Vec::as_slice);
        lines.extend(findings(found.unwrap_or_default(), is_coloured));
    }
    lines.push(String::new());
    for note in &preview.notes {
        lines.push(paint(&format!("note: {note}"), YELLOW, is_coloured));
    }
    lines.push(format!(
        "Nothing was written; evictions asked for as dry runs: {}.",
        preview.dry_runs
    ));
    if preview.candidates > 0 {
        // What came by standard input is used up.
        let file = if options.file == Path::new("-") {
            "FILE".to_owned()
        } else {
            options.file.display().to_string()
        };
        lines.push(format!(
            "Rehearse it: shipshape simulate --from-cluster -f {file}"
        ));
    }
    format!("{}\n", lines.join("\n"))
}

fn head(preview: &Preview, is_coloured: bool) -> Vec<String> {
    let forecast = &preview.forecast;
    let time = |seconds: i64| short(SignedDuration::from_secs(seconds));
    let first = format!(
        "run {} would replace {} of {} nodes in {} wave(s)",
        preview.run,
        preview.candidates,
        preview.nodes,
        forecast.waves.len()
    );
    let from = match preview.assumptions.measured_nodes {
        0 => "assumed".to_owned(),
        count => format!("as {count} node(s) replaced here before"),
    };
    let assumed = &preview.assumptions;
    let mut lines = vec![paint(&first, BOLD, is_coloured)];
    for warning in &preview.warnings {
        let text = format!("  WARNING: {warning}");
        lines.push(paint(&text, RED, is_coloured));
    }
    if preview.candidates == 0 {
        lines.push("  no node matches its selectors; there is nothing to do".to_owned());
        return lines;
    }
    lines.push(format!(
        "  takes about {}, with up to {} node(s) at once, and {:.1} extra node-hours",
        time(forecast.seconds),
        forecast.most_at_once,
        forecast.extra_node_hours
    ));
    lines.push(format!(
        "  if a machine is ready after {} and gone after {} ({from}), and a pod moves in {}",
        time(assumed.machine_ready_seconds),
        time(assumed.machine_gone_seconds),
        time(assumed.pod_move_seconds)
    ));
    let blocked = match preview.blocked_pods {
        0 => "  nothing was found that would hold up a drain".to_owned(),
        count => {
            let text = format!("  {count} pod(s) cannot be evicted as things are, see below");
            paint(&text, RED, is_coloured)
        }
    };
    lines.push(blocked);
    lines
}

fn title(wave: &WaveTurn, index: usize, waves: usize) -> String {
    let time = |seconds: i64| short(SignedDuration::from_secs(seconds));
    let what = match wave.wave {
        Some(Wave::ControlPlanes) => " (control planes, one at a time)",
        Some(Wave::Canaries) => " (canaries)",
        None => "",
    };
    let soak = match wave.soak {
        0 => String::new(),
        seconds => format!(", then watched for {}", time(seconds)),
    };
    format!(
        "wave {} of {waves}{what}: {} node(s), from {} to {}{soak}",
        index + 1,
        wave.nodes.len(),
        time(wave.begins),
        time(wave.ends)
    )
}

fn nodes(wave: &WaveTurn, options: &PlanOptions, is_coloured: bool) -> Vec<String> {
    let shown = if options.all { usize::MAX } else { NODES_MAX };
    let plain = |text: &str| (text.to_owned(), "");
    let time = |seconds: i64| plain(&short(SignedDuration::from_secs(seconds)));
    let mut rows: Vec<Vec<Cell>> = vec![
        ["NODE", "ZONE", "PODS", "IMPORTANT", "FROM", "TO", ""]
            .map(plain)
            .to_vec(),
    ];
    for turn in wave.nodes.iter().take(shown) {
        rows.push(vec![
            plain(&turn.node),
            plain(&turn.zone),
            plain(&turn.pods.to_string()),
            plain(if turn.important { "yes" } else { "no" }),
            time(turn.begins),
            time(turn.ends),
            (
                turn.fate.map(Fate::words).unwrap_or_default().to_owned(),
                RED,
            ),
        ]);
    }
    let mut lines = table(&rows, columns(INDENT), is_coloured);
    let more = wave.nodes.len().saturating_sub(shown);
    if more > 0 {
        lines.push(format!("and {more} more, which --all lists"));
    }
    lines.into_iter().map(|line| format!("  {line}")).collect()
}

fn findings(found: &[FindingRecord], is_coloured: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for one in found {
        let text = format!(
            "  pod {}/{} on {}: {}",
            one.namespace, one.pod, one.node, one.message
        );
        lines.push(paint(&text, YELLOW, is_coloured));
        if !one.remedy.is_empty() {
            lines.push(format!("    would help: {}", one.remedy));
        }
    }
    lines
}

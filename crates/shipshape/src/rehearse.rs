//! `shipshape simulate --from-cluster`: a run rehearsed on a copy of a live cluster.
//!
//! Owns the reads and what is told about the copy; `scenarios` plays. Writes nothing: the run is not
//! even sent to the cluster for a check, the embedded API looks at it.

use std::process::ExitCode;

use kube::ResourceExt;
use serde_json::{Value, json};
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_engine::forecast::Pace;
use shipshape_engine::obstacles;
use shipshape_scenarios::rehearsal::{Copy, Machines, Original, Rehearsed, rehearse_alone};

use crate::cli::{Format, SimulateOptions};
use crate::connect::Cluster;
use crate::controller::built_in;
use crate::drawing::short;
use crate::failure::Failure;
use crate::manifest;
use crate::output::{Progress, Reader, complain, say, unheard};
use crate::simulate::{code, draw, seeds};
use crate::survey::Survey;

/// What is rehearsed, and how long machines take there.
struct Rehearsal {
    copy: Copy,
    run: NodePatchRun,
    machines: Machines,
}

pub(crate) fn run(options: &SimulateOptions) -> anyhow::Result<ExitCode> {
    let mut prepared = None;
    super::block_on(async {
        prepared = Some(prepare(options).await?);
        Ok(ExitCode::SUCCESS)
    })?;
    let Some(rehearsal) = prepared else {
        return Ok(ExitCode::FAILURE);
    };
    let mut is_as_expected = true;
    for seed in seeds(options) {
        let Rehearsal {
            copy,
            run,
            machines,
        } = &rehearsal;
        let mut progress = Progress::new();
        progress.tell(|| {
            format!(
                "seed {seed}: setting up a copy of {} nodes",
                copy.groups.len()
            )
        });
        let rehearsed = rehearse_alone(copy, run, *machines, seed, &mut |one| {
            progress.tell(|| {
                let (done, total, passed) = (one.replaced, one.total, short(one.elapsed));
                format!(
                    "seed {seed}: {done} of {total} machines replaced, {passed} have passed there"
                )
            });
        })?;
        drop(progress);
        is_as_expected &= rehearsed.played.report.is_as_expected();
        let reader = report(options, copy, &rehearsed)?;
        draw(options, &rehearsed.played.timeline, &run.name_any(), seed)?;
        if reader == Reader::Gone && options.seeds.is_some() {
            return Ok(unheard());
        }
    }
    Ok(code(is_as_expected))
}

async fn prepare(options: &SimulateOptions) -> Result<Rehearsal, Failure> {
    let run = match &options.file {
        Some(file) => {
            let namespace = options.cluster.namespace.as_deref();
            manifest::checked_here(namespace, file).await?
        }
        None => whole_cluster()?,
    };
    let cluster = Cluster::connect(&options.cluster).await?;
    let survey = Survey::of(&cluster).await?;
    let copy = Copy::of(&Original {
        nodes: &survey.nodes,
        pods: &survey.pods,
        budgets: &survey.budgets,
    });
    let wrong = |error: &dyn std::fmt::Display| Failure::WrongInput(error.to_string());
    let candidates = copy.candidates(&run.spec).map_err(|error| wrong(&error))?;
    if candidates == 0 {
        return Err(Failure::Refused(format!(
            "no node of {} matches the selectors of run {}: there is nothing to rehearse",
            cluster.address,
            run.name_any()
        )));
    }
    // A cluster without the kinds has no history.
    let tasks: Vec<NodePatchTask> = cluster.all().await.unwrap_or_default();
    let mut pace = Pace::default();
    pace.measured(&tasks);
    if options.output == Format::Text {
        complain(&format!(
            "rehearsing run {} on a copy of {} nodes and {} pods of {}",
            run.name_any(),
            survey.nodes.len(),
            survey.pods.len(),
            cluster.address
        ));
        for note in &copy.notes {
            complain(note);
        }
        // The copy plays every cloud by its own; the cluster's controller may not.
        let runs: Vec<NodePatchRun> = cluster.all().await.unwrap_or_default();
        if let Some(refusal) = obstacles::of_provider(&run, &runs, built_in()) {
            complain(&refusal);
        }
    }
    let machines = Machines {
        ready: pace.machine_ready,
        gone: pace.machine_gone,
    };
    Ok(Rehearsal {
        copy,
        run,
        machines,
    })
}

/// The run that replaces everything, by the defaults.
fn whole_cluster() -> Result<NodePatchRun, Failure> {
    let run = json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchRun",
        "metadata": { "name": "all-nodes", "namespace": "default" },
        "spec": { "provider": { "type": "embedded" } },
    });
    serde_json::from_value(run).map_err(|error| Failure::Other {
        action: "make a run for all nodes".to_owned(),
        why: error.to_string(),
    })
}

/// The usual report, and the nodes that were not replaced by the names that they have in the cluster.
fn report(options: &SimulateOptions, copy: &Copy, rehearsed: &Rehearsed) -> anyhow::Result<Reader> {
    let report = &rehearsed.played.report;
    let left = rehearsed.left.iter();
    let left = left.map(|(node, why)| (copy.originals.get(node).unwrap_or(node), why));
    let text = match options.output {
        Format::Text => {
            let left = left.map(|(node, why)| format!("  NOT REPLACED {node}: {why}\n"));
            std::iter::once(report.to_string()).chain(left).collect()
        }
        Format::Json => {
            let left: Vec<Value> = left
                .map(|(node, why)| json!({ "node": node, "why": why }))
                .collect();
            let mut value = serde_json::to_value(report)?;
            if let Value::Object(fields) = &mut value {
                fields.insert("notReplaced".to_owned(), left.into());
            }
            format!("{value}\n")
        }
    };
    Ok(say(&text)?)
}

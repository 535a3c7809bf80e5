//! Preflight: looks at the nodes of the next wave before the first of them is touched.
//!
//! Owns the dry-run evictions and when they are due: once for each wave, recorded in the run's
//! status, so that a restart neither repeats nor loses them. Must not hold the run up: what is found
//! is told, and a server that does not answer is asked no further.

use kube::Client;
use shipshape_api::node_patch_run::NodePatchRunStatus;
use shipshape_cluster::ErrorClass;
use shipshape_cluster::error::in_full;
use shipshape_cluster::evict::{self, Eviction, Mode, Target};
use shipshape_engine::condition;
use shipshape_engine::decision::{Notice, PodTarget};
use shipshape_engine::drain::{Around, DrainPolicy, Refusal};
use shipshape_engine::preflight::{Report, Wave, findings, questions, report};
use shipshape_engine::snapshot::RunSnapshot;
use shipshape_engine::view::PodView;

use crate::context::Context;
use crate::drain;

/// Most nodes of a wave that are looked at; the record says how many were.
const NODES_MAX: usize = 1000;

/// What the run shall say after the look.
pub(super) struct Told {
    pub(super) status: NodePatchRunStatus,
    pub(super) notice: Notice,
}

/// Looks at the next wave, if nobody has yet.
pub(super) async fn look(context: &Context, snapshot: &RunSnapshot) -> Option<Told> {
    let status = snapshot.run.status.as_ref()?;
    let plan = status.plan.as_ref()?;
    let iteration = status.current_iteration?;
    let is_known = status.preflight.as_ref().is_some_and(|known| {
        known.plan_version == plan.plan_version && known.iteration == iteration
    });
    if is_known || snapshot.waiting.is_empty() {
        return None;
    }
    let wave = plan.partitions.get(usize::try_from(iteration).ok()?)?;
    let nodes: Vec<(String, Vec<PodView>)> = wave
        .nodes
        .iter()
        .take(NODES_MAX)
        .map(|node| (node.clone(), drain::pods_as_stored(context, node)))
        .collect();
    let pods = || nodes.iter().flat_map(|(_, pods)| pods);
    let budgets = drain::budgets(context, pods());
    let mut answered = drain::around(context, [], pods());
    let around = answered.clone();
    let wave = Wave {
        nodes: &nodes,
        budgets: &budgets,
        around: &around,
        policy: DrainPolicy::of(snapshot.run.spec.drain.as_ref(), &context.settings.drain),
    };
    let asked = ask_dry_runs(&context.client, &questions(&wave), &mut answered).await;
    let now = context.clock.now();
    let mut looked = Report::looked(&plan.plan_version, iteration, now);
    looked.nodes = number(nodes.len());
    looked.dry_runs = number(asked);
    let wave = Wave {
        around: &answered,
        ..wave
    };
    let report = report(&findings(&wave), looked);
    let mut status = status.clone();
    let generation = snapshot.run.metadata.generation;
    condition::set(&mut status.conditions, report.claim(), generation, now);
    status.preflight = Some(report.record);
    Some(Told {
        status,
        notice: report.notice,
    })
}

/// Asks the server about each eviction without meaning it; says how many were asked. A budget that
/// has closed meanwhile will open again and is no finding.
pub async fn ask_dry_runs(client: &Client, pods: &[PodTarget], around: &mut Around) -> usize {
    for (asked, pod) in pods.iter().enumerate() {
        let target = Target {
            namespace: &pod.namespace,
            name: &pod.name,
            uid: &pod.uid,
        };
        let message = match evict::evict(client, target, Mode::DryRun).await {
            Ok(Eviction::Refused { message }) => message,
            Ok(_) => continue,
            Err(error) if matches!(error.class(), ErrorClass::Denied | ErrorClass::Invalid) => {
                in_full(&error)
            }
            Err(error) => {
                tracing::warn!(error = in_full(&error), "preflight cut short");
                return asked;
            }
        };
        let refusal = Refusal {
            budgets: Vec::new(),
            message,
        };
        around.refusals.insert(pod.uid.clone(), refusal);
    }
    pods.len()
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

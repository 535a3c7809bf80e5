//! `shipshape status`: how all runs stand, once or as they change.
//!
//! Owns the reads and when to draw; `overview` says what there is to see.

mod overview;

use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use shipshape_api::{NodePatchRun, NodePatchTask, names};
use shipshape_cluster::Store;
use shipshape_cluster::error::in_full;
use shipshape_cluster::store::{Following, Settings};
use shipshape_engine::view::Observed;
use tokio::sync::Notify;

use crate::cli::{Format, StatusOptions};
use crate::connect::Cluster;
use crate::drawing::{Canvas, is_coloured, is_terminal, rows};
use crate::failure::Failure;
use crate::output::{Reader, complain, reader_gone, say, unheard};
use crate::signals::Signals;
use crate::target::Thing;
use overview::{Overview, lines, overview};

/// Ages are brought up to date so often while nothing changes.
const REDRAW: Duration = Duration::from_secs(1);
/// Least time between two pictures.
const PAUSE: Duration = Duration::from_millis(200);
/// A cluster that takes longer than this does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(options: &StatusOptions) -> anyhow::Result<ExitCode> {
    super::block_on(async {
        let wanted = options.target.as_ref();
        if let Some(other) = wanted.filter(|target| target.thing != Thing::Run) {
            let words = format!("status is about runs; try: shipshape explain {other}");
            return Err(Failure::WrongInput(words).into());
        }
        let cluster = Cluster::connect(&options.cluster).await?;
        let runs: Vec<NodePatchRun> = cluster.all().await?;
        if options.watch {
            return watch(&cluster, options).await;
        }
        let tasks: Vec<NodePatchTask> = cluster.all().await?;
        let seen = look(&cluster, options, &runs, &tasks).await?;
        if seen.runs.is_empty()
            && let Some(target) = wanted
        {
            crate::orders::find_run(&cluster, &target.name).await?;
        }
        tell(options, &seen)?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn look(
    cluster: &Cluster,
    options: &StatusOptions,
    runs: &[NodePatchRun],
    tasks: &[NodePatchTask],
) -> Result<Overview, Failure> {
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), &options.operator_namespace);
    let lease = match leases.get_opt(names::LEADER_LEASE).await {
        Ok(lease) => Observed::from(lease),
        Err(error) => Observed::Unknown(in_full(&error)),
    };
    let now = cluster.now().await?;
    let wanted = runs.iter().filter(|run| is_wanted(cluster, options, run));
    let runs: Vec<NodePatchRun> = wanted.cloned().collect();
    Ok(Overview {
        namespace: options.cluster.namespace.clone(),
        ..overview(&runs, tasks, &lease, now)
    })
}

fn is_wanted(cluster: &Cluster, options: &StatusOptions, run: &NodePatchRun) -> bool {
    let meta = &run.metadata;
    let is_named = |name: &str| meta.name.as_deref() == Some(name);
    let is_here = meta.namespace.as_ref() == Some(&cluster.namespace);
    match (&options.target, &options.cluster.namespace) {
        (Some(target), _) => is_named(&target.name) && (is_here || options.all_namespaces),
        (None, Some(_)) => is_here,
        // A run in a namespace that nobody thought of is the one that is looked for at night.
        (None, None) => true,
    }
}

fn tell(options: &StatusOptions, seen: &Overview) -> anyhow::Result<Reader> {
    let mut text = match options.output {
        Format::Text => lines(seen, is_coloured()).join("\n"),
        Format::Json => serde_json::to_string(seen)?,
    };
    text.push('\n');
    if options.watch && options.output == Format::Text {
        text.push('\n');
    }
    Ok(say(&text)?)
}

/// Copies of what is drawn, and who says when they have changed.
struct Watch {
    runs: Store<NodePatchRun>,
    tasks: Store<NodePatchTask>,
    changed: Arc<Notify>,
    _following: Vec<Following>,
}

impl Watch {
    async fn start(cluster: &Cluster) -> Self {
        let (runs, tasks) = (Store::new(), Store::new());
        let changed = Arc::new(Notify::new());
        let client = || cluster.client.clone();
        let following = vec![
            runs.start(Api::all(client()), Settings::default(), {
                let changed = Arc::clone(&changed);
                move |_| changed.notify_one()
            }),
            tasks.start(Api::all(client()), Settings::default(), {
                let changed = Arc::clone(&changed);
                move |_| changed.notify_one()
            }),
        ];
        runs.synced().await;
        tasks.synced().await;
        // What was there at the start is drawn anyway, and no change.
        let _drawn = tokio::time::timeout(Duration::ZERO, changed.notified()).await;
        Self {
            runs,
            tasks,
            changed,
            _following: following,
        }
    }

    async fn look(&self, cluster: &Cluster, options: &StatusOptions) -> Result<Overview, Failure> {
        let runs = self.runs.list();
        let runs: Vec<_> = runs.iter().map(|run| run.as_ref().clone()).collect();
        let tasks = self.tasks.list();
        let tasks: Vec<_> = tasks.iter().map(|task| task.as_ref().clone()).collect();
        look(cluster, options, &runs, &tasks).await
    }

    /// A server may also take a question and never answer it.
    async fn look_in_time(
        &self,
        cluster: &Cluster,
        options: &StatusOptions,
    ) -> Result<Overview, Failure> {
        let looked = tokio::time::timeout(PATIENCE, self.look(cluster, options)).await;
        looked.unwrap_or_else(|_| {
            Err(Failure::Unreachable {
                address: cluster.address.clone(),
                why: format!("not within {} seconds", PATIENCE.as_secs()),
            })
        })
    }
}

/// Whether the cluster answers, and when it last did, by its own clock.
#[derive(Default)]
struct Answers {
    last: Option<Timestamp>,
    is_silent: bool,
}

impl Answers {
    /// It has answered. Says whether that is news.
    fn heard(&mut self, at: Timestamp) -> bool {
        self.last = Some(at);
        std::mem::replace(&mut self.is_silent, false)
    }

    /// It has not answered. Says whether that is news.
    fn missed(&mut self) -> bool {
        !std::mem::replace(&mut self.is_silent, true)
    }

    fn words(&self, failure: &Failure) -> String {
        match self.last {
            Some(last) => format!("no answer since {last:.0}: {failure}"),
            None => failure.to_string(),
        }
    }
}

/// Why the watch looks once more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Something has changed.
    Changed,
    /// Only time has passed.
    Timed,
}

/// Draws until the user has seen enough. A cluster that does not answer for a while is no reason to
/// stop: whoever watches wants to see it come back. Where only changes are told, it looks by time all the
/// same: a cluster that is silent changes nothing.
async fn watch(cluster: &Cluster, options: &StatusOptions) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let watch = Watch::start(cluster).await;
    let is_live = is_terminal() && options.output == Format::Text;
    let mut canvas = Canvas::default();
    let mut gone = pin!(reader_gone());
    let mut answers = Answers::default();
    let mut why = Look::Changed;
    let every = Duration::try_from(options.every).unwrap_or(PATIENCE);
    let pause = if is_live { REDRAW } else { every.max(PAUSE) };
    loop {
        let seen = tokio::select! {
            biased;
            asked = signals.asked() => return Ok(ExitCode::from(asked.code())),
            () = &mut gone => return Ok(unheard()),
            seen = watch.look_in_time(cluster, options) => seen,
        };
        match (seen, is_live) {
            (Ok(seen), true) => {
                answers.heard(seen.now);
                canvas.draw(&fitted(&seen))?;
            }
            (Ok(seen), false) => {
                let is_back = answers.heard(seen.now);
                let is_news = is_back || why == Look::Changed;
                if is_news && tell(options, &seen)? == Reader::Gone {
                    return Ok(unheard());
                }
            }
            (Err(failure), true) => {
                answers.missed();
                canvas.draw(&[answers.words(&failure)])?;
            }
            (Err(failure), false) => {
                if answers.missed() {
                    complain(&answers.words(&failure));
                }
            }
        }
        why = tokio::select! {
            biased;
            asked = signals.asked() => return Ok(ExitCode::from(asked.code())),
            () = &mut gone => return Ok(unheard()),
            () = watch.changed.notified() => {
                tokio::time::sleep(PAUSE).await;
                Look::Changed
            }
            () = tokio::time::sleep(pause) => Look::Timed,
        };
    }
}

/// The lines, as many as the terminal shows.
fn fitted(seen: &Overview) -> Vec<String> {
    let mut lines = lines(seen, is_coloured());
    if let Some(rows) = rows().filter(|rows| *rows > 0 && lines.len() > *rows) {
        let hidden = lines.len() - (rows - 1);
        lines.truncate(rows - 1);
        lines.push(format!("  and {hidden} more lines"));
    }
    lines
}

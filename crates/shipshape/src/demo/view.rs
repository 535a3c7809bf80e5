//! What the demo shows: a live picture on a terminal, plain lines elsewhere.
//!
//! Owns the drawing. `picture` is a pure function of what the cluster says; the rest only decides
//! when to draw. Colours and cursor movements are used on a terminal only.

mod picture;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_cluster::store::{Following, Settings};
use shipshape_cluster::{Change, Clock, Store};
use shipshape_scenarios::Stage;

use super::pace;
use crate::cli::{DemoOptions, Format, Speed};
use crate::drawing::{Canvas, is_coloured, is_terminal, rows};
use crate::output::say;
use picture::{Facts, picture};

/// Least time between two pictures.
const REDRAW: Duration = Duration::from_millis(100);

/// The demo's screen.
pub(super) struct Screen {
    nodes: Store<Node>,
    tasks: Store<NodePatchTask>,
    runs: Store<NodePatchRun>,
    clock: Clock,
    start: Timestamp,
    speed: Speed,
    is_live: bool,
    canvas: Mutex<Canvas>,
    _following: Vec<Following>,
}

impl Screen {
    pub(super) async fn start(stage: &Stage, options: &DemoOptions, kubeconfig: &Path) -> Self {
        let is_live = is_terminal() && options.output == Format::Text;
        let is_plain = !is_live && options.output == Format::Text;
        let (nodes, tasks, runs) = (Store::new(), Store::new(), Store::new());
        let client = stage.client("view");
        let clock = stage.clock;
        let start = clock.now();
        let told: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let following = vec![
            nodes.start(Api::all(client.clone()), Settings::default(), |_| {}),
            tasks.start(
                Api::all(client.clone()),
                Settings::default(),
                move |change| {
                    if is_plain {
                        tell_step(&told, &change, clock.now().duration_since(start).as_secs());
                    }
                },
            ),
            runs.start(Api::all(client), Settings::default(), |_| {}),
        ];
        nodes.synced().await;
        if options.output == Format::Text {
            let hint = format!(
                "export KUBECONFIG={}\nkubectl get nodes,npr,npt   or   shipshape status --watch   or   shipshape \
                 explain npr/new-image\n\n",
                kubeconfig.display()
            );
            // A reader that is gone shows with the next line.
            drop(say(&hint));
        }
        Self {
            nodes,
            tasks,
            runs,
            clock,
            start,
            speed: options.speed,
            is_live,
            canvas: Mutex::default(),
            _following: following,
        }
    }

    /// Lets time pass and draws, for as long as it is polled.
    pub(super) async fn run(&self, speed: Speed) -> anyhow::Result<()> {
        let mut last = pace::wall_clock();
        loop {
            match speed {
                Speed::Times(times) => pace::tick(times).await,
                // At full speed time jumps by itself; one virtual second is a fair moment to look.
                Speed::Max => tokio::time::sleep(Duration::from_secs(1)).await,
            }
            if self.is_live && last.elapsed() >= REDRAW {
                last = pace::wall_clock();
                self.draw()?;
            }
        }
    }

    /// The last picture.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        if self.is_live { self.draw() } else { Ok(()) }
    }

    fn draw(&self) -> anyhow::Result<()> {
        let nodes = self.nodes.list();
        let tasks = self.tasks.list();
        let runs = self.runs.list();
        let picture = picture(&Facts {
            nodes: &nodes,
            tasks: &tasks,
            runs: &runs,
            elapsed: self.clock.now().duration_since(self.start),
            speed: match self.speed {
                Speed::Times(times) => format!("{times}x"),
                Speed::Max => "max".to_owned(),
            },
            is_coloured: is_coloured(),
        });
        let lines = picture.fit(rows());
        let mut canvas = self.canvas.lock().unwrap_or_else(PoisonError::into_inner);
        canvas.draw(&lines)?;
        Ok(())
    }
}

/// One line for each new step of a node.
fn tell_step(told: &Mutex<BTreeMap<String, String>>, change: &Change<NodePatchTask>, seconds: i64) {
    let Change::Applied { new, .. } = change else {
        return;
    };
    let step = new
        .status
        .as_ref()
        .map(shipshape_api::NodePatchTaskStatus::step_name);
    let step = format!("{:?}", step.unwrap_or_default());
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    let node = &new.spec.node_name;
    if told.insert(node.clone(), step.clone()).as_ref() == Some(&step) {
        return;
    }
    let waiting = new
        .status
        .as_ref()
        .and_then(|status| status.waiting_for.as_deref());
    let line = format!(
        "{:>02}:{:02}:{:02}  {node:<24} {step:<10} {}\n",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        waiting.unwrap_or_default()
    );
    // A reader that is gone shows with the summary.
    drop(say(&line));
}

//! The events of a story, each at its time, until every run has settled.
//!
//! Owns what each action does to the world. Must not wait for anything but the time and the runs.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shipshape_api::{
    NodePatchRun, NodePatchTask, NodePatchTaskStatus, PendingNodeGoal, TaskStep, names,
};
use shipshape_engine::machine::{GroupId, ImageId, ProviderId, Token};
use shipshape_engine::view::NodeView;
use shipshape_engine::wish::{self, RunWish};
use shipshape_provider::{Provider, ReplacementRequest};
use shipshape_simulator::cloud::CloudSettings;

use super::own::Own;
use super::{OperatorProcess, StoryError, create, dynamic, gate, refused, runs};
use crate::observer::Observer;
use crate::scenario::{Action, GateCheck, NEWCOMERS, Once, Scenario};
use crate::stage::{OPERATOR, Stage};
use crate::witness::Witness;

/// Plays all events in the order of their times, then waits until no run moves any more.
pub(super) async fn play(
    stage: &Stage,
    observer: &Observer,
    scenario: &Scenario,
    operator_process: &mut OperatorProcess,
) -> Result<(), StoryError> {
    let start = stage.clock.now();
    let first_nodes = observer.nodes.list();
    let mut events: Vec<_> = scenario.events.iter().enumerate().collect();
    events.sort_by_key(|(_, event)| event.at);
    for (index, event) in events {
        if let Ok(at) = start.checked_add(event.at) {
            stage.clock.sleep_until(at).await;
        }
        if let Some(once) = &event.once {
            came_about(once, observer, &first_nodes).await;
        }
        let scene = Scene { stage, observer };
        let placed = |error: StoryError| error.at(&format!("events[{index}]"));
        match &event.action {
            Action::CrashOperator { down } => {
                operator_process.crash();
                tokio::time::sleep(Duration::try_from(*down).unwrap_or_default()).await;
                operator_process.start();
            }
            Action::Cordon { node } => scene.cordon(first_nodes.get(*node), true).await?,
            Action::Uncordon { node } => scene.cordon(first_nodes.get(*node), false).await?,
            Action::KillMachine { node } => scene.kill(first_nodes.get(*node)).await,
            Action::FullZones(zones) => scene.adjust(|it| it.full_zones = set(zones)),
            Action::BrokenImages(images) => scene.adjust(|it| it.broken_images = set(images)),
            Action::SickMembers(nodes) => {
                let nodes = nodes.iter().filter_map(|node| first_nodes.get(*node));
                let names = nodes.map(|node| node.name_any()).collect();
                if let Some(etcd) = &stage.etcd {
                    etcd.set_sick(&names);
                }
            }
            Action::UnreadyImages(images) => scene.adjust(|it| it.unready_images = set(images)),
            Action::Join { newcomers } => scene.join(scenario, *newcomers),
            Action::DnsDown(is_down) => scene.adjust(|it| it.dns_down = *is_down),
            Action::UnconnectedImages(images) => {
                scene.adjust(|it| it.unconnected_images = set(images));
            }
            Action::Reboot { name, outage } => scene.reboot(index, name, *outage).await,
            Action::Check(expected) => scene.check(index, expected),
            Action::Resume => scene.resume().await?,
            Action::RetryFailed => scene.retry_failed().await?,
            Action::Create(manifest) => create(&stage.client("story"), manifest)
                .await
                .map_err(placed)?,
            Action::Patch(manifest) => scene.patch(manifest).await.map_err(placed)?,
            Action::Delete(manifest) => scene.delete(manifest).await.map_err(placed)?,
            Action::StrayMachine { node } => scene.stray(first_nodes.get(*node)).await,
            Action::JoinOutdated { node } => scene.join_outdated(first_nodes.get(*node)).await,
            Action::RemoveRun { namespace, name } => {
                let api = Api::namespaced(stage.client("somebody"), namespace);
                by_force::<NodePatchRun>(&api, name).await.map_err(placed)?;
            }
            Action::RemoveTask { node } => scene
                .remove_task(first_nodes.get(*node))
                .await
                .map_err(placed)?,
        }
    }
    runs::settled(&Own::of(scenario), observer).await;
    gate::settled(stage, scenario, observer).await;
    Ok(())
}

fn set(list: &[String]) -> BTreeSet<String> {
    list.iter().cloned().collect()
}

/// Waits until what an event waits for is so.
async fn came_about(once: &Once, observer: &Observer, first_nodes: &[Arc<Node>]) {
    while !is_so(once, observer, first_nodes) {
        observer.runs_changed.notified().await;
    }
}

fn step_of(task: &NodePatchTask) -> Option<TaskStep> {
    task.status.as_ref().map(NodePatchTaskStatus::step_name)
}

/// Writes what a wish comes to, if it makes sense and there is something to change.
async fn write_wish<K>(
    api: &Api<K>,
    name: &str,
    change: Result<Option<Value>, wish::Refused>,
) -> Result<(), StoryError>
where
    K: Clone + DeserializeOwned + Debug,
{
    if let Ok(Some(change)) = change {
        api.patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .map_err(|source| refused(name, source))?;
    }
    Ok(())
}

fn is_so(once: &Once, observer: &Observer, first_nodes: &[Arc<Node>]) -> bool {
    let name_of = |node: usize| first_nodes.get(node).map(|node| node.name_any());
    match once {
        Once::Leaving { node } => {
            let name = name_of(*node);
            let pending = observer.pending.list();
            let mut leaving = pending
                .iter()
                .filter(|one| one.spec.goal == PendingNodeGoal::Leave);
            leaving.any(|one| one.spec.node_name == name)
        }
        Once::Task { node, step } => {
            let name = name_of(*node);
            let tasks = observer.tasks.list();
            let mut of_node = tasks
                .iter()
                .filter(|task| Some(&task.spec.node_name) == name.as_ref());
            of_node.any(|task| step_of(task) == Some(*step))
        }
        Once::Verdicts { verdict, count } => gate::verdicts(observer, *verdict) >= *count,
        Once::Attempts(count) => gate::attempts(observer) >= *count,
        Once::Paused => {
            let runs = observer.runs.list();
            let mut statuses = runs.iter().filter_map(|run| run.status.as_ref());
            statuses.any(|status| status.paused == Some(true))
        }
        Once::Tasks { step, count } => {
            let tasks = observer.tasks.list();
            let there = tasks.iter().filter(|task| step_of(task) == Some(*step));
            there.count() >= *count
        }
    }
}

struct Scene<'a> {
    stage: &'a Stage,
    observer: &'a Observer,
}

impl Scene<'_> {
    async fn cordon(
        &self,
        node: Option<&Arc<Node>>,
        unschedulable: bool,
    ) -> Result<(), StoryError> {
        let Some(node) = node else { return Ok(()) };
        let name = node.name_any();
        let is_news = self.observer.with_witness(|witness| {
            if unschedulable {
                witness.expect_foreign_cordon(&name)
            } else {
                witness.expect_foreign_uncordon(&name);
                false
            }
        });
        let api: Api<Node> = Api::all(self.stage.client("somebody"));
        let patch = Patch::Merge(json!({ "spec": { "unschedulable": unschedulable } }));
        match api.patch(&name, &PatchParams::default(), &patch).await {
            Ok(node) => {
                if is_news && NodeView::of(&node).cordoned_by.is_some() {
                    let seen = |witness: &mut Witness| witness.was_cordoned_before(&name);
                    self.observer.with_witness(seen);
                }
                Ok(())
            }
            // Somebody comes too late: it has been replaced already.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(source) => Err(refused(&format!("Node {name}"), source)),
        }
    }

    async fn kill(&self, node: Option<&Arc<Node>>) {
        let id = node.and_then(|node| node.spec.as_ref()?.provider_id.clone());
        let Some(id) = id else { return };
        let cloud = self.stage.cloud.handle("somebody");
        if let Ok(machine) = cloud.resolve(&ProviderId(id)).await {
            self.observer.with_witness(Witness::expect_killed);
            self.stage.cloud.kill_machine(&machine.id);
        }
    }

    async fn join_outdated(&self, node: Option<&Arc<Node>>) {
        let id = node.and_then(|node| node.spec.as_ref()?.provider_id.clone());
        let Some(id) = id else { return };
        let cloud = self.stage.cloud.handle("somebody");
        if let Ok(machine) = cloud.resolve(&ProviderId(id)).await
            && let Some(group) = &machine.group
        {
            self.observer.with_witness(Witness::expect_joined);
            self.stage
                .cloud
                .launch_outdated(group, &machine.zone, &machine.image);
        }
    }

    fn adjust(&self, change: impl FnOnce(&mut CloudSettings)) {
        self.stage.cloud.adjust(change);
    }

    async fn reboot(&self, index: usize, node: &str, outage: SignedDuration) {
        let outage = Duration::try_from(outage).unwrap_or_default();
        match self.stage.kubelets.get(node) {
            Some(kubelet) => kubelet.reboot(outage).await,
            None => self.went_wrong(index, &format!("no kubelet of node {node} runs")),
        }
    }

    fn check(&self, index: usize, expected: &GateCheck) {
        for text in gate::differences(self.stage, self.observer, expected) {
            self.went_wrong(index, &text);
        }
    }

    /// I28: events find the world as their story has it.
    fn went_wrong(&self, index: usize, why: &str) {
        let now = self.stage.clock.now();
        let text = format!("events[{index}]: {why}");
        self.observer
            .with_witness(|witness| witness.found("I28", now, text));
    }

    /// All at once, as when an autoscaler sees a wave of pods.
    fn join(&self, scenario: &Scenario, newcomers: u32) {
        let group = GroupId::from(NEWCOMERS);
        let image = ImageId(scenario.world.image.clone());
        let zones = scenario.world.zones.iter().cycle();
        for (zone, _) in zones.zip(0..newcomers) {
            self.observer.with_witness(Witness::expect_joined);
            self.stage.cloud.launch_outdated(&group, zone, &image);
        }
    }

    async fn patch(&self, manifest: &Value) -> Result<(), StoryError> {
        // Null takes a field away in a patch and is no value of an object.
        let named = json!({
            "apiVersion": manifest.get("apiVersion"),
            "kind": manifest.get("kind"),
            "metadata": {
                "name": manifest.pointer("/metadata/name"),
                "namespace": manifest.pointer("/metadata/namespace"),
            },
        });
        let (api, object, what) = dynamic(&self.stage.client("somebody"), &named)?;
        let patch = Patch::Merge(manifest);
        api.patch(&object.name_any(), &PatchParams::default(), &patch)
            .await
            .map_err(|source| refused(&what, source))?;
        Ok(())
    }

    async fn delete(&self, manifest: &Value) -> Result<(), StoryError> {
        let (api, object, what) = dynamic(&self.stage.client("somebody"), manifest)?;
        api.delete(&object.name_any(), &DeleteParams::default())
            .await
            .map_err(|source| refused(&what, source))?;
        Ok(())
    }

    async fn resume(&self) -> Result<(), StoryError> {
        for run in self.observer.runs.list() {
            let api: Api<NodePatchRun> = self.namespaced(run.as_ref());
            let change = wish::of_run(&run, RunWish::Resume).map(|granted| granted.change);
            write_wish(&api, &run.name_any(), change).await?;
        }
        Ok(())
    }

    async fn retry_failed(&self) -> Result<(), StoryError> {
        let is_failed = |task: &NodePatchTask| step_of(task) == Some(TaskStep::Failed);
        for task in self.observer.tasks.list() {
            if is_failed(&task) {
                let api: Api<NodePatchTask> = self.namespaced(task.as_ref());
                let change = wish::retry(&task, None, self.stage.clock.now());
                write_wish(&api, &task.name_any(), change.map(|granted| granted.change)).await?;
            }
        }
        Ok(())
    }

    fn namespaced<K>(&self, object: &K) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let namespace = object.namespace().unwrap_or_default();
        Api::namespaced(self.stage.client("somebody"), &namespace)
    }

    /// A machine as the operator made it for a task that went before anybody could follow the machine.
    async fn stray(&self, node: Option<&Arc<Node>>) {
        let id = node.and_then(|node| node.spec.as_ref()?.provider_id.clone());
        let Some(id) = id else { return };
        let cloud = self.stage.cloud.handle(OPERATOR);
        let Ok(old) = cloud.resolve(&ProviderId(id)).await else {
            return;
        };
        let tags = [
            (names::TAG_TOKEN, "stray"),
            (names::TAG_TASK, "default/stray"),
            (names::TAG_REPLACES, old.id.as_str()),
        ];
        let request = ReplacementRequest {
            token: Token::from("stray"),
            group: old.group.unwrap_or_else(|| GroupId::from("")),
            zone: old.zone,
            tags: tags
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            replaces: old.id,
        };
        // A refusal shows in the story's end: nothing is left to be swept.
        let _made = cloud.ensure_replacement(&request).await;
    }

    /// Nothing is put back by a task that goes like this; others must see to what it leaves.
    async fn remove_task(&self, node: Option<&Arc<Node>>) -> Result<(), StoryError> {
        let name = node.map(|node| node.name_any());
        let all = self.observer.tasks.list();
        let of_node = all
            .iter()
            .find(|task| Some(&task.spec.node_name) == name.as_ref());
        let Some(task) = of_node else { return Ok(()) };
        let namespace = task.namespace().unwrap_or_default();
        let api: Api<NodePatchTask> = Api::namespaced(self.stage.client("somebody"), &namespace);
        by_force(&api, &task.name_any()).await
    }
}

/// Takes the finalizers off an object and deletes it. One that is gone needs nothing.
async fn by_force<K>(api: &Api<K>, name: &str) -> Result<(), StoryError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let removed = async {
        api.patch(name, &PatchParams::default(), &patch).await?;
        api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    };
    match removed.await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map_err(|source| refused(&format!("{} {name}", K::kind(&())), source)),
    }
}

//! Keeps the status of disruption budgets true.
//!
//! Owns `status` of every PodDisruptionBudget together with the eviction subresource, which takes
//! from it: so each write carries the version it was computed from. Must not evict.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::PostParams;
use kube::core::{Selector, SelectorExt as _};
use kube::{Api, Client, ResourceExt as _};
use shipshape_cluster::Clock;

use super::informers::Informers;
use super::objects::{controller_of, is_ending, is_finished, is_ready, selects};
use super::queue::Queue;
use super::store::Key;
use super::work::{self, Actor, Outcome, unless_overtaken};
use super::workloads::{count, listen_to};

/// For how long an eviction that did not lead to a deletion is counted.
const DISRUPTED_FOR: Duration = Duration::from_mins(2);

pub(crate) struct Budgets {
    client: Client,
    clock: Clock,
    informers: Informers,
}

impl Budgets {
    pub(crate) async fn run(client: Client, clock: Clock, informers: Informers) {
        let queue = Queue::new();
        listen_to(&informers.budgets, &queue);
        let (budgets, selected) = (informers.budgets.clone(), queue.clone());
        informers.pods.on_change(move |before, after| {
            let Some(pod) = after.or(before) else {
                return;
            };
            // As the real controller does: of several budgets it looks at one, so the others keep old
            // numbers. Which one is chance there; here it is the first by name.
            let all = budgets.within(&pod.namespace().unwrap_or_default());
            if let Some(budget) = all.iter().find(|budget| covers(budget, pod)) {
                selected.add(Key::of(budget.as_ref()));
            }
        });
        let (budgets, scaled) = (informers.budgets.clone(), queue.clone());
        let rescale = move |namespace: Option<String>| {
            for budget in budgets.within(&namespace.unwrap_or_default()) {
                scaled.add(Key::of(budget.as_ref()));
            }
        };
        let sets = rescale.clone();
        informers.deployments.on_change(move |before, after| {
            let replicas = |item: Option<&k8s_openapi::api::apps::v1::Deployment>| {
                item.and_then(|item| item.spec.as_ref()?.replicas)
            };
            if replicas(before) != replicas(after) {
                rescale(after.or(before).and_then(kube::ResourceExt::namespace));
            }
        });
        informers.stateful_sets.on_change(move |before, after| {
            let replicas = |item: Option<&k8s_openapi::api::apps::v1::StatefulSet>| {
                item.and_then(|item| item.spec.as_ref()?.replicas)
            };
            if replicas(before) != replicas(after) {
                sets(after.or(before).and_then(kube::ResourceExt::namespace));
            }
        });
        informers.synced().await;
        let actor = Self {
            client,
            clock,
            informers,
        };
        work::run(actor, queue).await;
    }

    /// How many pods the owners of these pods ask for, each owner counted once.
    fn asked_for(&self, pods: &[std::sync::Arc<Pod>]) -> i32 {
        let mut owners = BTreeSet::new();
        let mut total = 0;
        for pod in pods {
            let Some(owner) = controller_of(pod.as_ref()) else {
                continue;
            };
            let key = Key::new(&pod.namespace().unwrap_or_default(), &owner.name);
            let (uid, asked) = self.scale_of(&key, &owner.kind, &owner.uid);
            if owners.insert(uid) {
                total += asked;
            }
        }
        total
    }

    /// The topmost owner with a scale, and that scale.
    fn scale_of(&self, key: &Key, kind: &str, uid: &str) -> (String, i32) {
        match kind {
            "ReplicaSet" => {
                let Some(set) = self.informers.replica_sets.get(key) else {
                    return (uid.to_owned(), 0);
                };
                if let Some(owner) =
                    controller_of(set.as_ref()).filter(|owner| owner.kind == "Deployment")
                {
                    return self.scale_of(
                        &Key::new(&key.namespace, &owner.name),
                        "Deployment",
                        &owner.uid,
                    );
                }
                (
                    uid.to_owned(),
                    set.spec
                        .as_ref()
                        .and_then(|spec| spec.replicas)
                        .unwrap_or(1),
                )
            }
            "Deployment" => {
                let found = self.informers.deployments.get(key);
                (
                    uid.to_owned(),
                    found
                        .and_then(|found| found.spec.as_ref()?.replicas)
                        .unwrap_or(1),
                )
            }
            "StatefulSet" => {
                let found = self.informers.stateful_sets.get(key);
                (
                    uid.to_owned(),
                    found
                        .and_then(|found| found.spec.as_ref()?.replicas)
                        .unwrap_or(1),
                )
            }
            _ => (uid.to_owned(), 0),
        }
    }

    /// Expected and desired healthy pods.
    fn targets(&self, budget: &PodDisruptionBudget, pods: &[std::sync::Arc<Pod>]) -> (i32, i32) {
        let spec = budget.spec.clone().unwrap_or_default();
        match (spec.max_unavailable, spec.min_available) {
            (Some(most), _) => {
                let expected = self.asked_for(pods);
                (expected, (expected - share(&most, expected)).max(0))
            }
            (None, Some(IntOrString::Int(least))) => (count(pods.len()), least),
            (None, Some(least)) => {
                let expected = self.asked_for(pods);
                (expected, share(&least, expected))
            }
            (None, None) => (count(pods.len()), count(pods.len())),
        }
    }

    /// Evictions under way: pods that are still there, not ending yet, and not forgotten.
    fn disrupted(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[std::sync::Arc<Pod>],
    ) -> BTreeMap<String, Time> {
        let known = budget
            .status
            .as_ref()
            .and_then(|status| status.disrupted_pods.clone());
        let now = self.clock.now();
        let holds = |name: &String, since: &Time| {
            let there = pods
                .iter()
                .any(|pod| pod.name_any() == *name && !is_ending(pod.as_ref()));
            there && now.duration_since(since.0).unsigned_abs() < DISRUPTED_FOR
        };
        known
            .unwrap_or_default()
            .into_iter()
            .filter(|(name, since)| holds(name, since))
            .collect()
    }

    fn status(&self, budget: &PodDisruptionBudget) -> PodDisruptionBudgetStatus {
        let mut pods = self
            .informers
            .pods
            .within(&budget.namespace().unwrap_or_default());
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
        let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
        pods.retain(|pod| {
            let is_covered = selector.as_ref().is_some_and(|it| it.matches(pod.labels()));
            is_covered && !is_finished(pod)
        });
        let (expected, desired) = self.targets(budget, &pods);
        let disrupted = self.disrupted(budget, &pods);
        let healthy = pods.iter().filter(|pod| {
            !is_ending(pod.as_ref()) && is_ready(pod) && !disrupted.contains_key(&pod.name_any())
        });
        let healthy = count(healthy.count());
        let allowed = if expected == 0 {
            0
        } else {
            (healthy - desired).max(0)
        };
        let before = budget.status.clone().unwrap_or_default();
        PodDisruptionBudgetStatus {
            conditions: Some(vec![self.condition(budget, &before, allowed > 0)]),
            current_healthy: healthy,
            desired_healthy: desired,
            disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
            disruptions_allowed: allowed,
            expected_pods: expected,
            observed_generation: budget.metadata.generation,
        }
    }

    fn condition(
        &self,
        budget: &PodDisruptionBudget,
        before: &PodDisruptionBudgetStatus,
        allowed: bool,
    ) -> Condition {
        let status = if allowed { "True" } else { "False" };
        let known = before
            .conditions
            .iter()
            .flatten()
            .find(|item| item.type_ == "DisruptionAllowed");
        let since = known
            .filter(|known| known.status == status)
            .map(|known| known.last_transition_time.clone());
        let now = jiff::Timestamp::from_second(self.clock.now().as_second()).unwrap_or_default();
        Condition {
            type_: "DisruptionAllowed".to_owned(),
            status: status.to_owned(),
            reason: if allowed {
                "SufficientPods"
            } else {
                "InsufficientPods"
            }
            .to_owned(),
            message: String::new(),
            observed_generation: budget.metadata.generation,
            last_transition_time: since.unwrap_or(Time(now)),
        }
    }
}

/// Whether a budget speaks for a pod.
fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    selects(
        budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()),
        pod.labels(),
    )
}

/// An amount or a percentage of `total`, rounded up.
fn share(amount: &IntOrString, total: i32) -> i32 {
    match amount {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent: i32 = text.trim_end_matches('%').parse().unwrap_or(0);
            (total * percent + 99) / 100
        }
    }
}

#[async_trait]
impl Actor for Budgets {
    type Item = Key;

    async fn look(&mut self, key: &Key) -> Outcome {
        let Some(budget) = self.informers.budgets.get(key) else {
            return Ok(None);
        };
        let status = self.status(&budget);
        let again = status.disrupted_pods.is_some().then_some(DISRUPTED_FOR);
        if budget.status.as_ref() == Some(&status) {
            return Ok(again);
        }
        let mut changed = budget.as_ref().clone();
        changed.status = Some(status);
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &key.namespace);
        let answer = api
            .replace_status(&key.name, &PostParams::default(), &changed)
            .await;
        if let Some(written) = unless_overtaken(answer)? {
            self.informers.budgets.show(&written);
        }
        Ok(again)
    }
}

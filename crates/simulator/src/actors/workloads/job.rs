//! Runs the pods of a Job to their end.

use async_trait::async_trait;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Client, ResourceExt as _};
use shipshape_cluster::Clock;

use super::{
    count, create_drawn, delete_pod, listen_to, listen_to_children, pods_of, write_status,
};
use crate::actors::informers::Informers;
use crate::actors::objects::{controlled_by, is_active, is_ending, is_ready, phase, pod_from};
use crate::actors::queue::Queue;
use crate::actors::store::Key;
use crate::actors::work::{self, Actor, Outcome};
use crate::seed::Seed;

pub(crate) struct Jobs {
    client: Client,
    clock: Clock,
    informers: Informers,
    chance: Seed,
}

impl Jobs {
    pub(crate) async fn run(client: Client, clock: Clock, informers: Informers, seed: Seed) {
        let queue = Queue::new();
        listen_to(&informers.jobs, &queue);
        listen_to_children::<Pod, Job>(&informers.pods, &queue);
        informers.synced().await;
        let actor = Self {
            client,
            clock,
            informers,
            chance: seed.fork("jobs"),
        };
        work::run(actor, queue).await;
    }

    async fn create(&mut self, job: &Job, spec: &JobSpec) -> Result<(), kube::Error> {
        let namespace = job.namespace().unwrap_or_default();
        let mut pod = pod_from(&spec.template, &namespace, "", controlled_by(job));
        let labels = pod.metadata.labels.get_or_insert_default();
        for prefix in ["", "batch.kubernetes.io/"] {
            labels.insert(format!("{prefix}job-name"), job.name_any());
            labels.insert(
                format!("{prefix}controller-uid"),
                job.uid().unwrap_or_default(),
            );
        }
        let (chance, pods) = (&mut self.chance, &self.informers.pods);
        create_drawn(&self.client, pods, chance, &job.name_any(), pod).await
    }

    fn now(&self) -> Time {
        Time(jiff::Timestamp::from_second(self.clock.now().as_second()).unwrap_or_default())
    }

    /// The job's end, if it has come.
    fn ending(&self, spec: &JobSpec, succeeded: i32, failed: i32) -> Option<JobCondition> {
        let (kind, reason) = if succeeded >= spec.completions.unwrap_or(1) {
            ("Complete", "CompletionsReached")
        } else if failed > spec.backoff_limit.unwrap_or(6) {
            ("Failed", "BackoffLimitExceeded")
        } else {
            return None;
        };
        Some(JobCondition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            last_probe_time: Some(self.now()),
            last_transition_time: Some(self.now()),
            message: None,
        })
    }
}

fn is_over(status: &JobStatus) -> bool {
    let over = |item: &JobCondition| {
        matches!(item.type_.as_str(), "Complete" | "Failed") && item.status == "True"
    };
    status.conditions.iter().flatten().any(over)
}

#[async_trait]
impl Actor for Jobs {
    type Item = Key;

    async fn look(&mut self, key: &Key) -> Outcome {
        let Some(job) = self.informers.jobs.get(key) else {
            return Ok(None);
        };
        let spec = job.spec.clone().unwrap_or_default();
        let before = job.status.clone().unwrap_or_default();
        if is_over(&before) || is_ending(job.as_ref()) {
            return Ok(None);
        }
        let pods = pods_of(&self.informers.pods, job.as_ref());
        let counted = |word: &str| count(pods.iter().filter(|pod| phase(pod) == word).count());
        // Pods that were evicted leave no trace, so what the status has counted is never taken back.
        let succeeded = counted("Succeeded").max(before.succeeded.unwrap_or(0));
        let failed = counted("Failed").max(before.failed.unwrap_or(0));
        let active: Vec<&Pod> = pods
            .iter()
            .map(AsRef::as_ref)
            .filter(|pod| is_active(pod))
            .collect();
        let end = self.ending(&spec, succeeded, failed);
        if end.is_some() {
            for pod in &active {
                delete_pod(&self.client, &self.informers.pods, pod).await?;
            }
        } else if spec.suspend != Some(true) {
            let open = spec.completions.unwrap_or(1) - succeeded;
            for _ in count(active.len())..spec.parallelism.unwrap_or(1).min(open) {
                self.create(&job, &spec).await?;
            }
        }
        let pods = pods_of(&self.informers.pods, job.as_ref());
        let running = pods.iter().filter(|pod| is_active(pod));
        let ready = running.clone().filter(|pod| is_ready(pod)).count();
        let status = JobStatus {
            active: Some(if end.is_some() {
                0
            } else {
                count(running.count())
            }),
            ready: Some(count(ready)),
            succeeded: Some(succeeded),
            failed: Some(failed),
            start_time: before.start_time.clone().or_else(|| Some(self.now())),
            completion_time: end
                .as_ref()
                .filter(|end| end.type_ == "Complete")
                .map(|_| self.now()),
            conditions: end.map(|end| vec![end]),
            ..before
        };
        write_status(&self.client, job.as_ref(), job.status.as_ref(), &status).await?;
        Ok(None)
    }
}

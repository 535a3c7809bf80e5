//! A pod's life on its node: start, readiness, a task's end, graceful stop.
//!
//! Owns the kubelet's part of a pod's status and the last, forced delete. Annotations under
//! `embedded.shipshape.dev/` steer single pods: `start-seconds`, `ready-seconds`, `stop-seconds`,
//! `run-seconds`, `exit-code`, `message`, `never-ready`, `never-stops`.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Kubelet, worker};
use crate::actors::objects::{controller_of, is_ending, is_finished, is_ready, phase};
use crate::actors::store::Key;
use crate::actors::work::{Outcome, send_patch, unless_overtaken};

/// What the kubelet remembers of a pod between looks.
pub(super) struct Run {
    uid: String,
    boot: u32,
    restarts: u32,
    stage: Stage,
    /// When a started pod's task ends; services have none.
    finish: Option<Instant>,
}

/// How a pod ends: its exit code and its termination message.
pub(super) struct End {
    pub(super) code: i32,
    pub(super) message: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Starting(Instant),
    Running(Instant),
    Ready,
    Stopping(Instant),
}

impl Kubelet {
    /// Looks at one pod bound to this node and takes its next step, if it is due.
    pub(super) async fn look_at_pod(&mut self, key: &Key) -> Outcome {
        let Some(pod) = self.pods.get(key) else {
            self.runs.remove(key);
            return Ok(None);
        };
        let mut run = self.take_run(key, &pod);
        let outcome = if is_ending(pod.as_ref()) {
            self.stop(&pod, &mut run).await
        } else if is_finished(&pod) {
            Ok(None)
        } else {
            self.go_on(&pod, &mut run).await
        };
        self.runs.insert(key.clone(), run);
        outcome
    }

    /// The run of this very pod: a namesake of the past does not count, nor does a past boot.
    fn take_run(&mut self, key: &Key, pod: &Pod) -> Run {
        let uid = pod.uid().unwrap_or_default();
        let boot = self.mode().boot;
        let known = self.runs.remove(key).filter(|run| run.uid == uid);
        if let Some(run) = known {
            if run.boot == boot {
                return run;
            }
            let start = self.wait(pod, "start-seconds", self.delays.pod_start);
            return Run {
                uid,
                boot,
                restarts: run.restarts + 1,
                stage: Stage::Starting(Instant::now() + start),
                finish: None,
            };
        }
        let stage = match phase(pod) {
            "Running" if is_ready(pod) => Stage::Ready,
            _ => Stage::Starting(
                Instant::now() + self.wait(pod, "start-seconds", self.delays.pod_start),
            ),
        };
        Run {
            uid,
            boot,
            restarts: 0,
            stage,
            finish: None,
        }
    }

    /// The annotated time, or the usual one with its jitter.
    fn wait(&mut self, pod: &Pod, name: &str, usual: Duration) -> Duration {
        match annotation(pod, name).and_then(|text| text.parse().ok()) {
            Some(seconds) => Duration::from_secs(seconds),
            None => self.delay(usual),
        }
    }

    async fn go_on(&mut self, pod: &Pod, run: &mut Run) -> Outcome {
        let now = Instant::now();
        match run.stage {
            Stage::Starting(due) if due > now => Ok(Some(due - now)),
            Stage::Starting(_) => {
                self.write(pod, self.running(pod, run, false)).await?;
                run.finish = self.task_time(pod).map(|time| now + time);
                let ready = self.wait(pod, "ready-seconds", self.delays.pod_ready);
                run.stage = Stage::Running(now + ready);
                Ok(Some(ready))
            }
            Stage::Running(_) if annotation(pod, "never-ready").is_some() => {
                self.finish(pod, run).await
            }
            Stage::Running(due) if due > now => Ok(Some(due - now)),
            Stage::Running(_) => {
                self.write(pod, self.running(pod, run, true)).await?;
                run.stage = Stage::Ready;
                self.finish(pod, run).await
            }
            // Somebody said otherwise while this kubelet was silent.
            Stage::Ready if !is_ready(pod) && self.mode().healthy && run.finish.is_none() => {
                self.write(pod, self.running(pod, run, true)).await?;
                Ok(None)
            }
            Stage::Ready | Stage::Stopping(_) => self.finish(pod, run).await,
        }
    }

    /// How long the pod runs before it ends by itself; services never do.
    fn task_time(&mut self, pod: &Pod) -> Option<Duration> {
        let policy = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref());
        let is_task = policy.is_some_and(|policy| policy != "Always")
            || controller_of(pod).is_some_and(|owner| owner.kind == "Job");
        let usual = if worker::is_worker(pod) {
            self.delays.checks_run
        } else {
            self.delays.task_run
        };
        is_task.then(|| self.wait(pod, "run-seconds", usual))
    }

    async fn finish(&mut self, pod: &Pod, run: &mut Run) -> Outcome {
        let Some(due) = run.finish else {
            return Ok(None);
        };
        let now = Instant::now();
        if due > now {
            return Ok(Some(due - now));
        }
        let end = self.end_of(pod);
        self.write(pod, self.ended(pod, run, &end)).await?;
        Ok(None)
    }

    async fn stop(&mut self, pod: &Pod, run: &mut Run) -> Outcome {
        if annotation(pod, "never-stops").is_some() {
            return Ok(None);
        }
        let now = Instant::now();
        let due = match run.stage {
            Stage::Stopping(due) => due,
            Stage::Starting(_) | Stage::Running(_) | Stage::Ready => {
                let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
                let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
                now + self
                    .wait(pod, "stop-seconds", self.delays.pod_stop)
                    .min(grace)
            }
        };
        run.stage = Stage::Stopping(due);
        if due > now {
            return Ok(Some(due - now));
        }
        if !is_finished(pod) {
            let end = End {
                message: annotation(pod, "message").unwrap_or_default().to_owned(),
                code: 0,
            };
            self.write(pod, self.ended(pod, run, &end)).await?;
        }
        let pods: Api<Pod> =
            Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: pod.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        unless_overtaken(pods.delete(&pod.name_any(), &params).await)?;
        Ok(None)
    }

    async fn write(&self, pod: &Pod, status: Value) -> Result<(), kube::Error> {
        let pods: Api<Pod> =
            Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let patch = Patch::Strategic(json!({ "metadata": { "uid": pod.uid() }, "status": status }));
        unless_overtaken(send_patch(&pods, &pod.name_any(), Some("status"), &patch).await)?;
        Ok(())
    }

    fn running(&self, pod: &Pod, run: &Run, ready: bool) -> Value {
        let now = Time(self.clock.now());
        let word = if ready { "True" } else { "False" };
        let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "lastTransitionTime": now });
        let containers: Vec<Value> = containers(pod)
            .map(|(name, image)| {
                json!({
                    "name": name, "image": image, "imageID": image, "ready": ready, "started": true,
                    "restartCount": run.restarts, "state": { "running": { "startedAt": now } },
                })
            })
            .collect();
        let conditions = if ready {
            json!([condition("ContainersReady", word), condition("Ready", word)])
        } else {
            json!([
                condition("PodReadyToStartContainers", "True"),
                condition("Initialized", "True"),
                condition("ContainersReady", word),
                condition("Ready", word),
            ])
        };
        let address = address_of(&run.uid);
        json!({
            "phase": "Running", "hostIP": address_of(&self.name), "podIP": address,
            "podIPs": [{ "ip": address }], "startTime": started(pod).unwrap_or(now.clone()),
            "conditions": conditions, "containerStatuses": containers,
        })
    }

    /// Code and message of a pod that ends by itself: those of its annotations, or what checks of the
    /// network would have seen here.
    fn end_of(&self, pod: &Pod) -> End {
        let code = annotation(pod, "exit-code").and_then(|text| text.parse().ok());
        if code.is_none() && worker::is_worker(pod) {
            return worker::end(self.cloud.network_of(self.facts.machine.image.as_str()));
        }
        End {
            code: code.unwrap_or(0),
            message: annotation(pod, "message").unwrap_or_default().to_owned(),
        }
    }

    fn ended(&self, pod: &Pod, run: &Run, end: &End) -> Value {
        let End { code, message } = end;
        let now = Time(self.clock.now());
        let phase = if *code == 0 { "Succeeded" } else { "Failed" };
        let reason = if *code == 0 { "Completed" } else { "Error" };
        let containers: Vec<Value> = containers(pod)
            .map(|(name, image)| {
                json!({
                    "name": name, "image": image, "imageID": image, "ready": false, "started": false,
                    "restartCount": run.restarts,
                    "state": { "running": null, "terminated": {
                        "exitCode": code, "reason": reason, "message": message, "finishedAt": now,
                    } },
                })
            })
            .collect();
        let condition = |kind: &str| json!({ "type": kind, "status": "False", "reason": "PodCompleted", "lastTransitionTime": now });
        json!({
            "phase": phase, "containerStatuses": containers,
            "conditions": [condition("ContainersReady"), condition("Ready")],
        })
    }
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.annotations()
        .get(&format!("embedded.shipshape.dev/{name}"))
        .map(String::as_str)
}

fn containers(pod: &Pod) -> impl Iterator<Item = (&str, &str)> {
    let containers = pod
        .spec
        .as_ref()
        .map(|spec| spec.containers.as_slice())
        .unwrap_or_default();
    containers.iter().map(|container| {
        (
            container.name.as_str(),
            container.image.as_deref().unwrap_or_default(),
        )
    })
}

fn started(pod: &Pod) -> Option<Time> {
    pod.status.as_ref()?.start_time.clone()
}

/// An address that depends on the name alone.
fn address_of(name: &str) -> String {
    let drawn = crate::seed::Seed::new(0).fork(name).draw().to_be_bytes();
    let [second, third, fourth, ..] = drawn;
    format!("10.{second}.{third}.{fourth}")
}

//! The table of pods.
//!
//! Owns the status word, the ready count and the restarts of a pod, as `kubectl get pods` shows
//! them. Must not decide what a pod's state means to anybody else. Called by `built_in`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::cells::{flag, is_true, list, name, number, text, text_or};

/// The cells of one pod.
pub(crate) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let state = State::of(pod);
    let restarts = match state.last_restart {
        Some(time) if state.restarts != 0 => {
            format!("{} ({} ago)", state.restarts, age::since(time, now))
        }
        _ => state.restarts.to_string(),
    };
    vec![
        name(pod),
        Value::from(format!("{}/{}", state.ready, state.total)),
        Value::from(state.word),
        Value::from(restarts),
        Value::from(age::since_text(
            pod.pointer("/metadata/creationTimestamp"),
            now,
        )),
        Value::from(text_or(pod, "/status/podIPs/0/ip", "<none>")),
        Value::from(text_or(pod, "/spec/nodeName", "<none>")),
        Value::from(text_or(pod, "/status/nominatedNodeName", "<none>")),
        Value::from(readiness_gates(pod)),
    ]
}

/// Marks rows of pods that ended, which kubectl can hide.
pub(crate) fn row_conditions(object: &Value) -> Option<Value> {
    if text(object, "/kind") != "Pod" || text(object, "/apiVersion") != "v1" {
        return None;
    }
    let (reason, message) = match text(object, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| is_true(pod, text(gate, "/conditionType")))
        .count();
    format!("{open}/{}", gates.len())
}

struct State {
    word: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl State {
    fn of(pod: &Value) -> Self {
        let init = list(pod, "/spec/initContainers");
        let sidecars = init
            .iter()
            .filter(|container| is_sidecar(container))
            .count();
        let mut state = Self {
            word: text_or(pod, "/status/reason", text(pod, "/status/phase")).to_owned(),
            ready: 0,
            total: list(pod, "/spec/containers").len() + sidecars,
            restarts: 0,
            last_restart: None,
        };
        let gated = list(pod, "/status/conditions").iter().any(|condition| {
            text(condition, "/type") == "PodScheduled"
                && text(condition, "/reason") == "SchedulingGated"
        });
        if gated {
            "SchedulingGated".clone_into(&mut state.word);
        }
        let initializing = state.count_init(pod, init);
        if !initializing || is_true(pod, "Initialized") {
            state.count_main(pod, init);
        }
        state.end(pod);
        state
    }

    /// Goes through the init containers in order; true when one of them is not done.
    fn count_init(&mut self, pod: &Value, init: &[Value]) -> bool {
        for (index, status) in list(pod, "/status/initContainerStatuses")
            .iter()
            .enumerate()
        {
            self.count_restarts(status);
            let ended = status.pointer("/state/terminated");
            if ended.is_some_and(|ended| number(ended, "/exitCode") == 0) {
                continue;
            }
            if sidecar_of(init, status) && flag(status, "/started") {
                self.ready += usize::from(flag(status, "/ready"));
                continue;
            }
            let waiting = text(status, "/state/waiting/reason");
            self.word = match ended {
                Some(ended) => format!("Init:{}", end_reason(ended)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                None => format!("Init:{index}/{}", init.len()),
            };
            return true;
        }
        false
    }

    /// Goes through the main containers, last to first: the first one decides the word.
    fn count_main(&mut self, pod: &Value, init: &[Value]) {
        self.restarts = 0;
        self.last_restart = None;
        for status in list(pod, "/status/initContainerStatuses") {
            if sidecar_of(init, status) {
                self.count_restarts(status);
            }
        }
        let mut running = false;
        let mut error = None;
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            self.count_restarts(status);
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.word);
            } else if let Some(ended) = status.pointer("/state/terminated") {
                self.word = end_reason(ended);
                if number(ended, "/exitCode") != 0 {
                    error = Some(self.word.clone());
                }
            } else if flag(status, "/ready") && status.pointer("/state/running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.word == "Completed" {
            if running && is_true(pod, "Ready") {
                "Running".clone_into(&mut self.word);
            } else if let Some(error) = error {
                self.word = error;
            } else if running {
                "NotReady".clone_into(&mut self.word);
            }
        }
    }

    fn end(&mut self, pod: &Value) {
        if pod.pointer("/metadata/deletionTimestamp").is_none() {
            return;
        }
        if text(pod, "/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut self.word);
        } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut self.word);
        }
    }

    fn count_restarts(&mut self, status: &Value) {
        self.restarts += number(status, "/restartCount");
        let ended = text(status, "/lastState/terminated/finishedAt");
        if let Ok(time) = ended.parse::<Timestamp>() {
            self.last_restart = self.last_restart.max(Some(time));
        }
    }
}

fn end_reason(ended: &Value) -> String {
    match (text(ended, "/reason"), number(ended, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(ended, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

fn sidecar_of(init: &[Value], status: &Value) -> bool {
    let container = init
        .iter()
        .find(|container| text(container, "/name") == text(status, "/name"));
    container.is_some_and(is_sidecar)
}

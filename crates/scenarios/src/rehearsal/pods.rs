//! The pods of a copy and what brings them back.
//!
//! Pods of a ReplicaSet, or of a controller that is not known here, are created where they are and
//! then adopted by a ReplicaSet; those of a StatefulSet, a DaemonSet or a Job are made anew by theirs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use shipshape_api::names;
use shipshape_engine::view::PodView;

use super::affinity;
use super::copy::number;

/// The label by which a copied owner finds its pods.
const LABEL_COPY: &str = "shipshape.dev/copy-of";

/// What is created for the pods of a cluster.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    pub(super) objects: Vec<Value>,
    pub(super) notes: Vec<String>,
}

/// Copies pods and their owners. `nodes` gives the copy of each node.
pub(super) fn workloads(pods: &[&Pod], nodes: &BTreeMap<String, String>) -> Workloads {
    let mut made = Workloads::default();
    let mut owners: BTreeMap<(String, String, String), Vec<&Pod>> = BTreeMap::new();
    let (mut lost_volumes, mut lost_affinities) = (0, 0);
    for pod in pods {
        let view = PodView::of(pod);
        if view.mirror || view.finished || view.terminating {
            continue;
        }
        let (kind, name) = view.owner.unwrap_or_default();
        if kind != "StatefulSet" && !view.claims.is_empty() {
            lost_volumes += 1;
        }
        lost_affinities += usize::from(affinity::is_partial(pod));
        let key = (view.namespace, kind, name);
        owners.entry(key).or_default().push(pod);
    }
    for ((namespace, kind, name), pods) in &owners {
        let owner = Owner {
            namespace,
            name,
            pods,
            id: format!(
                "{:016x}",
                names::fingerprint(&format!("{namespace}/{kind}/{name}"))
            ),
        };
        made.objects.extend(match kind.as_str() {
            "" => owner.placed(nodes, false),
            "DaemonSet" => vec![owner.daemon_set()],
            "StatefulSet" => vec![owner.stateful_set()],
            "Job" => vec![owner.job()],
            _ => owner.replica_set(nodes),
        });
    }
    if lost_volumes > 0 {
        made.notes.push(format!(
            "{lost_volumes} pod(s) with volumes that no StatefulSet owns have none in the copy"
        ));
    }
    if lost_affinities > 0 {
        made.notes.push(format!(
            "{lost_affinities} pod(s) are placed without regard to their pod affinity, spread \
             constraints or anti-affinity by zone"
        ));
    }
    made
}

/// One owner and its pods.
struct Owner<'a> {
    namespace: &'a str,
    name: &'a str,
    pods: &'a [&'a Pod],
    id: String,
}

impl Owner<'_> {
    fn object(&self, api_version: &str, kind: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": { "name": self.name, "namespace": self.namespace },
            "spec": spec,
        })
    }

    /// The labels that all pods have, and ours.
    fn labels(&self) -> BTreeMap<String, String> {
        let mut pods = self.pods.iter();
        let mut common = pods.next().map(|pod| pod.labels().clone());
        let common = common.get_or_insert_default();
        for pod in pods {
            common.retain(|key, value| pod.labels().get(key) == Some(value));
        }
        common.insert(LABEL_COPY.to_owned(), self.id.clone());
        common.clone()
    }

    fn template(&self) -> Value {
        let spec = self.pods.first().map(|pod| pod_spec(pod));
        json!({ "metadata": { "labels": self.labels() }, "spec": spec })
    }

    fn selector(&self) -> Value {
        json!({ "matchLabels": { LABEL_COPY: self.id } })
    }

    /// The pods themselves, where they are.
    fn placed(&self, nodes: &BTreeMap<String, String>, is_owned: bool) -> Vec<Value> {
        let make = |pod: &&Pod| {
            let mut labels = pod.labels().clone();
            if is_owned {
                labels.insert(LABEL_COPY.to_owned(), self.id.clone());
            }
            let mut spec = pod_spec(pod);
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            if let Some(node) = node.and_then(|node| nodes.get(node)) {
                spec.insert("nodeName".to_owned(), json!(node));
            }
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": pod.name_any(), "namespace": self.namespace, "labels": labels },
                "spec": spec,
            })
        };
        self.pods.iter().map(make).collect()
    }

    fn replica_set(&self, nodes: &BTreeMap<String, String>) -> Vec<Value> {
        let spec = json!({
            "replicas": self.pods.len(),
            "selector": self.selector(),
            "template": self.template(),
        });
        let mut objects = self.placed(nodes, true);
        objects.push(self.object("apps/v1", "ReplicaSet", &spec));
        objects
    }

    fn daemon_set(&self) -> Value {
        let spec = json!({ "selector": self.selector(), "template": self.template() });
        self.object("apps/v1", "DaemonSet", &spec)
    }

    fn stateful_set(&self) -> Value {
        let has_claims = self
            .pods
            .iter()
            .any(|pod| !PodView::of(pod).claims.is_empty());
        let claims = json!([{
            "metadata": { "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "embedded",
                      "resources": { "requests": { "storage": "1Gi" } } },
        }]);
        let spec = json!({
            "replicas": self.pods.len(),
            "serviceName": self.name,
            "selector": self.selector(),
            "template": self.template(),
            "volumeClaimTemplates": if has_claims { claims } else { json!([]) },
        });
        self.object("apps/v1", "StatefulSet", &spec)
    }

    fn job(&self) -> Value {
        let mut template = self.template();
        if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("restartPolicy".to_owned(), json!("Never"));
        }
        let spec = json!({ "parallelism": self.pods.len(), "completions": self.pods.len(),
                           "template": template });
        self.object("batch/v1", "Job", &spec)
    }
}

/// What a pod asks for, and nothing of what it is.
fn pod_spec(pod: &Pod) -> Map<String, Value> {
    let spec = pod.spec.clone().unwrap_or_default();
    let mut copy = Map::new();
    let mut put = |key: &str, value: Value| copy.insert(key.to_owned(), value);
    put(
        "containers",
        json!([{ "name": "copy", "image": "copy", "resources": { "requests": requests(&spec) } }]),
    );
    if let Some(tolerations) = &spec.tolerations {
        put("tolerations", json!(tolerations));
    }
    let selector = spec.node_selector.clone().unwrap_or_default();
    let selector: BTreeMap<String, String> = selector
        .into_iter()
        .filter(|(key, _)| key != affinity::HOST)
        .collect();
    put("nodeSelector", json!(selector));
    if let Some(wanted) = affinity::of(pod) {
        put("affinity", json!(wanted));
    }
    if let Some(grace) = spec.termination_grace_period_seconds {
        put("terminationGracePeriodSeconds", json!(grace));
    }
    let class = spec.priority_class_name.as_deref();
    if let Some(class) = class.filter(|class| class.starts_with("system-")) {
        put("priorityClassName", json!(class));
    }
    if PodView::of(pod).local_data {
        put("volumes", json!([{ "name": "scratch", "emptyDir": {} }]));
    }
    copy
}

/// The sum over all containers.
fn requests(spec: &PodSpec) -> Value {
    let sum = |key: &str| -> f64 {
        let containers = spec.containers.iter();
        let wanted =
            containers.filter_map(|one| one.resources.as_ref()?.requests.as_ref()?.get(key));
        wanted.filter_map(number).sum()
    };
    let millis = (sum("cpu") * 1000.0).round();
    let mebibytes = (sum("memory") / 1_048_576.0).round();
    json!({ "cpu": format!("{millis}m"), "memory": format!("{mebibytes}Mi") })
}

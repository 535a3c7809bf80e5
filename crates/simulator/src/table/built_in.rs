//! Which built-in kind has which table.
//!
//! Owns the column headings. Must not compute cells: `pods`, `workloads`, `cluster` and `services`
//! do. Called by `Layout`.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{name, text};
use super::{CellFn, Column, cluster, pods, services, workloads};

/// Columns and cells of a kind.
pub(crate) fn find(group: &str, kind: &str) -> (Vec<Column>, CellFn) {
    workload(group, kind)
        .or_else(|| core(group, kind))
        .or_else(|| other(group, kind))
        .unwrap_or_else(|| {
            let columns = vec![Column::name(), Column::plain("Created At", "date")];
            (columns, created)
        })
}

fn workload(group: &str, kind: &str) -> Option<(Vec<Column>, CellFn)> {
    let template = ["Containers", "Images", "Selector"];
    Some(match (group, kind) {
        ("", "Pod") => (
            columns(
                &["Ready", "Status", "Restarts", "Age"],
                &["IP", "Node", "Nominated Node", "Readiness Gates"],
            ),
            pods::cells,
        ),
        ("apps", "Deployment") => (
            columns(&["Ready", "Up-to-date", "Available", "Age"], &template),
            workloads::deployment,
        ),
        ("apps", "ReplicaSet") => (
            columns(&["#Desired", "#Current", "#Ready", "Age"], &template),
            workloads::replica_set,
        ),
        ("apps", "StatefulSet") => (
            columns(&["Ready", "Age"], &["Containers", "Images"]),
            workloads::stateful_set,
        ),
        ("apps", "DaemonSet") => (
            columns(
                &[
                    "#Desired",
                    "#Current",
                    "#Ready",
                    "#Up-to-date",
                    "#Available",
                    "Node Selector",
                    "Age",
                ],
                &template,
            ),
            workloads::daemon_set,
        ),
        ("apps", "ControllerRevision") => (
            columns(&["Controller", "Revision", "Age"], &[]),
            workloads::controller_revision,
        ),
        ("batch", "Job") => (
            columns(&["Status", "Completions", "Duration", "Age"], &template),
            workloads::job,
        ),
        ("policy", "PodDisruptionBudget") => (
            columns(
                &[
                    "Min Available",
                    "Max Unavailable",
                    "#Allowed Disruptions",
                    "Age",
                ],
                &[],
            ),
            workloads::disruption_budget,
        ),
        _ => return None,
    })
}

fn core(group: &str, kind: &str) -> Option<(Vec<Column>, CellFn)> {
    Some(match (group, kind) {
        ("", "Node") => (
            columns(
                &["Status", "Roles", "Age", "Version"],
                &[
                    "Internal-IP",
                    "External-IP",
                    "OS-Image",
                    "Kernel-Version",
                    "Container-Runtime",
                ],
            ),
            cluster::node,
        ),
        ("", "Namespace") => (columns(&["Status", "Age"], &[]), cluster::namespace),
        ("", "PersistentVolumeClaim") => (
            columns(
                &[
                    "Status",
                    "Volume",
                    "Capacity",
                    "Access Modes",
                    "StorageClass",
                    "VolumeAttributesClass",
                    "Age",
                ],
                &["VolumeMode"],
            ),
            cluster::claim,
        ),
        ("", "ConfigMap") => (columns(&["Data", "Age"], &[]), cluster::config_map),
        ("", "Secret") => (columns(&["Type", "Data", "Age"], &[]), cluster::secret),
        ("", "ServiceAccount") => (columns(&["Age"], &[]), cluster::named),
        ("", "Service") => (
            columns(
                &["Type", "Cluster-IP", "External-IP", "Port(s)", "Age"],
                &["Selector"],
            ),
            services::cells,
        ),
        ("", "Event") => (event_columns(), cluster::event),
        _ => return None,
    })
}

fn other(group: &str, kind: &str) -> Option<(Vec<Column>, CellFn)> {
    Some(match (group, kind) {
        ("coordination.k8s.io", "Lease") => (columns(&["Holder", "Age"], &[]), cluster::lease),
        ("scheduling.k8s.io", "PriorityClass") => (
            columns(
                &["#Value", "?Global-Default", "Age", "PreemptionPolicy"],
                &[],
            ),
            cluster::priority_class,
        ),
        ("storage.k8s.io", "VolumeAttachment") => (
            columns(&["Attacher", "PV", "Node", "?Attached", "Age"], &[]),
            cluster::volume_attachment,
        ),
        ("storage.k8s.io", "StorageClass") => (
            columns(
                &[
                    "Provisioner",
                    "ReclaimPolicy",
                    "VolumeBindingMode",
                    "AllowVolumeExpansion",
                    "Age",
                ],
                &[],
            ),
            cluster::storage_class,
        ),
        ("rbac.authorization.k8s.io", "ClusterRole" | "Role") => (
            vec![Column::name(), Column::plain("Created At", "date")],
            created,
        ),
        _ => return None,
    })
}

/// Name, then columns that are always shown, then wide ones. `#` marks a whole number, `?` a flag.
fn columns(shown: &[&str], wide: &[&str]) -> Vec<Column> {
    let shown = shown.iter().map(|name| {
        if *name == "Age" {
            return Column::age();
        }
        let (column_type, name) = match (name.strip_prefix('#'), name.strip_prefix('?')) {
            (Some(name), _) => ("integer", name),
            (_, Some(name)) => ("boolean", name),
            _ => ("string", *name),
        };
        Column::plain(name, column_type)
    });
    let wide = wide.iter().map(|name| Column::wide(name));
    std::iter::once(Column::name())
        .chain(shown)
        .chain(wide)
        .collect()
}

/// Events are listed by time and carry their name last.
fn event_columns() -> Vec<Column> {
    let plain = |name| Column::plain(name, "string");
    vec![
        plain("Last Seen"),
        plain("Type"),
        plain("Reason"),
        plain("Object"),
        Column::wide("Subobject"),
        Column::wide("Source"),
        plain("Message"),
        Column::wide("First Seen"),
        Column::wide("Count"),
        Column {
            priority: 1,
            ..Column::name()
        },
    ]
}

fn created(object: &Value, _now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        Value::from(text(object, "/metadata/creationTimestamp")),
    ]
}

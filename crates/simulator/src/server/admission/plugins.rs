//! What admission and preparation add to objects: tolerations, priorities, protection, addresses,
//! first statuses.

use serde_json::{Value, json};

use super::pod;
use crate::{
    schema::FieldError,
    server::{
        crds,
        failure::{Failure, Outcome},
        kinds::{BuiltIn, Kind},
        meta,
        state::State,
    },
};

/// The default admission plugins that touch new objects.
pub(super) fn admit(state: &State, kind: &Kind, value: &mut Value) -> Outcome<()> {
    match kind.built_in() {
        Some(BuiltIn::Namespace) => {
            meta::spec(value).insert("finalizers".into(), json!(["kubernetes"]));
        }
        Some(BuiltIn::Pod) => {
            prioritize(state, kind, value)?;
            pod::add_tolerations(value);
        }
        Some(BuiltIn::Node) => taint_new_node(value),
        Some(BuiltIn::PersistentVolume) => add_finalizer(value, "kubernetes.io/pv-protection"),
        Some(BuiltIn::PersistentVolumeClaim) => {
            add_finalizer(value, "kubernetes.io/pvc-protection");
        }
        _ => {}
    }
    Ok(())
}

fn add_finalizer(value: &mut Value, name: &str) {
    let metadata = meta::metadata(value);
    let list = metadata
        .entry("finalizers")
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|f| f == name)
    {
        list.push(name.into());
    }
}

/// A node is not ready until its kubelet says so.
fn taint_new_node(value: &mut Value) {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    let spec = meta::spec(value);
    let taints = spec
        .entry("taints")
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Some(taints) = taints.as_array_mut()
        && !taints.iter().any(|taint| {
            meta::text(taint, &["key"]) == NOT_READY
                && meta::text(taint, &["effect"]) == "NoSchedule"
        })
    {
        taints.push(json!({ "key": NOT_READY, "effect": "NoSchedule" }));
    }
}

fn prioritize(state: &State, kind: &Kind, value: &mut Value) -> Outcome<()> {
    let class = meta::text(value, &["spec", "priorityClassName"]).to_owned();
    let storage = "priorityclasses.scheduling.k8s.io".into();
    let found = if class.is_empty() {
        state
            .store
            .list(&storage, "")
            .map(|(_, class)| class)
            .find(|class| class.value().get("globalDefault") == Some(&Value::Bool(true)))
    } else {
        state.store.get(&storage, &class)
    };
    if !class.is_empty() && found.is_none() {
        return Err(Failure::forbidden(
            kind,
            meta::meta_text(value, "name"),
            &format!("no PriorityClass with name {class} was found"),
        ));
    }
    let (name, number, policy) = found.map_or((None, 0, "PreemptLowerPriority"), |class| {
        let class = class.value();
        let policy = meta::text(class, &["preemptionPolicy"]);
        (
            Some(meta::meta_text(class, "name").to_owned()),
            meta::number(class, &["value"]).unwrap_or(0),
            if policy.is_empty() {
                "PreemptLowerPriority"
            } else {
                policy
            },
        )
    });
    let policy = Value::from(policy);
    let spec = meta::spec(value);
    if let Some(given) = spec.get("priority").and_then(Value::as_i64)
        && given != number
    {
        return Err(Failure::forbidden(
            kind,
            "",
            &format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {number} from the given PriorityClass name"
            ),
        ));
    }
    spec.insert("priority".into(), number.into());
    meta::default_to(spec, "preemptionPolicy", policy);
    if let Some(name) = name {
        spec.insert("priorityClassName".into(), name.into());
    }
    Ok(())
}

/// What a kind sets on a new object, beyond its status.
pub(crate) fn prepare_create(state: &mut State, kind: &Kind, value: &mut Value) -> Outcome<()> {
    match kind.built_in() {
        Some(BuiltIn::Job) => own_selector(value),
        Some(BuiltIn::DaemonSet) => {
            meta::map_at(meta::metadata(value), "annotations").insert(
                "deprecated.daemonset.template.generation".into(),
                "1".into(),
            );
        }
        Some(BuiltIn::Service) => give_address(state, kind, value)?,
        _ => {}
    }
    Ok(())
}

/// A job selects its pods by its own UID.
fn own_selector(value: &mut Value) {
    if meta::at(value, &["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let uid = meta::meta_text(value, "uid").to_owned();
    let name = meta::meta_text(value, "name").to_owned();
    let spec = meta::spec(value);
    let template = meta::map_at(spec, "template");
    let labels = meta::map_at(meta::map_at(template, "metadata"), "labels");
    for (key, label) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        labels.insert(key.into(), label.clone().into());
    }
    let labels = labels.clone();
    let selector = meta::map_at(spec, "selector");
    meta::map_at(selector, "matchLabels")
        .insert("batch.kubernetes.io/controller-uid".into(), uid.into());
    meta::default_to(meta::metadata(value), "labels", labels);
}

/// A service gets an address of the service network, counted up.
fn give_address(state: &mut State, kind: &Kind, value: &mut Value) -> Outcome<()> {
    let spec = meta::spec(value);
    if spec.get("type") == Some(&json!("ExternalName")) {
        return Ok(());
    }
    let given = spec.get("clusterIP").and_then(Value::as_str).unwrap_or("");
    let address = match given {
        "" => state.next_address(),
        given => given.to_owned(),
    };
    if address != "None" && address.parse::<std::net::IpAddr>().is_err() {
        let name = meta::meta_text(value, "name").to_owned();
        return Err(Failure::invalid(
            kind,
            &name,
            &[FieldError::invalid(
                "spec.clusterIPs[0]",
                &address.into(),
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            )],
        ));
    }
    meta::default_to(spec, "clusterIPs", json!([address]));
    spec.insert("clusterIP".into(), address.into());
    // Whoever names its endpoints itself may have them in both families.
    let both = spec.get("clusterIP") == Some(&json!("None")) && !spec.contains_key("selector");
    let (families, policy) = if both {
        (json!(["IPv4", "IPv6"]), "RequireDualStack")
    } else {
        (json!(["IPv4"]), "SingleStack")
    };
    meta::default_to(spec, "ipFamilies", families);
    meta::default_to(spec, "ipFamilyPolicy", policy);
    Ok(())
}

/// The status a new object starts with, whatever the client sent.
pub(crate) fn first_status(kind: &Kind, value: &mut Value) {
    let status = match kind.built_in() {
        Some(BuiltIn::Namespace) => json!({ "phase": "Active" }),
        Some(BuiltIn::Pod) => json!({ "phase": "Pending", "qosClass": pod::quality(value) }),
        Some(BuiltIn::CustomResourceDefinition) => {
            let status = crds::first_status(value);
            meta::put(meta::as_map(value), "status", Some(status));
            return;
        }
        // A Node may bring its status along: kubelets register that way.
        Some(BuiltIn::Node) => return node_status(value),
        Some(BuiltIn::Service) => json!({ "loadBalancer": {} }),
        Some(BuiltIn::PersistentVolume) => json!({
            "phase": "Pending",
            "lastPhaseTransitionTime": meta::meta_text(value, "creationTimestamp"),
        }),
        Some(BuiltIn::PersistentVolumeClaim) => json!({ "phase": "Pending" }),
        Some(BuiltIn::ReplicaSet) => json!({ "replicas": 0 }),
        Some(BuiltIn::StatefulSet) => json!({ "replicas": 0, "availableReplicas": 0 }),
        Some(BuiltIn::DaemonSet) => json!({
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        }),
        Some(BuiltIn::PodDisruptionBudget) => json!({
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        }),
        Some(BuiltIn::VolumeAttachment) => json!({ "attached": false }),
        Some(_) => json!({}),
        None => {
            meta::put(meta::as_map(value), "status", None);
            return;
        }
    };
    meta::put(meta::as_map(value), "status", Some(status));
}

/// Fields of a node's status that are always written.
fn node_status(value: &mut Value) {
    let status = meta::map_at(meta::as_map(value), "status");
    let endpoint = meta::map_at(meta::map_at(status, "daemonEndpoints"), "kubeletEndpoint");
    meta::default_to(endpoint, "Port", 0);
    let info = meta::map_at(status, "nodeInfo");
    for key in [
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ] {
        meta::default_to(info, key, "");
    }
}

/// What an update may not touch, put back; what follows from it, set.
pub(crate) fn prepare_update(kind: &Kind, old: &Value, new: &mut Value, status_only: bool) {
    if status_only {
        match kind.built_in() {
            Some(BuiltIn::Node) => node_status(new),
            Some(BuiltIn::Pod) => keep_quality(old, new),
            _ => {}
        }
        return;
    }
    match kind.built_in() {
        Some(BuiltIn::Namespace) => {
            let kept = meta::at(old, &["spec", "finalizers"]).cloned();
            meta::put(meta::spec(new), "finalizers", kept);
        }
        Some(BuiltIn::Service) => {
            let address = meta::at(new, &["spec", "clusterIP"]).cloned();
            let listed = meta::at(new, &["spec", "clusterIPs"]);
            let moved = address.is_some() && address.as_ref() != old.pointer("/spec/clusterIP");
            if moved && listed == old.pointer("/spec/clusterIPs") {
                meta::spec(new).insert("clusterIPs".into(), json!([address]));
            }
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if let Some(kept) = meta::at(old, &["spec", key]) {
                    meta::default_to(meta::spec(new), key, kept.clone());
                }
            }
        }
        Some(BuiltIn::Job) => {
            if let Some(kept) = meta::at(old, &["spec", "selector"]) {
                meta::default_to(meta::spec(new), "selector", kept.clone());
            }
        }
        Some(BuiltIn::DaemonSet) => count_template(old, new),
        Some(BuiltIn::Pod) => pod::add_tolerations(new),
        _ => {}
    }
}

/// The quality of service is settled once.
fn keep_quality(old: &Value, new: &mut Value) {
    if let Some(quality) = meta::at(old, &["status", "qosClass"]) {
        let status = meta::map_at(meta::as_map(new), "status");
        meta::default_to(status, "qosClass", quality.clone());
    }
}

/// The generation of a daemon set's template lives on in an annotation.
fn count_template(old: &Value, new: &mut Value) {
    const KEY: &str = "deprecated.daemonset.template.generation";
    let count: i64 = meta::text(old, &["metadata", "annotations", KEY])
        .parse()
        .unwrap_or(0);
    let template = ["spec", "template"];
    let changed = meta::at(old, &template) != meta::at(new, &template);
    let next = if changed { count + 1 } else { count };
    meta::map_at(meta::metadata(new), "annotations").insert(KEY.into(), next.to_string().into());
}

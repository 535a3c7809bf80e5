//! Which settings of the gate make sense: what the API server would refuse of every worker, and what would open or
//! remove the wrong nodes.
//!
//! Owns the bounds and the sentences about what is beyond them: key, value, what would be right. What the checks
//! themselves are told is judged by their own rules, where the file is read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{
    GateSettings, ImageSettings, LabelSettings, NodeManagementSettings, ReconciliationSettings,
    ResourceSettings, VerificationSettings, WorkerSettings,
};
use crate::verify::is_same_taint;
use crate::{quantity, syntax, transfer};

/// Name of a worker's own container.
pub(in crate::verify) const CONTAINER: &str = "verify";
/// Effects of taints.
const EFFECTS: [&str; 3] = ["NoSchedule", "NoExecute", "PreferNoSchedule"];
/// Beginnings of taints that somebody else puts on and takes off.
const FOREIGN_TAINTS: [&str; 4] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node-role.kubernetes.io/",
    "karpenter.sh/",
];
/// What a key of a label or taint looks like.
const KEY: &str = "a key such as node-ready/unverified: up to 63 letters, digits, '-', '_' and '.', after a DNS name and \
                   a slash or neither";
/// What a value of a label or taint looks like.
const VALUE: &str =
    "up to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, or nothing";
/// What most names look like.
const NAME: &str =
    "a name of lower-case letters, digits, '-' and '.', with a letter or digit at both ends";

fn wrong<T>(path: &str, value: &str, right: &str) -> Result<T, String> {
    Err(format!("{path} is {value:?}; right would be {right}"))
}

impl GateSettings {
    /// What is wrong with the settings, with the key and what would be right.
    pub fn check(&self) -> Result<(), String> {
        self.worker.check()?;
        self.reconciliation.check()?;
        self.verification.check()?;
        let (whole, one) = (
            self.verification.deadline_seconds,
            self.worker.job.active_deadline_seconds,
        );
        if whole < one {
            return Err(format!(
                "verification.deadlineSeconds is {whole}, less than the {one} seconds that one attempt may take \
                 (worker.job.activeDeadlineSeconds); give at least {one}, or an attempt less"
            ));
        }
        self.node_management.check()
    }
}

impl ReconciliationSettings {
    fn check(&self) -> Result<(), String> {
        if self.interval_seconds == 0 {
            return Err("reconciliation.intervalSeconds is 0; give at least 1".to_owned());
        }
        if self.max_retries < 1 {
            return Err(format!(
                "reconciliation.maxRetries is {}; give at least 1, which is a single attempt",
                self.max_retries
            ));
        }
        Ok(())
    }
}

impl VerificationSettings {
    fn check(&self) -> Result<(), String> {
        if self.deadline_seconds == 0 {
            return Err("verification.deadlineSeconds is 0; give at least 1".to_owned());
        }
        if self.dns_pods.is_empty() {
            return Err(
                "verification.dnsPods is {}, by which any ready pod would count as a name server; right would be \
                 their labels, such as k8s-app: kube-dns"
                    .to_owned(),
            );
        }
        if !syntax::is_dns_label(&self.dns_namespace) {
            let right = "the name of the namespace of the name servers' pods, such as kube-system";
            return wrong("verification.dnsNamespace", &self.dns_namespace, right);
        }
        for (key, value) in &self.dns_pods {
            if !syntax::is_label_key(key) {
                return wrong("verification.dnsPods", key, KEY);
            }
            if !syntax::is_label_value(value) {
                return wrong(&format!("verification.dnsPods.{key}"), value, VALUE);
            }
        }
        Ok(())
    }
}

impl WorkerSettings {
    fn check(&self) -> Result<(), String> {
        self.image.check()?;
        self.check_names()?;
        self.check_times()?;
        self.resources.check()?;
        for (index, toleration) in self.tolerations.iter().enumerate() {
            check_toleration(&format!("worker.tolerations[{index}]"), toleration)?;
        }
        let containers = &self.init_containers;
        for (index, container) in containers.iter().enumerate() {
            let place = format!("worker.initContainers[{index}]");
            let before = containers.get(..index).unwrap_or_default();
            check_container(&place, container, before)?;
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), String> {
        if let Some(namespace) = &self.namespace
            && !syntax::is_dns_label(namespace)
        {
            let right = "the name of a namespace: up to 63 lower-case letters, digits and '-', with a letter or digit \
                         at both ends; or leave it out";
            return wrong("worker.namespace", namespace, right);
        }
        // An empty class is none, which a cluster may want.
        let class = self.priority_class_name.as_ref();
        for (key, name) in [
            ("serviceAccountName", self.service_account_name.as_ref()),
            ("priorityClassName", class.filter(|name| !name.is_empty())),
            ("configMapName", self.config_map_name.as_ref()),
        ] {
            if let Some(name) = name.filter(|name| !syntax::is_subdomain(name)) {
                let right = format!("{NAME}; or leave it out");
                return wrong(&format!("worker.{key}"), name, &right);
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), String> {
        let deadline = self.job.active_deadline_seconds;
        if deadline < 10 {
            return Err(format!(
                "worker.job.activeDeadlineSeconds is {deadline}; give at least 10"
            ));
        }
        for (key, seconds) in [
            ("timeoutSeconds", self.timeout_seconds),
            ("checkTimeoutSeconds", self.check_timeout_seconds),
        ] {
            if let Some(seconds) = seconds.filter(|seconds| *seconds == 0 || *seconds > deadline) {
                return Err(format!(
                    "worker.{key} is {seconds}; right would be from 1 to {deadline}, which is \
                     worker.job.activeDeadlineSeconds: a worker that has no more time says nothing of what it found"
                ));
            }
        }
        Ok(())
    }
}

impl ImageSettings {
    fn check(&self) -> Result<(), String> {
        for (key, value) in [("repository", &self.repository), ("tag", &self.tag)] {
            if value.is_empty() {
                return Err(format!(
                    "worker.image.{key} is missing; name the image with the shipshape binary"
                ));
            }
        }
        if !syntax::is_repository(&self.repository) {
            let right = "a registry and a name in lower case, without a tag, such as registry.example:5000/shipshape";
            return wrong("worker.image.repository", &self.repository, right);
        }
        if !syntax::is_tag(&self.tag) {
            let right =
                "up to 128 letters, digits, '_', '.' and '-' that begin with none of the last two";
            return wrong("worker.image.tag", &self.tag, right);
        }
        match self.pull_policy.as_deref() {
            None | Some("Always" | "IfNotPresent" | "Never") => Ok(()),
            Some(policy) => wrong(
                "worker.image.pullPolicy",
                policy,
                "Always, IfNotPresent or Never",
            ),
        }
    }
}

impl ResourceSettings {
    fn check(&self) -> Result<(), String> {
        if let Some(limit) = self.limits.get("cpu") {
            return Err(format!(
                "worker.resources.limits.cpu is {:?}; leave it out: a throttled check looks like a slow network",
                limit.0
            ));
        }
        let requests = amounts("worker.resources.requests", &self.requests)?;
        let limits = amounts("worker.resources.limits", &self.limits)?;
        for (name, (amount, text)) in requests {
            if let Some((limit, most)) = limits.get(name)
                && amount > *limit
            {
                let right = format!("at most worker.resources.limits.{name}, which is {most}");
                return wrong(&format!("worker.resources.requests.{name}"), text, &right);
            }
        }
        Ok(())
    }
}

type Amounts<'a> = BTreeMap<&'a str, (i128, &'a str)>;

fn amounts<'a>(place: &str, given: &'a BTreeMap<String, Quantity>) -> Result<Amounts<'a>, String> {
    let mut all = Amounts::new();
    for (name, Quantity(text)) in given {
        if !syntax::is_label_key(name) {
            let right = "the name of a resource, such as memory or nvidia.com/gpu";
            return wrong(place, name, right);
        }
        match quantity::billionths(text) {
            Some(amount) if amount >= 0 => all.insert(name, (amount, text)),
            _ => {
                let right = "an amount from 0 up, such as 50m, 1 or 64Mi";
                return wrong(&format!("{place}.{name}"), text, right);
            }
        };
    }
    Ok(all)
}

fn check_toleration(place: &str, toleration: &Toleration) -> Result<(), String> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (key, value) = (text(&toleration.key), text(&toleration.value));
    let (operator, effect) = (text(&toleration.operator), text(&toleration.effect));
    if !matches!(operator.as_str(), "" | "Equal" | "Exists") {
        return wrong(
            &format!("{place}.operator"),
            &operator,
            "Exists, or Equal with a value",
        );
    }
    if key.is_empty() && operator != "Exists" {
        let right = "the key of a taint, or operator Exists for all of them";
        return wrong(&format!("{place}.key"), &key, right);
    }
    if !key.is_empty() && !syntax::is_label_key(&key) {
        return wrong(&format!("{place}.key"), &key, KEY);
    }
    if operator == "Exists" && !value.is_empty() {
        let right = "no value with operator Exists, or operator Equal";
        return wrong(&format!("{place}.value"), &value, right);
    }
    if !syntax::is_label_value(&value) {
        return wrong(&format!("{place}.value"), &value, VALUE);
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect.as_str()) {
        let right = format!("{}, or nothing for all of them", EFFECTS.join(", "));
        return wrong(&format!("{place}.effect"), &effect, &right);
    }
    if let Some(seconds) = toleration.toleration_seconds
        && effect != "NoExecute"
    {
        return Err(format!(
            "{place}.tolerationSeconds is {seconds}; right would be none, or effect NoExecute beside it"
        ));
    }
    Ok(())
}

fn check_container(place: &str, one: &Container, before: &[Container]) -> Result<(), String> {
    let name = &one.name;
    let at = format!("{place}.name");
    if !syntax::is_dns_label(name) {
        let right =
            "up to 63 lower-case letters, digits and '-', with a letter or digit at both ends";
        return wrong(&at, name, right);
    }
    if name == CONTAINER {
        return wrong(&at, name, "another name: the checks have this one");
    }
    if before.iter().any(|other| other.name == *name) {
        return wrong(&at, name, "a name that no other init container has");
    }
    let image = one.image.as_deref().unwrap_or_default();
    if image.is_empty() || image.contains(char::is_whitespace) {
        let right = "the image to run, such as busybox:1.37";
        return wrong(&format!("{place}.image"), image, right);
    }
    Ok(())
}

impl NodeManagementSettings {
    fn check(&self) -> Result<(), String> {
        let place = "nodeManagement.verifiedLabel";
        let (key, value) = (format!("{place}.key"), format!("{place}.value"));
        check_label(&self.verified_label, [&key, &value])?;
        for (index, taint) in self.taints.iter().enumerate() {
            let place = format!("nodeManagement.taints[{index}]");
            let (key, value) = (format!("{place}.key"), format!("{place}.value"));
            check_taint(taint, [&key, &value, &format!("{place}.effect")])?;
            let before = self.taints.get(..index).unwrap_or_default();
            let Taint { key, effect, .. } = taint;
            if before.iter().any(|other| is_same_taint(other, key, effect)) {
                let right = "named once: a taint is told by key and effect";
                return wrong(&place, &format!("{key}:{effect}"), right);
            }
        }
        let budget = &self.deletion_budget;
        if budget.max_percent_per_hour > 100 {
            return Err(format!(
                "nodeManagement.deletionBudget.maxPercentPerHour is {}; it is a percentage, from 0 to 100",
                budget.max_percent_per_hour
            ));
        }
        Ok(())
    }
}

/// What is wrong with the label of a verified node, whose key and value are called `named` where it was given.
pub fn check_label(label: &LabelSettings, named: [&str; 2]) -> Result<(), String> {
    let ([of_key, of_value], LabelSettings { key, value }) = (named, label);
    if !syntax::is_label_key(key) {
        return wrong(of_key, key, KEY);
    }
    if transfer::is_reserved(key) {
        let right =
            "a label of your own, such as node-ready/verified: this one says what the node is";
        return wrong(of_key, key, right);
    }
    if !syntax::is_label_value(value) {
        return wrong(of_value, value, VALUE);
    }
    Ok(())
}

/// Whether a taint with this key is somebody else's, so that it cannot be the gate's.
pub fn is_foreign_taint(key: &str) -> bool {
    FOREIGN_TAINTS.iter().any(|owned| key.starts_with(owned))
}

/// What is wrong with a taint of the gate, whose key, value and effect are called `named` where it was given.
pub fn check_taint(taint: &Taint, named: [&str; 3]) -> Result<(), String> {
    let [of_key, of_value, of_effect] = named;
    let Taint {
        key, value, effect, ..
    } = taint;
    if !syntax::is_label_key(key) {
        return wrong(of_key, key, KEY);
    }
    if is_foreign_taint(key) {
        let right = "a taint of your own, such as node-ready/unverified: this one belongs to whoever puts it on, and \
                     the gate would lift it";
        return wrong(of_key, key, right);
    }
    let value = value.as_deref().unwrap_or_default();
    if !syntax::is_label_value(value) {
        return wrong(of_value, value, VALUE);
    }
    if !EFFECTS.contains(&effect.as_str()) {
        return Err(format!(
            "{of_effect} is {effect:?}; give NoSchedule, NoExecute or PreferNoSchedule"
        ));
    }
    Ok(())
}

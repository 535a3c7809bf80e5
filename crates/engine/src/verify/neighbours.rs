//! Others who have a say in the gate's taints: rules of node-readiness-controller and pools of Karpenter.
//!
//! Owns the reading of their objects and what follows: a taint that a NodeReadinessRule manages is not ours
//! to lift, and a pool that does not know the taint as a startup taint is worth a warning. Must not conclude
//! anything from what could not be listed.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use super::settings::GateSettings;
use super::{carries, is_gated, settings::Mode};
use crate::selector;
use crate::view::{NodeView, Observed};

/// What Karpenter puts on a node to say which pool it is of.
pub const POOL_LABEL: &str = "karpenter.sh/nodepool";

/// All who have a say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbours {
    /// NodeReadinessRules; absent where the kind is not served.
    pub rules: Observed<Vec<RuleView>>,
    /// Karpenter's NodePools; absent where the kind is not served.
    pub pools: Observed<Vec<PoolView>>,
}

/// A NodeReadinessRule, as far as the gate reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleView {
    /// Name.
    pub name: String,
    /// Key of the taint that it manages.
    pub key: String,
    /// Its nodes; `None` when that could not be read, so that any may be its.
    pub selector: Option<LabelSelector>,
    /// Whether it only looks.
    pub dry_run: bool,
}

impl RuleView {
    /// Reads a rule.
    pub fn of(name: &str, object: &Value) -> Self {
        let text = |place: &str| object.pointer(place).and_then(Value::as_str);
        let selector = object.pointer("/spec/nodeSelector").cloned();
        let selector = selector.unwrap_or_else(|| Value::Object(serde_json::Map::default()));
        Self {
            name: name.to_owned(),
            key: text("/spec/taint/key").unwrap_or_default().to_owned(),
            selector: serde_json::from_value(selector).ok(),
            dry_run: object.pointer("/spec/dryRun") == Some(&Value::Bool(true)),
        }
    }

    fn manages(&self, taint: &Taint, node: &NodeView) -> bool {
        let selects = |selector: &LabelSelector| selector::matches(selector, &node.labels);
        let is_its = self.selector.as_ref().map(selects);
        // What cannot be understood may well select the node.
        let is_its = is_its.is_none_or(|answer| answer.unwrap_or(true));
        !self.dry_run && self.key == taint.key && is_its
    }
}

/// A NodePool of Karpenter, as far as the gate reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Name.
    pub name: String,
    /// Keys of the taints that its nodes have for good.
    pub taints: Vec<String>,
    /// Keys of the taints that somebody will lift.
    pub startup_taints: Vec<String>,
}

impl PoolView {
    /// Reads a pool.
    pub fn of(name: &str, object: &Value) -> Self {
        let keys = |list: &str| -> Vec<String> {
            let place = format!("/spec/template/spec/{list}");
            let taints = object.pointer(&place).and_then(Value::as_array);
            let keys = taints.into_iter().flatten();
            keys.filter_map(|taint| taint.get("key")?.as_str().map(str::to_owned))
                .collect()
        };
        Self {
            name: name.to_owned(),
            taints: keys("taints"),
            startup_taints: keys("startupTaints"),
        }
    }
}

/// Which of the gate's taints it may lift from a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Ownership {
    /// Nobody could tell whose they are, and why.
    Unknown(String),
    /// Those that are ours, and what is to be said of those that are not.
    Known {
        /// Taints that the gate may lift.
        ours: Vec<Taint>,
        /// What the node waits for besides, where a rule manages a taint that it carries.
        theirs: Option<String>,
    },
}

/// Whose the gate's taints on a node are.
pub fn ownership(
    node: &NodeView,
    rules: &Observed<Vec<RuleView>>,
    settings: &GateSettings,
) -> Ownership {
    let gates = &settings.node_management.taints;
    let none = Vec::new();
    let rules = match rules {
        Observed::Present(rules) => rules,
        Observed::Absent => &none,
        // There is nothing to lift, so it does not matter.
        Observed::Unknown(_) | Observed::NotAsked if !is_gated(node, settings) => &none,
        Observed::Unknown(why) => return Ownership::Unknown(why.clone()),
        Observed::NotAsked => return Ownership::Unknown("nobody has asked yet".to_owned()),
    };
    let owner = |taint: &Taint| rules.iter().find(|rule| rule.manages(taint, node));
    let mut carried = gates.iter().filter(|taint| carries(node, taint));
    let theirs = carried
        .find_map(|taint| Some((taint, owner(taint)?)))
        .map(|(taint, rule)| {
            format!(
                "NodeReadinessRule {} to lift taint {}, which it manages",
                rule.name, taint.key
            )
        });
    let ours = gates.iter().filter(|taint| owner(taint).is_none());
    Ownership::Known {
        ours: ours.cloned().collect(),
        theirs,
    }
}

/// Whether it must be known whose the taints are.
pub fn are_rules_needed(node: &NodeView, settings: &GateSettings) -> bool {
    settings.verification.mode == Mode::Gate && is_gated(node, settings)
}

/// What is wrong with the way in which Karpenter brought the node its taint.
pub fn complaint(
    node: &NodeView,
    pools: &Observed<Vec<PoolView>>,
    settings: &GateSettings,
) -> Option<String> {
    let name = node.labels.get(POOL_LABEL)?;
    let pool = pools.present()?.iter().find(|pool| pool.name == *name)?;
    let keys = || {
        settings
            .node_management
            .taints
            .iter()
            .map(|taint| &taint.key)
    };
    if let Some(key) = keys().find(|key| pool.taints.contains(key)) {
        return Some(format!(
            "NodePool {name} declares {key} under spec.template.spec.taints, so Karpenter brings its nodes only for \
             pods that tolerate it; right would be spec.template.spec.startupTaints"
        ));
    }
    let is_carried = |key: &&String| node.taints.iter().any(|taint| taint.key == **key);
    let key = keys().find(|key| is_carried(key) && !pool.startup_taints.contains(key))?;
    Some(format!(
        "the node carries {key}, which NodePool {name} does not list in spec.template.spec.startupTaints, so \
         Karpenter takes the node for unusable and may bring another"
    ))
}

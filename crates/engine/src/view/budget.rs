//! What a decision needs to know of a disruption budget.
//!
//! Owns the reading of a PodDisruptionBudget. Must not judge a pod: who is guarded is the drain's
//! business.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::text;

/// What a budget demands, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetLimit {
    /// So many pods must stay, as a number or a percentage.
    MinAvailable(String),
    /// So many pods may be away, as a number or a percentage.
    MaxUnavailable(String),
}

/// A disruption budget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BudgetView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Which pods it guards; `None` guards none.
    pub selector: Option<LabelSelector>,
    /// How many pods may go now; zero while its status is older than its spec.
    pub allowed: i32,
    /// Healthy pods now.
    pub healthy: i32,
    /// Healthy pods that must stay.
    pub desired: i32,
    /// Pods that it counts; zero when its status is older than its spec.
    pub expected: i32,
    /// What it demands.
    pub limit: Option<BudgetLimit>,
    /// Whether pods that are not ready may always go.
    pub spares_unhealthy: bool,
}

impl BudgetView {
    /// Reads a PodDisruptionBudget.
    pub fn of(budget: &PodDisruptionBudget) -> Self {
        let status = budget.status.as_ref();
        let is_current = status
            .and_then(|status| status.observed_generation)
            .unwrap_or_default()
            >= budget.metadata.generation.unwrap_or_default();
        let status = status.filter(|_| is_current);
        let spec = budget.spec.as_ref();
        let written = |value: &IntOrString| match value {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(text) => text.clone(),
        };
        let least = spec.and_then(|spec| spec.min_available.as_ref());
        let most = spec.and_then(|spec| spec.max_unavailable.as_ref());
        Self {
            namespace: text(budget.metadata.namespace.as_ref()),
            name: text(budget.metadata.name.as_ref()),
            selector: spec.and_then(|spec| spec.selector.clone()),
            allowed: status.map_or(0, |status| status.disruptions_allowed),
            healthy: status.map_or(0, |status| status.current_healthy),
            desired: status.map_or(0, |status| status.desired_healthy),
            expected: status.map_or(0, |status| status.expected_pods),
            limit: least
                .map(|value| BudgetLimit::MinAvailable(written(value)))
                .or(most.map(|value| BudgetLimit::MaxUnavailable(written(value)))),
            spares_unhealthy: spec.and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref())
                == Some("AlwaysAllow"),
        }
    }

    /// Whether it has as many healthy pods as it demands, so that one that is not healthy costs
    /// nothing.
    pub fn is_satisfied(&self) -> bool {
        self.desired > 0 && self.healthy >= self.desired
    }

    /// Whether it cannot have room even when all its pods are healthy.
    pub fn is_hopeless(&self) -> bool {
        let by_status = self.expected > 0 && self.desired >= self.expected;
        let by_spec = match &self.limit {
            Some(BudgetLimit::MaxUnavailable(most)) => most == "0" || most == "0%",
            Some(BudgetLimit::MinAvailable(least)) => least == "100%",
            None => false,
        };
        by_status || by_spec
    }

    /// What it demands, in words.
    pub fn demand(&self) -> String {
        let limit = match &self.limit {
            Some(BudgetLimit::MinAvailable(least)) => format!("minAvailable {least}"),
            Some(BudgetLimit::MaxUnavailable(most)) => format!("maxUnavailable {most}"),
            None => "no limit".to_owned(),
        };
        if self.expected > 0 {
            format!("{limit}, with {} pod(s) in all", self.expected)
        } else {
            limit
        }
    }
}

//! What the stores keep of budgets and claims.
//!
//! Owns the reading of these two kinds. Must not judge: the drain does.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use shipshape_cluster::Key;
use shipshape_cluster::store::{Fields, Kept};
use shipshape_engine::view::BudgetView;

/// What a drain reads of a budget, and whom it has paid for.
#[derive(Debug)]
pub(crate) struct KeptBudget {
    pub(crate) view: BudgetView,
    /// Names of pods that are on their way out at its cost.
    pub(crate) charged: BTreeSet<String>,
}

impl Kept for KeptBudget {}

impl KeptBudget {
    pub(crate) fn of(budget: PodDisruptionBudget) -> Self {
        let view = BudgetView::of(&budget);
        let charged = budget.status.and_then(|status| status.disrupted_pods);
        Self {
            view,
            charged: charged.unwrap_or_default().into_keys().collect(),
        }
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(&self.view.namespace, &self.view.name)
    }

    /// Whether it guards other pods than before, or by other rules.
    pub(crate) fn has_other_rules(&self, before: &Self) -> bool {
        let rules = |it: &Self| {
            let view = &it.view;
            (
                view.selector.clone(),
                view.limit.clone(),
                view.spares_unhealthy,
            )
        };
        rules(self) != rules(before)
    }
}

/// What a drain reads of a claim.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) key: Key,
    /// Name of the volume that it is bound to, or the empty string.
    pub(crate) volume: String,
}

impl Kept for Claim {
    const FIELDS: Fields = &[
        (
            "PersistentVolumeClaim",
            &["apiVersion", "kind", "metadata", "spec"],
        ),
        ("PersistentVolumeClaimSpec", &["volumeName"]),
    ];
}

impl Claim {
    pub(crate) fn of(claim: PersistentVolumeClaim) -> Self {
        Self {
            key: Key::of(&claim),
            volume: claim
                .spec
                .and_then(|spec| spec.volume_name)
                .unwrap_or_default(),
        }
    }
}

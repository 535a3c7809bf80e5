//! Observe: the Deployments of the cluster autoscaler, while a run holds them or gives them back.
//!
//! Owns when they are looked for, always live, and who else holds them. Must not change any.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use shipshape_api::NodePatchRun;
use shipshape_api::names::{ANNOTATION_ORIGINAL_REPLICAS, LABEL_HELD_BY};
use shipshape_api::node_patch_run::{AutoscalerControl, AutoscalerRecord};
use shipshape_cluster::deployment;
use shipshape_cluster::error::in_full;
use shipshape_engine::autoscaler::{DeploymentView, selector};
use shipshape_engine::run::is_over;
use shipshape_engine::view::Observed;

use crate::context::Context;

/// When each run last saw to it that what it holds is still held. A restart looks at once.
#[derive(Clone, Default)]
pub(crate) struct Looks(Arc<Mutex<BTreeMap<String, Timestamp>>>);

impl Looks {
    /// Whether a look is due; it counts as taken then.
    fn is_due(&self, run_uid: &str, context: &Context) -> bool {
        let now = context.clock.now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |at: &Timestamp| now.duration_since(*at) >= context.settings.resync;
        let is_due = last.get(run_uid).is_none_or(is_old);
        if is_due {
            last.retain(|_, at| !is_old(at));
            last.insert(run_uid.to_owned(), now);
        }
        is_due
    }
}

/// Which Deployments a look is for.
#[derive(Debug, PartialEq)]
enum Wanted<'a> {
    /// None: nothing is asked.
    Nothing,
    /// Those that the spec selects, before any is recorded.
    Selected(&'a AutoscalerControl),
    /// Those that the run has recorded, whatever its spec has come to say: they are what it must give back.
    Recorded(&'a AutoscalerRecord),
}

/// Looks for them when the run is about to hold them or has nothing left but to give them back, and now and
/// then in between, because somebody may have let them go.
pub(super) async fn look(
    context: &Context,
    run: &NodePatchRun,
    is_ending: bool,
) -> Observed<Vec<DeploymentView>> {
    let uid = run.metadata.uid.as_deref().unwrap_or_default();
    let is_due = || context.autoscaler_looks.is_due(uid, context);
    let client = context.client.clone();
    let found = match wanted(run, is_ending, is_due) {
        Wanted::Nothing => return Observed::NotAsked,
        Wanted::Recorded(record) => {
            let places = record.targets.iter();
            let places = places.map(|one| (one.namespace.as_str(), one.name.as_str()));
            deployment::named(client, places).await
        }
        Wanted::Selected(control) => {
            // Without a selector that says something none is meant, not every Deployment of the cluster.
            let Some(selector) = selector(control) else {
                return Observed::Present(Vec::new());
            };
            let namespace = control.namespace.as_deref().filter(|name| !name.is_empty());
            deployment::find(client, namespace, &text(selector)).await
        }
    };
    match found {
        Ok(found) => Observed::Present(found.iter().map(view).collect()),
        Err(error) => Observed::Unknown(in_full(&error)),
    }
}

fn wanted(run: &NodePatchRun, is_ending: bool, is_due: impl FnOnce() -> bool) -> Wanted<'_> {
    let control = run.spec.autoscaler_control.as_ref();
    let status = run.status.as_ref();
    let record = status.and_then(|status| status.autoscaler.as_ref());
    let is_marked = status.is_some_and(|status| status.marked == Some(true));
    let control = control.filter(|control| control.scales_to_zero() && is_marked);
    match record {
        None => control.map_or(Wanted::Nothing, Wanted::Selected),
        Some(record) => {
            let is_held = record.scaled_down || record.targets.is_empty();
            let is_starting = control.is_some() && !is_held;
            if is_starting || is_ending || (record.scaled_down && is_due()) {
                Wanted::Recorded(record)
            } else {
                Wanted::Nothing
            }
        }
    }
}

/// Deployments that other runs than this one, not yet over, have recorded.
pub(crate) fn held_by_others(context: &Context, run_uid: &str) -> Vec<(String, String)> {
    let runs = context.stores.runs.list();
    let others = runs
        .iter()
        .filter(|other| other.metadata.uid.as_deref() != Some(run_uid))
        .filter_map(|other| other.status.as_ref())
        .filter(|status| !is_over(status));
    others
        .filter_map(|status| status.autoscaler.as_ref())
        .filter(|record| record.scaled_down)
        .flat_map(|record| &record.targets)
        .map(|target| (target.namespace.clone(), target.name.clone()))
        .collect()
}

/// A Deployment as a decision sees it.
pub(crate) fn view(found: &Deployment) -> DeploymentView {
    let notes = found.annotations();
    DeploymentView {
        namespace: found.namespace().unwrap_or_default(),
        name: found.name_any(),
        replicas: found
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1),
        saved: notes
            .get(ANNOTATION_ORIGINAL_REPLICAS)
            .and_then(|text| text.parse().ok()),
        held_by: found.labels().get(LABEL_HELD_BY).cloned(),
    }
}

/// A selector as a query writes it.
fn text(selector: &LabelSelector) -> String {
    let exact = selector.match_labels.iter().flatten();
    let exact = exact.map(|(key, value)| format!("{key}={value}"));
    let rules = selector.match_expressions.iter().flatten().map(|rule| {
        let values = rule.values.clone().unwrap_or_default().join(",");
        match rule.operator.as_str() {
            "In" => format!("{} in ({values})", rule.key),
            "NotIn" => format!("{} notin ({values})", rule.key),
            "DoesNotExist" => format!("!{}", rule.key),
            _ => rule.key.clone(),
        }
    });
    exact.chain(rules).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
    use shipshape_api::node_patch_run::AutoscalerTarget;

    use super::*;

    #[test]
    fn what_is_recorded_is_looked_at_whatever_the_spec_has_come_to_say() {
        let never = || false;
        let mut run = NodePatchRun::default();
        run.status.get_or_insert_default().marked = Some(true);
        assert_eq!(wanted(&run, true, never), Wanted::Nothing);
        run.spec.autoscaler_control = Some(AutoscalerControl {
            enabled: Some(true),
            ..AutoscalerControl::default()
        });
        assert!(matches!(wanted(&run, false, never), Wanted::Selected(_)));
        let held = AutoscalerRecord {
            scaled_down: true,
            targets: vec![AutoscalerTarget::default()],
        };
        run.status.get_or_insert_default().autoscaler = Some(held.clone());
        for control in [run.spec.autoscaler_control.clone(), None] {
            run.spec.autoscaler_control = control;
            assert_eq!(wanted(&run, true, never), Wanted::Recorded(&held));
            assert_eq!(wanted(&run, false, || true), Wanted::Recorded(&held));
            assert_eq!(wanted(&run, false, never), Wanted::Nothing);
        }
    }

    #[test]
    fn a_selector_is_written_as_a_query() {
        let rule = |operator: &str, values: &[&str]| LabelSelectorRequirement {
            key: "tier".to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
        };
        let selector = LabelSelector {
            match_labels: Some([("app".to_owned(), "ca".to_owned())].into()),
            match_expressions: Some(vec![
                rule("In", &["a", "b"]),
                rule("NotIn", &["c"]),
                rule("Exists", &[]),
                rule("DoesNotExist", &[]),
            ]),
        };
        assert_eq!(
            text(&selector),
            "app=ca,tier in (a,b),tier notin (c),tier,!tier"
        );
    }
}

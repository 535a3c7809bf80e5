//! The cluster autoscaler, held off while a run is under way.
//!
//! Owns what is saved, what is changed and what is put back. The replica count is saved once, in the
//! run's status and on the Deployment itself, before it is changed, and a saved value is never
//! replaced by a changed one. Must not decide when a run begins or ends. Called by `run`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use shipshape_api::node_patch_run::{AutoscalerControl, AutoscalerRecord, AutoscalerTarget};

use crate::decision::Effect;

/// A Deployment of an autoscaler, as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeploymentView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Replicas that are asked for.
    pub replicas: i32,
    /// The count that was saved on it, if it is held.
    pub saved: Option<i32>,
    /// UID of the run that holds it, if it is held.
    pub held_by: Option<String>,
}

/// What is still to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// Nothing: it is as it shall be.
    Done,
    /// The record must be stored before anything is changed.
    Record(AutoscalerRecord),
    /// These changes are missing.
    Change(Vec<Effect>),
}

/// What selects the Deployments, if anything does. An empty selector would take every Deployment of the
/// cluster: the schema refuses it, and where a run has one all the same, none is meant.
pub fn selector(control: &AutoscalerControl) -> Option<&LabelSelector> {
    let selector = control.deployment_selector.as_ref();
    selector.filter(|selector| {
        let mut labels = selector.match_labels.iter().flatten();
        let mut rules = selector.match_expressions.iter().flatten();
        labels.next().is_some() || rules.next().is_some()
    })
}

/// The way to a held autoscaler. `run` is UID and `namespace/name`.
pub fn hold(
    run: (&str, &str),
    record: Option<&AutoscalerRecord>,
    found: &[DeploymentView],
    now: Timestamp,
) -> Move {
    let Some(record) = record else {
        let targets = found.iter().map(|one| AutoscalerTarget {
            namespace: one.namespace.clone(),
            name: one.name.clone(),
            // A count that somebody has saved is the original; the present one is only its hold.
            original_replicas: one.saved.unwrap_or(one.replicas),
            last_scaled_at: Some(Time(now)),
        });
        return Move::Record(AutoscalerRecord {
            scaled_down: false,
            targets: targets.collect(),
        });
    };
    let missing = record.targets.iter().filter_map(|target| {
        let live = find(found, target)?;
        let is_held = live.replicas == 0 && live.saved.is_some() && live.held_by.is_some();
        (!is_held).then(|| Effect::HoldDeployment {
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            original: target.original_replicas,
            holder: run.0.to_owned(),
            run: run.1.to_owned(),
        })
    });
    changes(missing.collect())
}

/// The way back to an autoscaler that is as it was. Targets that another run holds stay held.
pub fn restore(
    control: Option<&AutoscalerControl>,
    record: &AutoscalerRecord,
    found: &[DeploymentView],
    shared: &[(String, String)],
) -> Move {
    let forces = control.is_none_or(AutoscalerControl::force_restore);
    let missing = record.targets.iter().filter_map(|target| {
        let live = find(found, target)?;
        let place = (target.namespace.clone(), target.name.clone());
        let is_free = live.held_by.is_none() && live.saved.is_none();
        if is_free || shared.contains(&place) {
            return None;
        }
        let was_changed = live.replicas != 0;
        Some(Effect::ReleaseDeployment {
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            replicas: (forces || !was_changed).then_some(target.original_replicas),
        })
    });
    changes(missing.collect())
}

/// Targets that somebody has let go while they were to be held, with the replicas that they have now. One
/// that is gone is nobody's doing.
pub fn released(record: &AutoscalerRecord, found: &[DeploymentView]) -> Vec<(String, i32)> {
    let targets = record.targets.iter();
    let live = targets.filter_map(|target| Some((target, find(found, target)?)));
    live.filter(|(_, live)| live.replicas != 0)
        .map(|(target, live)| (name_of(target), live.replicas))
        .collect()
}

/// How the targets stand when nothing is left to put back.
pub fn left_as(
    record: &AutoscalerRecord,
    found: &[DeploymentView],
    shared: &[(String, String)],
) -> String {
    let odd = record.targets.iter().filter_map(|target| {
        let name = name_of(target);
        let Some(live) = find(found, target) else {
            return Some(format!("{name} is gone"));
        };
        let place = (target.namespace.clone(), target.name.clone());
        if shared.contains(&place) {
            return Some(format!("{name} stays held for another run"));
        }
        (live.replicas != target.original_replicas).then(|| {
            format!(
                "{name} keeps the {} replica(s) that somebody gave it, its own count was {}",
                live.replicas, target.original_replicas
            )
        })
    });
    let odd: Vec<String> = odd.collect();
    if odd.is_empty() {
        "the autoscaler has its own replica count again".to_owned()
    } else {
        odd.join("; ")
    }
}

/// A target as people know it.
pub(crate) fn name_of(target: &AutoscalerTarget) -> String {
    format!("{}/{}", target.namespace, target.name)
}

fn changes(effects: Vec<Effect>) -> Move {
    if effects.is_empty() {
        Move::Done
    } else {
        Move::Change(effects)
    }
}

fn find<'a>(found: &'a [DeploymentView], target: &AutoscalerTarget) -> Option<&'a DeploymentView> {
    found
        .iter()
        .find(|one| one.namespace == target.namespace && one.name == target.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_that_says_nothing_selects_no_deployment() {
        let selects = |text: serde_json::Value| {
            let control: AutoscalerControl = serde_json::from_value(text).unwrap();
            selector(&control).is_some()
        };
        let rule = serde_json::json!([{"key": "app", "operator": "Exists"}]);
        let table = [
            (serde_json::json!({}), false),
            (serde_json::json!({"deploymentSelector": {}}), false),
            (
                serde_json::json!({"deploymentSelector": {"matchLabels": {}, "matchExpressions": []}}),
                false,
            ),
            (
                serde_json::json!({"deploymentSelector": {"matchLabels": {"app": "ca"}}}),
                true,
            ),
            (
                serde_json::json!({"deploymentSelector": {"matchExpressions": rule}}),
                true,
            ),
        ];
        for (control, is_some) in table {
            assert_eq!(selects(control.clone()), is_some, "{control}");
        }
    }

    fn live(replicas: i32, saved: Option<i32>) -> DeploymentView {
        DeploymentView {
            namespace: "kube-system".to_owned(),
            name: "autoscaler".to_owned(),
            replicas,
            saved,
            held_by: saved.map(|_| "run".to_owned()),
        }
    }

    fn record(original: i32) -> AutoscalerRecord {
        AutoscalerRecord {
            scaled_down: false,
            targets: vec![AutoscalerTarget {
                namespace: "kube-system".to_owned(),
                name: "autoscaler".to_owned(),
                original_replicas: original,
                last_scaled_at: None,
            }],
        }
    }

    fn saved(step: Move) -> i32 {
        let Move::Record(record) = step else {
            panic!("{step:?}")
        };
        record.targets[0].original_replicas
    }

    #[test]
    fn the_original_is_recorded_first_and_a_held_count_is_never_taken_for_it() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(
            saved(hold(("run", "ns/run"), None, &[live(2, None)], now)),
            2
        );
        assert_eq!(
            saved(hold(("run", "ns/run"), None, &[live(0, Some(2))], now)),
            2
        );
    }

    #[test]
    fn it_is_held_once_and_then_left_alone() {
        let now = Timestamp::UNIX_EPOCH;
        let step = hold(("run", "ns/run"), Some(&record(2)), &[live(2, None)], now);
        assert!(
            matches!(&step, Move::Change(effects) if effects.len() == 1),
            "{step:?}"
        );
        let step = hold(
            ("run", "ns/run"),
            Some(&record(2)),
            &[live(0, Some(2))],
            now,
        );
        assert_eq!(step, Move::Done);
        assert_eq!(
            hold(("run", "ns/run"), Some(&record(2)), &[], now),
            Move::Done,
            "gone"
        );
    }

    #[test]
    fn it_gets_its_own_count_back_unless_somebody_changed_it_and_the_run_respects_that() {
        let gives = |control: Option<&AutoscalerControl>, live: DeploymentView| {
            let Move::Change(effects) = restore(control, &record(2), &[live], &[]) else {
                return None;
            };
            let Some(Effect::ReleaseDeployment { replicas, .. }) = effects.first() else {
                return None;
            };
            Some(*replicas)
        };
        let respects = AutoscalerControl {
            force_restore: Some(false),
            ..AutoscalerControl::default()
        };
        assert_eq!(gives(None, live(0, Some(2))), Some(Some(2)));
        assert_eq!(gives(None, live(5, Some(2))), Some(Some(2)));
        assert_eq!(gives(Some(&respects), live(5, Some(2))), Some(None));
        assert_eq!(gives(Some(&respects), live(0, Some(2))), Some(Some(2)));
        assert_eq!(gives(None, live(2, None)), None, "already given back");
    }

    #[test]
    fn what_another_run_holds_too_stays_held() {
        let shared = [("kube-system".to_owned(), "autoscaler".to_owned())];
        let step = restore(None, &record(2), &[live(0, Some(2))], &shared);
        assert_eq!(step, Move::Done);
    }
}

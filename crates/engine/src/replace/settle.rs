//! Between join and drain, and between drain and removal: labels and the important pods.
//!
//! Each function says when its step is entered, when it is left and what it may ask for.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::{LABELS_TRANSFERRED, STABLE};
use shipshape_api::node_patch_task::TaskStep;

use super::draft::{Draft, Milestone};
use super::facts::{node_target, recorded_new_node};
use super::{leave, order, unseen};
use crate::decision::{Effect, Notice};
use crate::span::{self, NotASpan};
use crate::transfer;

/// Unstable pods that a sentence names.
const NAMED_MAX: usize = 3;

/// Entered when the new node is ready and the run moves labels. Left when it has them. Asks for the
/// missing ones only.
pub(super) fn transfer(draft: &mut Draft<'_>) {
    let Some(node) = recorded_new_node(draft) else {
        return;
    };
    let Some(lists) = draft.snapshot.task.spec.label_transfer.clone() else {
        return draft.enter(order::after_transfer(draft));
    };
    let wanted = draft.status.labels.clone().unwrap_or_default().add;
    let delta = transfer::delta(&lists, &wanted, &node.labels);
    if !delta.is_done() {
        draft.effect(Effect::EnsureLabels {
            node: node_target(draft, &node),
            add: delta.add,
            remove: delta.remove,
        });
        return draft.wait_as_usual(None);
    }
    let refused = transfer::refused(&lists);
    if !refused.is_empty() {
        let message = format!(
            "spec.labelTransfer: {} belong to the kubelet or the cloud and are never copied",
            refused.join(", ")
        );
        draft.notice(Notice::warning("ReservedLabels", message));
    }
    let kept = match delta.kept.as_slice() {
        [] => String::new(),
        keys => format!("; it keeps its own {}", keys.join(", ")),
    };
    let message = format!(
        "node {} has {} label(s) of the old node{kept}",
        node.name,
        wanted.len()
    );
    let next = order::after_transfer(draft);
    draft.advance(
        next,
        Milestone {
            condition: LABELS_TRANSFERRED,
            reason: "LabelsTransferred",
            message,
        },
    );
}

/// How long the important pods must be stable for this task; `None` when the gate is off.
pub(super) fn gate(draft: &Draft<'_>) -> Result<Option<SignedDuration>, NotASpan> {
    let spec = &draft.snapshot.task.spec;
    let Some(stability) = &spec.stability else {
        return Ok(None);
    };
    let is_off = spec.important_pod_selectors.is_empty()
        || (stability.important_only() && !spec.important());
    if is_off {
        return Ok(None);
    }
    let span = span::parse(stability.stable_for.as_deref())?;
    Ok(Some(span).filter(|span| !span.is_zero()))
}

/// Entered before the drain. Left when the important pods have been ready long enough. Asks for
/// nothing.
pub(super) fn settle(draft: &mut Draft<'_>) {
    wait_for_stability(draft, TaskStep::Cordon);
}

/// Entered after the drain. Left when the important pods are at home elsewhere. Asks for nothing.
pub(super) fn recover(draft: &mut Draft<'_>) {
    if unseen::is_showing(draft) {
        return draft.enter(TaskStep::Remove);
    }
    wait_for_stability(draft, order::before_removal(draft));
}

fn wait_for_stability(draft: &mut Draft<'_>, next: TaskStep) {
    let span = match gate(draft) {
        Ok(span) => span.unwrap_or_default(),
        Err(error) => {
            return draft.fail(
                "InvalidStability",
                format!("spec.stability.stableFor: {error}"),
            );
        }
    };
    let Ok(unstable) = draft.look(&draft.snapshot.unstable, "how the important pods fare") else {
        return;
    };
    let unstable = unstable.unwrap_or_default();
    if !unstable.is_empty() {
        let note = note(&unstable);
        draft.status.stable_since = None;
        draft.status.stability_note = Some(note.clone());
        return draft.wait(note, None);
    }
    draft.status.stability_note = None;
    let since = draft.status.stable_since.get_or_insert(Time(draft.now)).0;
    let stable_for = draft.now.duration_since(since);
    if stable_for < span {
        let until = since.checked_add(span).unwrap_or(draft.now);
        let reason = format!("the important pods to be stable until {until:.0}");
        return draft.wait(reason, Some(span - stable_for));
    }
    if draft.status.step_name() == TaskStep::Recover && leave::is_left_to_group(draft) {
        return;
    }
    draft.advance(
        next,
        Milestone {
            condition: STABLE,
            reason: "ImportantPodsStable",
            message: format!("the important pods have been ready for {span:#}"),
        },
    );
}

fn note(unstable: &[String]) -> String {
    let named: Vec<&str> = unstable
        .iter()
        .take(NAMED_MAX)
        .map(String::as_str)
        .collect();
    let more = match unstable.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("important pods to be ready: {}{more}", named.join(", "))
}

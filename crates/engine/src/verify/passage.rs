//! How a node stands at the gate, for those who wait for it and are not the gate.
//!
//! Owns the reading of a node's record by others: whether pods may land on the node, whether they ever will.
//! Must not believe a label or a condition, which a kubelet may have set itself.

use shipshape_api::{PendingNode, VerificationVerdict};

use super::settings::{GateSettings, Mode};
use super::{is_gated, is_new_to_us};
use crate::view::NodeView;

/// How a node stands at the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Passage {
    /// It is through, or the gate has nothing to do with it.
    #[default]
    Open,
    /// It is not through yet.
    Shut {
        /// What is waited for.
        why: String,
        /// Whether the gate itself sees to it that this ends, or the cause lies elsewhere.
        is_bounded: bool,
    },
    /// It will not get through on this boot, and why.
    Failed(String),
}

/// How a node stands at the gate, by its own record. A gate that only looks keeps nobody waiting, but its taint
/// keeps pods away: whoever has put it there must lift it.
pub fn passage(
    node: &NodeView,
    record: Option<&PendingNode>,
    settings: Option<&GateSettings>,
) -> Passage {
    let Some(settings) = settings else {
        return Passage::Open;
    };
    if settings.verification.mode == Mode::DryRun {
        return dry(node, settings);
    }
    let verification = |is_bounded: bool| Passage::Shut {
        why: format!("the verification of node {}", node.name),
        is_bounded,
    };
    let record = record.filter(|record| record.spec.node_uid.as_ref() == Some(&node.uid));
    let Some(record) = record else {
        let is_awaited = is_new_to_us(node, settings);
        return if is_awaited {
            verification(false)
        } else {
            Passage::Open
        };
    };
    let told = record
        .status
        .as_ref()
        .and_then(|it| it.verification.as_ref());
    let told = told.filter(|told| told.boot_id.as_ref() == Some(&node.boot_id));
    let Some(told) = told else {
        return verification(false);
    };
    let check = told.first_failing_check.as_deref().unwrap_or("a check");
    match told.verdict {
        Some(VerificationVerdict::Verified) if is_gated(node, settings) => Passage::Shut {
            why: format!("the taint of the gate to go from node {}", node.name),
            is_bounded: false,
        },
        Some(VerificationVerdict::Verified) => Passage::Open,
        Some(VerificationVerdict::Failed) => Passage::Failed(format!(
            "node {} has failed its verification: {check} fails there",
            node.name
        )),
        Some(VerificationVerdict::Inconclusive) => Passage::Shut {
            why: format!(
                "the verification of node {}, which is inconclusive: {check} failed, and its cause may be elsewhere",
                node.name
            ),
            is_bounded: true,
        },
        None => verification(told.started_at.is_some()),
    }
}

fn dry(node: &NodeView, settings: &GateSettings) -> Passage {
    if !is_gated(node, settings) {
        return Passage::Open;
    }
    Passage::Shut {
        why: format!(
            "somebody to lift the taint of the gate from node {}: the gate only looks (verification.mode: DryRun)",
            node.name
        ),
        is_bounded: false,
    }
}

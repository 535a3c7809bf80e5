//! The members of etcd that a control plane's replacement takes out and brings in.
//!
//! Owns when the old node's member leaves, when the new one's counts, and the way back. Every answer
//! comes from a live look; without a clear one nothing is done. Must not count members: `crate::etcd`
//! does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::ETCD_MEMBER_REMOVED;
use shipshape_api::node_patch_task::{EtcdRecord, MemberRecord, TaskStep};

use super::draft::{Draft, Milestone, Unclear};
use super::{leave, order};
use crate::decision::Effect;
use crate::etcd::{self, EtcdView, Leaving, MemberView};
use crate::ledger::Role;
use crate::view::NodeView;

/// The reason of a park because etcd is not well enough to lose a member.
pub(super) const NOT_WELL: &str = "EtcdNotWell";

/// Writes down which member the old node has, before anything is asked for. Without a clear answer the
/// wait is decided on.
pub(super) fn record(draft: &mut Draft<'_>, node: &NodeView) -> Result<(), Unclear> {
    draft.status.etcd = None;
    if node.role() != Role::ControlPlane {
        return Ok(());
    }
    let view = draft.look(&draft.snapshot.etcd, "how etcd fares")?;
    let found = view.as_ref().and_then(|view| view.find(None, &node.name));
    if let Some(member) = found {
        draft.status.etcd = Some(EtcdRecord {
            old: MemberRecord {
                name: member.name.clone(),
                id: Some(member.id.0.clone()),
                removal_since: None,
            },
            new: None,
        });
        return Ok(());
    }
    let pods = draft.snapshot.pods.present();
    if !pods.is_some_and(|pods| etcd::runs_member(pods)) {
        return Ok(());
    }
    let reason = match view {
        Some(_) => format!("etcd to know member {}, which runs there", node.name),
        None => format!("control plane {}: {}", node.name, etcd::NOT_CONFIGURED),
    };
    draft.wait(reason, Some(draft.settings.machine_poll));
    Err(Unclear)
}

/// Writes down where the new member will be, as soon as its node is known: should the attempt fail, it
/// is looked for by this name.
pub(super) fn note_new(draft: &mut Draft<'_>, node: &NodeView) {
    if let Some(record) = &mut draft.status.etcd
        && record.new.is_none()
    {
        record.new = Some(MemberRecord {
            name: node.name.clone(),
            ..MemberRecord::default()
        });
    }
}

/// Whether the new node's member votes, where the old node has one; if not, the wait is decided on.
pub(super) fn has_joined(draft: &mut Draft<'_>, node: &NodeView) -> bool {
    if draft.status.etcd.is_none() {
        return true;
    }
    let Some(view) = view(draft) else {
        return false;
    };
    match (view.joined(&node.name), &mut draft.status.etcd) {
        (Ok(id), Some(record)) => {
            record.new.get_or_insert_default().id = Some(id.0);
            true
        }
        (Ok(_), None) => true,
        (Err(reason), _) => {
            draft.wait(reason, Some(draft.settings.machine_poll));
            false
        }
    }
}

/// Entered when the old node was seen empty. Left when etcd's list says that its member is gone. Asks
/// for another leader, then for the member's removal, after a last live look at nodes and members.
pub(super) fn remove(draft: &mut Draft<'_>) {
    let Some(record) = draft.status.etcd.clone() else {
        return draft.enter(TaskStep::Remove);
    };
    let Some(view) = view(draft) else {
        return;
    };
    let Some(member) = find(&view, &record.old) else {
        let message = format!("member {} has left etcd", record.old.name);
        return draft.advance(
            TaskStep::Remove,
            Milestone {
                condition: ETCD_MEMBER_REMOVED,
                reason: "MemberRemoved",
                message,
            },
        );
    };
    if !leave::is_clear(draft) {
        return;
    }
    if let Some(reason) = view.refusal_to_remove(&member.id, leaving(&record, draft)) {
        return draft.wait(reason, Some(draft.settings.machine_poll));
    }
    let new = record.new.as_ref().map(|new| new.name.clone());
    if ask_for_removal(draft, &view, &member, new.as_deref())
        && let Some(record) = &mut draft.status.etcd
    {
        note_removal(&mut record.old, &member, Time(draft.now));
    }
    draft.wait_as_usual(Some(draft.soon()));
}

/// Whether the old node's member has left, where it had one; if not, what follows is decided on. While
/// another member is sick the old machine stays too: its disk may be the last good copy.
pub(super) fn is_old_out(draft: &mut Draft<'_>) -> bool {
    let Some(record) = draft.status.etcd.clone() else {
        return true;
    };
    let Some(view) = view(draft) else {
        return false;
    };
    if find(&view, &record.old).is_some() {
        draft.enter(TaskStep::RemoveMember);
        return false;
    }
    if let Some(reason) = view.refusal_to_begin(&record.old.name, false) {
        draft.wait(reason, Some(draft.settings.machine_poll));
        return false;
    }
    true
}

/// Whether etcd has no member of the new node, which is about to end; if it has, its removal is asked
/// for. While nobody can tell, it may have one.
pub(super) fn is_new_out(draft: &mut Draft<'_>) -> bool {
    let Some(record) = draft.status.etcd.clone() else {
        return true;
    };
    let Some(view) = view(draft) else {
        return false;
    };
    let Some(new) = record.new else {
        return true;
    };
    let Some(member) = find(&view, &new) else {
        return true;
    };
    if let Some(reason) = view.refusal_to_remove(&member.id, Leaving::PutBack) {
        draft.wait(reason, Some(draft.settings.machine_poll));
        return false;
    }
    if ask_for_removal(draft, &view, &member, None)
        && let Some(new) = draft.status.etcd.as_mut().and_then(|it| it.new.as_mut())
    {
        note_removal(new, &member, Time(draft.now));
    }
    let reason = format!("etcd member {} to leave", new.name);
    draft.wait(reason, Some(draft.settings.machine_poll));
    false
}

/// Whether etcd could bear the end of a new machine whose member nobody has seen, and which may just be
/// joining; if not, the wait is decided on.
pub(super) fn may_newcomer_end(draft: &mut Draft<'_>) -> bool {
    let record = draft.status.etcd.as_ref();
    if record.is_none_or(|record| record.new.is_some()) {
        return true;
    }
    match view(draft).map(|view| view.refusal_to_end_newcomer()) {
        None => false,
        Some(None) => true,
        Some(Some(reason)) => {
            draft.wait(reason, Some(draft.settings.machine_poll));
            false
        }
    }
}

/// Whether etcd would let the old node's member go now, for a task that was set aside for its sake.
pub(super) fn is_way_free(draft: &Draft<'_>) -> bool {
    let (Some(record), Some(view)) = (&draft.status.etcd, draft.snapshot.etcd.present()) else {
        return false;
    };
    match find(view, &record.old) {
        Some(member) => view
            .refusal_to_remove(&member.id, leaving(record, draft))
            .is_none(),
        None => true,
    }
}

/// Whether the removal of the old node's member was asked for: there is no way back then.
pub(super) fn is_old_leaving(draft: &Draft<'_>) -> bool {
    let record = draft.status.etcd.as_ref();
    record.is_some_and(|record| record.old.removal_since.is_some())
}

/// Whether the removal of the new node's member was asked for: without it the machine is of no use.
pub(super) fn is_new_leaving(draft: &Draft<'_>) -> bool {
    let new = draft.status.etcd.as_ref().and_then(|it| it.new.as_ref());
    new.is_some_and(|new| new.removal_since.is_some())
}

fn leaving<'a>(record: &'a EtcdRecord, draft: &Draft<'_>) -> Leaving<'a> {
    match &record.new {
        Some(new) if !order::is_terminate_first(draft) => Leaving::Replaced(&new.name),
        _ => Leaving::BeforeReplacement,
    }
}

/// The members as they are now. That nobody is there to be asked proves nothing once a member was.
fn view(draft: &mut Draft<'_>) -> Option<EtcdView> {
    let about = "how etcd fares";
    let view = draft.look(&draft.snapshot.etcd, about).ok()?;
    if view.is_none() {
        let reason = "cannot tell how etcd fares: none of its members is found any more";
        draft.wait(reason.to_owned(), Some(draft.settings.machine_poll));
    }
    view
}

fn find(view: &EtcdView, record: &MemberRecord) -> Option<MemberView> {
    view.find(record.id.as_deref(), &record.name).cloned()
}

/// Asks for the removal, or first for another leader; says whether it was the removal.
fn ask_for_removal(
    draft: &mut Draft<'_>,
    view: &EtcdView,
    member: &MemberView,
    heir: Option<&str>,
) -> bool {
    let from = member.id.clone();
    match view.successor(&from, heir).filter(|_| member.leads) {
        Some(to) => draft.effect(Effect::MoveEtcdLeader { from, to }),
        None => {
            draft.effect(Effect::RemoveEtcdMember(from));
            return true;
        }
    }
    false
}

fn note_removal(record: &mut MemberRecord, member: &MemberView, now: Time) {
    record.id = Some(member.id.0.clone());
    record.removal_since.get_or_insert(now);
}

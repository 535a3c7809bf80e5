//! What a run puts on nodes while it lasts: the taint of an outdated node, the word to the cluster
//! autoscaler, and the run's name, so that whoever finds them can ask for it.
//!
//! Owns the edit of those three, and touches nothing that others have put there: another run's mark is
//! enough of a mark, and an annotation that somebody else has set stays as it is. Must not write.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use shipshape_api::gates::OutdatedTaintEffect;
use shipshape_api::names::{
    ANNOTATION_SCALE_DOWN_DISABLED, ANNOTATION_SCALE_DOWN_HELD_BY, TAINT_OUTDATED, run_annotation,
};
use shipshape_engine::decision::Marks;

/// What the annotation of the autoscaler says.
const FORBIDDEN: &str = "true";

/// The node as it is when it carries exactly these marks of the run. `run` is `namespace/name`.
pub fn with_marks(live: &Node, run_uid: &str, run: &str, marks: Marks) -> Node {
    let mut node = live.clone();
    let is_tainted = taint(&mut node, run_uid, marks.outdated);
    let is_held = hold(&mut node, run_uid, marks.held);
    let notes = node.annotations_mut();
    if is_tainted || is_held {
        notes.insert(run_annotation(run_uid), run.to_owned());
    } else {
        notes.remove(&run_annotation(run_uid));
    }
    node
}

/// The node as it is when the run's own mark says that it was renewed then.
pub fn with_renewed_mark(live: &Node, run_uid: &str, at: Timestamp) -> Node {
    let mut node = live.clone();
    let spec = node.spec.get_or_insert_default();
    let taints = spec.taints.iter_mut().flatten();
    for own in taints.filter(|taint| is_own(taint, run_uid)) {
        own.time_added = Some(Time(at));
    }
    node
}

fn is_own(taint: &Taint, run_uid: &str) -> bool {
    taint.key == TAINT_OUTDATED && taint.value.as_deref() == Some(run_uid)
}

/// Sets or takes off the run's taint; says whether it is there.
fn taint(node: &mut Node, run_uid: &str, wanted: Option<OutdatedTaintEffect>) -> bool {
    let taints = node
        .spec
        .get_or_insert_default()
        .taints
        .get_or_insert_default();
    let is_mark = |taint: &Taint| taint.key == TAINT_OUTDATED;
    let is_own = |taint: &Taint| is_own(taint, run_uid);
    match wanted {
        None => taints.retain(|taint| !is_own(taint)),
        Some(effect) => {
            if !taints.iter().any(is_mark) {
                taints.push(Taint {
                    key: TAINT_OUTDATED.to_owned(),
                    value: Some(run_uid.to_owned()),
                    ..Taint::default()
                });
            }
            for own in taints.iter_mut().filter(|taint| is_own(taint)) {
                effect.as_str().clone_into(&mut own.effect);
            }
        }
    }
    taints.iter().any(is_own)
}

/// Sets or takes off the run's word to the autoscaler; says whether it is there.
fn hold(node: &mut Node, run_uid: &str, wanted: bool) -> bool {
    let notes = node.annotations_mut();
    let holder = notes.get(ANNOTATION_SCALE_DOWN_HELD_BY).cloned();
    if wanted && holder.is_none() && !notes.contains_key(ANNOTATION_SCALE_DOWN_DISABLED) {
        notes.insert(
            ANNOTATION_SCALE_DOWN_DISABLED.to_owned(),
            FORBIDDEN.to_owned(),
        );
        notes.insert(ANNOTATION_SCALE_DOWN_HELD_BY.to_owned(), run_uid.to_owned());
        return true;
    }
    let is_own = holder.as_deref() == Some(run_uid);
    if is_own && !wanted {
        notes.remove(ANNOTATION_SCALE_DOWN_HELD_BY);
        // A value that is not ours is somebody's later word.
        let said = notes.get(ANNOTATION_SCALE_DOWN_DISABLED);
        if said.map(String::as_str) == Some(FORBIDDEN) {
            notes.remove(ANNOTATION_SCALE_DOWN_DISABLED);
        }
    }
    is_own && wanted
}

#[cfg(test)]
mod tests {
    use shipshape_engine::view::{NodeView, ScaleDown};

    use super::*;

    const BOTH: Marks = Marks {
        outdated: Some(OutdatedTaintEffect::PreferNoSchedule),
        held: true,
    };

    fn noted(key: &str, value: &str) -> Node {
        let mut node = Node::default();
        node.annotations_mut()
            .insert(key.to_owned(), value.to_owned());
        node
    }

    /// Without the empty lists that an edit may leave, which are nothing to a server.
    fn plain(mut node: Node) -> Node {
        let spec = node.spec.get_or_insert_default();
        spec.taints = spec.taints.take().filter(|taints| !taints.is_empty());
        node.annotations_mut();
        node
    }

    #[test]
    fn marks_come_and_go_without_a_trace() {
        let before = Node::default();
        let marked = with_marks(&before, "uid", "ns/run", BOTH);
        let view = NodeView::of(&marked);
        assert_eq!(view.marks, ["uid"]);
        assert_eq!(view.scale_down, ScaleDown::HeldBy("uid".to_owned()));
        assert_eq!(marked.annotations()["run.shipshape.dev/uid"], "ns/run");
        assert_eq!(
            marked.annotations()[ANNOTATION_SCALE_DOWN_DISABLED],
            FORBIDDEN
        );
        let after = with_marks(&marked, "uid", "ns/run", Marks::NONE);
        assert_eq!(plain(after), plain(before));
    }

    #[test]
    fn a_mark_is_renewed_and_goes_without_a_trace_all_the_same() {
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        let marked = with_marks(&Node::default(), "uid", "ns/run", BOTH);
        assert!(NodeView::of(&marked).renewed_marks.is_empty());
        assert_eq!(with_renewed_mark(&marked, "another", at), marked);
        let renewed = with_renewed_mark(&marked, "uid", at);
        let told = [("uid".to_owned(), at)];
        assert_eq!(NodeView::of(&renewed).renewed_marks, told.into());
        let again = with_marks(&renewed, "uid", "ns/run", BOTH);
        assert_eq!(again, renewed, "the run leaves the time alone");
        let after = with_marks(&renewed, "uid", "ns/run", Marks::NONE);
        assert_eq!(plain(after), plain(Node::default()));
    }

    #[test]
    fn a_run_says_how_much_the_mark_asks_of_the_scheduler() {
        for effect in [
            OutdatedTaintEffect::PreferNoSchedule,
            OutdatedTaintEffect::NoSchedule,
        ] {
            let marks = Marks {
                outdated: Some(effect),
                held: false,
            };
            let marked = with_marks(&Node::default(), "uid", "ns/run", marks);
            let taints = marked.spec.clone().unwrap().taints.unwrap();
            assert_eq!(taints[0].effect, effect.as_str());
            let after = with_marks(&marked, "uid", "ns/run", Marks::NONE);
            assert_eq!(plain(after), plain(Node::default()));
        }
    }

    #[test]
    fn what_somebody_else_told_the_autoscaler_is_neither_changed_nor_taken_off() {
        for said in ["true", "false"] {
            let foreign = noted(ANNOTATION_SCALE_DOWN_DISABLED, said);
            let marked = with_marks(&foreign, "uid", "ns/run", BOTH);
            assert_eq!(NodeView::of(&marked).scale_down, ScaleDown::Foreign);
            assert_eq!(marked.annotations()[ANNOTATION_SCALE_DOWN_DISABLED], said);
            let after = with_marks(&marked, "uid", "ns/run", Marks::NONE);
            assert_eq!(plain(after), plain(foreign));
        }
    }

    #[test]
    fn a_later_word_of_somebody_else_outlives_the_hold() {
        let mut marked = with_marks(&Node::default(), "uid", "ns/run", BOTH);
        marked.annotations_mut().insert(
            ANNOTATION_SCALE_DOWN_DISABLED.to_owned(),
            "false".to_owned(),
        );
        let after = with_marks(&marked, "uid", "ns/run", Marks::NONE);
        assert_eq!(NodeView::of(&after).scale_down, ScaleDown::Foreign);
    }

    #[test]
    fn a_mark_can_come_to_ask_for_less() {
        let marks = |effect| Marks {
            outdated: Some(effect),
            held: false,
        };
        let hard = marks(OutdatedTaintEffect::NoSchedule);
        let soft = marks(OutdatedTaintEffect::PreferNoSchedule);
        let closed = with_marks(&Node::default(), "uid", "ns/run", hard);
        assert!(NodeView::of(&closed).is_closed_by("uid"));
        assert!(!NodeView::of(&closed).is_closed_by("another"));
        let open = with_marks(&closed, "uid", "ns/run", soft);
        assert!(!NodeView::of(&open).is_closed_by("uid"));
        assert_eq!(NodeView::of(&open).marks, ["uid"]);
        let of_another = with_marks(&closed, "another", "ns/another", soft);
        assert!(NodeView::of(&of_another).is_closed_by("uid"), "not its own");
    }

    #[test]
    fn the_marks_of_another_run_are_enough_and_are_left_alone() {
        let first = with_marks(&Node::default(), "one", "ns/one", BOTH);
        let both = with_marks(&first, "two", "ns/two", BOTH);
        assert_eq!(both, first);
        assert_eq!(with_marks(&first, "two", "ns/two", Marks::NONE), first);
    }
}

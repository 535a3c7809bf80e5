//! What has become of a pod, and whether the drain of its node has something to do about it.
//!
//! Each pod of a drain leaves by itself, and mostly nothing follows from it: the others wait for budgets or are on
//! their way too. Owns when something does. Must not leave out what would move the drain on: in doubt it is woken.

use shipshape_api::node_patch_task::DrainRecord;

use super::{Around, Block, skip};
use crate::view::PodView;

/// Whether a drain has something to do about a pod of its node that was one thing and is now another, or gone. One that
/// has ended does not count any more, so its deletion is no news; nor is it by when one that leaves should be gone: a
/// drain looks again by itself, and of a pod that outlives its grace the server changes that as it removes it.
pub fn is_news<'a>(
    (old, new): (Option<&PodView>, Option<&PodView>),
    left: impl IntoIterator<Item = &'a PodView>,
    record: Option<&DrainRecord>,
) -> bool {
    let gone = match (old, new) {
        (Some(old), None) if old.finished => return false,
        (Some(old), None) => old,
        (Some(old), Some(new)) if old.uid == new.uid && old.terminating && new.terminating => {
            match (old.finished, new.finished) {
                (true, true) => return false,
                (false, true) => new,
                (_, false) => return new.finalizers != old.finalizers,
            }
        }
        (_, Some(_)) | (None, None) => return true,
    };
    is_awaited(gone, left, record)
}

/// Whether a drain has more to do than to count, now that a pod is gone from its node: it was the last, its volumes
/// are detached, another waits for its turn, or the record names it as something that no budget will let go.
fn is_awaited<'a>(
    gone: &PodView,
    left: impl IntoIterator<Item = &'a PodView>,
    record: Option<&DrainRecord>,
) -> bool {
    let around = Around::default();
    let is_load = |pod: &&PodView| pod.uid != gone.uid && skip(pod, &around).is_none();
    let mut is_last = true;
    for pod in left.into_iter().filter(is_load) {
        is_last = false;
        if pod.critical || pod.has_volumes() {
            return true;
        }
    }
    is_last || gone.has_volumes() || is_named(gone, record)
}

/// Whether the record tells of the pod as of one that only a person could have helped.
fn is_named(gone: &PodView, record: Option<&DrainRecord>) -> bool {
    let by_budget = Block::Budget(String::new()).word();
    let mut blocked = record.into_iter().flat_map(|record| &record.blocked);
    blocked.any(|one| {
        one.namespace == gone.namespace
            && one.pod == gone.name
            && one.reason.as_deref() != Some(by_budget)
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use shipshape_api::node_patch_task::BlockedEviction;

    use super::*;

    fn pod(name: &str) -> PodView {
        PodView {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            owner: Some(("ReplicaSet".to_owned(), "web".to_owned())),
            ..PodView::default()
        }
    }

    #[test]
    fn one_of_many_is_not_awaited_and_the_last_is() {
        let (gone, other) = (pod("gone"), pod("other"));
        assert!(!is_awaited(&gone, [&other], None));
        assert!(!is_awaited(&gone, [&gone, &other], None));
        assert!(is_awaited(&gone, [], None));
        assert!(is_awaited(&gone, [&gone], None));
        let daemon = PodView {
            owner: Some(("DaemonSet".to_owned(), "proxy".to_owned())),
            ..pod("proxy")
        };
        let ended = PodView {
            finished: true,
            ..pod("ended")
        };
        assert!(is_awaited(&gone, [&daemon, &ended], None));
    }

    #[test]
    fn what_a_pod_goes_through_on_its_way_out_is_no_news_but_its_end_may_be() {
        let other = pod("other");
        let stays = pod("gone");
        let leaving = |second| PodView {
            terminating: true,
            gone_by: Some(Timestamp::constant(second, 0)),
            ..pod("gone")
        };
        let ended = PodView {
            finished: true,
            ..leaving(9)
        };
        let held = PodView {
            finalizers: vec!["example.com/keep".to_owned()],
            ..leaving(9)
        };
        let another = PodView {
            uid: "another".to_owned(),
            ..leaving(3)
        };
        // What it was and is, and whether that is news beside another pod, and where it is the last.
        let table = [
            (Some(leaving(9)), None, false, true),
            (Some(ended.clone()), None, false, false),
            (Some(leaving(9)), Some(ended.clone()), false, true),
            (Some(ended.clone()), Some(ended), false, false),
            (Some(leaving(9)), Some(leaving(3)), false, false),
            (Some(leaving(3)), Some(leaving(9)), false, false),
            (Some(leaving(9)), Some(held), true, true),
            (Some(leaving(9)), Some(another), true, true),
            (Some(stays.clone()), Some(leaving(9)), true, true),
            (None, Some(stays), true, true),
        ];
        for (old, new, beside, last) in table {
            let change = (old.as_ref(), new.as_ref());
            assert_eq!(is_news(change, [&other], None), beside, "{change:?}");
            assert_eq!(is_news(change, [], None), last, "{change:?}");
        }
    }

    #[test]
    fn whoever_has_a_turn_waits_for_the_others() {
        let critical = PodView {
            critical: true,
            ..pod("dns")
        };
        let stored = PodView {
            claims: vec!["data".to_owned()],
            ..pod("db")
        };
        let (gone, other) = (pod("gone"), pod("other"));
        assert!(is_awaited(&gone, [&other, &critical], None));
        assert!(is_awaited(&gone, [&other, &stored], None));
        assert!(is_awaited(&stored, [&other], None), "its volumes follow");
    }

    #[test]
    fn a_pod_that_was_named_as_stuck_is_told_of_when_it_goes() {
        let (gone, other) = (pod("gone"), pod("other"));
        let named = |reason: &str, name: &str| DrainRecord {
            blocked: vec![BlockedEviction {
                namespace: "shop".to_owned(),
                pod: name.to_owned(),
                reason: Some(reason.to_owned()),
                ..BlockedEviction::default()
            }],
            ..DrainRecord::default()
        };
        let table = [
            ("StuckTerminating", "gone", true),
            ("BarePod", "gone", true),
            ("BarePod", "other", false),
            ("BudgetExhausted", "gone", false),
        ];
        for (reason, name, wanted) in table {
            let record = named(reason, name);
            let says = is_awaited(&gone, [&other], Some(&record));
            assert_eq!(says, wanted, "{reason} {name}");
        }
    }
}

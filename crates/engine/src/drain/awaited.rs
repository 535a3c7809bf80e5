//! Which pod that leaves a drain has something new to do for.
//!
//! Each pod of a drain leaves by itself, and mostly nothing follows from it: the others wait for budgets or are on
//! their way too. Owns when something does. Must not leave out what would move the drain on: in doubt it is woken.

use shipshape_api::node_patch_task::DrainRecord;

use super::{Around, Block, skip};
use crate::view::PodView;

/// Whether a drain has more to do than to count, now that a pod is gone from its node: it was the last, its volumes
/// are detached, another waits for its turn, or the record names it as something that no budget will let go.
pub fn is_awaited<'a>(
    gone: &PodView,
    left: impl IntoIterator<Item = &'a PodView>,
    record: Option<&DrainRecord>,
) -> bool {
    let around = Around::default();
    let is_load = |pod: &&PodView| pod.uid != gone.uid && skip(pod, &around).is_none();
    let mut is_last = true;
    for pod in left.into_iter().filter(is_load) {
        is_last = false;
        if pod.critical || !pod.claims.is_empty() {
            return true;
        }
    }
    is_last || !gone.claims.is_empty() || is_named(gone, record)
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

//! Tables for the drain: each skip rule, each block, the order, the room of a budget, the turns of
//! volumes; then what must hold for any pods and budgets.

mod properties;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};

use super::*;
use crate::settings::Settings;

pub(super) fn pod(name: &str) -> PodView {
    PodView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        labels: [("app", "web")].into(),
        owner: Some(("ReplicaSet".to_owned(), "web".to_owned())),
        ready: true,
        ..PodView::default()
    }
}

fn volume_pod(name: &str) -> PodView {
    PodView {
        claims: vec![format!("data-{name}")],
        ..pod(name)
    }
}

pub(super) fn budget(name: &str, allowed: i32) -> BudgetView {
    BudgetView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        selector: Some(LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            match_expressions: None,
        }),
        allowed,
        ..BudgetView::default()
    }
}

fn attachment(pod: &str) -> AttachmentView {
    AttachmentView {
        name: format!("attached-{pod}"),
        node: "node".to_owned(),
        volume: format!("pv-{pod}"),
        claim: Some(("default".to_owned(), format!("data-{pod}"))),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

pub(super) fn usual() -> DrainPolicy {
    DrainPolicy::of(None, &Settings::default().drain)
}

/// A scene that can be changed before it is played.
struct Set {
    pods: Vec<PodView>,
    budgets: Vec<BudgetView>,
    around: Around,
    detaching: Vec<DetachRecord>,
    policy: DrainPolicy,
    now: Timestamp,
}

impl Set {
    fn of(pods: impl IntoIterator<Item = PodView>) -> Self {
        Self {
            pods: pods.into_iter().collect(),
            budgets: Vec::new(),
            around: Around::default(),
            detaching: Vec::new(),
            policy: usual(),
            now: at(0),
        }
    }

    fn with(mut self, budgets: impl IntoIterator<Item = BudgetView>) -> Self {
        self.budgets = budgets.into_iter().collect();
        self
    }

    fn attached(mut self, attachments: impl IntoIterator<Item = AttachmentView>) -> Self {
        self.around.attachments = attachments.into_iter().collect();
        self
    }

    fn play(&self) -> DrainMove {
        next_move(&Scene {
            pods: &self.pods,
            budgets: &self.budgets,
            around: &self.around,
            detaching: &self.detaching,
            policy: self.policy,
            now: self.now,
        })
    }
}

fn evicted(result: &DrainMove) -> Vec<&str> {
    result.evict.iter().map(|pod| pod.name.as_str()).collect()
}

fn words(result: &DrainMove) -> Vec<&'static str> {
    let blocked = result.blocked.iter();
    blocked.map(|one| one.block.word()).collect()
}

const NOBODY: [&str; 0] = [];

#[test]
fn a_pod_that_checks_its_node_for_the_gate_is_not_waited_for() {
    let around = Around::default();
    let worker = PodView {
        name: "verify-node-1".to_owned(),
        labels: [(names::LABEL_WORKER, "node")].into(),
        ..pod("any")
    };
    assert_eq!(skip(&worker, &around), Some(Skip::Verifier));
    let by_name_alone = PodView {
        labels: [("app", "web")].into(),
        ..worker.clone()
    };
    assert_eq!(skip(&by_name_alone, &around), None);
    let by_label_alone = PodView {
        name: "web-1".to_owned(),
        ..worker
    };
    assert_eq!(skip(&by_label_alone, &around), None);
}

#[test]
fn pods_that_do_not_count_leave_nothing_to_do() {
    let table = [
        PodView {
            mirror: true,
            ..pod("static")
        },
        PodView {
            finished: true,
            ..pod("job")
        },
        PodView {
            finished: true,
            owner: None,
            ..pod("bare-and-finished")
        },
        daemon("proxy"),
    ];
    for pod in table {
        let result = Set::of([pod.clone()]).play();
        assert!(result.is_done(), "{} should be skipped", pod.name);
        assert_eq!(evicted(&result), NOBODY);
    }
}

fn daemon(name: &str) -> PodView {
    PodView {
        owner: Some(("DaemonSet".to_owned(), name.to_owned())),
        ..pod(name)
    }
}

#[test]
fn a_pod_whose_daemon_set_is_gone_is_treated_like_a_bare_one() {
    let mut set = Set::of([daemon("proxy")]);
    set.around.orphans.insert("uid-proxy".to_owned());
    assert_eq!(words(&set.play()), ["DaemonSetGone"]);
    set.policy.bare_pods = PodRule::Evict;
    assert_eq!(evicted(&set.play()), ["proxy"]);
}

#[test]
fn a_pod_that_nobody_would_bring_back_is_evicted_only_when_that_is_asked_for() {
    let bare = PodView {
        owner: None,
        ..pod("bare")
    };
    let mut set = Set::of([bare]);
    let result = set.play();
    assert_eq!(evicted(&result), NOBODY);
    assert_eq!(words(&result), ["BarePod"]);
    set.policy.bare_pods = PodRule::Evict;
    assert_eq!(evicted(&set.play()), ["bare"]);
}

#[test]
fn a_pod_with_an_empty_dir_is_evicted_unless_that_is_forbidden() {
    let mut set = Set::of([PodView {
        local_data: true,
        ..pod("cache")
    }]);
    assert_eq!(evicted(&set.play()), ["cache"]);
    set.policy.empty_dir = PodRule::Block;
    assert_eq!(words(&set.play()), ["LocalData"]);
}

#[test]
fn a_leaving_pod_is_waited_for_and_not_evicted_again() {
    let result = Set::of([PodView {
        terminating: true,
        ..pod("a")
    }])
    .play();
    assert_eq!(evicted(&result), NOBODY);
    assert!(!result.is_done());
}

#[test]
fn a_pod_that_outstays_its_grace_is_named_as_stuck_with_its_finalizers() {
    let mut set = Set::of([PodView {
        terminating: true,
        gone_by: Some(at(30)),
        finalizers: vec!["example.com/wait".to_owned()],
        ..pod("a")
    }]);
    let result = set.play();
    assert_eq!(words(&result), [""; 0]);
    assert_eq!(
        result.look_at,
        Some(at(90)),
        "nothing else would wake the drain when the pod gets stuck"
    );
    set.now = at(90);
    let result = set.play();
    assert_eq!(words(&result), ["StuckTerminating"]);
    assert!(
        result.blocked[0]
            .block
            .sentence()
            .contains("example.com/wait")
    );
    assert!(!result.is_done());
}

#[test]
fn no_more_pods_are_evicted_than_the_budget_has_room_for() {
    let set = Set::of([pod("a"), pod("b"), pod("c")]).with([budget("web", 2)]);
    let result = set.play();
    assert_eq!(evicted(&result), ["a", "b"]);
    assert_eq!(result.blocked.len(), 1);
    assert_eq!(result.blocked[0].block, Block::Budget("web".to_owned()));
    assert_eq!(result.remaining, 3);
}

#[test]
fn a_budget_that_can_never_have_room_is_called_hopeless() {
    let full = BudgetView {
        expected: 3,
        desired: 3,
        healthy: 3,
        ..budget("web", 0)
    };
    let result = Set::of([pod("a")]).with([full]).play();
    assert_eq!(words(&result), ["BudgetHopeless"]);
    assert_eq!(result.blocked[0].block.budgets(), "web");
}

#[test]
fn a_pod_under_two_budgets_is_blocked_and_both_are_named() {
    let set = Set::of([pod("a")]).with([budget("web", 5), budget("all", 5)]);
    let result = set.play();
    assert_eq!(evicted(&result), NOBODY);
    assert_eq!(result.blocked[0].block.budgets(), "web, all");
}

#[test]
fn a_budget_of_another_namespace_does_not_count() {
    let foreign = BudgetView {
        namespace: "other".to_owned(),
        ..budget("web", 0)
    };
    let result = Set::of([pod("a")]).with([foreign]).play();
    assert_eq!(evicted(&result), ["a"]);
}

#[test]
fn a_pod_that_is_not_healthy_costs_no_budget_where_the_server_says_so() {
    let sick = || PodView {
        ready: false,
        ..pod("sick")
    };
    let pending = || PodView {
        pending: true,
        ..sick()
    };
    let satisfied = || BudgetView {
        healthy: 2,
        desired: 2,
        expected: 4,
        ..budget("web", 0)
    };
    let short = || BudgetView {
        healthy: 1,
        ..satisfied()
    };
    let sparing = || BudgetView {
        spares_unhealthy: true,
        ..short()
    };
    let table = [
        ("not ready, budget satisfied", sick(), satisfied(), true),
        ("not ready, budget short", sick(), short(), false),
        ("not ready, always allowed", sick(), sparing(), true),
        ("ready, always allowed", pod("well"), sparing(), false),
        ("pending, budget short", pending(), short(), true),
    ];
    for (case, pod, budget, goes) in table {
        let result = Set::of([pod]).with([budget]).play();
        assert_eq!(result.evict.len(), usize::from(goes), "{case}");
    }
}

#[test]
fn critical_pods_leave_last() {
    let critical = PodView {
        critical: true,
        ..pod("dns")
    };
    let result = Set::of([critical.clone(), pod("a")]).play();
    assert_eq!(evicted(&result), ["a"]);
    let leaving = PodView {
        terminating: true,
        ..pod("a")
    };
    let result = Set::of([critical.clone(), leaving]).play();
    assert_eq!(
        evicted(&result),
        NOBODY,
        "the last ordinary pod is still there"
    );
    assert_eq!(evicted(&Set::of([critical]).play()), ["dns"]);
}

#[test]
fn pods_with_volumes_leave_one_after_the_other_and_hold_nobody_else_up() {
    let pods = [volume_pod("db-0"), volume_pod("db-1"), pod("a")];
    let both = [attachment("db-0"), attachment("db-1")];
    let result = Set::of(pods).attached(both.clone()).play();
    assert_eq!(evicted(&result), ["db-0", "a"]);

    let leaving = PodView {
        terminating: true,
        ..volume_pod("db-0")
    };
    let result = Set::of([leaving, volume_pod("db-1")]).attached(both.clone());
    assert_eq!(evicted(&result.play()), NOBODY, "db-0 has not left");

    let set = Set::of([volume_pod("db-1")]).attached(both);
    let result = set.play();
    assert_eq!(evicted(&result), NOBODY, "the volume of db-0 is attached");
    assert_eq!(
        result.reason().as_deref(),
        Some("volume pv-db-0 to be detached")
    );
    let set = set.attached([attachment("db-1")]);
    assert_eq!(evicted(&set.play()), ["db-1"]);
}

#[test]
fn a_volume_that_is_not_detached_in_time_is_given_up() {
    let wait = usual().detach_wait.as_secs();
    let mut set = Set::of([volume_pod("db-1")]).attached([attachment("db-0")]);
    let first = set.play();
    assert_eq!(first.look_at, Some(at(wait)));
    set.detaching = first.detaching;
    set.now = at(wait - 1);
    assert_eq!(evicted(&set.play()), NOBODY);
    set.now = at(wait);
    assert_eq!(evicted(&set.play()), ["db-1"]);
}

#[test]
fn a_drain_is_not_done_before_the_last_volume_is_detached_or_given_up() {
    let mut set = Set::of([]).attached([attachment("db-0")]);
    let first = set.play();
    assert_eq!(first.remaining, 0);
    assert!(!first.is_done());
    set.detaching = first.detaching;
    set.now = at(usual().detach_wait.as_secs());
    let given_up = set.play();
    assert!(given_up.is_done());
    let mut kept = Some(shipshape_api::node_patch_task::DrainRecord::default());
    record(&mut kept, &given_up);
    set.detaching = kept.unwrap().detaching;
    assert!(set.play().is_done(), "what was given up stays so");
}

#[test]
fn a_disk_without_a_claim_holds_nobody_up_while_its_pod_is_there_and_is_waited_for_by_itself() {
    let disk = |name: &str| AttachmentView {
        name: name.to_owned(),
        node: "node".to_owned(),
        ..AttachmentView::default()
    };
    let owner = PodView {
        describes_disk: true,
        ready: false,
        ..pod("old-style")
    };
    let blocked = [budget("web", 0)];
    let pods = [owner.clone(), volume_pod("db")];
    let mut set = Set::of(pods).attached([disk("one"), disk("two"), attachment("db")]);
    assert_eq!(evicted(&set.play()), ["old-style"], "one after the other");
    set.budgets = blocked.to_vec();
    set.pods[0].ready = true;
    set.pods[1].labels = [("app", "db")].into();
    assert_eq!(evicted(&set.play()), ["db"], "the other is in nobody's way");
    // Both are gone, and one of the two disks was given up long ago.
    let wait = usual().detach_wait.as_secs();
    let mut set = Set::of([]).attached([disk("one"), disk("two")]);
    set.detaching = vec![DetachRecord {
        volume: "one".to_owned(),
        since: Time(at(-wait)),
    }];
    let next = set.play();
    assert!(!next.is_done());
    let names: Vec<_> = next
        .detaching
        .iter()
        .map(|one| one.volume.as_str())
        .collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn a_volume_that_a_daemon_uses_is_not_waited_for() {
    let user = PodView {
        claims: vec!["data-db-0".to_owned()],
        ..daemon("logs")
    };
    let result = Set::of([user]).attached([attachment("db-0")]).play();
    assert!(result.is_done());
}

#[test]
fn a_blocked_pod_with_volumes_does_not_take_the_turn_of_the_next() {
    let free = PodView {
        labels: [("app", "db")].into(),
        ..volume_pod("db-1")
    };
    let set = Set::of([volume_pod("db-0"), free]).with([budget("web", 0)]);
    assert_eq!(evicted(&set.play()), ["db-1"]);
}

#[test]
fn a_refusal_of_the_server_is_named_and_not_asked_for_again() {
    let mut set = Set::of([pod("a"), pod("b")]);
    let refusal = Refusal {
        budgets: vec!["hidden".to_owned()],
        message: "no".to_owned(),
    };
    set.around.refusals.insert("uid-a".to_owned(), refusal);
    let result = set.play();
    assert_eq!(evicted(&result), ["b"]);
    assert_eq!(words(&result), ["EvictionRefused"]);
    assert_eq!(result.blocked[0].block.budgets(), "hidden");
}

#[test]
fn a_refusal_stands_while_the_server_is_asked_again() {
    // The first has a budget without room: it is told of before the refused one.
    let free = |name| PodView {
        labels: [("app", "db")].into(),
        ..pod(name)
    };
    let mut set = Set::of([pod("0"), free("a"), free("b")]).with([budget("web", 0)]);
    for budgets in [vec![], vec!["hidden".to_owned()]] {
        let message = "webhook keep.example.com denied the request".to_owned();
        let refusal = Refusal { budgets, message };
        set.around.refusals.insert("uid-b".to_owned(), refusal);
        let mut kept = None;
        let refused = set.play();
        record(&mut kept, &refused);
        let told = kept.clone();
        assert_eq!(told.as_ref().map(|it| it.blocked.len()), Some(2));
        // Long enough ago to be asked again: no answer is there yet.
        set.around.refusals.clear();
        let again = with_standing_refusals(set.play(), kept.as_ref());
        assert_eq!(evicted(&again), ["a", "b"]);
        assert_eq!(again.reason(), refused.reason());
        record(&mut kept, &again);
        assert_eq!(kept, told, "nothing new is known");
        assert!(is_told_refused(kept.as_ref(), &again.evict[1]));
        assert!(!is_told_refused(kept.as_ref(), &again.evict[0]));
        // The server has let it go.
        set.pods[2].terminating = true;
        let granted = with_standing_refusals(set.play(), kept.as_ref());
        set.pods[2].terminating = false;
        record(&mut kept, &granted);
        assert_eq!(kept.unwrap().blocked.len(), 1, "by its budget alone");
    }
}

#[test]
fn a_record_changes_with_what_is_blocked_and_not_with_every_pod_that_leaves() {
    let mut kept = None;
    let set = Set::of([pod("a"), pod("b"), pod("c")]).with([budget("web", 1)]);
    record(&mut kept, &set.play());
    let first = kept.clone();
    assert_eq!(
        first.as_ref().map(|it| (it.total, it.remaining)),
        Some((3, 3))
    );
    let mut leaving = set;
    leaving.pods[0].terminating = true;
    leaving.budgets[0].allowed = 0;
    record(&mut kept, &leaving.play());
    assert_eq!(kept, first, "the same two pods are blocked");
    let detached = Time(at(0));
    leaving.around.attachments = vec![attachment("gone")];
    record(&mut kept, &leaving.play());
    assert_eq!(kept.unwrap().detaching[0].since, detached);
}

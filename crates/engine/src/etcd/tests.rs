//! Tables of member sets, and the rule that no removal may break.

use proptest::prelude::*;

use super::*;

fn member(name: &str) -> MemberView {
    MemberView {
        id: MemberId(format!("id-{name}")),
        name: name.to_owned(),
        is_learner: false,
        leads: false,
        health: Health::Healthy,
    }
}

fn sick(name: &str) -> MemberView {
    MemberView {
        health: Health::Sick("no answer".to_owned()),
        ..member(name)
    }
}

fn learner(name: &str) -> MemberView {
    MemberView {
        is_learner: true,
        ..member(name)
    }
}

fn view(members: &[MemberView]) -> EtcdView {
    EtcdView {
        members: members.to_vec(),
        alarms: Vec::new(),
    }
}

fn id(name: &str) -> MemberId {
    MemberId(format!("id-{name}"))
}

#[test]
fn a_control_plane_begins_only_while_every_member_is_well() {
    let well = view(&[member("a"), member("b"), member("c")]);
    assert_eq!(well.refusal_to_begin("a", false), None);
    assert_eq!(well.refusal_to_begin("a", true), None);
    let one_sick = view(&[member("a"), member("b"), sick("c")]);
    assert_eq!(
        one_sick.refusal_to_begin("a", false).unwrap(),
        "etcd member a: 2 of 3 members healthy, quorum is 2: member c: no answer"
    );
    let joining = view(&[member("a"), member("b"), member("c"), learner("d")]);
    let why = joining.refusal_to_begin("a", false).unwrap();
    assert!(why.contains("d is still a learner"), "{why}");
    let full = EtcdView {
        alarms: vec!["NOSPACE".to_owned()],
        ..well
    };
    let why = full.refusal_to_begin("a", false).unwrap();
    assert!(why.contains("NOSPACE"), "{why}");
}

#[test]
fn one_or_two_members_are_never_left_without_a_replacement() {
    for names in [&["a"][..], &["a", "b"]] {
        let members: Vec<MemberView> = names.iter().map(|name| member(name)).collect();
        let few = view(&members);
        assert_eq!(few.refusal_to_begin("a", false), None);
        assert!(few.refusal_to_begin("a", true).is_some());
        let refused = few.refusal_to_remove(&id("a"), Leaving::BeforeReplacement);
        assert!(refused.is_some());
    }
}

#[test]
fn the_old_member_leaves_once_the_new_one_votes() {
    let replaced = Leaving::Replaced("new");
    let old = [member("old"), member("b"), member("c")];
    let with = |new: MemberView| view(&[&old[..], &[new]].concat());
    let refused = |view: EtcdView| view.refusal_to_remove(&id("old"), replaced);
    assert_eq!(refused(with(member("new"))), None);
    assert!(refused(with(learner("new"))).unwrap().contains("learner"));
    assert!(refused(with(sick("new"))).unwrap().contains("no answer"));
    assert!(refused(view(&old)).unwrap().contains("no member new yet"));
    let alone = view(&[member("old"), member("new")]);
    assert_eq!(alone.refusal_to_remove(&id("old"), replaced), None);
}

#[test]
fn how_the_leaving_member_fares_does_not_matter() {
    let dead = view(&[sick("old"), member("b"), member("c"), member("new")]);
    let replaced = Leaving::Replaced("new");
    assert_eq!(dead.refusal_to_remove(&id("old"), replaced), None);
    let other = view(&[member("old"), sick("b"), member("c"), member("new")]);
    assert!(other.refusal_to_remove(&id("old"), replaced).is_some());
}

#[test]
fn what_an_attempt_brought_in_may_leave_while_enough_of_the_others_are_well() {
    let put_back = |members: &[MemberView]| {
        let view = view(members);
        view.refusal_to_remove(&id("new"), Leaving::PutBack)
    };
    assert_eq!(
        put_back(&[member("a"), member("b"), sick("c"), sick("new")]),
        None
    );
    let why = put_back(&[member("a"), sick("b"), sick("c"), member("new")]).unwrap();
    assert!(
        why.contains("without it 1 of 3 would be, and quorum would be 2"),
        "{why}"
    );
    assert_eq!(put_back(&[member("a"), sick("b"), learner("new")]), None);
    assert_eq!(put_back(&[member("a")]), None, "it is gone");
}

#[test]
fn leadership_goes_to_the_replacement_or_to_the_first_that_is_well() {
    let all = view(&[member("a"), sick("b"), member("c"), learner("d")]);
    assert_eq!(all.successor(&id("a"), None), Some(id("c")));
    let four = view(&[member("a"), member("b"), member("c"), member("new")]);
    assert_eq!(four.successor(&id("a"), Some("new")), Some(id("new")));
    assert_eq!(view(&[member("a")]).successor(&id("a"), None), None);
}

#[test]
fn a_member_is_found_by_its_id_before_its_name() {
    let twins = view(&[member("a"), member("b")]);
    assert_eq!(
        twins.find(Some("id-b"), "a").map(|one| &one.name[..]),
        Some("b")
    );
    assert_eq!(twins.find(None, "a").map(|one| &one.id.0[..]), Some("id-a"));
    assert_eq!(twins.find(Some("id-x"), "x"), None);
}

fn any_member() -> impl Strategy<Value = (bool, bool)> {
    (any::<bool>(), any::<bool>())
}

proptest! {
    #[test]
    fn no_removal_that_is_not_refused_costs_the_quorum(
        drawn in proptest::collection::vec(any_member(), 1..8),
        way in 0usize..3,
    ) {
        let members: Vec<MemberView> = drawn
            .iter()
            .enumerate()
            .map(|(index, (is_learner, is_sick))| {
                let name = format!("m{index}");
                let one = if *is_sick { sick(&name) } else { member(&name) };
                MemberView { is_learner: *is_learner, ..one }
            })
            .collect();
        let view = view(&members);
        let leaving = [Leaving::Replaced("m1"), Leaving::BeforeReplacement, Leaving::PutBack][way];
        prop_assume!(view.refusal_to_remove(&id("m0"), leaving).is_none());
        let left: Vec<&MemberView> =
            members.iter().skip(1).filter(|one| !one.is_learner).collect();
        let healthy = left.iter().filter(|one| one.health == Health::Healthy).count();
        let was_voter = !members[0].is_learner;
        prop_assert!(!was_voter || healthy > left.len() / 2);
        if leaving == Leaving::BeforeReplacement {
            prop_assert!(!was_voter || left.len() >= 2);
        }
    }
}

//! The model against what a real etcd does.

use super::*;

fn three() -> EtcdModel {
    let model = EtcdModel::new(Clock::System);
    for name in ["a", "b", "c"] {
        model.start_member(name, false);
    }
    model
}

fn all() -> Vec<String> {
    ["a", "b", "c", "d"].map(address).to_vec()
}

fn healthy(view: &EtcdView) -> Vec<(&str, bool)> {
    let members = view.members.iter();
    members
        .map(|one| (one.name.as_str(), one.health == Health::Healthy))
        .collect()
}

#[tokio::test]
async fn a_dead_member_stays_in_the_list_and_a_lost_majority_answers_nobody() {
    let model = three();
    let handle = model.handle("us");
    model.stop_member("c");
    let view = handle.look(&all()).await.unwrap();
    assert_eq!(healthy(&view), [("a", true), ("b", true), ("c", false)]);
    model.set_sick(&["b".to_owned()].into());
    assert!(handle.look(&all()).await.is_err());
    model.set_sick(&BTreeSet::new());
    assert!(
        handle.look(&[address("c")]).await.is_err(),
        "nobody is there"
    );
    assert!(handle.look(&[address("b")]).await.is_ok());
}

#[tokio::test]
async fn members_come_as_learners_and_leave_once() {
    let model = three();
    let handle = model.handle("us");
    model.start_member("d", true);
    let view = handle.look(&all()).await.unwrap();
    assert!(view.joined("d").is_err());
    model.promote("d");
    let view = handle.look(&all()).await.unwrap();
    let id = view.joined("a").unwrap();
    assert!(view.members[0].leads);
    let heir = view.joined("d").unwrap();
    handle.move_leader(&all(), &id, &heir).await.unwrap();
    handle.remove_member(&all(), &id).await.unwrap();
    handle.remove_member(&all(), &id).await.unwrap();
    model.start_member("a", true);
    let view = handle.look(&all()).await.unwrap();
    assert_eq!(healthy(&view), [("b", true), ("c", true), ("d", true)]);
    assert!(view.members[2].leads);
    let ours: Vec<MemberChange> = model
        .log_since(0)
        .into_iter()
        .filter(|event| event.caller == "us")
        .map(|event| event.change)
        .collect();
    assert_eq!(ours, [MemberChange::Led, MemberChange::Removed]);
}

#[tokio::test]
async fn a_member_that_the_rest_could_not_do_without_stays() {
    let model = three();
    let handle = model.handle("us");
    let view = handle.look(&all()).await.unwrap();
    let (a, c) = (view.joined("a").unwrap(), view.joined("c").unwrap());
    model.set_sick(&["c".to_owned()].into());
    let refused = handle.remove_member(&all(), &a).await.unwrap_err();
    assert!(
        refused.to_string().contains("unhealthy cluster"),
        "{refused}"
    );
    handle.remove_member(&all(), &c).await.unwrap();
    handle.remove_member(&all(), &a).await.unwrap();
}

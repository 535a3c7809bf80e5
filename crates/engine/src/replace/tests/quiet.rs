//! What is told of a drain, and how often.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use shipshape_api::conditions::DRAINED;
use shipshape_api::{DrainOptions, OnDeadline, PodRule};

use super::ways_out::{late, next};
use super::*;
use crate::view::BudgetView;

fn budget() -> BudgetView {
    BudgetView {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        selector: Some(LabelSelector::default()),
        ..BudgetView::default()
    }
}

#[test]
fn blocked_pods_are_told_at_once_and_fewer_of_them_only_after_a_while() {
    let mut world = world_at(TaskStep::Drain);
    world.budgets = vec![budget()];
    let on_node = |names: &[&str]| Observed::Present(names.iter().map(|name| pod(name)).collect());
    world.pods = on_node(&["a", "b", "c"]);
    let told = look(&world).status;
    assert!(told.waiting_for.clone().unwrap().contains("2 more blocked"));
    assert_eq!(told.drain.clone().unwrap().blocked.len(), 3);
    world.task.status = Some(told.clone());
    world.pods = on_node(&["c"]);
    let decision = look(&world);
    assert_eq!(decision.status, told, "one left, and one more");
    let quiet = start() + Settings::default().drain.quiet;
    assert_eq!(decision.wake, Some(quiet));
    let later = decide(&world, &Settings::default(), quiet).status;
    assert_eq!(later.drain.unwrap().blocked.len(), 1);
    world.pods = on_node(&["c", "d"]);
    let more = look(&world).status;
    assert!(more.drain.unwrap().blocked.iter().any(|one| one.pod == "d"));
}

#[test]
fn what_is_blocked_stands_in_the_condition_until_it_goes() {
    let drained = |world: &TaskSnapshot| {
        let conditions = look(world).status.conditions;
        let mut drained = conditions.into_iter().filter(|one| one.type_ == DRAINED);
        drained.next().map(|one| (one.reason, one.message))
    };
    let mut world = world_at(TaskStep::Drain);
    world.pods = Observed::Present(vec![pod("a")]);
    assert_eq!(drained(&world), None, "nothing is in the way");
    world.budgets = vec![budget()];
    let (reason, message) = drained(&world).unwrap();
    assert_eq!(reason, "PodsBlocked");
    assert!(message.starts_with("pod default/a: disruption budget web "));
    world.task.status = Some(look(&world).status);
    world.budgets.clear();
    assert_eq!(drained(&world).unwrap().0, "PodsLeaving");
}

#[test]
fn a_block_that_turns_out_to_be_hopeless_is_told() {
    let mut world = world_at(TaskStep::Drain);
    world.pods = Observed::Present(vec![pod("a")]);
    world.budgets = vec![budget()];
    let passing = look(&world);
    assert_eq!(passing.notices, [], "it may pass by itself");
    world.task.status = Some(passing.status);
    world.budgets.push(BudgetView {
        name: "second".to_owned(),
        ..budget()
    });
    let hopeless = look(&world);
    let told: Vec<_> = hopeless.notices.iter().map(|one| one.reason).collect();
    assert_eq!(told, ["DrainBlocked"]);
    world.task.status = Some(hopeless.status);
    assert_eq!(look(&world).notices, [], "once");
}

#[test]
fn more_blocked_pods_than_a_record_names_are_told_once() {
    let bare = |name: String| PodView {
        owner: None,
        ..pod(&name)
    };
    let told = |world: &TaskSnapshot| {
        let notices = look(world).notices;
        let told: Vec<_> = notices.into_iter().map(|one| one.message).collect();
        told
    };
    let mut world = world_at(TaskStep::Drain);
    world.task.spec.drain = Some(DrainOptions {
        bare_pods: Some(PodRule::Block),
        ..DrainOptions::default()
    });
    world.budgets = vec![budget()];
    // Twelve that may pass by themselves, then one that only a person can help with.
    let mut pods: Vec<PodView> = (0..12).map(|place| pod(&format!("a-{place}"))).collect();
    world.pods = Observed::Present(pods.clone());
    assert_eq!(told(&world), [""; 0]);
    world.task.status = Some(look(&world).status);
    pods.push(bare("z".to_owned()));
    world.pods = Observed::Present(pods.clone());
    let first = told(&world);
    assert!(first[0].starts_with("pod default/z: "), "{first:?}");
    world.task.status = Some(look(&world).status);
    assert_eq!(told(&world), [""; 0], "once");
    // More of those than are named.
    pods.extend((0..12).map(|place| bare(format!("b-{place}"))));
    world.pods = Observed::Present(pods);
    assert_eq!(told(&world).len(), 1);
    let status = look(&world).status;
    world.task.status = Some(status.clone());
    assert_eq!(told(&world), [""; 0], "once");
    assert_eq!(look(&world).status, status);
}

/// The way back empties the new node, and may be held up there.
#[test]
fn an_undo_that_is_blocked_names_pod_and_budget() {
    let mut world = world_at(TaskStep::Drain);
    world.task.spec.drain = Some(DrainOptions {
        on_deadline: Some(OnDeadline::Fail),
        ..DrainOptions::default()
    });
    world.pods = Observed::Present(vec![pod("old")]);
    world.budgets = vec![budget()];
    world.task.status = Some(look(&world).status);
    world = next(&world, late());
    assert_eq!(step_of(&world), TaskStep::Undo);
    assert_eq!(world.task.status.as_ref().unwrap().drain, None);
    world.old_node = Observed::Present(node("old"));
    world.new_pods = Observed::Present(vec![pod("new")]);
    world.new_node = Observed::Present(NodeView {
        unschedulable: true,
        ..node("new")
    });
    world.budgets.push(BudgetView {
        name: "second".to_owned(),
        ..budget()
    });
    let decision = decide(&world, &Settings::default(), late());
    let told: Vec<_> = decision.notices.iter().map(|one| one.reason).collect();
    assert_eq!(told, ["DrainBlocked"]);
    let waits = decision.status.waiting_for.clone().unwrap();
    let words = "1 pod(s) to leave node new again; pod default/new: disruption budgets ";
    assert!(waits.starts_with(words), "{waits}");
    assert_eq!(decision.status.drain.unwrap().blocked[0].pod, "new");
}

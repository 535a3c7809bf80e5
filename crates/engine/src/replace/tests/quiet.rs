//! What is told of a drain, and how often.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::*;
use crate::view::BudgetView;

#[test]
fn blocked_pods_are_told_at_once_and_fewer_of_them_only_after_a_while() {
    let mut world = world_at(TaskStep::Drain);
    world.budgets = vec![BudgetView {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        selector: Some(LabelSelector::default()),
        ..BudgetView::default()
    }];
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

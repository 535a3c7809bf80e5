//! Tables for the objects that follow the machines of a task.

use jiff::SignedDuration;
use shipshape_api::node_patch_run::{AutoscalerControl, AutoscalerMode, NodePatchRunSpec};
use shipshape_api::{AwsProvider, CspState, DrainOptions, PendingNodeGoal, PodRule, ProviderRef};

use super::ways_out::{late, next, pending, silent};
use super::*;
use crate::view::{ScaleDown, TaintView};

#[test]
fn a_joining_machine_is_followed_and_neither_asked_for_nor_asked_about_again() {
    let mut world = world_at(TaskStep::Join);
    world.new_node = Observed::Absent;
    world.new_machine = Observed::NotAsked;
    let decision = look(&world);
    let [Effect::EnsurePending(made)] = decision.effects.as_slice() else {
        panic!("{:?}", decision.effects)
    };
    assert_eq!(made.spec.goal, PendingNodeGoal::Join);
    assert_eq!(
        made.spec.provider_id.as_deref(),
        Some("embedded:///a/m-new")
    );
    let step = world.task.status.as_ref().unwrap().step.as_ref().unwrap();
    assert_eq!(made.spec.deadline, step.deadline);
    assert_eq!(made.spec.task_ref.as_ref().unwrap().uid, OPERATION);
    world.pending = pending(PendingNodeGoal::Join, CspState::Creating);
    assert_eq!(effects(&look(&world)), Vec::<&str>::new());
}

#[test]
fn a_ready_node_counts_when_its_startup_taints_are_gone_and_no_sooner() {
    let tainted = |key: &str| {
        Observed::Present(NodeView {
            taints: vec![TaintView {
                key: key.to_owned(),
                effect: "NoSchedule".to_owned(),
            }],
            ..node("new")
        })
    };
    for at in [TaskStep::Join, TaskStep::Cordon] {
        let mut world = world_at(at);
        world.new_node = tainted("ebs.csi.aws.com/agent-not-ready");
        let decision = look(&world);
        assert_eq!((step(&decision), effects(&decision)), (at, vec![]));
        let wait = decision.status.waiting_for.unwrap();
        assert!(
            wait.contains("taint ebs.csi.aws.com/agent-not-ready"),
            "{wait}"
        );
        world.new_node = tainted("dedicated");
        let decision = look(&world);
        let has_gone_on = step(&decision) != at || effects(&decision) == ["EnsureCordoned"];
        assert!(has_gone_on, "the pool's own taint stays: {decision:?}");
    }
    let mut joining = world_at(TaskStep::Join);
    joining.new_node = tainted("node.kubernetes.io/not-ready");
    joining.old_node = Observed::Present(node("old"));
    let decision = look(&joining);
    assert_eq!(step(&decision), TaskStep::Join);
    let told = joining.task.status.as_ref().unwrap().waiting_for.clone();
    assert_eq!(
        decision.status.waiting_for, told,
        "a moment is not worth a write"
    );
    let decision = decide(&joining, &Settings::default(), late());
    assert_eq!(step(&decision), TaskStep::Undo, "the wait has an end");
    let why = decision.status.undo.unwrap().message;
    assert!(why.contains("taint node.kubernetes.io/not-ready"), "{why}");
}

#[test]
fn a_taint_that_comes_when_pods_have_moved_holds_nothing_up() {
    let tainted = Observed::Present(NodeView {
        taints: vec![TaintView {
            key: "node.cilium.io/agent-not-ready".to_owned(),
            effect: "NoExecute".to_owned(),
        }],
        ..node("new")
    });
    for at in [TaskStep::Drain, TaskStep::Remove] {
        let mut world = world_at(at);
        world.new_node = tainted.clone();
        let decision = look(&world);
        let has_gone_on = step(&decision) != at || !decision.effects.is_empty();
        assert!(has_gone_on, "{at:?}: {decision:?}");
    }
}

#[test]
fn a_leaving_machine_that_is_followed_is_left_to_its_object() {
    let mut world = world_at(TaskStep::Remove);
    world.old_machine = Observed::NotAsked;
    world.pending = pending(PendingNodeGoal::Leave, CspState::Terminating);
    let decision = look(&world);
    assert_eq!(effects(&decision), Vec::<&str>::new());
    assert_eq!(step(&decision), TaskStep::Remove);
}

#[test]
fn a_ready_node_that_never_counted_as_joined_is_emptied_too() {
    let mut world = next(&silent(TaskStep::Join), late());
    world.old_node = Observed::Present(node("old"));
    world.pending = Observed::Absent;
    world.new_machine = Observed::Present(machine("m-new", MachineState::Ready));
    world.new_node = Observed::Present(node("new"));
    assert_eq!(effects(&look(&world)), ["EnsureCordoned"]);
}

#[test]
fn the_new_machine_is_free_at_the_end() {
    let mut world = world_at(TaskStep::Release);
    let new = machine("m-new", MachineState::Ready);
    let protected = Machine {
        protected: true,
        ..new.clone()
    };
    // An old sight of the cloud shows no protection that was asked for since.
    for seen in [protected.clone(), completed(protected), new.clone()] {
        world.new_machine = Observed::Present(seen);
        let decision = look(&world);
        assert_eq!(effects(&decision), ["TagMachine", "ProtectMachine"]);
        assert_eq!(step(&decision), TaskStep::Release);
    }
    world.new_machine = Observed::Present(completed(new));
    assert_eq!(step(&look(&world)), TaskStep::Done);
}

#[test]
fn a_new_machine_that_the_cloud_does_not_show_yet_is_waited_for() {
    let mut world = world_at(TaskStep::Release);
    world.new_machine = Observed::Absent;
    assert_eq!(step(&look(&world)), TaskStep::Release);
    let later = start() + Settings::default().cloud_lag;
    assert_eq!(step_of(&next(&world, later)), TaskStep::Done);
}

#[test]
fn a_new_node_that_is_gone_at_the_end_is_told_of_and_holds_nothing_up() {
    let told = |new: Observed<NodeView>| {
        let mut world = world_at(TaskStep::Release);
        world.new_node = new;
        let decision = look(&world);
        assert_eq!(step(&decision), TaskStep::Done);
        let warning = decision.notices.into_iter().find(|one| one.warning);
        let conditions = decision.status.conditions;
        let end = conditions.into_iter().find(|one| one.type_ == SUCCEEDED);
        (warning, end.unwrap().message)
    };
    let (warning, end) = told(Observed::Absent);
    let warning = warning.unwrap();
    assert_eq!(warning.reason, "ReplacementGone");
    for said in [warning.message, end] {
        assert!(
            said.contains("node new of its new machine m-new is gone"),
            "{said}"
        );
    }
    let there = Observed::Present(node("new"));
    for new in [
        there,
        Observed::Unknown("timeout".to_owned()),
        Observed::NotAsked,
    ] {
        let (warning, end) = told(new);
        assert_eq!(warning, None);
        assert_eq!(end, "node old was replaced");
    }
}

#[test]
fn protection_is_lifted_only_once_nobody_can_ask_for_it_any_more() {
    let mut world = world_at(TaskStep::Release);
    world.pending = pending(PendingNodeGoal::Join, CspState::Ready);
    let decision = look(&world);
    assert_eq!(decision.effects, []);
    assert_eq!(step(&decision), TaskStep::Release);
}

#[test]
fn what_only_aws_knows_is_told_where_the_run_is_in_aws_and_nowhere_else() {
    assert_eq!(look(&fair_world()).status.provider_details, None);
    let mut world = fair_world();
    world.task.spec.provider = Some(ProviderRef {
        r#type: "aws".to_owned(),
        aws: Some(AwsProvider {
            region: "eu-west-1".to_owned(),
            ..AwsProvider::default()
        }),
    });
    world.task.status = Some(look(&world).status);
    let told = |status: &NodePatchTaskStatus| {
        let details = status.provider_details.clone().unwrap();
        details.aws.unwrap()
    };
    let aws = told(world.task.status.as_ref().unwrap());
    assert_eq!(aws.region.as_deref(), Some("eu-west-1"));
    assert_eq!(aws.asg_name.as_deref(), Some("workers"));
    assert_eq!(aws.subnet_id.as_deref(), Some("subnet-1"));
    assert_eq!(aws.launch_template_id.as_deref(), Some("lt-1"));
    assert_eq!(aws.launch_template_version.as_deref(), Some("7"));
    assert_eq!(aws.new_protected, None);
    assert_eq!(told(&look(&world).status).new_protected, Some(false));
}

#[test]
fn what_was_asked_of_the_cloud_is_looked_at_soon_and_then_less_and_less_often() {
    let asked = TaskSnapshot {
        new_machine: Observed::Absent,
        ..world_at(TaskStep::Provision)
    };
    let settings = Settings::default();
    let waits = [0, 500, 2_000, 60_000].map(|age| {
        let now = start() + SignedDuration::from_millis(age);
        let wake = decide(&asked, &settings, now).wake.unwrap();
        wake.duration_since(now).as_millis()
    });
    assert_eq!(waits, [250, 500, 2_000, 5_000]);
    let leaving = look(&world_at(TaskStep::Remove));
    assert_eq!(effects(&leaving), ["DeleteMachine"]);
    let wake = leaving.wake.unwrap().duration_since(start());
    assert_eq!(wake, settings.machine_poll / 20);
}

#[test]
fn a_node_whose_machine_ends_already_gets_no_second_replacement_and_stays_closed() {
    for state in [MachineState::Terminating, MachineState::Terminated] {
        let mut world = fair_world();
        world.old_machine = Observed::Present(machine("m-old", state));
        let decision = look(&world);
        assert_eq!(step(&decision), TaskStep::Undo, "{state:?}");
        let undo = decision.status.undo.unwrap();
        assert_eq!(undo.reason, "NodeLeft");
        assert_eq!(decision.status.replacement, None);

        world.old_node = Observed::Present(NodeView {
            unschedulable: true,
            cordoned_by: Some("dead".to_owned()),
            ..node("old")
        });
        world.lock = lock("dead");
        if let Observed::Present(lock) = &mut world.lock {
            lock.is_abandoned = true;
        }
        assert_eq!(effects(&look(&world)), ["ReleaseLock"], "{state:?}");
    }
}

#[test]
fn a_join_that_takes_too_long_names_the_image_and_how_far_the_machine_came() {
    let mut world = world_at(TaskStep::Join);
    world.pending = pending(PendingNodeGoal::Join, CspState::Ready);
    let error = |world: &TaskSnapshot| {
        let decision = decide(world, &Settings::default(), late());
        assert_eq!(step(&decision), TaskStep::Undo);
        decision.status.last_error.unwrap()
    };
    world.new_node = Observed::Absent;
    let message = error(&world);
    assert!(
        message.ends_with("it has not joined; its image is image-2"),
        "{message}"
    );
    world.new_node = Observed::Present(NodeView {
        ready: false,
        ..node("new")
    });
    let message = error(&world);
    assert!(
        message.ends_with("node new of image image-2 has joined and is not ready"),
        "{message}"
    );
}

#[test]
fn what_only_a_person_can_help_with_is_told_once() {
    let mut world = world_at(TaskStep::Drain);
    let bare = PodView {
        owner: None,
        ..pod("bare")
    };
    world.pods = Observed::Present(vec![pod("web"), bare]);
    world.task.spec.drain = Some(DrainOptions {
        bare_pods: Some(PodRule::Block),
        ..DrainOptions::default()
    });
    let decision = look(&world);
    let told: Vec<_> = decision.notices.iter().map(|one| one.reason).collect();
    assert_eq!(told, ["DrainBlocked"]);
    let message = &decision.notices[0].message;
    assert!(message.starts_with("pod default/bare: "), "{message}");
    world.task.status = Some(decision.status);
    assert_eq!(look(&world).notices, []);
    // What the message says helps, in the run that is under way.
    assert!(message.contains("set spec.drain.barePods: Evict"));
    world.run.spec = Some(Box::new(NodePatchRunSpec {
        drain: Some(DrainOptions {
            bare_pods: Some(PodRule::Evict),
            ..DrainOptions::default()
        }),
        ..NodePatchRunSpec::default()
    }));
    assert_eq!(effects(&look(&world)), ["EvictPod", "EvictPod"]);
}

#[test]
fn a_replacement_is_held_before_it_counts_where_the_run_forbids_scale_down() {
    let mut world = world_at(TaskStep::Join);
    let control = AutoscalerControl {
        enabled: Some(true),
        mode: Some(AutoscalerMode::ForbidScaleDown),
        ..AutoscalerControl::default()
    };
    world.run.spec = Some(Box::new(NodePatchRunSpec {
        autoscaler_control: Some(control),
        ..NodePatchRunSpec::default()
    }));
    let decision = look(&world);
    let [Effect::MarkNode { node, marks, .. }] = decision.effects.as_slice() else {
        panic!("{:?}", decision.effects)
    };
    assert_eq!(node.name, "new");
    assert_eq!(node.operation, world.task.spec.run_uid, "the run holds it");
    assert!(marks.held && marks.outdated.is_none(), "{marks:?}");
    assert_eq!(step(&decision), TaskStep::Join);
    for scale_down in [ScaleDown::HeldBy("run".to_owned()), ScaleDown::Foreign] {
        world.new_node = Observed::Present(NodeView {
            scale_down,
            ..super::node("new")
        });
        assert_eq!(step(&look(&world)), TaskStep::Cordon);
    }
}

//! Tables for the replacement: what each step asks for, when it moves on, what stops it.

mod anew;
mod at_gate;
mod bounds;
mod gates;
mod lease;
mod machines;
mod members;
mod own_end;
mod parking;
mod quiet;
mod regressions;
mod turn;
mod ways_out;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::SUCCEEDED;
use shipshape_api::{NodePatchTask, NodePatchTaskSpec, TaskPhase, names};

use super::*;
use crate::condition;
use crate::machine::{Group, Machine, MachineState, Template};
use crate::snapshot::LockView;
use crate::sweep::COMPLETED;
use crate::view::{NodeView, Observed, PodView};

const OPERATION: &str = "task-uid";

fn start() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn task() -> NodePatchTask {
    let spec = NodePatchTaskSpec {
        run_uid: "run-uid".to_owned(),
        node_name: "old".to_owned(),
        node_uid: "old-uid".to_owned(),
        ..NodePatchTaskSpec::default()
    };
    let mut task = NodePatchTask::new("task", spec);
    task.metadata.namespace = Some("ns".to_owned());
    task.metadata.uid = Some(OPERATION.to_owned());
    task.metadata.creation_timestamp = Some(Time(start()));
    task
}

fn node(name: &str) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        resource_version: "7".to_owned(),
        ready: true,
        provider_id: Some(format!("embedded:///a/m-{name}").as_str().into()),
        ..NodeView::default()
    }
}

fn machine(id: &str, state: MachineState) -> Machine {
    Machine {
        id: id.into(),
        provider_id: format!("embedded:///a/{id}").as_str().into(),
        group: Some("workers".into()),
        zone: "a".to_owned(),
        image: "image-1".into(),
        state,
        protected: false,
        tags: [].into(),
        subnet: Some("subnet-1".to_owned()),
    }
}

/// The same, as an ordinary member of its group.
fn completed(machine: Machine) -> Machine {
    let tag = (names::TAG_STATE.to_owned(), COMPLETED.to_owned());
    Machine {
        tags: [tag].into(),
        ..machine
    }
}

fn lock(operation: &str) -> Observed<LockView> {
    Observed::Present(LockView {
        operation: operation.to_owned(),
        holder: "ns/other".to_owned(),
        node_uid: "old-uid".to_owned(),
        renewed: Some(start()),
        is_abandoned: false,
        goes_with_node: false,
    })
}

fn pod(name: &str) -> PodView {
    PodView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        owner: Some(("ReplicaSet".to_owned(), "web".to_owned())),
        ..PodView::default()
    }
}

/// A world in which nothing is in the way, seen by a task that has just been made.
fn fair_world() -> TaskSnapshot {
    TaskSnapshot {
        old_node: Observed::Present(node("old")),
        anew: Observed::Absent,
        new_node: Observed::Present(node("new")),
        old_machine: Observed::Present(machine("m-old", MachineState::Ready)),
        new_machine: Observed::Present(completed(machine("m-new", MachineState::Ready))),
        pending: Observed::Absent,
        group: Observed::Present(Group {
            id: "workers".into(),
            image: "image-2".into(),
            zones: vec!["a".to_owned()],
            min: 1,
            max: 5,
            desired: 3,
            raises_max: false,
            template: Some(Template {
                id: "lt-1".to_owned(),
                version: "7".to_owned(),
            }),
        }),
        pods: Observed::Present(Vec::new()),
        lock: lock(OPERATION),
        slot: Observed::Absent,
        ..TaskSnapshot::of(task())
    }
}

/// The fair world, seen by a task that has come as far as `step`.
fn world_at(step: TaskStep) -> TaskSnapshot {
    let mut world = fair_world();
    while step_of(&world) != step {
        let before = step_of(&world);
        if before == TaskStep::Drain {
            world.old_machine = Observed::Absent;
        }
        if before == TaskStep::Cordon {
            world.old_node = Observed::Present(NodeView {
                unschedulable: true,
                ..node("old")
            });
        }
        if before == TaskStep::Forget {
            world.old_node = Observed::Absent;
            world.lock = Observed::Absent;
        }
        world.task.status = Some(decide(&world, &Settings::default(), start()).status);
        assert_ne!(step_of(&world), before, "stuck on the way to {step:?}");
    }
    world.old_machine = Observed::Present(machine("m-old", MachineState::Ready));
    world
}

fn look(world: &TaskSnapshot) -> Decision<NodePatchTaskStatus> {
    decide(world, &Settings::default(), start())
}

fn step(decision: &Decision<NodePatchTaskStatus>) -> TaskStep {
    decision.status.step_name()
}

fn effects(decision: &Decision<NodePatchTaskStatus>) -> Vec<&'static str> {
    decision.effects.iter().map(Effect::name).collect()
}

#[test]
fn a_fair_world_is_walked_step_by_step_to_the_end() {
    let world = world_at(TaskStep::Done);
    let status = world.task.status.unwrap();
    assert_eq!(status.phase, Some(TaskPhase::Succeeded));
    assert!(condition::is_true(&status.conditions, SUCCEEDED));
    let kinds: Vec<&str> = status
        .conditions
        .iter()
        .map(|one| one.type_.as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "Locked",
            "ReplacementEnsured",
            "NewNodeReady",
            "Cordoned",
            "Drained",
            "OldDeleted",
            "Succeeded"
        ]
    );
}

#[test]
fn a_free_lock_is_asked_for_and_nothing_else() {
    let decision = look(&TaskSnapshot {
        lock: Observed::Absent,
        ..fair_world()
    });
    assert_eq!(effects(&decision), ["AcquireLock"]);
    assert_eq!(step(&decision), TaskStep::Lock);
}

#[test]
fn a_lock_of_another_operation_is_waited_for_and_its_holder_named() {
    let decision = look(&TaskSnapshot {
        lock: lock("other"),
        ..fair_world()
    });
    assert_eq!(effects(&decision), Vec::<&str>::new());
    assert_eq!(
        decision.status.waiting_for.as_deref(),
        Some("node old is locked by ns/other")
    );
    assert!(decision.wake.is_some());
}

#[test]
fn a_lock_whose_holder_is_gone_is_freed_and_its_cordon_lifted() {
    let mut world = fair_world();
    world.old_node = Observed::Present(NodeView {
        unschedulable: true,
        cordoned_by: Some("dead".to_owned()),
        ..node("old")
    });
    world.lock = lock("dead");
    assert_eq!(effects(&look(&world)), Vec::<&str>::new());
    if let Observed::Present(lock) = &mut world.lock {
        lock.is_abandoned = true;
    }
    assert_eq!(effects(&look(&world)), ["EnsureUncordoned", "ReleaseLock"]);
}

#[test]
fn a_node_that_somebody_opens_again_is_cordoned_again_and_never_drained_or_removed() {
    for step in [TaskStep::Drain, TaskStep::Remove] {
        let mut world = world_at(step);
        world.old_node = Observed::Present(node("old"));
        world.pods = Observed::Present(vec![pod("a")]);
        let decision = look(&world);
        assert_eq!(decision.effects, [], "{step:?}");
        assert_eq!(decision.status.step_name(), TaskStep::Cordon, "{step:?}");
    }
}

#[test]
fn pods_of_a_node_that_has_left_are_waited_for_without_going_back() {
    let mut world = world_at(TaskStep::Remove);
    world.old_node = Observed::Absent;
    world.pods = Observed::Present(vec![pod("a")]);
    let decision = look(&world);
    assert_eq!(decision.effects, []);
    assert_eq!(step(&decision), TaskStep::Remove);
    assert!(decision.wake.unwrap() > start());
    world.pods = Observed::Present(Vec::new());
    assert_eq!(effects(&look(&world)), ["DeleteMachine"]);
}

#[test]
fn the_intent_is_recorded_before_any_machine_is_asked_for() {
    let decision = look(&fair_world());
    assert_eq!(step(&decision), TaskStep::Provision);
    assert_eq!(decision.effects, []);
    let intent = decision.status.replacement.unwrap();
    assert_eq!(
        intent.image.as_deref(),
        Some("image-2"),
        "the group's current image"
    );
    assert!(!intent.token.is_empty());
}

#[test]
fn the_replacement_is_asked_for_under_the_recorded_token() {
    let world = TaskSnapshot {
        new_machine: Observed::Absent,
        ..world_at(TaskStep::Provision)
    };
    let decision = look(&world);
    let Some(Effect::EnsureReplacement(request)) = decision.effects.first() else {
        panic!("{:?}", decision.effects)
    };
    let recorded = world.task.status.unwrap().replacement.unwrap();
    assert_eq!(request.token.as_str(), recorded.token);
    assert_eq!(request.zone, "a");
}

#[test]
fn an_unclear_answer_never_leads_to_an_effect() {
    let unknown = || "the cloud is away".to_owned();
    let table = vec![
        TaskSnapshot {
            lock: Observed::Unknown(unknown()),
            ..fair_world()
        },
        TaskSnapshot {
            new_machine: Observed::Unknown(unknown()),
            ..world_at(TaskStep::Provision)
        },
        TaskSnapshot {
            new_node: Observed::Unknown(unknown()),
            ..world_at(TaskStep::Cordon)
        },
        TaskSnapshot {
            pods: Observed::Unknown(unknown()),
            ..world_at(TaskStep::Drain)
        },
        TaskSnapshot {
            pods: Observed::Unknown(unknown()),
            ..world_at(TaskStep::Remove)
        },
        TaskSnapshot {
            old_machine: Observed::Unknown(unknown()),
            ..world_at(TaskStep::Remove)
        },
        TaskSnapshot {
            old_node: Observed::Unknown(unknown()),
            ..world_at(TaskStep::Forget)
        },
        TaskSnapshot {
            slot: Observed::Unknown(unknown()),
            ..world_at(TaskStep::Release)
        },
    ];
    for world in table {
        let decision = look(&world);
        assert_eq!(decision.effects, [], "in {:?}", step_of(&world));
        assert_eq!(step(&decision), step_of(&world));
        assert!(
            decision
                .status
                .waiting_for
                .unwrap()
                .contains("the cloud is away")
        );
        assert!(decision.wake.is_some());
    }
}

#[test]
fn the_old_node_is_not_touched_while_the_replacement_is_not_ready() {
    let sick = NodeView {
        ready: false,
        ..node("new")
    };
    let stranger = NodeView {
        uid: "another".to_owned(),
        ..node("new")
    };
    for new_node in [
        Observed::Present(sick),
        Observed::Present(stranger),
        Observed::Absent,
    ] {
        for step in [TaskStep::Cordon, TaskStep::Remove] {
            let world = TaskSnapshot {
                new_node: new_node.clone(),
                ..world_at(step)
            };
            assert_eq!(look(&world).effects, [], "{step:?} with {new_node:?}");
        }
    }
}

#[test]
fn a_stranger_under_the_old_name_is_never_cordoned_or_deleted() {
    let stranger = Observed::Present(NodeView {
        uid: "stranger".to_owned(),
        ..node("old")
    });
    for step in [TaskStep::Cordon, TaskStep::Forget] {
        let world = TaskSnapshot {
            old_node: stranger.clone(),
            ..world_at(step)
        };
        assert_eq!(look(&world).effects, [], "{step:?}");
    }
}

#[test]
fn a_cordon_that_was_there_before_is_recorded_as_not_ours() {
    let cordoned = NodeView {
        unschedulable: true,
        ..node("old")
    };
    let world = TaskSnapshot {
        old_node: Observed::Present(cordoned),
        ..world_at(TaskStep::Join)
    };
    assert!(!look(&world).status.cordon.unwrap().ours);
    assert!(look(&world_at(TaskStep::Join)).status.cordon.unwrap().ours);
}

#[test]
fn pods_are_evicted_one_call_each_and_the_step_stays() {
    let pods = Observed::Present(vec![pod("a"), pod("b")]);
    let decision = look(&TaskSnapshot {
        pods,
        ..world_at(TaskStep::Drain)
    });
    assert_eq!(effects(&decision), ["EvictPod", "EvictPod"]);
    assert_eq!(step(&decision), TaskStep::Drain);
    assert_eq!(decision.status.drain.unwrap().total, 2);
}

#[test]
fn a_drain_without_news_changes_no_status() {
    let mut world = world_at(TaskStep::Drain);
    world.pods = Observed::Present(vec![pod("a"), pod("b")]);
    world.task.status = Some(look(&world).status);
    world.pods = Observed::Present(vec![PodView {
        terminating: true,
        ..pod("a")
    }]);
    assert_eq!(Some(look(&world).status), world.task.status);
}

#[test]
fn a_machine_is_not_removed_while_pods_are_on_its_node() {
    let world = TaskSnapshot {
        pods: Observed::Present(vec![pod("late")]),
        ..world_at(TaskStep::Remove)
    };
    let decision = look(&world);
    assert_eq!(decision.effects, []);
    assert_eq!(
        step(&decision),
        TaskStep::Cordon,
        "it is cordoned and drained again"
    );
}

#[test]
fn the_old_machine_is_asked_to_end_once_and_then_waited_for() {
    let mut world = world_at(TaskStep::Remove);
    assert_eq!(effects(&look(&world)), ["DeleteMachine"]);
    world.old_machine = Observed::Present(machine("m-old", MachineState::Terminating));
    assert_eq!(effects(&look(&world)), ["EnsurePending"]);
}

#[test]
fn the_slot_is_given_back_before_the_end_and_the_lock_after_it_is_stored() {
    let mut world = world_at(TaskStep::Release);
    world.slot = Observed::Present(());
    assert_eq!(effects(&look(&world)), ["ReleaseSlot"]);
    let mut world = world_at(TaskStep::Done);
    world.task.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
    world.lock = lock(OPERATION);
    assert_eq!(effects(&look(&world)), ["ReleaseLock", "DropFinalizer"]);
    world.lock = Observed::Unknown("no answer".to_owned());
    assert_eq!(effects(&look(&world)), Vec::<&str>::new());
    world.lock = lock("somebody-else");
    assert_eq!(
        effects(&look(&world)),
        ["DropFinalizer"],
        "another operation's lock is left alone"
    );
}

#[test]
fn what_creates_or_destroys_waits_until_its_step_and_its_words_are_stored() {
    let asking = TaskSnapshot {
        new_machine: Observed::Absent,
        ..world_at(TaskStep::Provision)
    };
    let stored = asking.task.status.clone().unwrap();
    let decision = look(&asking);
    let is_fine =
        |read: Option<&NodePatchTaskStatus>| is_recorded(read, &decision.status, &decision.effects);
    assert!(is_fine(Some(&stored)));
    assert!(!is_fine(None), "the step is not stored");
    let mut other = stored.clone();
    other.replacement.as_mut().unwrap().token = "another".to_owned();
    assert!(!is_fine(Some(&other)), "the words are not stored");
    assert!(is_recorded(None, &decision.status, &[]));
    let removing = look(&world_at(TaskStep::Remove));
    assert!(!is_recorded(
        Some(&stored),
        &removing.status,
        &removing.effects
    ));
}

#[test]
fn no_pod_leaves_before_the_drain_is_stored() {
    let mut draining = world_at(TaskStep::Drain);
    draining.pods = Observed::Present(vec![PodView {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "web-uid".to_owned(),
        owner: Some(("ReplicaSet".to_owned(), "web".to_owned())),
        ..PodView::default()
    }]);
    let decision = look(&draining);
    assert_eq!(effects(&decision), ["EvictPod"]);
    let cordoned = world_at(TaskStep::Cordon).task.status;
    let is_fine = |read| is_recorded(read, &decision.status, &decision.effects);
    assert!(!is_fine(cordoned.as_ref()));
    assert!(is_fine(draining.task.status.as_ref()));
}

#[test]
fn a_task_that_has_ended_rests() {
    let world = world_at(TaskStep::Done);
    let decision = look(&world);
    assert_eq!(decision, Decision::rest(world.task.status.unwrap()));
}

//! What runs promise and tasks claim: I1, I2, I12, I24, I25.

use serde_json::json;

use super::*;

#[test]
fn a_limit_that_is_raised_on_the_way_counts_and_one_that_is_lowered_binds_new_work() {
    let mut witness = witness();
    let mut see = |fact| witness.see(Timestamp::UNIX_EPOCH, fact);
    see(run("run", json!({ "batchSizeNonImportant": 2 })));
    see(plain_task("a"));
    see(plain_task("b"));
    see(Fact::Lock {
        name: "node-a".to_owned(),
        operation: "task-a".to_owned(),
    });
    see(Fact::Lock {
        name: "node-b".to_owned(),
        operation: "task-b".to_owned(),
    });
    see(Fact::Node(cordoned("a")));
    see(run("run", json!({ "batchSizeNonImportant": 1 })));
    see(Fact::Node(cordoned("b")));
    assert_eq!(
        names(&witness),
        Vec::<&str>::new(),
        "begun under the old limit"
    );
    let mut see = |fact| witness.see(Timestamp::UNIX_EPOCH, fact);
    see(task(
        "a",
        json!({}),
        json!({ "step": { "name": "Done", "since": "2026-01-01T00:00:00Z" } }),
    ));
    see(Fact::Node(NodeView {
        cordoned_by: None,
        ..cordoned("c")
    }));
    assert!(
        names(&witness).contains(&"I1"),
        "{:?}",
        witness.violations()
    );
}

#[test]
fn the_largest_batches_of_two_runs_do_not_overflow() {
    let most = json!({
        "batchSizeImportant": i32::MAX, "batchSizeNonImportant": i32::MAX,
        "importantPodSelectors": [{ "labelSelector": {} }],
    });
    let cordon = Fact::Node(NodeView {
        cordoned_by: None,
        ..cordoned("a")
    });
    let facts = vec![run("second", most), cordon, Fact::NodeGone("a".to_owned())];
    assert_eq!(broken(facts), Vec::<&str>::new());
}

#[test]
fn two_nodes_of_a_zone_that_allows_one_break_i1() {
    let in_zone = |name: &str, zone: &str| {
        Fact::Node(NodeView {
            zone: zone.to_owned(),
            cordoned_by: None,
            ..cordoned(name)
        })
    };
    let limits = || {
        run(
            "run",
            json!({ "batchSizeNonImportant": 3, "maxConcurrentPerZone": 1 }),
        )
    };
    let gone = ["a", "b"].map(|name| Fact::NodeGone(name.to_owned()));
    let facts = |zone| {
        let facts = [limits(), in_zone("a", "x"), in_zone("b", zone)];
        facts.into_iter().chain(gone.clone()).collect()
    };
    assert_eq!(broken(facts("x")), ["I1"]);
    assert_eq!(broken(facts("y")), Vec::<&str>::new());
}

#[test]
fn a_machine_that_goes_before_its_replacement_comes_counts_as_out_of_service() {
    let first = || {
        run(
            "run",
            json!({ "batchSizeNonImportant": 1, "replacement": "TerminateFirst" }),
        )
    };
    let other = || {
        Fact::Node(NodeView {
            cordoned_by: None,
            ..cordoned("other")
        })
    };
    let start = || {
        vec![
            first(),
            Fact::Node(node("old")),
            deleted("old"),
            Fact::NodeGone("old".to_owned()),
        ]
    };
    let mut early = start();
    early.extend([other(), Fact::NodeGone("other".to_owned())]);
    assert_eq!(broken(early), ["I1"]);
    let mut late = start();
    late.extend([created("new", "old"), Fact::Node(node("new"))]);
    late.extend([other(), Fact::NodeGone("other".to_owned())]);
    assert_eq!(broken(late), Vec::<&str>::new());
}

#[test]
fn a_removal_under_pods_breaks_i2_unless_the_run_as_it_is_now_forces_it() {
    let drain = |on_deadline: &str| json!({ "drain": { "onDeadline": on_deadline } });
    let removal = |copy: &str, runs: Vec<Fact>| {
        let mut facts = vec![Fact::Node(node("old")), task("old", drain(copy), json!({}))];
        facts.extend(runs);
        facts.extend([created("new", "old"), Fact::Node(node("new"))]);
        facts.extend([Fact::Pod(pod("p", "old")), deleted("old")]);
        broken(facts)
    };
    let says = |word: &str| run("run", drain(word));
    let never = Vec::<&str>::new();
    assert_eq!(removal("Park", vec![says("Park"), says("Force")]), never);
    assert_eq!(removal("Force", vec![says("Force"), says("Park")]), ["I2"]);
    let gone = || Fact::RunGone("run".to_owned());
    assert_eq!(removal("Force", vec![says("Park"), gone()]), never);
    assert_eq!(removal("Park", vec![says("Force"), gone()]), ["I2"]);
}

#[test]
fn removal_before_the_required_daemons_are_ready_breaks_i2() {
    let selector = json!({ "requiredNodeDaemonPodSelectors": [
        { "labelSelector": { "matchLabels": { "app": "agent" } } },
    ] });
    let facts = |ready: bool| {
        let daemon = PodView {
            ready,
            owner: Some(("DaemonSet".to_owned(), "agent".to_owned())),
            labels: [("app".to_owned(), "agent".to_owned())]
                .into_iter()
                .collect(),
            ..pod("agent", "new")
        };
        vec![
            Fact::Node(node("old")),
            task("old", selector.clone(), json!({})),
            created("new", "old"),
            Fact::Node(node("new")),
            Fact::Pod(daemon),
            deleted("old"),
        ]
    };
    assert_eq!(broken(facts(false)), ["I2"]);
    assert_eq!(broken(facts(true)), Vec::<&str>::new());
}

#[test]
fn a_token_that_makes_a_second_machine_breaks_i12() {
    let made = |machine: &str| {
        Fact::Call(Call::Created {
            machine: machine.to_owned(),
            provider_id: machine.to_owned(),
            replaces: "old".to_owned(),
            token: "token".to_owned(),
        })
    };
    assert_eq!(broken(vec![made("a"), made("a")]), Vec::<&str>::new());
    assert_eq!(broken(vec![made("a"), deleted("a"), made("b")]), ["I12"]);
}

#[test]
fn a_look_at_a_secret_breaks_i25() {
    let request = Request {
        verb: "get".to_owned(),
        resource: "secrets".to_owned(),
        ..Request::default()
    };
    assert_eq!(broken(vec![Fact::Request(request)]), ["I25"]);
}

fn claiming(node: &str, kind: &str) -> Fact {
    let condition = json!({
        "type": kind, "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let machine = json!({ "id": "new", "providerID": "new" });
    task(
        node,
        json!({}),
        json!({ "conditions": [condition], "newMachine": machine }),
    )
}

#[test]
fn a_claim_that_the_world_does_not_bear_out_breaks_i24() {
    let table = [
        (
            claiming("old", "ReplacementEnsured"),
            vec![created("new", "old")],
        ),
        (
            claiming("old", "NewNodeReady"),
            vec![created("new", "old"), Fact::Node(node("new"))],
        ),
        (
            claiming("old", "Cordoned"),
            vec![
                plain_task("old"),
                lock_of("old"),
                Fact::Node(cordoned("old")),
            ],
        ),
        (
            claiming("old", "Drained"),
            vec![Fact::PodGone("p".to_owned())],
        ),
    ];
    for (claim, truth) in table {
        let start = vec![Fact::Node(node("old")), Fact::Pod(pod("p", "old"))];
        let mut early = start.clone();
        early.push(claim.clone());
        assert_eq!(broken(early), ["I24"], "{claim:?}");
        let mut late = start;
        late.extend(truth);
        late.push(claim.clone());
        late.push(Fact::NodeGone("old".to_owned()));
        assert_eq!(broken(late), Vec::<&str>::new(), "{claim:?}");
    }
    assert_eq!(broken(vec![claiming("running", "OldDeleted")]), ["I24"]);
}

fn lock_of(node: &str) -> Fact {
    Fact::Lock {
        name: format!("node-{node}"),
        operation: format!("task-{node}"),
    }
}

#[test]
fn a_task_that_takes_back_what_it_said_breaks_i24() {
    let at = |attempt: i32, step: &str| {
        let step = json!({ "name": step, "since": "2026-01-01T00:00:00Z" });
        task(
            "old",
            json!({}),
            json!({ "attempt": attempt, "step": step }),
        )
    };
    assert_eq!(broken(vec![at(2, "Join"), at(1, "Join")]), ["I24"]);
    assert_eq!(broken(vec![at(1, "Done"), at(1, "Lock")]), ["I24"]);
    assert_eq!(
        broken(vec![claiming("old", "OldDeleted"), plain_task("old")]),
        ["I24"]
    );
    assert_eq!(
        broken(vec![at(1, "Join"), at(2, "Lock")]),
        Vec::<&str>::new()
    );
}

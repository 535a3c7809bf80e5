//! Deeds against plans and wishes: I7, I8, I21.

use serde_json::json;

use shipshape_engine::naming::replacement_token;

use super::*;

fn request(verb: &str, resource: &str, subresource: &str, uid: &str) -> Fact {
    Fact::Request(Request {
        verb: verb.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        uid: uid.to_owned(),
        code: 200,
        ..Request::default()
    })
}

fn lock_of(node: &str) -> Fact {
    Fact::Lock {
        name: format!("node-{node}"),
        operation: format!("task-{node}"),
    }
}

#[test]
fn a_node_that_no_task_is_about_is_a_stranger_and_touching_it_breaks_i7() {
    let gone = || Fact::NodeGone("a".to_owned());
    let deeds = [
        Fact::Node(cordoned("a")),
        request("delete", "nodes", "", "a"),
        request("create", "pods", "eviction", "p"),
    ];
    for deed in deeds {
        let start = [Fact::Node(node("a")), Fact::Pod(pod("p", "a"))];
        let known = start
            .clone()
            .into_iter()
            .chain([plain_task("a"), lock_of("a")]);
        let facts = start.into_iter().chain([deed.clone(), gone()]).collect();
        assert_eq!(broken(facts), ["I7"], "{deed:?}");
        let facts = known.chain([deed.clone(), gone()]).collect();
        assert_eq!(broken(facts), Vec::<&str>::new(), "{deed:?}");
    }
}

#[test]
fn a_new_node_under_the_name_of_a_planned_one_is_a_stranger() {
    let stranger = NodeView {
        uid: "another".to_owned(),
        provider_id: Some("another".into()),
        ..cordoned("a")
    };
    let facts = vec![
        plain_task("a"),
        Fact::Node(stranger),
        Fact::NodeGone("a".to_owned()),
    ];
    assert_eq!(broken(facts), ["I7"]);
}

fn labelled(name: &str, labels: &[(&str, &str)]) -> Fact {
    Fact::Node(NodeView {
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..node(name)
    })
}

fn done(lists: serde_json::Value) -> Fact {
    let step = json!({ "name": "Done", "since": "2026-01-01T00:00:00Z" });
    let status = json!({ "step": step, "newNodeUID": "new" });
    let mut spec = json!({});
    spec["labelTransfer"] = lists;
    task("old", spec, status)
}

#[test]
fn labels_that_are_overwritten_lost_or_unasked_for_break_i8() {
    let play = |now: &[(&str, &str)]| {
        broken(vec![
            labelled("old", &[("x/team", "red"), ("y/rack", "7")]),
            created("new", "old"),
            labelled("new", &[("x/own", "1")]),
            labelled("new", now),
            done(json!({ "prefixes": ["x/"] })),
        ])
    };
    assert_eq!(
        play(&[("x/own", "1"), ("x/team", "red")]),
        Vec::<&str>::new()
    );
    assert_eq!(
        play(&[("x/own", "2"), ("x/team", "red")]),
        ["I8"],
        "overwritten"
    );
    assert_eq!(play(&[("x/team", "red")]), ["I8"], "taken away");
    assert_eq!(play(&[("x/own", "1")]), ["I8"], "lost");
    let unasked = [("x/own", "1"), ("x/team", "red"), ("y/rack", "7")];
    assert_eq!(play(&unasked), ["I8"], "unasked for");
}

#[test]
fn work_that_begins_long_after_a_run_was_stopped_breaks_i21() {
    let abort = || run("run", json!({ "abort": true, "batchSizeNonImportant": 1 }));
    let pause = || run("run", json!({ "paused": true, "batchSizeNonImportant": 1 }));
    let known = || {
        let machine = json!({ "oldMachine": { "id": "old" } });
        vec![
            Fact::Node(node("old")),
            task("old", json!({}), machine),
            lock_of("old"),
        ]
    };
    let deeds = [
        (vec![], pause(), plain_task("old")),
        (vec![], abort(), plain_task("old")),
        (known(), abort(), Fact::Node(cordoned("old"))),
        (known(), abort(), created("new", "old")),
    ];
    for (start, stop, deed) in deeds {
        for (after, expected) in [(10, Vec::new()), (100, vec!["I21"])] {
            let mut witness = witness();
            for fact in start.clone() {
                witness.see(seconds(0), fact);
            }
            witness.see(seconds(0), stop.clone());
            witness.see(seconds(after), deed.clone());
            assert_eq!(names(&witness), expected, "{deed:?} after {after} s");
        }
    }
}

#[test]
fn a_machine_of_one_run_is_not_held_against_another_that_was_called_off() {
    let of_run = |run: &str| {
        let mut fact = task(
            "old",
            json!({ "runUID": run, "runName": run }),
            json!({
                "oldMachine": { "id": "old" }, "attempt": 1,
            }),
        );
        if let Fact::Task { task, .. } = &mut fact {
            Arc::make_mut(task).metadata.uid = Some(format!("task-of-{run}"));
        }
        fact
    };
    for (maker, expected) in [("alive", Vec::new()), ("stopped", vec!["I21"])] {
        let mut witness = Witness::new(true);
        let limits = json!({ "batchSizeNonImportant": 1 });
        let stop = json!({ "abort": true, "batchSizeNonImportant": 1 });
        let facts = [
            run("alive", limits.clone()),
            run("stopped", limits),
            Fact::Node(node("old")),
            of_run("alive"),
            of_run("stopped"),
            run("stopped", stop),
        ];
        for fact in facts {
            witness.see(seconds(0), fact);
        }
        let token = replacement_token(&format!("task-of-{maker}"), "old", 1);
        let call = Call::Created {
            machine: "new".to_owned(),
            provider_id: "new".to_owned(),
            replaces: "old".to_owned(),
            token: token.0,
        };
        witness.see(seconds(100), Fact::Call(call));
        assert_eq!(names(&witness), expected, "{maker}");
    }
}

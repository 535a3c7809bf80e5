//! What a scenario file may say, and what a wrong one is told.

use super::*;

const GOOD: &str = "
name: small
world:
  nodes: 3
  workloads:
    - name: web
      replicas: 6
      budget: { maxUnavailable: 1 }
intents:
  - apiVersion: shipshape.dev/v1alpha1
    kind: NodePatchRun
    metadata: { name: roll, namespace: default }
    spec: { provider: { type: embedded } }
events:
  - at: 90s
    do: { crashOperator: { down: 5s } }
expect:
  within: 1h
  replaced: 3
";

fn complaint(text: &str) -> String {
    Scenario::parse("test.yaml", text).unwrap_err().to_string()
}

#[test]
fn a_good_file_is_read_whole() {
    let scenario = Scenario::parse("test.yaml", GOOD).unwrap();
    assert_eq!(scenario.events[0].at, SignedDuration::from_secs(90));
    assert_eq!(scenario.expect.replaced, Some(3));
    assert_eq!(
        scenario.world.spec(1).objects.len(),
        2,
        "a workload and its budget"
    );
}

#[test]
fn a_hurried_scenario_divides_its_times_and_nothing_else() {
    let scenario = Scenario::parse("test.yaml", GOOD).unwrap();
    let hurried = scenario.hurried();
    assert_eq!(hurried.events[0].at, SignedDuration::from_millis(4_500));
    let Action::CrashOperator { down } = hurried.events[0].action else {
        panic!("another action: {:?}", hurried.events[0].action);
    };
    assert_eq!(down, SignedDuration::from_millis(250));
    assert_eq!(hurried.expect.replaced, scenario.expect.replaced);
    assert_eq!(hurried.expect.within, SignedDuration::from_mins(4));
    assert_eq!(hurried.settings.resync, scenario.settings.resync);
    let world = scenario.hurried_world(1);
    assert_eq!(world.cloud.settings.boot.as_millis(), 2_250);
    assert_eq!(world.objects, scenario.world.spec(1).objects);
}

#[test]
fn a_deadline_that_a_scenario_sets_is_hurried_further_than_the_others() {
    let text = format!("{GOOD}settings: {{ deadlines: {{ join: 10m }} }}");
    let hurried = Scenario::parse("test.yaml", &text).unwrap().hurried();
    assert_eq!(hurried.settings.deadlines.join.as_secs(), 30);
    assert_eq!(hurried.settings.deadlines.provision.as_secs(), 60);
    assert_eq!(hurried.settings.sweep.grace.as_secs(), 45);
}

#[test]
fn a_wrong_key_is_named_with_its_line() {
    let message = complaint(&GOOD.replace("nodes: 3", "nodez: 3"));
    assert!(message.contains("nodez"), "{message}");
    assert!(message.contains("line 4"), "{message}");
}

#[test]
fn a_wrong_value_is_named_with_its_line() {
    let message = complaint(&GOOD.replace("at: 90s", "at: soon"));
    assert!(message.contains("line 15"), "{message}");
    assert!(message.contains("events[0].at: "), "{message}");
}

#[test]
fn a_count_that_is_none_is_told_what_would_be_right() {
    let message = complaint(&GOOD.replace("replaced: 3", "gate: { verified: many }"));
    let right = "expect.gate.verified: right would be a number such as 5, or [least, most]";
    assert!(message.contains(right), "{message}");
}

#[test]
fn what_yaml_cannot_see_is_checked_too() {
    let table = [
        ("nodes: 3", "nodes: 0", "world.nodes"),
        (
            "nodes: 3",
            "nodes: 3\n  zones: [a, \"b<c\"]",
            "world.zones[1] is \"b<c\"",
        ),
        (
            "nodes: 3",
            "nodes: 3\n  zones: [\"\"]",
            "world.zones[0] is \"\"",
        ),
        ("nodes: 3", "nodes: 20001", "world.nodes is 20001; at most"),
        (
            "replicas: 6",
            "replicas: 4000000000",
            "world.workloads[0].replicas",
        ),
        ("at: 90s", "at: -5s", "events[0].at is"),
        ("within: 1h", "within: 999999999h", "expect.within is"),
        ("within: 1h", "within: -1h", "expect.within is"),
        ("nodes: 3", "nodes: 3\n  boot: -1s", "world.boot is"),
        ("nodes: 3", "nodes: 3\n  detach: -1s", "world.detach is"),
        (
            "intents:",
            "settings: { sweep: { every: 0s } }\nintents:",
            "settings.sweep.every is 0s; right would be",
        ),
        (
            "intents:",
            "settings: { deadlines: { drain: -1m } }\nintents:",
            "settings.deadlines.drain is -1m; right would be",
        ),
        (
            "nodes: 3",
            "nodes: 3\n  lostCloudAnswers: 101",
            "world.lostCloudAnswers is 101",
        ),
        (
            "down: 5s",
            "down: -5s",
            "events[0].do.crashOperator.down is",
        ),
        (
            "crashOperator: { down: 5s }",
            "cordon: { node: 3 }",
            "events[0]",
        ),
        (
            "at: 90s",
            "once: { task: { node: 3, step: Join } }",
            "events[0] names node 3",
        ),
        ("    kind: NodePatchRun\n", "", "intents[0].kind"),
    ];
    for (from, to, expected) in table {
        let message = complaint(&GOOD.replace(from, to));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_world_without_bounds_is_refused_with_field_value_and_limit() {
    let objects = |field: &str| {
        format!(
            "nodes: 3\n  objects:\n    - apiVersion: apps/v1\n      kind: Deployment\n      \
             metadata: {{ name: big, namespace: default }}\n      spec: {{ {field} }}"
        )
    };
    let (big, below) = (objects("replicas: 1000000000"), objects("replicas: -1"));
    let table = [
        (
            "nodes: 3",
            "nodes: 3\n  controlPlanes: 4000000000",
            "world.controlPlanes is 4000000000; at most 20000",
        ),
        (
            "nodes: 3",
            "nodes: 3\n  newcomers: 20001",
            "world.newcomers is 20001; at most 20000",
        ),
        (
            "nodes: 3",
            "nodes: 15000\n  newcomers: 15000",
            "world.nodes, world.controlPlanes and world.newcomers are 30000 together; at most 20000",
        ),
        ("nodes: 3", "nodes: 3\n  hurry: 0", "world.hurry is 0"),
        (
            "    - name: web\n",
            "    - { name: a, replicas: 150000 }\n    - { name: b, replicas: 150000 }\n    - name: web\n",
            "world.workloads make 300006 pods together; at most 200000",
        ),
        (
            "nodes: 3",
            &big,
            "world.objects[0].spec.replicas is 1000000000; right would be a whole number from 0 to 200000",
        ),
        (
            "nodes: 3",
            &below,
            "world.objects[0].spec.replicas is -1; right would be",
        ),
        (
            "crashOperator: { down: 5s }",
            "patch: { apiVersion: apps/v1, kind: Deployment, metadata: { name: web }, spec: { replicas: 200001 } }",
            "events[0].do.patch.spec.replicas is 200001",
        ),
        (
            "crashOperator: { down: 5s }",
            "delete: { kind: Pod }",
            "events[0].do.delete.apiVersion is missing",
        ),
    ];
    for (from, to, expected) in table {
        let text = GOOD.replace(from, to);
        let read = Scenario::parse("test.yaml", &text).map(|scenario| scenario.name);
        let message = read.map_or_else(|error| error.to_string(), |_| format!("{to} is taken"));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn an_event_that_would_be_nothing_is_refused_with_what_there_is() {
    let crash = "crashOperator: { down: 5s }";
    let table = [
        (
            "fullZones: [a, z]",
            "events[0].do.fullZones names zone z; world.zones has a, b, c",
        ),
        (
            "removeRun: { namespace: default, name: january }",
            "events[0].do.removeRun names run default/january; this story makes default/roll",
        ),
        (
            "sickMembers: [0]",
            "events[0].do.sickMembers names node 0; members of etcd are on control planes, and world.controlPlanes is 0",
        ),
        (
            "reboot: { name: nope, outage: 5s }",
            "events[0].do.reboot.name is nope; nodes of this world are called node-workers-001 and on",
        ),
        (
            "reboot: { name: node-newcomers-001, outage: 5s }",
            "events[0].do.reboot.name is node-newcomers-001",
        ),
    ];
    for (to, expected) in table {
        let message = complaint(&GOOD.replace(crash, to));
        assert!(message.contains(expected), "{message}");
    }
    let message = complaint(&GOOD.replace("within: 1h", "within: 0s"));
    assert!(message.contains("expect.within is 0s"), "{message}");
    let planes = GOOD.replace("nodes: 3", "nodes: 3\n  controlPlanes: 2");
    let message = complaint(&planes.replace(crash, "sickMembers: [2]"));
    assert!(message.contains("are nodes 0 to 1"), "{message}");

    let created = "create: { apiVersion: shipshape.dev/v1alpha1, kind: NodePatchRun, \
                   metadata: { name: january, namespace: default }, spec: { provider: { type: embedded } } }";
    let removed = "do: { removeRun: { namespace: default, name: january } }";
    for fine in [
        "fullZones: [a]".to_owned(),
        "removeRun: { namespace: default, name: roll }".to_owned(),
        format!("{created} }}\n  - {removed}\n  - do: {{ resume"),
        "reboot: { name: node-workers-004, outage: 5s }".to_owned(),
    ] {
        Scenario::parse("test.yaml", &GOOD.replace(crash, &fine)).unwrap();
    }
    Scenario::parse("test.yaml", &planes.replace(crash, "sickMembers: [1]")).unwrap();
}

/// A world with this object in it.
fn object(kind: &str, rest: &str) -> String {
    format!(
        "nodes: 3\n  objects: [{{ {kind}, metadata: {{ name: one, namespace: default }}, {rest} }}]"
    )
}

#[test]
fn unknown_fields_of_manifests_are_named_with_their_path() {
    let update = "apiVersion: shipshape.dev/v1alpha1, kind: NodePatchRun";
    let deployment = "apiVersion: apps/v1, kind: Deployment";
    let table = [
        (
            "spec: { provider: { type: embedded } }",
            "spec: { provider: { type: embedded }, batchSizeImportent: 1 }",
            "intents[0].spec.batchSizeImportent is unknown: a NodePatchRun of shipshape.dev/v1alpha1 has no such field",
        ),
        (
            "spec: { provider: { type: embedded } }",
            "spec: { provider: { type: embedded }, drain: { time: 5m } }",
            "intents[0].spec.drain.time is unknown",
        ),
        (
            "metadata: { name: roll,",
            "metadata: { name: roll, label: {},",
            "intents[0].metadata.label is unknown",
        ),
        (
            "nodes: 3",
            &object(
                update,
                "spec: { provider: { type: embedded }, pause: true }",
            ),
            "world.objects[0].spec.pause is unknown",
        ),
        (
            "nodes: 3",
            &object(deployment, "spec: { replica: 3 }"),
            "world.objects[0].spec.replica is unknown: a Deployment of apps/v1 has no such field",
        ),
        (
            "nodes: 3",
            &object(
                deployment,
                "spec: { template: { spec: { containers: [{ img: x }] } } }",
            ),
            "world.objects[0].spec.template.spec.containers[0].img is unknown",
        ),
        (
            "crashOperator: { down: 5s }",
            &format!("create: {{ {deployment}, metadata: {{ name: a }}, sepc: {{}} }}"),
            "events[0].do.create.sepc is unknown",
        ),
        (
            "crashOperator: { down: 5s }",
            &format!("patch: {{ {update}, metadata: {{ name: roll }}, spec: {{ pasued: true }} }}"),
            "events[0].do.patch.spec.pasued is unknown",
        ),
    ];
    for (from, to, expected) in table {
        let text = GOOD.replace(from, to);
        let read = Scenario::parse("test.yaml", &text).map(|scenario| scenario.name);
        let message = read.map_or_else(|error| error.to_string(), |_| format!("{to} is taken"));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn fields_of_foreign_kinds_and_those_that_a_patch_takes_away_are_no_unknown_ones() {
    let update = "apiVersion: shipshape.dev/v1alpha1, kind: NodePatchRun";
    // Of a kind that somebody else owns nothing is known; a patch may take any field away.
    for fine in [
        object(
            "apiVersion: karpenter.sh/v1, kind: NodeClaim",
            "spec: { any: 1 }",
        ),
        object("apiVersion: v1, kind: ConfigMap", "data: { any: key }"),
    ] {
        Scenario::parse("test.yaml", &GOOD.replace("nodes: 3", &fine)).unwrap();
    }
    let fine =
        format!("patch: {{ {update}, metadata: {{ name: roll }}, spec: {{ drain: null }} }}");
    Scenario::parse(
        "test.yaml",
        &GOOD.replace("crashOperator: { down: 5s }", &fine),
    )
    .unwrap();
}

#[test]
fn a_missing_file_is_named_and_the_system_quoted_once() {
    let error = Scenario::load(Path::new("no/such/file.yaml")).unwrap_err();
    assert_eq!(
        shipshape_cluster::error::in_full(&error),
        "cannot read no/such/file.yaml: No such file or directory (os error 2)"
    );
}

//! Rules that every kind obeys, checked on the schema that the API server gets.

mod examples;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::{
    AutoscalingStrategyStatus, DirectUpdateStatus, NodePatchRunSpec, NodePatchRunStatus,
    NodePatchTaskStatus, NodeVersionStatus, PendingNodeStatus, ScalingGroupStatus,
    ScheduledUpdateStatus, TaskStep, UpdateScheduleStatus, crds, names, phase_of,
};

/// One schema and where it was found, for example `DirectUpdate.spec.canary.nodes[]`.
struct Place {
    path: String,
    schema: Value,
}

impl Place {
    fn is(&self, kind: &str) -> bool {
        self.schema.get("type") == Some(&json!(kind))
    }

    fn has(&self, key: &str) -> bool {
        self.schema.get(key).is_some()
    }

    fn is_entry(&self) -> bool {
        self.path.ends_with("[]") || self.path.ends_with(".*")
    }
}

fn root(crd: &CustomResourceDefinition) -> Value {
    let version = &crd.spec.versions[0];
    let schema = version
        .schema
        .as_ref()
        .and_then(|schema| schema.open_api_v3_schema.clone());
    serde_json::to_value(schema.expect("a schema")).expect("JSON")
}

/// Every schema below `spec` and `status` of every kind.
fn places() -> Vec<Place> {
    let mut found = Vec::new();
    for crd in crds() {
        for part in ["spec", "status"] {
            let path = format!("{}.{part}", crd.spec.names.kind);
            collect(&path, &root(&crd)["properties"][part], &mut found);
        }
    }
    assert!(
        found.len() > 250,
        "the walk must reach every field, it reached {}",
        found.len()
    );
    found
}

fn collect(path: &str, schema: &Value, found: &mut Vec<Place>) {
    found.push(Place {
        path: path.to_owned(),
        schema: schema.clone(),
    });
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        collect(&format!("{path}.{name}"), field, found);
    }
    if let Some(items) = schema.get("items") {
        collect(&format!("{path}[]"), items, found);
    }
    if let Some(values) = schema.get("additionalProperties") {
        collect(&format!("{path}.*"), values, found);
    }
}

/// Paths of the places that break a rule.
fn offenders(broken: impl Fn(&Place) -> bool) -> Vec<String> {
    places()
        .into_iter()
        .filter(|place| broken(place))
        .map(|place| place.path)
        .collect()
}

#[test]
fn kinds_have_the_designed_scope_and_names() {
    let table: Vec<_> = crds()
        .iter()
        .map(|crd| {
            let names = &crd.spec.names;
            let short = names.short_names.clone().unwrap_or_default().join(",");
            format!("{} {} {} {short}", names.kind, names.plural, crd.spec.scope)
        })
        .collect();
    assert_eq!(
        table,
        [
            "NodePatchRun nodepatchruns Namespaced npr",
            "NodeVersion nodeversions Cluster nv",
            "DirectUpdate directupdates Cluster du",
            "ScheduledUpdate scheduledupdates Cluster su",
            "UpdateSchedule updateschedules Cluster us",
            "NodePatchTask nodepatchtasks Namespaced npt",
            "PendingNode pendingnodes Cluster pn",
            "ScalingGroup scalinggroups Cluster sg",
            "AutoscalingStrategy autoscalingstrategies Cluster as",
        ]
    );
}

#[test]
fn kinds_share_group_version_category_status_and_a_waiting_column() {
    for crd in crds() {
        let kind = &crd.spec.names.kind;
        let version = &crd.spec.versions[0];
        assert_eq!(crd.spec.group, names::GROUP, "{kind}");
        assert_eq!(version.name, names::VERSION, "{kind}");
        assert_eq!(
            crd.spec.names.categories,
            Some(vec![names::CATEGORY.to_owned()]),
            "{kind}"
        );
        let subresources = version.subresources.as_ref().expect("subresources");
        assert!(subresources.status.is_some(), "{kind}");
        let columns = version
            .additional_printer_columns
            .as_ref()
            .expect("columns");
        assert!(
            columns.iter().any(|column| column.name == "Waiting for"),
            "{kind}"
        );
        assert!(columns.iter().any(|column| column.name == "Age"), "{kind}");
    }
}

#[test]
fn statuses_have_conditions_keyed_by_type_and_an_observed_generation() {
    for crd in crds() {
        let kind = &crd.spec.names.kind;
        let fields = &root(&crd)["properties"]["status"]["properties"];
        let conditions = &fields["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map", "{kind}");
        assert_eq!(
            conditions["x-kubernetes-list-map-keys"],
            json!(["type"]),
            "{kind}"
        );
        assert_eq!(fields["observedGeneration"]["format"], "int64", "{kind}");
        assert_eq!(fields["waitingFor"]["type"], "string", "{kind}");
    }
}

#[test]
fn every_field_is_documented_in_one_line() {
    let undocumented = offenders(|place| {
        let text = place.schema["description"].as_str().unwrap_or_default();
        !place.is_entry() && (text.is_empty() || text.contains('\n'))
    });
    assert_eq!(undocumented, Vec::<String>::new());
}

#[test]
fn a_field_speaks_for_itself_and_not_for_its_type() {
    let stability = places()
        .into_iter()
        .find(|place| place.path == "NodePatchTask.spec.stability");
    let text = stability.expect("the field").schema["description"].clone();
    assert_eq!(
        text,
        "When the important pods count as stable, as in the run."
    );
}

#[test]
fn every_list_says_how_it_is_merged_and_how_long_it_gets() {
    let vague = offenders(|place| {
        place.is("array") && !(place.has("x-kubernetes-list-type") && place.has("maxItems"))
    });
    assert_eq!(vague, Vec::<String>::new());
}

#[test]
fn every_string_has_a_longest_length() {
    let endless = offenders(|place| {
        let closed = place.has("enum") || place.schema["format"] == "date-time";
        place.is("string") && !closed && !place.has("maxLength")
    });
    assert_eq!(endless, Vec::<String>::new());
}

#[test]
fn every_map_has_a_largest_size() {
    let endless =
        offenders(|place| place.has("additionalProperties") && !place.has("maxProperties"));
    assert_eq!(endless, Vec::<String>::new());
}

#[test]
fn every_place_has_one_type_and_no_null() {
    let loose = offenders(|place| {
        let part = place.path.split('.').count() == 2;
        !place.schema["type"].is_string()
            || place.has("anyOf")
            || place.has("oneOf")
            || (!part && place.has("nullable"))
    });
    assert_eq!(loose, Vec::<String>::new());
}

#[test]
fn integers_have_formats_that_the_api_server_knows() {
    let odd = offenders(|place| {
        let format = place.schema["format"].as_str().unwrap_or_default();
        place.is("integer") && !["int32", "int64"].contains(&format)
    });
    assert_eq!(odd, Vec::<String>::new());
}

#[test]
fn every_rule_has_a_message_that_names_a_field() {
    for place in places() {
        for rule in place.schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let message = rule["message"].as_str().unwrap_or_default();
            let own = place.path.rsplit('.').next().unwrap_or_default();
            let fields = place.schema["properties"].as_object();
            let names_a_field = message.contains(own)
                || fields
                    .into_iter()
                    .flatten()
                    .any(|(name, _)| message.contains(name.as_str()));
            assert!(names_a_field, "{}: {message}", place.path);
        }
    }
}

/// What the seeds say, as `Kind.spec.field: value`, one per line.
const DEFAULTS: &str = r#"
DirectUpdate.spec.airGapped.enabled: false
DirectUpdate.spec.canary.enabled: false
DirectUpdate.spec.components: ["kubeadm","kubelet","kubectl"]
DirectUpdate.spec.concurrency: 1
DirectUpdate.spec.dryRun: false
DirectUpdate.spec.nodeTimeout: "30m"
DirectUpdate.spec.operationTimeout: "2h"
DirectUpdate.spec.preflightChecks: true
DirectUpdate.spec.strategy: "rolling"
NodePatchRun.spec.abort: false
NodePatchRun.spec.autoscalerControl.enabled: false
NodePatchRun.spec.autoscalerControl.forceRestore: true
NodePatchRun.spec.batchSizeImportant: 1
NodePatchRun.spec.batchSizeNonImportant: 2
NodePatchRun.spec.drain.barePods: "Block"
NodePatchRun.spec.drain.emptyDir: "Evict"
NodePatchRun.spec.drain.onDeadline: "Park"
NodePatchRun.spec.excludeControlPlane: true
NodePatchRun.spec.failurePolicy.enabled: false
NodePatchRun.spec.failurePolicy.pauseAfterFailures: 1
NodePatchRun.spec.labelTransfer.removeMissing: false
NodePatchRun.spec.maxAttempts: 3
NodePatchRun.spec.maxConcurrentPerZone: 0
NodePatchRun.spec.maxPerHour: 0
NodePatchRun.spec.partitionIterations: 2
NodePatchRun.spec.paused: false
NodePatchRun.spec.provider.aws.strictAZ: true
NodePatchRun.spec.stability.importantOnly: true
NodePatchTask.spec.action: "Replace"
NodePatchTask.spec.drain.barePods: "Block"
NodePatchTask.spec.drain.emptyDir: "Evict"
NodePatchTask.spec.drain.onDeadline: "Park"
NodePatchTask.spec.important: false
NodePatchTask.spec.labelTransfer.removeMissing: false
NodePatchTask.spec.maxAttempts: 3
NodePatchTask.spec.provider.aws.strictAZ: true
NodePatchTask.spec.stability.importantOnly: true
PendingNode.spec.provider.aws.strictAZ: true
ScalingGroup.spec.autoscaling: false
ScalingGroup.spec.max: 10
ScalingGroup.spec.min: 1
ScalingGroup.spec.role: "Worker"
ScheduledUpdate.spec.airGapped.enabled: false
ScheduledUpdate.spec.canary.enabled: false
ScheduledUpdate.spec.components: ["kubeadm","kubelet","kubectl"]
ScheduledUpdate.spec.concurrency: 1
ScheduledUpdate.spec.preflightChecks: true
ScheduledUpdate.spec.strategy: "rolling"
UpdateSchedule.spec.maintenanceWindow.timezone: "UTC"
UpdateSchedule.spec.suspended: false
UpdateSchedule.spec.updatePolicy.components: ["kubeadm","kubelet"]
UpdateSchedule.spec.updatePolicy.concurrency: 1
UpdateSchedule.spec.updatePolicy.preflightChecks: true
UpdateSchedule.spec.updatePolicy.strategy: "rolling"
"#;

#[test]
fn defaults_are_those_of_the_seeds_and_our_own() {
    let mut found: Vec<String> = places()
        .into_iter()
        .filter_map(|place| Some(format!("{}: {}", place.path, place.schema.get("default")?)))
        .collect();
    found.sort();
    let expected: Vec<&str> = DEFAULTS.trim().lines().collect();
    assert_eq!(found, expected);
}

#[test]
fn accessors_give_the_defaults_of_the_schema() {
    let spec = NodePatchRunSpec::default();
    assert!(!spec.paused());
    assert!(spec.exclude_control_plane());
    assert_eq!(spec.partition_iterations(), 2);
    assert_eq!(spec.batch_size_important(), 1);
    assert_eq!(spec.batch_size_non_important(), 2);
    assert_eq!(spec.max_concurrent_per_zone(), None);
    assert_eq!(spec.pause_after_failures(), None);
}

#[test]
fn an_empty_status_is_an_empty_object() {
    let statuses = [
        serde_json::to_value(NodePatchRunStatus::default()),
        serde_json::to_value(NodePatchTaskStatus::default()),
        serde_json::to_value(NodeVersionStatus::default()),
        serde_json::to_value(DirectUpdateStatus::default()),
        serde_json::to_value(ScheduledUpdateStatus::default()),
        serde_json::to_value(UpdateScheduleStatus::default()),
        serde_json::to_value(PendingNodeStatus::default()),
        serde_json::to_value(ScalingGroupStatus::default()),
        serde_json::to_value(AutoscalingStrategyStatus::default()),
    ];
    for status in statuses {
        assert_eq!(status.expect("JSON"), json!({}));
    }
}

#[test]
fn a_task_shows_the_last_phase_that_is_surely_true() {
    let phases: Vec<_> = [
        TaskStep::Lock,
        TaskStep::Provision,
        TaskStep::Join,
        TaskStep::Cordon,
        TaskStep::Drain,
        TaskStep::Remove,
        TaskStep::Forget,
        TaskStep::Release,
        TaskStep::Done,
        TaskStep::Failed,
    ]
    .map(|step| format!("{:?}", phase_of(step)))
    .into();
    assert_eq!(
        phases,
        [
            "Pending",
            "Locked",
            "ReplacementEnsured",
            "NewNodeReady",
            "Cordoned",
            "Drained",
            "OldDeleted",
            "OldDeleted",
            "Succeeded",
            "Failed",
        ]
    );
}

#[test]
fn the_list_of_steps_has_every_step_of_the_schema_once() {
    let steps = TaskStep::ALL.map(|step| serde_json::to_string(&step).unwrap());
    let distinct: std::collections::BTreeSet<_> = steps.iter().collect();
    assert_eq!(distinct.len(), steps.len());
    // A documented variant is a `const` of its own in the schema.
    let schema = serde_json::to_string(&schemars::schema_for!(TaskStep)).unwrap();
    let variants = schema.matches("\"const\":").count();
    assert_eq!(variants, steps.len(), "{schema}");
}

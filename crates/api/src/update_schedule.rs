//! UpdateSchedule: upgrade in place on a cron, in a window.
//!
//! Owns spec and status, and the shape of a cron expression; when it fires next is the engine's
//! business. Makes a ScheduledUpdate each time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::transform::Transform;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::update::{self, Component, DEFAULT_POLICY_COMPONENTS, Strategy};

/// What shall be upgraded, how and how often.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "shipshape.dev",
    version = "v1alpha1",
    kind = "UpdateSchedule",
    status = "UpdateScheduleStatus",
    shortname = "us",
    category = "shipshape",
    derive = "PartialEq",
    derive = "Default",
    doc = "Upgrades nodes in place, again and again, inside a maintenance window.",
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Suspended", type_ = "boolean", json_path = ".spec.suspended"),
    printcolumn(
        name = "Last Schedule",
        type_ = "date",
        json_path = ".status.lastScheduledTime"
    ),
    printcolumn(
        name = "Next",
        type_ = "string",
        json_path = ".status.nextScheduledTime"
    ),
    printcolumn(
        name = "Waiting for",
        type_ = "string",
        json_path = ".status.waitingFor"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct UpdateScheduleSpec {
    /// When to upgrade: five cron fields (minute, hour, day of month, month, day of week), a name
    /// such as @monthly, or @every with a duration.
    #[schemars(transform = cron)]
    pub schedule: String,
    /// What to upgrade each time.
    pub update_policy: UpdatePolicy,
    /// Whether nothing is made for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub suspended: Option<bool>,
    /// The time of day in which work may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance_window: Option<MaintenanceWindow>,
}

impl UpdateScheduleSpec {
    /// Whether nothing is made for now.
    pub fn suspended(&self) -> bool {
        self.suspended.unwrap_or(false)
    }
}

/// What to upgrade each time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePolicy {
    /// Which version to reach: latest-patch, a version, or a minor version with a star such as
    /// 1.35.*.
    #[schemars(transform = version_pattern)]
    pub target_version_pattern: String,
    /// Parts of the nodes to upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = update::components(&DEFAULT_POLICY_COMPONENTS))]
    pub components: Option<Vec<Component>>,
    /// In which order nodes are upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = Strategy::default()))]
    pub strategy: Option<Strategy>,
    /// Most worker nodes in work at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::count(1, 1))]
    pub concurrency: Option<i32>,
    /// Whether the cluster is checked before anything moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub preflight_checks: Option<bool>,
}

/// A time of day in which work may begin. An end before the start is on the next day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::rule_on("end", "self.start != self.end", "start and end must differ"))]
pub struct MaintenanceWindow {
    /// First minute of the window, HH:MM.
    #[schemars(transform = schema::text(5), transform = schema::matches(
        "^([01][0-9]|2[0-3]):[0-5][0-9]$", "start must be a time of day such as 02:00"))]
    pub start: String,
    /// First minute after the window, HH:MM.
    #[schemars(transform = schema::text(5), transform = schema::matches(
        "^([01][0-9]|2[0-3]):[0-5][0-9]$", "end must be a time of day such as 06:00"))]
    pub end: String,
    /// Time zone of both, as in the tz database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = schema::some_text(64),
        transform = schema::matches(
            "^[A-Za-z0-9_+/-]+$",
            "timezone must be a name of the tz database such as UTC or Europe/Amsterdam",
        ),
        extend("default" = "UTC"),
    )]
    pub timezone: Option<String>,
}

impl MaintenanceWindow {
    /// Time zone of both ends.
    pub fn timezone(&self) -> &str {
        self.timezone.as_deref().unwrap_or("UTC")
    }
}

/// What a schedule has done and will do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct UpdateScheduleStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the schedule, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When it fired last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scheduled_time: Option<Time>,
    /// When it will fire next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_scheduled_time: Option<Time>,
    /// Name of the ScheduledUpdate that was made last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::NAME))]
    pub last_update_name: Option<String>,
    /// How many of its updates are under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0))]
    pub active: Option<i32>,
    /// What the schedule waits for, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub waiting_for: Option<String>,
}

/// `latest-patch`, `1.35.2` or `1.35.*`.
fn version_pattern(schema: &mut Schema) {
    schema::some_text(32).transform(schema);
    schema::matches(
        "^(latest-patch|v?[0-9]+[.][0-9]+([.]([0-9]+|[*]))?)$",
        "targetVersionPattern must be latest-patch, a version, or a pattern such as 1.35.*",
    )
    .transform(schema);
}

/// Five cron fields, or one of the names.
fn cron(schema: &mut Schema) {
    schema::some_text(schema::WORD).transform(schema);
    schema::matches(
        &cron_pattern(),
        "schedule must have five cron fields (minute, hour, day of month, month, day of week), \
         or be @hourly, @daily, @weekly, @monthly, @yearly or @every with a duration",
    )
    .transform(schema);
}

/// The shape of a cron expression, values within their range.
fn cron_pattern() -> String {
    const MONTHS: &str = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec";
    let fields = [
        field("[0-5]?[0-9]"),
        field("[01]?[0-9]|2[0-3]"),
        field("0?[1-9]|[12][0-9]|3[01]"),
        field(&format!("0?[1-9]|1[0-2]|{MONTHS}")),
        field("[0-7]|sun|mon|tue|wed|thu|fri|sat"),
    ]
    .join(" +");
    let names = "@(hourly|daily|midnight|weekly|monthly|yearly|annually)";
    let every = "@every +([0-9]+(s|m|h))+";
    format!("^(?i:{fields}|{names}|{every})$")
}

/// One cron field: a comma-separated list of values, ranges and steps.
fn field(value: &str) -> String {
    let entry = format!("([*?]|({value})(-({value}))?)(/[0-9]{{1,2}})?");
    format!("{entry}(,{entry})*")
}

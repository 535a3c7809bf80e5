//! The manifests in a scenario file, looked at before anything is played.
//!
//! Owns where they stand in the file, and the fields that their kinds have. Must not judge what a
//! cluster would: values that its API refuses are refused by it, when the story comes there. Unknown
//! fields are not: an API drops them without a word.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use shipshape_simulator::schema::{Schema, builtin};

use super::check::REPLICAS_MAX;
use super::{Action, Scenario};

/// What names an object.
const NAMES: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// Where kinds say how many pods they want.
const COUNTS: [&str; 3] = ["replicas", "parallelism", "completions"];

/// Says what is wrong with the first manifest that is, with its place.
pub(super) fn check(scenario: &Scenario) -> Result<(), String> {
    let objects = scenario.world.objects.iter().enumerate();
    let intents = scenario.intents.iter().enumerate();
    let placed = objects
        .map(|(index, object)| (format!("world.objects[{index}]"), object))
        .chain(intents.map(|(index, intent)| (format!("intents[{index}]"), intent)))
        .chain(scenario.events.iter().enumerate().filter_map(of_event));
    for (place, manifest) in placed {
        check_one(&place, manifest)?;
    }
    Ok(())
}

fn of_event((index, event): (usize, &super::Event)) -> Option<(String, &Value)> {
    let (action, manifest) = if let Action::Create(manifest) = &event.action {
        ("create", manifest)
    } else if let Action::Patch(manifest) = &event.action {
        ("patch", manifest)
    } else if let Action::Delete(manifest) = &event.action {
        ("delete", manifest)
    } else {
        return None;
    };
    Some((format!("events[{index}].do.{action}"), manifest))
}

fn check_one(place: &str, manifest: &Value) -> Result<(), String> {
    if let Some(field) = NAMES.iter().find(|field| manifest.get(field).is_none()) {
        return Err(format!("{place}.{field} is missing"));
    }
    check_fields(place, manifest)?;
    check_counts(place, manifest)
}

/// Whether the kind has all fields that are written. Of kinds that are neither ours nor every cluster's
/// nothing is known.
fn check_fields(place: &str, manifest: &Value) -> Result<(), String> {
    let text = |field: &str| manifest.get(field).and_then(Value::as_str);
    let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
        return Err(format!(
            "{place}: apiVersion and kind are texts, such as apps/v1 and Deployment"
        ));
    };
    let Some(schema) = schema(api_version, kind) else {
        return Ok(());
    };
    let unknown = schema.prune(&mut manifest.clone());
    match unknown.first() {
        Some(field) => Err(format!(
            "{place}.{field} is unknown: a {kind} of {api_version} has no such field"
        )),
        None => Ok(()),
    }
}

type Schemas = BTreeMap<(String, String), Option<Arc<Schema>>>;

/// Schemas by apiVersion and kind. Reading one takes longer than a small story.
static SCHEMAS: Mutex<Schemas> = Mutex::new(BTreeMap::new());

fn schema(api_version: &str, kind: &str) -> Option<Arc<Schema>> {
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (api_version.to_owned(), kind.to_owned());
    let read = || read_schema(api_version, kind).map(Arc::new);
    schemas.entry(key).or_insert_with(read).clone()
}

fn read_schema(api_version: &str, kind: &str) -> Option<Schema> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let crds = shipshape_api::crds();
    let mut crds = crds.into_iter().map(|crd| crd.spec);
    let Some(ours) = crds.find(|spec| spec.group == group && spec.names.kind == kind) else {
        return builtin::schemas().schema(group, version, kind);
    };
    let mut versions = ours.versions.into_iter();
    let served = versions.find(|served| served.name == version)?;
    let source = served.schema?.open_api_v3_schema?;
    Some(Schema::of_crd(&serde_json::to_value(source).ok()?))
}

/// Every pod of these is played, and none of them has a bound of its own.
fn check_counts(place: &str, manifest: &Value) -> Result<(), String> {
    for field in COUNTS {
        let count = manifest.pointer(&format!("/spec/{field}"));
        let is_played = |count: i64| (0..=i64::from(REPLICAS_MAX)).contains(&count);
        if let Some(count) = count.filter(|count| count.is_number())
            && !count.as_i64().is_some_and(is_played)
        {
            return Err(format!(
                "{place}.spec.{field} is {count}; right would be a whole number from 0 to {REPLICAS_MAX}"
            ));
        }
    }
    Ok(())
}

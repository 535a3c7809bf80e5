//! The manifests in a scenario file, looked at before anything is played.
//!
//! Owns where they stand in the file. Must not judge what a cluster would: values that its API refuses
//! are refused by it, when the story comes there.

use serde_json::Value;

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
    check_counts(place, manifest)
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

//! What events name: zones, members of etcd, machines and runs that the story must have.
//!
//! Owns the sentences. Without them an event that names nothing would be nothing, without a word. Called by `check`.

use serde_json::Value;

use super::world::WorldSection;
use super::{Action, Scenario};

/// Zones without capacity are zones of the world.
pub(super) fn check_zones(
    world: &WorldSection,
    index: usize,
    zones: &[String],
) -> Result<(), String> {
    match zones.iter().find(|zone| !world.zones.contains(zone)) {
        Some(zone) => Err(format!(
            "events[{index}].do.fullZones names zone {zone}; world.zones has {}",
            world.zones.join(", ")
        )),
        None => Ok(()),
    }
}

/// A node with a member of etcd. Control planes are the first in every list of nodes.
pub(super) fn check_member(world: &WorldSection, index: usize, node: usize) -> Result<(), String> {
    if node < world.control_planes as usize {
        return Ok(());
    }
    let there = match world.control_planes.checked_sub(1) {
        None => "world.controlPlanes is 0, so there are none".to_owned(),
        Some(last) => format!("the control planes are nodes 0 to {last}"),
    };
    Err(format!(
        "events[{index}].do.sickMembers names node {node}; members of etcd are on control planes, and {there}"
    ))
}

/// A name that a node of the world can have. Whether one of it runs then only the story can tell.
pub(super) fn check_name(world: &WorldSection, index: usize, name: &str) -> Result<(), String> {
    let groups = world.groups();
    let is_known = groups.iter().any(|group| {
        let number = name.strip_prefix(&format!("node-{group}-"));
        number.is_some_and(|number| {
            number.len() >= 3 && number.bytes().all(|letter| letter.is_ascii_digit())
        })
    });
    if is_known {
        return Ok(());
    }
    let known: Vec<String> = groups
        .iter()
        .map(|group| format!("node-{group}-001 and on"))
        .collect();
    Err(format!(
        "events[{index}].do.reboot.name is {name}; nodes of this world are called {}",
        known.join(", ")
    ))
}

/// A run that the story makes at some time.
pub(super) fn check_run(
    scenario: &Scenario,
    index: usize,
    namespace: &str,
    name: &str,
) -> Result<(), String> {
    let events = scenario.events.iter().map(|event| &event.action);
    let created = events.filter_map(|action| {
        let Action::Create(manifest) = action else {
            return None;
        };
        Some(manifest)
    });
    let manifests = scenario.world.objects.iter().chain(&scenario.intents);
    let wanted = format!("{namespace}/{name}");
    let runs: Vec<String> = manifests.chain(created).filter_map(run_of).collect();
    if runs.contains(&wanted) {
        return Ok(());
    }
    let there = match runs.as_slice() {
        [] => "makes none".to_owned(),
        runs => format!("makes {}", runs.join(", ")),
    };
    Err(format!(
        "events[{index}].do.removeRun names run {wanted}; this story {there}"
    ))
}

/// Namespace and name of the run that a manifest makes.
fn run_of(manifest: &Value) -> Option<String> {
    let text = |place: &str| manifest.pointer(place).and_then(Value::as_str);
    let name = text("/metadata/name").filter(|_| text("/kind") == Some("NodePatchRun"))?;
    let namespace = text("/metadata/namespace").unwrap_or("default");
    Some(format!("{namespace}/{name}"))
}

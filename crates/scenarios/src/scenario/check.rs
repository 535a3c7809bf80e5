//! What a scenario may say beyond its types: bounds, and places that must exist.
//!
//! Owns the sentences. A file that passes here can be played in a finite time on one machine.

use jiff::SignedDuration;

use super::world::{WorkloadKind, WorldSection};
use super::{Action, Once, Scenario, manifests, places};

/// More nodes than any cluster that Kubernetes promises to carry, and than one process should.
const NODES_MAX: u32 = 20_000;
/// Most pods that workloads of a cluster ask for, one by one and all together.
pub(super) const REPLICAS_MAX: u32 = 200_000;
/// Longest time that a file may speak of.
const TIME_MAX: SignedDuration = SignedDuration::from_hours(24 * 3650);

/// Says what is wrong, with the field.
pub(super) fn check(scenario: &Scenario) -> Result<(), String> {
    check_world(scenario)?;
    let settings = scenario.settings.check();
    settings.map_err(|wrong| wrong.to_string())?;
    if let Some(gate) = &scenario.gate {
        gate.check().map_err(|why| format!("gate.{why}"))?;
    }
    if scenario.intents.is_empty() && scenario.gate.is_none() {
        return Err("intents is empty; give at least one manifest".to_owned());
    }
    manifests::check(scenario)?;
    check_events(scenario)?;
    check_time("expect.within", scenario.expect.within)?;
    if scenario.expect.within.is_zero() {
        return Err("expect.within is 0s; right would be a time longer than that".to_owned());
    }
    check_time("expect.rest", scenario.expect.rest)
}

fn check_world(scenario: &Scenario) -> Result<(), String> {
    let world = &scenario.world;
    check_machines(world)?;
    if world.zones.is_empty() {
        return Err("world.zones is empty; name at least one zone".to_owned());
    }
    for (index, zone) in world.zones.iter().enumerate() {
        if !is_zone(zone) {
            return Err(format!(
                "world.zones[{index}] is {zone:?}; a zone is up to 63 letters, digits, '-', '_' or '.', \
                 with a letter or digit at both ends"
            ));
        }
    }
    if world.lost_cloud_answers > 100 {
        return Err(format!(
            "world.lostCloudAnswers is {}; it is a percentage, from 0 to 100",
            world.lost_cloud_answers
        ));
    }
    for (name, time) in [
        ("boot", world.boot),
        ("join", world.join),
        ("terminate", world.terminate),
        ("podStart", world.pod_start),
        ("podStop", world.pod_stop),
        ("detach", world.detach),
        ("cloudReadLag", world.cloud_read_lag),
    ] {
        check_time(&format!("world.{name}"), time)?;
    }
    check_pods(world)
}

/// Every machine is a process in the world, whether it is there at the start or comes later.
fn check_machines(world: &WorldSection) -> Result<(), String> {
    if world.nodes == 0 {
        return Err("world.nodes is 0; a scenario needs at least one node".to_owned());
    }
    if world.hurry == 0 {
        return Err("world.hurry is 0; times are divided by it, so it is at least 1".to_owned());
    }
    let mut all = 0;
    for (name, machines) in [
        ("nodes", world.nodes),
        ("controlPlanes", world.control_planes),
        ("newcomers", world.newcomers),
    ] {
        if machines > NODES_MAX {
            return Err(format!(
                "world.{name} is {machines}; at most {NODES_MAX} are played"
            ));
        }
        all += machines;
    }
    if all > NODES_MAX {
        return Err(format!(
            "world.nodes, world.controlPlanes and world.newcomers are {all} together; \
             at most {NODES_MAX} are played"
        ));
    }
    Ok(())
}

fn check_pods(world: &WorldSection) -> Result<(), String> {
    let mut all = 0;
    for (index, workload) in world.workloads.iter().enumerate() {
        let pods = match workload.kind {
            WorkloadKind::Deployment | WorkloadKind::StatefulSet => workload.replicas,
            // One on every node, whatever it says.
            WorkloadKind::DaemonSet => world.nodes,
            WorkloadKind::Job => 1,
        };
        if pods > REPLICAS_MAX {
            return Err(format!(
                "world.workloads[{index}].replicas is {pods}; at most {REPLICAS_MAX} are played"
            ));
        }
        all += u64::from(pods);
    }
    if all > u64::from(REPLICAS_MAX) {
        return Err(format!(
            "world.workloads make {all} pods together; at most {REPLICAS_MAX} are played"
        ));
    }
    Ok(())
}

/// Whether a node can carry the zone as a label.
fn is_zone(zone: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric();
    zone.len() <= 63
        && zone.starts_with(is_plain)
        && zone.ends_with(is_plain)
        && zone
            .chars()
            .all(|letter| is_plain(letter) || matches!(letter, '-' | '_' | '.'))
}

fn check_events(scenario: &Scenario) -> Result<(), String> {
    for (index, event) in scenario.events.iter().enumerate() {
        check_time(&format!("events[{index}].at"), event.at)?;
        let check_node = |node: usize| check_node(scenario, index, node);
        if let Some(Once::Task { node, .. } | Once::Leaving { node }) = &event.once {
            check_node(*node)?;
        }
        match &event.action {
            Action::Cordon { node }
            | Action::Uncordon { node }
            | Action::KillMachine { node }
            | Action::StrayMachine { node }
            | Action::JoinOutdated { node }
            | Action::RemoveTask { node } => check_node(*node)?,
            Action::SickMembers(nodes) => {
                for node in nodes {
                    places::check_member(&scenario.world, index, *node)?;
                }
            }
            Action::FullZones(zones) => places::check_zones(&scenario.world, index, zones)?,
            Action::RemoveRun { namespace, name } => {
                places::check_run(scenario, index, namespace, name)?;
            }
            Action::CrashOperator { down } => {
                check_time(&format!("events[{index}].do.crashOperator.down"), *down)?;
            }
            Action::Join { newcomers } if *newcomers > scenario.world.newcomers => {
                return Err(format!(
                    "events[{index}].do.join.newcomers is {newcomers}; world.newcomers allows {}",
                    scenario.world.newcomers
                ));
            }
            Action::Reboot { name, outage } => {
                places::check_name(&scenario.world, index, name)?;
                check_time(&format!("events[{index}].do.reboot.outage"), *outage)?;
            }
            Action::Join { .. }
            | Action::DnsDown(_)
            | Action::UnconnectedImages(_)
            | Action::Check(_)
            | Action::BrokenImages(_)
            | Action::UnreadyImages(_)
            | Action::Resume
            | Action::RetryFailed
            | Action::Create(_)
            | Action::Patch(_)
            | Action::Delete(_) => {}
        }
    }
    Ok(())
}

fn check_node(scenario: &Scenario, index: usize, node: usize) -> Result<(), String> {
    let nodes = scenario.world.nodes + scenario.world.control_planes;
    if node < nodes as usize {
        return Ok(());
    }
    Err(format!(
        "events[{index}] names node {node}; there are {nodes} nodes, counted from 0"
    ))
}

fn check_time(field: &str, time: SignedDuration) -> Result<(), String> {
    if time.is_negative() {
        return Err(format!("{field} is {time}; a time cannot be negative"));
    }
    if time > TIME_MAX {
        return Err(format!(
            "{field} is {time:#}; the longest time is ten years"
        ));
    }
    Ok(())
}

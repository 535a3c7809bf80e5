//! What happens on the way: people, machines and the cloud do as they please.
//!
//! Owns what may be drawn. What makes an end impossible is taken back later.

use serde_json::{Value, json};

use super::{Dice, manifest};

/// The `events` of a scenario.
pub(super) fn draw(dice: &mut Dice, world: &Value, spec: &Value) -> Vec<Value> {
    let nodes = world["nodes"].as_u64().unwrap_or(1);
    // A control plane's machine that dies leaves a member that only people take out of etcd.
    let first = world["controlPlanes"].as_u64().unwrap_or(0);
    let mut events = Vec::new();
    for _ in 0..dice.between(0, 3) {
        events.extend(of_world(dice, world, first, nodes));
    }
    match dice.between(0, 9) {
        0 => events.push(at(dice.between(1, 150), &patch(&json!({ "abort": true })))),
        1 => {
            let target = json!({
                "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchRun",
                "metadata": { "name": "roll", "namespace": "default" },
            });
            events.push(at(dice.between(1, 150), &json!({ "delete": target })));
        }
        2 => {
            let begin = dice.between(1, 100);
            events.push(at(begin, &patch(&json!({ "paused": true }))));
            let end = begin + dice.between(5, 200);
            events.push(at(end, &patch(&json!({ "paused": false }))));
        }
        3 => {
            let size = json!({ "batchSizeNonImportant": dice.between(1, 4) });
            events.push(at(dice.between(1, 100), &patch(&size)));
        }
        4 => {
            let second = json!({ "create": manifest("second", spec) });
            events.push(at(dice.between(1, 200), &second));
        }
        _ => {}
    }
    events
}

/// Something that befalls nodes, machines, the cloud or the operator's process.
fn of_world(dice: &mut Dice, world: &Value, first: u64, nodes: u64) -> Vec<Value> {
    let node = json!({ "node": first + dice.between(0, nodes - 1) });
    let begin = dice.between(0, 150);
    let end = begin + dice.between(5, 200);
    match dice.between(0, 5) {
        0 => vec![at(begin, &json!({ "cordon": node }))],
        1 => vec![
            at(begin, &json!({ "cordon": node.clone() })),
            at(end, &json!({ "uncordon": node })),
        ],
        2 => vec![
            at(begin, &json!({ "fullZones": world["zones"] })),
            at(end, &json!({ "fullZones": [] })),
        ],
        3 => vec![
            at(begin, &json!({ "brokenImages": ["image-2"] })),
            at(end, &json!({ "brokenImages": [] })),
        ],
        4 => vec![at(begin, &json!({ "killMachine": node }))],
        _ => {
            let down = dice.time(1, 60);
            vec![at(begin, &json!({ "crashOperator": { "down": down } }))]
        }
    }
}

pub(super) fn at(seconds: u64, action: &Value) -> Value {
    json!({ "at": format!("{seconds}s"), "do": action })
}

fn patch(spec: &Value) -> Value {
    json!({ "patch": {
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchRun",
        "metadata": { "name": "roll", "namespace": "default" },
        "spec": spec,
    } })
}

//! Random request sequences from a seed.
//!
//! Owns the small universe (kinds, names, labels, managers) and the weights of the verbs. A
//! sequence is made as script text, so that a failing one can be pasted into a fixed file. The
//! same seed and index always give the same text. Called by the run.

use anyhow::{Context, Result};

use super::script::{Sequence, parse};

mod bodies;
mod dice;

use bodies::Thing;
use dice::Dice;

const NAMES: [&str; 3] = ["a", "b", "c"];
const MANAGERS: [&str; 2] = ["one", "two"];
const SELECTORS: [&str; 7] = [
    "labelSelector=x=1",
    "labelSelector=x!=1",
    "labelSelector=x+in+(1,2)",
    "labelSelector=!x",
    "fieldSelector=metadata.name=a",
    "fieldSelector=metadata.name!=a",
    "labelSelector=x,y",
];

/// The sequence of this number under this seed.
pub(crate) fn sequence(seed: u64, index: u32) -> Result<Sequence> {
    let text = text(seed, index);
    let mut sequences = parse(&text, &format!("random-{seed}-{index}"))?;
    sequences.pop().context("the generator made no sequence")
}

/// Starts and ends with a mark, so that the watch at the end knows when it has seen all.
fn text(seed: u64, index: u32) -> String {
    let mut dice = Dice::new(seed, index);
    let mut lines = vec![String::from("== generated"), mark(Thing::Map, "start")];
    lines.push(mark(Thing::Widget, "start"));
    for _ in 0..8 + dice.roll(10) {
        lines.push(step(&mut dice));
    }
    for thing in [Thing::Map, Thing::Widget] {
        lines.push(mark(thing, "end"));
        let alias = thing.alias();
        lines.push(format!(
            "GET @{alias}?watch=true&resourceVersion=${alias}start.rv through=end"
        ));
    }
    lines.extend(Thing::ALL.map(|thing| {
        let selector = if thing == Thing::Node {
            "?labelSelector=ns=$ns"
        } else {
            ""
        };
        format!("GET @{}{selector}", thing.alias())
    }));
    lines.push("DELETE @node?labelSelector=ns=$ns".into());
    lines.join("\n\n")
}

fn mark(thing: Thing, name: &str) -> String {
    format!(
        "POST @{0} => {0}{name}\n{1}",
        thing.alias(),
        thing.plain(name)
    )
}

fn step(dice: &mut Dice) -> String {
    let thing = *dice.pick(&[
        Thing::Map,
        Thing::Map,
        Thing::Map,
        Thing::Widget,
        Thing::Widget,
        Thing::Pod,
        Thing::Deployment,
        Thing::Node,
    ]);
    let name = *dice.pick(&NAMES);
    match dice.roll(20) {
        0..=5 => create(dice, thing, name),
        6 => read(dice, thing, name),
        7..=8 => update(dice, thing, name),
        9..=10 => merge(dice, thing, name),
        11 => json(dice, thing, name),
        12 => strategic(dice, thing, name),
        13..=15 => apply(dice, thing, name),
        16 => status(dice, thing, name),
        17..=18 => delete(dice, thing, name),
        _ => delete_many(dice, thing),
    }
}

fn create(dice: &mut Dice, thing: Thing, name: &str) -> String {
    let query = dice.maybe(10, "?dryRun=All");
    let body = thing.body(dice, name, "");
    format!("POST @{0}{query} => {0}{name}\n{body}", thing.alias())
}

fn read(dice: &mut Dice, thing: Thing, name: &str) -> String {
    let (alias, path) = (thing.alias(), thing.path(name));
    if dice.roll(3) == 0 {
        let accept = *dice.pick(&["", " meta", " table"]);
        return format!("GET @{path}{accept}");
    }
    let mut query = String::from(*dice.pick(&SELECTORS));
    if thing == Thing::Node {
        query = String::from("labelSelector=ns=$ns");
    }
    if dice.roll(3) == 0 {
        query.push_str("&limit=1");
    }
    format!("GET @{alias}?{query}")
}

/// A precondition inside metadata: none, right, or stale.
fn precondition(dice: &mut Dice, thing: Thing, name: &str) -> String {
    let alias = thing.alias();
    match dice.roll(6) {
        0 => format!(r#","resourceVersion":"${alias}start.rv""#),
        1 | 2 => format!(r#","resourceVersion":"${alias}{name}.rv""#),
        3 => format!(r#","uid":"${alias}{name}.uid""#),
        _ => String::new(),
    }
}

fn update(dice: &mut Dice, thing: Thing, name: &str) -> String {
    let guard = precondition(dice, thing, name);
    let manager = dice.maybe(3, "?fieldManager=putter");
    let body = thing.body(dice, name, &guard);
    format!(
        "PUT @{}{manager} => {}{name}\n{body}",
        thing.path(name),
        thing.alias()
    )
}

fn merge(dice: &mut Dice, thing: Thing, name: &str) -> String {
    let guard = precondition(dice, thing, name);
    let patch = match dice.roll(4) {
        0 => r#""labels":{"x":"2","y":null}"#,
        1 => r#""finalizers":null"#,
        2 => r#""finalizers":["x.example/one"]"#,
        _ => r#""annotations":{"note":"n"}"#,
    };
    let rest = match dice.roll(2) {
        0 => format!(",{}", thing.change(dice)),
        _ => String::new(),
    };
    let alias = thing.alias();
    format!(
        "PATCH @{} merge => {alias}{name}\n{{\"metadata\":{{{patch}{guard}}}{rest}}}",
        thing.path(name)
    )
}

fn json(dice: &mut Dice, thing: Thing, name: &str) -> String {
    let patch = *dice.pick(&[
        r#"[{"op":"add","path":"/metadata/labels","value":{"x":"1"}}]"#,
        r#"[{"op":"remove","path":"/metadata/labels/x"}]"#,
        r#"[{"op":"test","path":"/metadata/labels/x","value":"1"},{"op":"replace","path":"/metadata/labels/x","value":"2"}]"#,
        r#"[{"op":"add","path":"/metadata/finalizers","value":["x.example/two"]}]"#,
        r#"[{"op":"remove","path":"/metadata/finalizers"}]"#,
    ]);
    format!(
        "PATCH @{} json => {}{name}\n{patch}",
        thing.path(name),
        thing.alias()
    )
}

fn strategic(dice: &mut Dice, thing: Thing, name: &str) -> String {
    let patch = *dice.pick(&[
        r#"{"metadata":{"finalizers":["x.example/two"]}}"#,
        r#"{"metadata":{"labels":{"x":"3"}}}"#,
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["x.example/one"]}}"#,
        r#"{"metadata":{"labels":null}}"#,
    ]);
    format!(
        "PATCH @{} strategic => {}{name}\n{patch}",
        thing.path(name),
        thing.alias()
    )
}

fn apply(dice: &mut Dice, thing: Thing, name: &str) -> String {
    let manager = *dice.pick(&MANAGERS);
    let force = dice.maybe(3, "&force=true");
    let body = thing.applied(dice, name);
    format!(
        "PATCH @{}?fieldManager={manager}{force} apply => {}{name}\n{body}",
        thing.path(name),
        thing.alias()
    )
}

fn status(dice: &mut Dice, thing: Thing, name: &str) -> String {
    let patch = thing.status(dice);
    format!(
        "PATCH @{}/status merge => {}{name}\n{patch}",
        thing.path(name),
        thing.alias()
    )
}

fn delete(dice: &mut Dice, thing: Thing, name: &str) -> String {
    let alias = thing.alias();
    let options = match dice.roll(6) {
        0 => format!("\n{{\"preconditions\":{{\"uid\":\"${alias}{name}.uid\"}}}}"),
        1 => format!("\n{{\"preconditions\":{{\"resourceVersion\":\"${alias}{name}.rv\"}}}}"),
        2 => format!("\n{{\"preconditions\":{{\"resourceVersion\":\"${alias}start.rv\"}}}}"),
        3 => String::from("\n{\"propagationPolicy\":\"Foreground\"}"),
        4 => String::from("\n{\"propagationPolicy\":\"Background\",\"gracePeriodSeconds\":0}"),
        _ => String::new(),
    };
    format!("DELETE @{}{options}", thing.path(name))
}

fn delete_many(dice: &mut Dice, thing: Thing) -> String {
    let selector = match thing {
        Thing::Node => "labelSelector=ns=$ns",
        Thing::Map | Thing::Widget => *dice.pick(&["labelSelector=x=1", "labelSelector=x=2"]),
        Thing::Pod | Thing::Deployment => *dice.pick(&SELECTORS),
    };
    format!("DELETE @{}?{selector}", thing.alias())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_and_index_give_the_same_text() {
        assert_eq!(text(7, 3), text(7, 3));
        assert_ne!(text(7, 3), text(7, 4));
        assert_ne!(text(7, 3), text(8, 3));
    }

    #[test]
    fn five_hundred_sequences_are_readable() {
        for index in 0..500 {
            assert!(sequence(1, index).unwrap().requests.len() >= 15);
        }
    }
}

//! The example manifests say what the types can hold: nothing in them is lost on the way.
//!
//! Whether an API server admits them is asked elsewhere, of the embedded one and of the real one.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    AutoscalingStrategy, DirectUpdate, NodePatchRun, NodeVersion, PendingNode, ScalingGroup,
    ScheduledUpdate, UpdateSchedule,
};

fn manifests(folder: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(folder);
    let mut files: Vec<_> = fs::read_dir(root)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .map(|path| (path.clone(), fs::read_to_string(path).expect("a text")))
        .collect();
    files.sort();
    files
}

fn through<K: DeserializeOwned + Serialize>(text: &str) -> Value {
    let object: K = serde_saphyr::from_str(text).expect("the kind");
    serde_json::to_value(object).expect("JSON")
}

fn through_its_kind(text: &str, kind: &str) -> Value {
    match kind {
        "AutoscalingStrategy" => through::<AutoscalingStrategy>(text),
        "DirectUpdate" => through::<DirectUpdate>(text),
        "NodePatchRun" => through::<NodePatchRun>(text),
        "NodeVersion" => through::<NodeVersion>(text),
        "PendingNode" => through::<PendingNode>(text),
        "ScalingGroup" => through::<ScalingGroup>(text),
        "ScheduledUpdate" => through::<ScheduledUpdate>(text),
        "UpdateSchedule" => through::<UpdateSchedule>(text),
        other => panic!("no example should be a {other}"),
    }
}

/// Times may be spelled in two ways; all else must be equal.
fn with_plain_times(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(
            text.parse::<Timestamp>()
                .map_or(text, |time| time.to_string()),
        ),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, field)| (name, with_plain_times(field)))
            .collect(),
        Value::Array(_) | Value::Bool(_) | Value::Null | Value::Number(_) => value,
    }
}

#[test]
fn examples_pass_through_their_types_without_a_loss() {
    let examples = manifests("examples");
    assert!(examples.len() >= 21, "{} examples", examples.len());
    for (path, text) in examples {
        let written: Value = serde_saphyr::from_str(&text).expect("YAML");
        let kind = written["kind"].as_str().expect("a kind");
        let read = through_its_kind(&text, kind);
        assert_eq!(
            with_plain_times(read),
            with_plain_times(written),
            "{}",
            path.display()
        );
    }
}

#[test]
fn bad_twins_name_the_field_that_the_refusal_must_name() {
    let twins = manifests("examples/refused");
    assert!(twins.len() >= 20, "{} twins", twins.len());
    for (path, text) in twins {
        let field = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# refused: "));
        assert!(
            field.is_some_and(|field| !field.is_empty()),
            "{}",
            path.display()
        );
    }
}

//! Compares two cleaned answers.
//!
//! Owns the walk through both and the list of places where they part. It must not know what is
//! accepted. Called by the run for every request.

use std::collections::BTreeSet;

use serde_json::Value;

use super::script::{Reading, Request};
use super::world::Answer;

/// One place where the answers part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// JSON pointer into the answer; `code` for the status code.
    pub(crate) place: String,
    /// What the embedded cluster says, none when it has nothing there.
    pub(crate) embedded: Option<Value>,
    /// What the real API server says.
    pub(crate) real: Option<Value>,
}

/// Both answers to one request, and where they part.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// All differences; empty when the answers agree.
    pub(crate) differences: Vec<Difference>,
    /// The real status code.
    pub(crate) code: u16,
    /// The real answer, for verbose reports.
    pub(crate) real: Value,
}

/// Compares two answers to the same request.
pub(crate) fn pair(request: &Request, embedded: &Answer, real: &Answer) -> Comparison {
    let mut differences = Vec::new();
    if embedded.code != real.code {
        differences.push(Difference {
            place: "code".into(),
            embedded: Some(embedded.code.into()),
            real: Some(real.code.into()),
        });
    }
    let subset = request.reading == Reading::Subset;
    walk(
        "",
        Some(&embedded.body),
        Some(&real.body),
        subset,
        &mut differences,
    );
    Comparison {
        differences,
        code: real.code,
        real: real.body.clone(),
    }
}

fn walk(
    place: &str,
    embedded: Option<&Value>,
    real: Option<&Value>,
    subset: bool,
    found: &mut Vec<Difference>,
) {
    match (embedded, real) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let place = format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
                walk(&place, left.get(key), right.get(key), subset, found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) if subset => {
            for item in left {
                let place = format!("{place}/{}", identity(item));
                let twin = right.iter().find(|other| identity(other) == identity(item));
                walk(&place, Some(item), twin, subset, found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for index in 0..left.len().max(right.len()) {
                walk(
                    &format!("{place}/{index}"),
                    left.get(index),
                    right.get(index),
                    subset,
                    found,
                );
            }
        }
        (Some(Value::Number(left)), Some(Value::Number(right)))
            if left.as_f64() == right.as_f64() => {}
        (left, right) if left == right => {}
        (left, right) => found.push(Difference {
            place: place.to_owned(),
            embedded: left.cloned(),
            real: right.cloned(),
        }),
    }
}

/// What tells one entry of a list from another where the order is of no interest.
fn identity(item: &Value) -> String {
    [
        "/name",
        "/metadata/name",
        "/resource",
        "/version",
        "/subresource",
        "/groupVersion",
    ]
    .iter()
    .find_map(|pointer| item.pointer(pointer).and_then(Value::as_str))
    .map_or_else(|| anonymous(item), str::to_owned)
}

/// Entries without a name are told apart by what they are, objects not at all.
fn anonymous(item: &Value) -> String {
    if item.is_object() {
        return String::new();
    }
    item.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn places(left: &Value, right: &Value, subset: bool) -> Vec<String> {
        let mut found = Vec::new();
        walk("", Some(left), Some(right), subset, &mut found);
        found
            .into_iter()
            .map(|difference| difference.place)
            .collect()
    }

    #[test]
    fn missing_key_and_other_value_are_both_found() {
        let found = places(
            &json!({"a": 1, "b": [1, 2]}),
            &json!({"b": [1, 3], "c": 0}),
            false,
        );
        assert_eq!(found, ["/a", "/b/1", "/c"]);
    }

    #[test]
    fn subset_allows_more_on_the_real_side_only() {
        let few = json!([{"name": "pods"}]);
        let many = json!([{"name": "bindings"}, {"name": "pods"}]);
        assert_eq!(places(&few, &many, true), Vec::<String>::new());
        assert_eq!(places(&many, &few, true), ["/bindings"]);
    }
}

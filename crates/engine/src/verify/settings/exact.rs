//! Lists of Kubernetes' own types, read as strictly as the rest of the file.
//!
//! Owns what those types let pass: a key that they do not know, and nothing where a list belongs. Both would be read
//! as something else than was meant, and without a word.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Reads a list whose items have no key that their type does not know.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Serialize,
{
    let Some(items) = Option::<Vec<Value>>::deserialize(from)? else {
        let words = "nothing is given; right would be a list, which may be empty: []";
        return Err(Error::custom(words));
    };
    let read = |(index, mut item): (usize, Value)| {
        write_out(&mut item);
        let told = |words: String| Error::custom(format!("item {index}: {words}"));
        let typed: T = serde_json::from_value(item.clone()).map_err(|it| told(it.to_string()))?;
        let kept = serde_json::to_value(&typed).map_err(|it| told(it.to_string()))?;
        match unknown_key(&item, &kept) {
            Some(key) => Err(told(format!("unknown field `{key}`"))),
            None => Ok(typed),
        }
    };
    items.into_iter().enumerate().map(read).collect()
}

/// Amounts and values are texts, and YAML lets people leave out the quotes: `cpu: 1`, `value: true`.
fn write_out(given: &mut Value) {
    match given {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("requests" | "limits", Value::Object(amounts)) => {
                        amounts.values_mut().for_each(write_out_scalar);
                    }
                    ("value", value) => write_out_scalar(value),
                    (_, value) => write_out(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_out),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn write_out_scalar(value: &mut Value) {
    if value.is_boolean() || value.is_number() {
        *value = Value::String(value.to_string());
    }
}

/// The first key that was given and is not in what was read from it.
fn unknown_key(given: &Value, kept: &Value) -> Option<String> {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            let mut said = given.iter().filter(|(_, value)| !value.is_null());
            said.find_map(|(key, value)| match kept.get(key) {
                None => Some(key.clone()),
                Some(kept) => unknown_key(value, kept).map(|inner| format!("{key}.{inner}")),
            })
        }
        (Value::Array(given), Value::Array(kept)) => {
            let mut pairs = given.iter().zip(kept).enumerate();
            pairs.find_map(|(index, (given, kept))| {
                unknown_key(given, kept).map(|inner| format!("[{index}].{inner}"))
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Toleration;
    use serde_json::json;

    use super::super::WorkerSettings;
    use super::*;
    use crate::verify::settings::NodeManagementSettings;

    fn worker(given: Value) -> Result<WorkerSettings, String> {
        serde_json::from_value(given).map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_type_knows_is_read() {
        let given =
            json!({ "tolerations": [{ "key": "a", "operator": "Exists", "effect": null }] });
        let exists = Toleration {
            key: Some("a".to_owned()),
            operator: Some("Exists".to_owned()),
            ..Toleration::default()
        };
        assert_eq!(worker(given).unwrap().tolerations, [exists]);
        let container = json!({
            "name": "a", "image": "b", "resources": { "limits": { "memory": "1Gi" } },
            "env": [{ "name": "X", "value": "1" }], "securityContext": { "runAsUser": 5 },
        });
        let read = worker(json!({ "initContainers": [container] })).unwrap();
        assert_eq!(read.init_containers[0].name, "a");
        assert!(worker(json!({})).unwrap().tolerations.is_empty());
    }

    #[test]
    fn amounts_and_values_need_no_quotes() {
        let container = json!({
            "name": "a", "resources": { "limits": { "cpu": 1 } }, "env": [{ "name": "X", "value": 8080 }],
        });
        let read = worker(json!({ "initContainers": [container] })).unwrap();
        let env = read.init_containers[0].env.as_ref().unwrap();
        assert_eq!(env[0].value.as_deref(), Some("8080"));
        let taint = json!({ "key": "a", "value": true, "effect": "NoSchedule" });
        let read: NodeManagementSettings =
            serde_json::from_value(json!({ "taints": [taint] })).unwrap();
        assert_eq!(read.taints[0].value.as_deref(), Some("true"));
    }

    #[test]
    fn a_key_that_a_type_does_not_know_is_named_with_its_place() {
        for (given, key) in [
            (
                json!({ "tolerations": [{ "efect": "NoSchedule" }] }),
                "item 0: unknown field `efect`",
            ),
            (
                json!({ "initContainers": [{ "name": "a" }, { "name": "b", "comand": [] }] }),
                "item 1: unknown field `comand`",
            ),
            (
                json!({ "initContainers": [{ "name": "a", "env": [{ "name": "", "vlue": "1" }] }] }),
                "item 0: unknown field `env.[0].vlue`",
            ),
        ] {
            let refusal = worker(given).unwrap_err();
            assert!(refusal.contains(key), "{refusal}");
        }
    }

    /// Else every node would be verified, and the taint never be lifted.
    #[test]
    fn taints_that_are_left_open_are_not_an_empty_list() {
        let read = |given| serde_json::from_value::<NodeManagementSettings>(given);
        assert_eq!(read(json!({ "taints": [] })).unwrap().taints, []);
        assert_eq!(read(json!({})).unwrap().taints.len(), 1, "the default");
        let refusal = read(json!({ "taints": null })).unwrap_err().to_string();
        assert!(refusal.contains("right would be a list"), "{refusal}");
    }
}

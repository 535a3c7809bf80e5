//! Takes out of an answer what may differ between two clusters.
//!
//! Owns the rules: uids and resource versions become numbers by first occurrence, so that "the
//! same as before" still shows; times, ages, tokens and messages become marks. It must not hide a
//! field's presence. Called for every answer of either world.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The numbering of one world in one sequence.
#[derive(Debug, Default)]
pub(crate) struct Normaliser {
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<String, usize>,
    generated: BTreeMap<String, String>,
}

/// Columns of tables that show how old something is.
const AGES: [&str; 4] = ["Age", "Last Schedule", "Duration", "Created At"];

impl Normaliser {
    /// The answer with marks in place of what may differ.
    pub(crate) fn clean(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(map) => self.clean_object(map),
            Value::Array(list) => list.iter().map(|item| self.clean(item)).collect(),
            Value::String(text) if is_time(text) => "<time>".into(),
            Value::String(text) => match self.generated.get(text) {
                Some(mark) => mark.clone().into(),
                None => self.mark_uids(text).into(),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn clean_object(&mut self, map: &Map<String, Value>) -> Value {
        let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
        let collection = map.contains_key("items") || kind == "Table" || kind.ends_with("List");
        let spoken = kind == "Status" || map.contains_key("lastTransitionTime");
        let cause = map.contains_key("reason") && map.contains_key("message");
        let mut clean = Map::new();
        for (key, value) in map {
            let value = match (key.as_str(), value) {
                ("message", Value::String(_)) if spoken || cause => continue,
                ("metadata", Value::Object(meta)) => self.clean_metadata(meta, collection),
                ("causes", Value::Array(causes)) => self.clean_causes(causes),
                ("serverAddress", Value::String(_)) => "<address>".into(),
                ("clusterIP", Value::String(ip)) if ip != "None" => "<ip>".into(),
                ("clusterIPs", Value::Array(_)) => "<ips>".into(),
                _ => self.clean(value),
            };
            clean.insert(self.mark_uids(key), value);
        }
        if kind == "Table" {
            mark_ages(&mut clean);
        }
        Value::Object(clean)
    }

    /// The real server validates properties in no fixed order, and some of them twice.
    fn clean_causes(&mut self, causes: &[Value]) -> Value {
        let mut clean: Vec<Value> = causes.iter().map(|cause| self.clean(cause)).collect();
        clean.sort_by_key(Value::to_string);
        clean.dedup();
        clean.into()
    }

    /// The text with every UID in it numbered: they stand in labels and in keys too.
    fn mark_uids(&mut self, text: &str) -> String {
        let mut marked = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let uid = rest.get(..UID_LENGTH).filter(|uid| is_uid(uid));
            let taken = uid.map_or(first.len_utf8(), str::len);
            match uid {
                Some(uid) => marked.push_str(&number("uid", &mut self.uids, uid)),
                None => marked.push(first),
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        marked
    }

    fn clean_metadata(&mut self, meta: &Map<String, Value>, collection: bool) -> Value {
        let generated = meta.get("generateName").and_then(Value::as_str);
        let bookmark = meta
            .get("annotations")
            .is_some_and(|a| a.get("k8s.io/initial-events-end").is_some())
            || (meta.contains_key("resourceVersion") && !meta.contains_key("uid"));
        let mut clean = Map::new();
        for (key, value) in meta {
            let value = match (key.as_str(), value) {
                ("resourceVersion", Value::String(_)) if collection || bookmark => {
                    "<version>".into()
                }
                ("resourceVersion", Value::String(version)) => {
                    number("version", &mut self.versions, version).into()
                }
                ("continue", Value::String(token)) if !token.is_empty() => "<continue>".into(),
                ("name", Value::String(name)) => match generated {
                    Some(prefix) if name.starts_with(prefix) && name != prefix => {
                        let mark = format!("{prefix}<generated>");
                        self.generated.insert(name.clone(), mark.clone());
                        mark.into()
                    }
                    Some(_) | None => self.clean(value),
                },
                _ => self.clean(value),
            };
            clean.insert(key.clone(), value);
        }
        Value::Object(clean)
    }
}

/// The length of a UID in its usual form.
const UID_LENGTH: usize = 36;

fn is_uid(text: &str) -> bool {
    text.len() == UID_LENGTH
        && text.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn number(kind: &str, known: &mut BTreeMap<String, usize>, text: &str) -> String {
    let next = known.len();
    let number = *known.entry(text.to_owned()).or_insert(next);
    format!("<{kind} {number}>")
}

fn mark_ages(table: &mut Map<String, Value>) {
    let aged: Vec<bool> = table
        .get("columnDefinitions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|column| {
            let name = column
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            AGES.contains(&name) || column.get("type").and_then(Value::as_str) == Some("date")
        })
        .collect();
    for row in table
        .get_mut("rows")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let cells = row
            .get_mut("cells")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for (cell, aged) in cells.zip(&aged) {
            if *aged && cell.as_str().is_some_and(|text| !text.starts_with('<')) {
                *cell = "<age>".into();
            }
        }
    }
    // Later events of a watch come without their columns.
    if aged.is_empty() {
        for row in table
            .get_mut("rows")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let cells = row
                .get_mut("cells")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten();
            cells
                .filter(|cell| is_age(cell))
                .for_each(|cell| *cell = "<age>".into());
        }
    }
}

fn is_age(cell: &Value) -> bool {
    let digits = cell
        .as_str()
        .and_then(|text| text.strip_suffix(['s', 'm', 'h', 'd']));
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && text.parse::<Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn versions_are_numbered_by_first_occurrence() {
        let mut normaliser = Normaliser::default();
        let object = |version: &str| json!({"metadata": {"uid": "u", "resourceVersion": version}});
        let seen: Vec<Value> = ["7", "9", "7"]
            .map(|version| normaliser.clean(&object(version)))
            .to_vec();
        assert_eq!(seen[0], seen[2]);
        assert_ne!(seen[0], seen[1]);
    }

    #[test]
    fn message_of_a_status_goes_and_its_reason_stays() {
        let status = json!({"kind": "Status", "message": "m", "reason": "NotFound", "details": {
            "causes": [{"reason": "FieldValueInvalid", "message": "m", "field": "f"}]}});
        let clean = Normaliser::default().clean(&status);
        assert_eq!(clean["reason"], "NotFound");
        assert_eq!(clean.get("message"), None);
        assert_eq!(
            clean["details"]["causes"][0],
            json!({"reason": "FieldValueInvalid", "field": "f"})
        );
    }

    #[test]
    fn uid_inside_a_key_has_the_number_of_the_uid_itself() {
        let uid = "0f9870da-3024-4d95-8064-9b5a9b6b30fc";
        let object = json!({"a": {"uid": uid}, "b": {format!("k:{uid}"): {}}});
        let clean = Normaliser::default().clean(&object);
        assert_eq!(
            clean,
            json!({"a": {"uid": "<uid 0>"}, "b": {"k:<uid 0>": {}}})
        );
    }

    #[test]
    fn configmap_data_called_message_is_kept() {
        let object = json!({"data": {"message": "kept"}});
        assert_eq!(Normaliser::default().clean(&object), object);
    }
}

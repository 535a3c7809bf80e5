//! The entries of `metadata.managedFields`.
//!
//! Owns their identity, order, wire form and number. Must not compare objects. Field sets stay in
//! their wire form until somebody must change them: most writes change none.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields::FieldSet;

/// Most entries of updates that an object keeps; older ones are put together.
const MOST_UPDATES: usize = 10;
/// Who owns the fields of entries that were put together.
const ANCIENT: &str = "ancient-changes";

/// How the owner of an entry came to its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// Name of the owner.
    pub(super) manager: String,
    /// How it came to the fields.
    pub(super) operation: Operation,
    /// Version of the API it spoke.
    pub(super) api_version: String,
    /// Subresource it wrote to; empty for the object itself.
    pub(super) subresource: String,
    /// Time of its last change.
    pub(super) time: Option<String>,
    /// The fields, in their wire form.
    pub(super) fields: Value,
}

impl Entry {
    /// Whether both are kept in one entry. Appliers stay themselves across versions of the API.
    pub(super) fn is_same_owner(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Whether it owns nothing any more.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.as_object().is_none_or(Map::is_empty)
    }

    /// Takes fields away.
    pub(super) fn lose(&mut self, gone: &FieldSet) {
        if gone.touches(&self.fields) {
            let mut set = FieldSet::read(&self.fields);
            set.subtract(gone);
            self.fields = set.write();
        }
    }

    /// Adds fields.
    pub(super) fn gain(&mut self, more: &FieldSet) {
        if !more.is_covered(&self.fields) {
            let mut set = FieldSet::read(&self.fields);
            set.absorb(more);
            self.fields = set.write();
        }
    }

    fn read(mut wire: Value) -> Option<Self> {
        let fields = wire.get_mut("fieldsV1").map(Value::take);
        let text = |name: &str| wire.get(name).and_then(Value::as_str);
        let operation = match text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        if text("fieldsType")? != "FieldsV1" {
            return None;
        }
        Some(Self {
            manager: text("manager").unwrap_or_default().to_owned(),
            operation,
            api_version: text("apiVersion").filter(|v| !v.is_empty())?.to_owned(),
            subresource: text("subresource").unwrap_or_default().to_owned(),
            time: text("time").map(str::to_owned),
            fields: fields.unwrap_or_else(|| json!({})),
        })
    }

    fn write(self) -> Value {
        let mut wire = Map::new();
        wire.insert("apiVersion".into(), self.api_version.into());
        wire.insert("fieldsType".into(), "FieldsV1".into());
        wire.insert("fieldsV1".into(), self.fields);
        wire.insert("manager".into(), self.manager.into());
        wire.insert("operation".into(), self.operation.name().into());
        if !self.subresource.is_empty() {
            wire.insert("subresource".into(), self.subresource.into());
        }
        if let Some(time) = self.time {
            wire.insert("time".into(), time.into());
        }
        Value::Object(wire)
    }
}

/// The entries of an object; none when one of them cannot be read.
pub(super) fn read(object: &Value) -> Option<Vec<Entry>> {
    match object.pointer("/metadata/managedFields") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(list)) => list.iter().cloned().map(Entry::read).collect(),
        Some(_) => None,
    }
}

/// What a writer says about the entries.
pub(super) enum Given {
    /// Nothing, or nothing that can be read.
    Nothing,
    /// That all owners be forgotten: an empty list, or one empty entry.
    Reset,
    /// These.
    Entries(Vec<Entry>),
}

/// Takes the entries off a new object and says what they are.
pub(super) fn take(object: &mut Value) -> Given {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(Value::Array(list)) = metadata.and_then(|m| m.remove("managedFields")) else {
        return Given::Nothing;
    };
    let is_reset = match list.as_slice() {
        [] => true,
        [only] => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    };
    if is_reset {
        return Given::Reset;
    }
    let entries: Option<Vec<Entry>> = list.into_iter().map(Entry::read).collect();
    entries.map_or(Given::Nothing, Given::Entries)
}

/// Takes the entries off an object.
pub(super) fn clear(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Puts the entries on an object, in their order.
pub(super) fn write(object: &mut Value, mut entries: Vec<Entry>) {
    clear(object);
    if entries.is_empty() {
        return;
    }
    entries.sort_by(|a, b| order(a).cmp(&order(b)));
    let wire: Vec<Value> = entries.into_iter().map(Entry::write).collect();
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("managedFields".into(), Value::Array(wire));
    }
}

fn order(entry: &Entry) -> (Operation, Option<&str>, &str, &str, &str) {
    (
        entry.operation,
        entry.time.as_deref(),
        &entry.manager,
        &entry.api_version,
        &entry.subresource,
    )
}

/// Puts the oldest entries of updates together until there are few enough.
pub(super) fn cap(entries: Vec<Entry>) -> Vec<Entry> {
    let (mut kept, mut updates): (Vec<Entry>, Vec<Entry>) = entries
        .into_iter()
        .partition(|e| e.operation == Operation::Apply);
    if updates.len() > MOST_UPDATES {
        updates.sort_by(|a, b| order(a).cmp(&order(b)));
        let mut surplus = updates.len() - MOST_UPDATES;
        let mut first: BTreeMap<String, Entry> = BTreeMap::new();
        let mut rest = Vec::new();
        for entry in updates {
            match first.get_mut(&entry.api_version) {
                Some(bucket) if surplus > 0 => {
                    surplus -= 1;
                    ANCIENT.clone_into(&mut bucket.manager);
                    bucket.subresource.clear();
                    bucket.gain(&FieldSet::read(&entry.fields));
                    bucket.time = entry.time;
                }
                None if surplus > 0 => {
                    first.insert(entry.api_version.clone(), entry);
                }
                _ => rest.push(entry),
            }
        }
        updates = first.into_values().chain(rest).collect();
    }
    kept.extend(updates);
    kept
}

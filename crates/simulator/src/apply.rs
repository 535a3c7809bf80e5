//! Who owns which field: the tracking of every write, and server-side apply.
//!
//! Owns `metadata.managedFields` and the merge of applied configurations. Pure: objects in, object
//! out, time is an argument; so a dry run is the same call without a store. Must not default,
//! validate or store. Called by the verbs of the server.

use jiff::Timestamp;
use serde_json::{Map, Value};

mod check;
mod compare;
mod entries;
mod fields;
mod merge;
mod prune;
#[cfg(test)]
mod tests;
pub mod types;

pub use types::KindShape;

use self::{
    compare::{compare, strip},
    entries::{Entry, Given, Operation},
    fields::FieldSet,
};

/// Owner of the fields of an object that was written before anybody was tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Longest name of a field manager.
const LONGEST_NAME: usize = 128;

/// Who writes what, and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// Name of the field manager.
    pub manager: &'a str,
    /// Version of the API that the request speaks, as `apps/v1`.
    pub api_version: &'a str,
    /// Kind of the object.
    pub kind: &'a str,
    /// Subresource written to; empty for the object itself.
    pub subresource: &'a str,
    /// The shape of the kind.
    pub shape: &'a KindShape,
    /// Time of the request.
    pub now: Timestamp,
}

/// What an apply does about fields that others own and that it would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Refuse the whole request.
    Refuse,
    /// Take them over.
    Take,
}

/// A field that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner, as messages show it.
    pub owner: String,
    /// The field, as messages show it.
    pub field: String,
}

/// Why a configuration was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Others own fields that it would change.
    #[error("{}", conflict_message(.0))]
    Conflict(Vec<Conflict>),
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not fit the schema of its kind.
    #[error("{0}")]
    Untyped(String),
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        let Conflict { owner, field } = only;
        return format!("Apply failed with 1 conflict: conflict with {owner}: {field}");
    }
    let mut lines = Vec::new();
    let mut last = None;
    for Conflict { owner, field } in conflicts {
        if last != Some(owner) {
            lines.push(format!("conflicts with {owner}:"));
            last = Some(owner);
        }
        lines.push(format!("- {field}"));
    }
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}

/// The name of the field manager of a request: its parameter, or else the client's name.
pub fn manager_name(parameter: Option<&str>, user_agent: Option<&str>) -> String {
    if let Some(name) = parameter.filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let client = user_agent.unwrap_or_default();
    let mut name = String::new();
    for letter in client.split('/').next().unwrap_or_default().chars() {
        if name.len() + letter.len_utf8() > LONGEST_NAME {
            break;
        }
        if !letter.is_control() {
            name.push(letter);
        }
    }
    name
}

impl Writer<'_> {
    fn entry(&self, operation: Operation) -> Entry {
        Entry {
            manager: self.manager.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: None,
            fields: Value::Object(Map::new()),
        }
    }

    fn time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

/// Records on the new object who owns what after a create, an update or a patch. `live` is the
/// stored object, none for a create. To be called on the object as the writer wants it, defaults
/// included, before admission and before the server puts fields back.
pub fn track(live: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    let known = known_entries(live, new, writer);
    if known.is_empty() && live.is_some() {
        return;
    }
    let old = live.unwrap_or(&writer.shape.empty);
    let owned = update_entries(old, new, known, writer);
    entries::write(new, entries::cap(owned));
}

/// The entries that a write starts from, taken off the new object: a writer of the main resource
/// may edit them, but a client that does not know them does not erase them.
fn known_entries(live: Option<&Value>, new: &mut Value, writer: &Writer<'_>) -> Vec<Entry> {
    let given = entries::take(new);
    if writer.subresource.is_empty() {
        match given {
            Given::Reset => return Vec::new(),
            Given::Entries(given) => return given,
            Given::Nothing => {}
        }
    }
    live.and_then(entries::read).unwrap_or_default()
}

fn update_entries(
    old: &Value,
    new: &Value,
    mut known: Vec<Entry>,
    writer: &Writer<'_>,
) -> Vec<Entry> {
    let changed = compare(writer.shape, writer.subresource, old, new);
    let taken = changed.taken();
    if taken.is_empty() && changed.removed.is_empty() {
        return known;
    }
    let mut own = writer.entry(Operation::Update);
    if let Some(at) = known.iter().position(|entry| entry.is_same_owner(&own)) {
        own = known.remove(at);
    }
    for entry in &mut known {
        entry.lose(&taken);
        entry.lose(&changed.removed);
    }
    own.lose(&changed.removed);
    if !taken.is_empty() {
        own.gain(&taken);
        own.time = Some(writer.time());
    }
    known.push(own);
    known.retain(|entry| !entry.is_empty());
    known
}

/// The object that results from applying a configuration, before defaults. Without `live` it is
/// created. Applying what is there already yields `live` itself, or with new owners only.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    on_conflict: OnConflict,
) -> Result<Value, ApplyError> {
    check::configuration(applied, writer)?;
    let shape = writer.shape;
    let old = live.unwrap_or(&shape.empty);
    let mut known = entries::read(old)
        .ok_or_else(|| ApplyError::Untyped("failed to decode managed fields".to_owned()))?;
    if known.is_empty() && live.is_some() {
        let first = Writer {
            manager: BEFORE_FIRST_APPLY,
            ..*writer
        };
        known = update_entries(&shape.empty, old, known, &first);
    }
    let mut bare = old.clone();
    entries::clear(&mut bare);

    let mut own = writer.entry(Operation::Apply);
    let mut last = FieldSet::default();
    if let Some(at) = known.iter().position(|entry| entry.is_same_owner(&own)) {
        let before = known.remove(at);
        last = FieldSet::read(&before.fields);
        own.time = before.time;
    }
    let mut wanted = applied.clone();
    if live.is_some() {
        keep_type(&bare, &mut wanted);
    }
    // The name and the type count while fields are taken out: they hold the metadata in place.
    let all = prune::fields_of(shape, &wanted);
    let mut set = all.clone();
    strip(shape, writer.subresource, &mut set);

    let mut new = merge::merged(&shape.types, shape.root, Some(&bare), Some(&wanted));
    if !last.is_empty() {
        let mut owned = all;
        for entry in &known {
            owned.absorb(&FieldSet::read(&entry.fields));
        }
        new = prune::pruned(shape, &new, &last, &owned);
    }
    take_over(&bare, &new, &mut known, writer, on_conflict)?;
    if new != bare {
        own.time = Some(writer.time());
    }
    own.fields = set.write();
    known.push(own);
    known.retain(|entry| !entry.is_empty());
    if shape.is_core {
        drop_nulls(&mut new);
    }
    entries::write(&mut new, known);
    Ok(new)
}

/// Stores may keep objects without their type, and a configuration must not add it.
fn keep_type(old: &Value, wanted: &mut Value) {
    if let Some(fields) = wanted.as_object_mut() {
        fields.retain(|name, _| {
            !matches!(name.as_str(), "apiVersion" | "kind") || old.get(name).is_some()
        });
    }
}

/// Takes from the others what the apply changes, unless it must not.
fn take_over(
    old: &Value,
    new: &Value,
    others: &mut [Entry],
    writer: &Writer<'_>,
    on_conflict: OnConflict,
) -> Result<(), ApplyError> {
    let changed = compare(writer.shape, writer.subresource, old, new);
    let taken = changed.taken();
    let mut conflicts = Vec::new();
    for entry in others.iter().filter(|entry| taken.touches(&entry.fields)) {
        let shared = FieldSet::read(&entry.fields).intersection(&taken);
        conflicts.extend(shared.paths().iter().map(|path| Conflict {
            owner: owner_name(entry),
            field: fields::display(path),
        }));
    }
    if !conflicts.is_empty() && on_conflict == OnConflict::Refuse {
        conflicts.sort_by(|a, b| a.owner.cmp(&b.owner));
        return Err(ApplyError::Conflict(conflicts));
    }
    for entry in others.iter_mut() {
        entry.lose(&taken);
        entry.lose(&changed.removed);
    }
    Ok(())
}

fn owner_name(entry: &Entry) -> String {
    let mut name = Value::from(entry.manager.as_str()).to_string();
    if !entry.subresource.is_empty() {
        name = format!("{name} with subresource \"{}\"", entry.subresource);
    }
    match entry.operation {
        Operation::Apply => name,
        Operation::Update => format!("{name} using {}", entry.api_version),
    }
}

/// A null says "not set" to kinds that are compiled in.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Takes back the times of a write that turned out to change nothing, so that it is none. To be
/// called last, on the object as it would be stored.
pub fn keep_times(live: &Value, new: &mut Value) {
    let owners = "/metadata/managedFields";
    if live.pointer(owners) == new.pointer(owners) || !is_same_besides_owners(live, new) {
        return;
    }
    let (Some(before), Some(after)) = (entries::read(live), entries::read(new)) else {
        return;
    };
    let is_same = |a: &Entry, b: &Entry| {
        let mut timeless = b.clone();
        timeless.time.clone_from(&a.time);
        *a == timeless
    };
    if before.len() != after.len() || !before.iter().zip(&after).all(|(a, b)| is_same(a, b)) {
        return;
    }
    entries::write(new, before);
}

fn is_same_besides_owners(a: &Value, b: &Value) -> bool {
    let same_metadata = |a: &Value, b: &Value| {
        let members = |value| Value::as_object(value).into_iter().flatten();
        let owned = |value| members(value).filter(|(name, _)| *name != "managedFields");
        owned(a).eq(owned(b))
    };
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return a == b;
    };
    a.len() == b.len()
        && a.iter().zip(b).all(|((name, a), (other, b))| {
            name == other && (a == b || (name == "metadata" && same_metadata(a, b)))
        })
}

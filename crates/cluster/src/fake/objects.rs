//! Objects, versions and history, by path.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answer::{Answer, failure};

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    group: String,
    resource: String,
    namespace: String,
    name: String,
    subresource: String,
}

impl Place {
    fn parse(path: &str) -> Self {
        let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let depth = if parts[0] == "api" { 2 } else { 3 };
        let group = parts.drain(..depth).collect::<Vec<_>>().join("/");
        let namespace = if parts[0] == "namespaces" {
            parts.drain(..2).nth(1).unwrap().to_owned()
        } else {
            String::new()
        };
        let mut rest = parts.into_iter().map(str::to_owned);
        Self {
            group,
            namespace,
            resource: rest.next().unwrap(),
            name: rest.next().unwrap_or_default(),
            subresource: rest.next().unwrap_or_default(),
        }
    }

    fn object(mut self) -> Self {
        self.subresource = String::new();
        self
    }

    fn is_in(&self, collection: &Self) -> bool {
        self.group == collection.group
            && self.resource == collection.resource
            && (collection.namespace.is_empty() || self.namespace == collection.namespace)
    }
}

#[derive(Default)]
pub(crate) struct Objects {
    stored: BTreeMap<Place, Value>,
    version: u64,
    compacted: u64,
    /// Version, place (none for a bookmark), event.
    history: Vec<(u64, Option<Place>, Value)>,
}

impl Objects {
    pub(super) fn get(&self, path: &str) -> Option<Value> {
        self.stored.get(&Place::parse(path)).cloned()
    }

    pub(super) fn put(&mut self, path: &str, object: Value) -> Value {
        self.store(Place::parse(path), object)
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.take_out(&Place::parse(path));
    }

    pub(super) fn bookmark(&mut self) {
        self.version += 1;
        let mark = json!({ "kind": "Any", "apiVersion": "v1",
            "metadata": { "resourceVersion": self.version.to_string() } });
        let event = json!({ "type": "BOOKMARK", "object": mark });
        self.history.push((self.version, None, event));
    }

    pub(super) fn compact(&mut self) {
        self.version += 1;
        self.compacted = self.version;
        self.history.clear();
    }

    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn event_after(&self, path: &str, cursor: u64) -> Option<(u64, Value)> {
        let collection = Place::parse(path);
        let concerns = |place: &Option<Place>| place.as_ref().is_none_or(|p| p.is_in(&collection));
        let mut later = self
            .history
            .iter()
            .filter(|(version, place, _)| *version > cursor && concerns(place));
        later
            .next()
            .map(|(version, _, event)| (*version, event.clone()))
    }

    pub(super) fn answer(
        &mut self,
        method: &str,
        path: &str,
        query: &BTreeMap<String, String>,
        body: Value,
    ) -> Answer {
        let place = Place::parse(path);
        if method == "POST" && place.subresource == "eviction" {
            return self.evict(&place.object(), &body, query.contains_key("dryRun"));
        }
        if method == "POST" {
            return self.create(place, body);
        }
        if place.name.is_empty() {
            return self.list(&place, query);
        }
        let to_status = place.subresource == "status";
        let place = place.object();
        let Some(current) = self.stored.get(&place).cloned() else {
            return failure(404, "NotFound", "no such object");
        };
        match method {
            "GET" => (200, current),
            "DELETE" => self.delete(&place, &current, &body),
            "PUT" => self.update(place, &current, body),
            "PATCH" => {
                let mut wanted = current.clone();
                let patch = if to_status { only_status(&body) } else { body };
                merge(&mut wanted, &patch);
                self.update(place, &current, wanted)
            }
            _ => failure(405, "MethodNotAllowed", method),
        }
    }

    fn list(&mut self, collection: &Place, query: &BTreeMap<String, String>) -> Answer {
        assert!(
            !query.contains_key("resourceVersion"),
            "only consistent lists are allowed"
        );
        // An empty server has a history too: version 0 would mean "any".
        self.version = self.version.max(1);
        let skip: usize = query
            .get("continue")
            .map_or(0, |token| token.parse().unwrap());
        let limit: usize = query
            .get("limit")
            .map_or(usize::MAX, |limit| limit.parse().unwrap());
        let found = self
            .stored
            .iter()
            .filter(|(place, _)| place.is_in(collection));
        let all: Vec<Value> = found.map(|(_, object)| object.clone()).collect();
        let items: Vec<Value> = all.iter().skip(skip).take(limit).cloned().collect();
        let end = skip + items.len();
        let mut metadata = json!({ "resourceVersion": self.version.to_string() });
        if end < all.len() {
            metadata["continue"] = json!(end.to_string());
        }
        (
            200,
            json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items }),
        )
    }

    fn create(&mut self, mut place: Place, body: Value) -> Answer {
        place.name = body["metadata"]["name"].as_str().unwrap().to_owned();
        if self.stored.contains_key(&place) {
            return failure(409, "AlreadyExists", "it is there");
        }
        (201, self.store(place, body))
    }

    fn update(&mut self, place: Place, current: &Value, wanted: Value) -> Answer {
        let version = &wanted["metadata"]["resourceVersion"];
        if !version.is_null() && version != &current["metadata"]["resourceVersion"] {
            return failure(409, "Conflict", "the object has been modified");
        }
        if &wanted == current {
            return (200, wanted);
        }
        (200, self.store(place, wanted))
    }

    fn delete(&mut self, place: &Place, current: &Value, options: &Value) -> Answer {
        for (wish, field) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let wanted = &options["preconditions"][wish];
            if !wanted.is_null() && wanted != &current["metadata"][wish] {
                return failure(
                    409,
                    "Conflict",
                    &format!("Precondition failed: {field} in precondition: x"),
                );
            }
        }
        self.take_out(place);
        (
            200,
            json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }),
        )
    }

    fn evict(&mut self, place: &Place, body: &Value, dry_run: bool) -> Answer {
        let Some(current) = self.stored.get(place).cloned() else {
            return failure(404, "NotFound", "no such pod");
        };
        let wanted = &body["deleteOptions"]["preconditions"]["uid"];
        if !wanted.is_null() && wanted != &current["metadata"]["uid"] {
            let why = "the UID in the precondition (x) does not match the UID in record (y)";
            return failure(409, "Conflict", why);
        }
        if !dry_run {
            self.take_out(place);
        }
        let success = json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" });
        (201, success)
    }

    fn store(&mut self, place: Place, mut object: Value) -> Value {
        self.version += 1;
        let known = self
            .stored
            .get(&place)
            .map(|old| old["metadata"]["uid"].clone());
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = known
                .clone()
                .unwrap_or_else(|| json!(format!("uid-{}", self.version)));
        }
        metadata["resourceVersion"] = json!(self.version.to_string());
        if !place.namespace.is_empty() {
            metadata["namespace"] = json!(place.namespace);
        }
        let kind = if known.is_some() { "MODIFIED" } else { "ADDED" };
        let event = json!({ "type": kind, "object": object });
        self.history
            .push((self.version, Some(place.clone()), event));
        self.stored.insert(place, object.clone());
        object
    }

    fn take_out(&mut self, place: &Place) {
        if let Some(mut last) = self.stored.remove(place) {
            self.version += 1;
            last["metadata"]["resourceVersion"] = json!(self.version.to_string());
            let event = json!({ "type": "DELETED", "object": last });
            self.history
                .push((self.version, Some(place.clone()), event));
        }
    }
}

/// A write to status changes nothing else, but its guard counts.
fn only_status(patch: &Value) -> Value {
    json!({
        "metadata": { "resourceVersion": patch["metadata"]["resourceVersion"] },
        "status": patch["status"],
    })
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}

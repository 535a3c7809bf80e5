//! Discovery in one answer: all groups, versions and resources at once.
//!
//! Owns the aggregated form (`apidiscovery.k8s.io/v2`), made from the lists that plain discovery
//! gives. Pure. Must not know kinds. Called by the server for `/api` and `/apis` when the client
//! asks for that form.

use serde_json::{Map, Value, json};

/// One API group: its versions in order of preference, each as an `APIResourceList`.
#[derive(Clone, Debug)]
pub struct GroupResources {
    /// The name of the group; empty for the core one.
    pub name: String,
    /// Version and its resources.
    pub versions: Vec<(String, Value)>,
}

/// The content type of the answer.
pub const AGGREGATED_CONTENT_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether an `Accept` header asks for the aggregated form.
pub fn wants_aggregated(accept: &str) -> bool {
    accept.split(',').any(|range| {
        let parts: Vec<&str> = range.split(';').map(str::trim).collect();
        ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
            .iter()
            .all(|part| parts.contains(part))
    })
}

/// All groups as an `APIGroupDiscoveryList`.
pub fn aggregate(groups: &[GroupResources]) -> Value {
    let items: Vec<Value> = groups.iter().map(group_item).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn group_item(group: &GroupResources) -> Value {
    let mut metadata = Map::new();
    if !group.name.is_empty() {
        metadata.insert("name".to_owned(), Value::from(group.name.as_str()));
    }
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, list)| {
            let resources = Resources {
                group: &group.name,
                version,
                entries: entries(list),
            };
            json!({"version": version, "resources": resources.items(), "freshness": "Current"})
        })
        .collect();
    json!({"metadata": metadata, "versions": versions})
}

/// The entries of an `APIResourceList`.
pub(crate) fn entries(list: &Value) -> &[Value] {
    list.get("resources")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// A text of an entry, empty when absent.
pub(crate) fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry.get(field).and_then(Value::as_str).unwrap_or_default()
}

struct Resources<'a> {
    group: &'a str,
    version: &'a str,
    entries: &'a [Value],
}

impl Resources<'_> {
    fn items(&self) -> Vec<Value> {
        let parents = self
            .entries
            .iter()
            .filter(|entry| !text(entry, "name").contains('/'));
        parents.map(|parent| self.item(parent)).collect()
    }

    fn item(&self, parent: &Value) -> Value {
        let name = text(parent, "name");
        let namespaced = parent.get("namespaced").and_then(Value::as_bool) == Some(true);
        let mut item = json!({
            "resource": name,
            "responseKind": self.response_kind(parent),
            "scope": if namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": text(parent, "singularName"),
            "verbs": parent.get("verbs").cloned().unwrap_or_default(),
        });
        let children = self.entries.iter().filter_map(|entry| {
            let (owner, child) = text(entry, "name").split_once('/')?;
            (owner == name).then(|| {
                json!({
                    "subresource": child,
                    "responseKind": self.response_kind(entry),
                    "verbs": entry.get("verbs").cloned().unwrap_or_default(),
                })
            })
        });
        let children: Vec<Value> = children.collect();
        if let Some(item) = item.as_object_mut() {
            for field in ["shortNames", "categories"] {
                if let Some(names) = parent.get(field).filter(|names| **names != json!([])) {
                    item.insert(field.to_owned(), names.clone());
                }
            }
            if !children.is_empty() {
                item.insert("subresources".to_owned(), Value::from(children));
            }
        }
        item
    }

    /// An entry names a group and version only when they are not those of the list; definitions
    /// always name theirs.
    fn response_kind(&self, entry: &Value) -> Value {
        let version = text(entry, "version");
        let defined = self.group.contains('.') && !self.group.ends_with(".k8s.io");
        let (group, version) = if version.is_empty() && defined {
            (self.group, self.version)
        } else {
            (text(entry, "group"), version)
        };
        json!({"group": group, "version": version, "kind": text(entry, "kind")})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_header_chooses_the_form() {
        let kubectl =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert!(wants_aggregated(kubectl));
        assert!(!wants_aggregated("application/json"));
        assert!(!wants_aggregated(
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
        ));
    }

    #[test]
    fn subresources_are_listed_below_their_parent() {
        let list = json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
            {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["get"], "shortNames": ["po"]},
            {"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
                "kind": "Eviction", "verbs": ["create"]},
            {"name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node", "verbs": ["get"]},
        ]});
        let groups = [GroupResources {
            name: String::new(),
            versions: vec![("v1".to_owned(), list)],
        }];
        let answer = aggregate(&groups);
        assert_eq!(answer["items"][0]["metadata"], json!({}));
        let resources = &answer["items"][0]["versions"][0]["resources"];
        assert_eq!(
            resources,
            &json!([
                {"resource": "pods", "responseKind": {"group": "", "version": "", "kind": "Pod"}, "scope": "Namespaced",
                    "singularResource": "pod", "verbs": ["get"], "shortNames": ["po"],
                    "subresources": [{"subresource": "eviction", "verbs": ["create"],
                        "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"}}]},
                {"resource": "nodes", "responseKind": {"group": "", "version": "", "kind": "Node"}, "scope": "Cluster",
                    "singularResource": "node", "verbs": ["get"]},
            ])
        );
    }
}

//! Objects of Karpenter and Cluster API that stand for a node's machine.
//!
//! Owns the finding of them, by whatever version the server serves, and their end by UID. A kind that the
//! server does not serve is surely absent; a list that it refuses is an error, and nothing may follow.

use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Preconditions};
use serde_json::Value;
use shipshape_engine::verify::removal::ForeignObject;

use crate::error::{Error, ErrorClass, Result, call};

/// Karpenter's group.
const KARPENTER: &str = "karpenter.sh";
/// Cluster API's group.
const CLUSTER_API: &str = "cluster.x-k8s.io";
/// What Cluster API writes on a Node: the machine's name and its namespace.
const MACHINE_NAME: &str = "cluster.x-k8s.io/machine";
const MACHINE_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";

/// The node that is looked for.
#[derive(Clone, Debug)]
pub struct Sought<'a> {
    /// Name.
    pub name: &'a str,
    /// Provider id, if it has one.
    pub provider_id: Option<&'a str>,
}

/// Karpenter's claim of a node, matched by provider id or, failing that, by name. A claim that names another
/// machine than the node does is a stranger's, whatever node it names. One that names the machine and another node
/// is an error: a kubelet chooses the id that it registers with, so it may have chosen somebody else's.
pub async fn claim(client: &Client, node: &Sought<'_>) -> Result<Option<ForeignObject>> {
    let Some(resource) = served(client, KARPENTER, "NodeClaim", "nodeclaims").await? else {
        return Ok(None);
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let claims = call("list", "NodeClaims", api.list(&ListParams::default())).await?;
    let says = |object: &DynamicObject, place: &str, wanted: &str| {
        object.data.pointer(place).and_then(Value::as_str) == Some(wanted)
    };
    let by_id = node.provider_id.and_then(|id| {
        let mut claims = claims.items.iter();
        claims.find(|one| says(one, "/status/providerID", id))
    });
    let other = by_id.and_then(|one| {
        let named = one.data.pointer("/status/nodeName").and_then(Value::as_str);
        named.filter(|named| !named.is_empty() && *named != node.name)
    });
    if let Some(other) = other {
        let object = format!("the NodeClaim of node {}", node.name);
        let why = format!("its machine is that of node {other}");
        return Err(Error::Disagrees { object, why });
    }
    let found = by_id.or_else(|| {
        let mut claims = claims.items.iter();
        let is_another = |one: &DynamicObject| {
            let known = one
                .data
                .pointer("/status/providerID")
                .and_then(Value::as_str);
            known.is_some_and(|id| !id.is_empty() && node.provider_id.is_some_and(|own| own != id))
        };
        claims.find(|one| says(one, "/status/nodeName", node.name) && !is_another(one))
    });
    Ok(found.map(|object| described(object, &resource)))
}

/// Cluster API's machine of a node, by the annotations that it writes on Nodes.
pub async fn machine(
    client: &Client,
    node: &k8s_openapi::api::core::v1::Node,
) -> Result<Option<ForeignObject>> {
    let notes = node.metadata.annotations.as_ref();
    let note = |key: &str| notes.and_then(|notes| notes.get(key));
    let (Some(name), Some(namespace)) = (note(MACHINE_NAME), note(MACHINE_NAMESPACE)) else {
        return Ok(None);
    };
    let Some(resource) = served(client, CLUSTER_API, "Machine", "machines").await? else {
        return Ok(None);
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let object = format!("Machine {namespace}/{name}");
    let found = call("get", object, api.get_opt(name)).await?;
    // A node could name somebody else's machine in its own annotations.
    let node_name = node.metadata.name.as_deref();
    let found = found.filter(|one| {
        one.data
            .pointer("/status/nodeRef/name")
            .and_then(Value::as_str)
            == node_name
    });
    Ok(found.map(|object| described(&object, &resource)))
}

/// Deletes the object of that UID; one that is gone needs nothing.
pub async fn delete(client: &Client, target: &ForeignObject) -> Result<()> {
    let (group, version) = target
        .api_version
        .split_once('/')
        .unwrap_or(("", &target.api_version));
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: target.api_version.clone(),
        kind: target.kind.clone(),
        plural: target.plural.clone(),
    };
    let api: Api<DynamicObject> = match &target.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: Some(target.uid.clone()),
        resource_version: None,
    });
    let object = format!("{} {}", target.kind, target.name);
    match call("delete", object, api.delete(&target.name, &params)).await {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.class(), ErrorClass::Gone | ErrorClass::Conflict) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The kind in the version that the server prefers, if it serves the group at all.
pub(crate) async fn served(
    client: &Client,
    group: &str,
    kind: &str,
    plural: &str,
) -> Result<Option<ApiResource>> {
    let groups = call("list", "API groups", client.list_api_groups()).await?;
    let found = groups.groups.into_iter().find(|one| one.name == group);
    let version = found.and_then(|found| {
        let preferred = found.preferred_version.map(|one| one.version);
        preferred.or_else(|| found.versions.into_iter().next().map(|one| one.version))
    });
    Ok(version.map(|version| ApiResource {
        group: group.to_owned(),
        api_version: format!("{group}/{version}"),
        version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }))
}

fn described(object: &DynamicObject, resource: &ApiResource) -> ForeignObject {
    let meta = &object.metadata;
    ForeignObject {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
    }
}

#[cfg(test)]
mod tests;

//! Deployments of a cluster autoscaler: held at zero, and given their replicas back.
//!
//! Owns the two guarded writes. A count that is saved on the Deployment is never replaced, because
//! the present one may already be a hold. Must not choose Deployments. Called by runs.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use crate::error::{Result, call};
use crate::patch::{self, Written};
use shipshape_api::names::{ANNOTATION_ORIGINAL_REPLICAS, LABEL_HELD_BY, run_annotation};

/// Deployments asked for in one page; autoscalers are a handful.
const PAGE: u32 = 100;

/// All Deployments with these labels, in one namespace or in all.
pub async fn find(
    client: Client,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Vec<Deployment>> {
    let api: Api<Deployment> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let mut params = ListParams::default().labels(selector).limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = call("list", "Deployments", api.list(&params)).await?;
        found.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// The Deployments of these namespaces and names that are there, each read live.
pub async fn named<'a>(
    client: Client,
    places: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<Deployment>> {
    let mut found = Vec::new();
    for (namespace, name) in places {
        let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
        let object = format!("Deployment {namespace}/{name}");
        found.extend(call("get", object, api.get_opt(name)).await?);
    }
    Ok(found)
}

/// Saves the count on the Deployment, unless one is saved, and scales it to zero, in one write.
///
/// `holder` is the run, by UID and as `namespace/name`.
pub async fn hold(
    client: Client,
    place: (&str, &str),
    original: i32,
    holder: (&str, &str),
) -> Result<Written> {
    let (uid, run) = holder;
    change(client, place, |wanted| {
        let notes = wanted.annotations_mut();
        notes
            .entry(ANNOTATION_ORIGINAL_REPLICAS.to_owned())
            .or_insert_with(|| original.to_string());
        notes.insert(run_annotation(uid), run.to_owned());
        let labels = wanted.labels_mut();
        labels.insert(LABEL_HELD_BY.to_owned(), uid.to_owned());
        if let Some(spec) = &mut wanted.spec {
            spec.replicas = Some(0);
        }
    })
    .await
}

/// Takes the marks of a hold off, and sets the count if one is given.
pub async fn release(
    client: Client,
    place: (&str, &str),
    replicas: Option<i32>,
) -> Result<Written> {
    change(client, place, |wanted| {
        let holder = wanted.labels_mut().remove(LABEL_HELD_BY);
        let notes = wanted.annotations_mut();
        notes.remove(ANNOTATION_ORIGINAL_REPLICAS);
        notes.remove(&run_annotation(&holder.unwrap_or_default()));
        if let (Some(count), Some(spec)) = (replicas, &mut wanted.spec) {
            spec.replicas = Some(count);
        }
    })
    .await
}

/// One guarded write to a Deployment that was read live; one that is gone needs nothing.
async fn change(
    client: Client,
    place: (&str, &str),
    edit: impl FnOnce(&mut Deployment),
) -> Result<Written> {
    let (namespace, name) = place;
    let api: Api<Deployment> = Api::namespaced(client, namespace);
    let object = format!("Deployment {namespace}/{name}");
    let Some(live) = call("get", object, api.get_opt(name)).await? else {
        return Ok(Written::Unchanged);
    };
    let mut wanted = live.clone();
    edit(&mut wanted);
    patch::write(&api, &live, &wanted).await
}

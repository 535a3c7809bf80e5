//! Objects of others who have a say in the gate's taints.
//!
//! Owns the listing of them in whatever version the server serves. A kind that is not served is surely
//! absent; a list that is refused is an error, and nothing may follow from it.

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;
use shipshape_engine::verify::neighbours::{PoolView, RuleView};

use crate::error::{ErrorClass, Result, call};
use crate::foreign::served;

/// All NodeReadinessRules; `None` where the kind is not served.
pub async fn rules(client: &Client) -> Result<Option<Vec<RuleView>>> {
    let (group, kind) = ("readiness.node.x-k8s.io", "NodeReadinessRule");
    all(client, (group, kind, "nodereadinessrules"), RuleView::of).await
}

/// All NodePools of Karpenter; `None` where the kind is not served.
pub async fn pools(client: &Client) -> Result<Option<Vec<PoolView>>> {
    let kind = ("karpenter.sh", "NodePool", "nodepools");
    all(client, kind, PoolView::of).await
}

async fn all<T>(
    client: &Client,
    (group, kind, plural): (&str, &str, &str),
    read: fn(&str, &Value) -> T,
) -> Result<Option<Vec<T>>> {
    let Some(resource) = served(client, group, kind, plural).await? else {
        return Ok(None);
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let listed = call("list", format!("{kind}s"), api.list(&ListParams::default())).await;
    let listed = match listed {
        // The group is served, for another of its kinds.
        Err(error) if error.class() == ErrorClass::Gone => return Ok(None),
        other => other?,
    };
    let read = |object: &DynamicObject| {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        read(name, &object.data)
    };
    Ok(Some(listed.items.iter().map(read).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake::{Fake, Fault, failure};

    const RULES: &str = "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules";

    fn serve(fake: &Fake, group: &str, version: &str) {
        let version = json!({ "groupVersion": format!("{group}/{version}"), "version": version });
        let groups = json!({
            "kind": "APIGroupList", "apiVersion": "v1",
            "groups": [{ "name": group, "versions": [version], "preferredVersion": version }],
        });
        fake.fault("GET /apis", Fault::Answer((200, groups)));
    }

    #[tokio::test(start_paused = true)]
    async fn rules_are_read_in_the_version_that_is_served() {
        let fake = Fake::new();
        let rule = json!({
            "apiVersion": "readiness.node.x-k8s.io/v1alpha1", "kind": "NodeReadinessRule",
            "metadata": { "name": "net" }, "spec": { "taint": { "key": "readiness.k8s.io/net" } },
        });
        fake.put(&format!("{RULES}/net"), rule);
        serve(&fake, "readiness.node.x-k8s.io", "v1alpha1");
        let found = rules(&fake.client()).await.unwrap().unwrap();
        assert_eq!(
            (found[0].name.as_str(), found[0].key.as_str()),
            ("net", "readiness.k8s.io/net")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_served_is_absent_and_a_refused_list_is_not() {
        let fake = Fake::new();
        serve(&fake, "apps", "v1");
        assert_eq!(rules(&fake.client()).await.unwrap(), None);
        serve(&fake, "readiness.node.x-k8s.io", "v1alpha1");
        let missing = failure(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        fake.fault(&format!("GET {RULES}"), Fault::Answer(missing));
        assert_eq!(rules(&fake.client()).await.unwrap(), None);
        serve(&fake, "readiness.node.x-k8s.io", "v1alpha1");
        let denial = failure(403, "Forbidden", "nodereadinessrules is forbidden");
        fake.fault(&format!("GET {RULES}"), Fault::Answer(denial));
        assert_eq!(
            rules(&fake.client()).await.unwrap_err().class(),
            ErrorClass::Denied
        );
        let denial = failure(403, "Forbidden", "no discovery");
        fake.fault("GET /apis", Fault::Answer(denial));
        pools(&fake.client()).await.unwrap_err();
    }
}

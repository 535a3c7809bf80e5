//! Observe: nodes that a run would take and that joined after its plan was made.
//!
//! Owns which nodes those are, and the questions to the cloud about their images, asked only when every
//! node of the plan has had its turn. A replacement that any task has made is none of them.

use std::collections::BTreeMap;

use shipshape_api::NodePatchRun;
use shipshape_cluster::error::in_full;
use shipshape_engine::machine::{GroupId, ImageId};
use shipshape_engine::plan::{self, Newcomer, is_candidate};
use shipshape_engine::view::{NodeView, Observed};
use shipshape_provider::{Error, ErrorClass, Provider};

use crate::context::{Context, TASKS_BY_REPLACEMENT};

/// More are not looked at in one pass.
const NEWCOMERS_MAX: usize = 1000;

/// Looks for them.
pub(super) async fn look(context: &Context, run: &NodePatchRun) -> Observed<Vec<Newcomer>> {
    let nodes = unplanned(context, run);
    if nodes.is_empty() {
        return Observed::Present(Vec::new());
    }
    let provider = match context.provider(Some(&run.spec.provider)).await {
        Ok(provider) => provider,
        Err(error) => {
            let why = in_full(&error);
            let unknown = |node| Newcomer {
                node,
                image: Observed::Unknown(why.clone()),
                wanted: Observed::NotAsked,
            };
            return Observed::Present(nodes.into_iter().map(unknown).collect());
        }
    };
    let mut groups: BTreeMap<GroupId, Observed<ImageId>> = BTreeMap::new();
    let mut newcomers = Vec::new();
    for node in nodes {
        let machine = match &node.provider_id {
            Some(id) => known(provider.resolve(id).await),
            None => Observed::Absent,
        };
        let group = machine.present().and_then(|machine| machine.group.clone());
        let wanted = match group {
            None => Observed::Absent,
            Some(id) => match groups.get(&id) {
                Some(image) => image.clone(),
                None => {
                    let image = image_of(provider.as_ref(), &id).await;
                    groups.insert(id, image.clone());
                    image
                }
            },
        };
        let image = match machine {
            Observed::Present(machine) => Observed::Present(machine.image),
            Observed::Absent => Observed::Absent,
            Observed::Unknown(why) => Observed::Unknown(why),
            Observed::NotAsked => Observed::NotAsked,
        };
        newcomers.push(Newcomer {
            node,
            image,
            wanted,
        });
    }
    Observed::Present(newcomers)
}

async fn image_of(provider: &dyn Provider, id: &GroupId) -> Observed<ImageId> {
    match known(provider.group(id).await) {
        Observed::Present(group) => Observed::Present(group.image),
        Observed::Absent => Observed::Absent,
        Observed::Unknown(why) => Observed::Unknown(why),
        Observed::NotAsked => Observed::NotAsked,
    }
}

/// What a cloud will never know is not there for us: it can be no machine of a group that we replace.
fn known<T>(result: Result<T, Error>) -> Observed<T> {
    match result {
        Ok(thing) => Observed::Present(thing),
        Err(error) if matches!(error.class(), ErrorClass::Gone | ErrorClass::Invalid) => {
            Observed::Absent
        }
        Err(error) => Observed::Unknown(in_full(&error)),
    }
}

fn unplanned(context: &Context, run: &NodePatchRun) -> Vec<NodeView> {
    let plan = run.status.as_ref().and_then(|status| status.plan.as_ref());
    let planned = plan.map(|plan| plan::meant(plan)).unwrap_or_default();
    let stores = &context.stores;
    let is_replacement = |node: &NodeView| {
        node.provider_id.as_ref().is_some_and(|id| {
            let made = stores.tasks.by_index(TASKS_BY_REPLACEMENT, id.as_str());
            !made.is_empty()
        })
    };
    let nodes = stores.nodes.list();
    nodes
        .iter()
        .filter(|node| !plan::is_among(&planned, node))
        .filter(|node| is_candidate(&run.spec, node).unwrap_or(false) && !is_replacement(node))
        .take(NEWCOMERS_MAX)
        .map(|node| NodeView::clone(node))
        .collect()
}

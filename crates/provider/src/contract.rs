//! What every provider must do, as checks that run against any of them.
//!
//! Owns the promises of the `Provider` trait in executable form. Must not know any one cloud: a
//! `Stage` sets the scene. Called from the tests of each provider, once per check on a fresh stage.

pub mod faults;

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use async_trait::async_trait;
use shipshape_engine::machine::{GroupId, ImageId, MachineId, MachineState, ProviderId, Token};

use crate::{Error, Provider, ReplacementRequest};

/// The scene of a check: a group with at least one running machine and room for two more.
#[async_trait]
pub trait Stage: Send + Sync {
    /// The provider under test.
    fn provider(&self) -> &dyn Provider;
    /// The group.
    fn group(&self) -> GroupId;
    /// A machine of the group that runs.
    fn running(&self) -> MachineId;
    /// Waits until the cloud has finished what it was asked.
    async fn settle(&self);
}

/// A promise that was broken, in a sentence.
pub type Breach = String;

/// One promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// A providerID leads to its machine, and an unknown one is known to be unknown.
    Resolves,
    /// One token makes one machine, however often it is sent.
    TokenMakesOneMachine,
    /// A token with other words is refused.
    TokenKeepsItsWords,
    /// A replacement comes up in its zone, from the group's current image, with its tags.
    ReplacementMatchesRequest,
    /// Replacing keeps the group's desired size once the old machine is deleted.
    ReplacingKeepsTheSize,
    /// Deleting twice is deleting once.
    DeletingTwiceIsOnce,
    /// A new image is for new machines only.
    ImageIsForNewMachines,
    /// Tags add up and are found again.
    TagsAreFound,
    /// Protection is set and lifted.
    ProtectionIsShown,
    /// Restoring groups leaves them as they were before the first replacement.
    GroupsAreRestored,
    /// What we have made is listed as ours, and nothing else is.
    OwnedMachinesAreListed,
}

impl Check {
    /// All promises.
    pub const ALL: [Self; 11] = [
        Self::Resolves,
        Self::TokenMakesOneMachine,
        Self::TokenKeepsItsWords,
        Self::ReplacementMatchesRequest,
        Self::ReplacingKeepsTheSize,
        Self::DeletingTwiceIsOnce,
        Self::ImageIsForNewMachines,
        Self::TagsAreFound,
        Self::ProtectionIsShown,
        Self::GroupsAreRestored,
        Self::OwnedMachinesAreListed,
    ];

    /// Runs the check on a fresh stage.
    pub async fn run(self, stage: &dyn Stage) -> Result<(), Breach> {
        match self {
            Self::Resolves => resolves(stage).await,
            Self::TokenMakesOneMachine => token_makes_one_machine(stage).await,
            Self::TokenKeepsItsWords => token_keeps_its_words(stage).await,
            Self::ReplacementMatchesRequest => replacement_matches_request(stage).await,
            Self::ReplacingKeepsTheSize => replacing_keeps_the_size(stage).await,
            Self::DeletingTwiceIsOnce => deleting_twice_is_once(stage).await,
            Self::ImageIsForNewMachines => image_is_for_new_machines(stage).await,
            Self::TagsAreFound => tags_are_found(stage).await,
            Self::ProtectionIsShown => protection_is_shown(stage).await,
            Self::GroupsAreRestored => groups_are_restored(stage).await,
            Self::OwnedMachinesAreListed => owned_machines_are_listed(stage).await,
        }
    }
}

fn same<T: PartialEq + Debug>(what: &str, left: &T, right: &T) -> Result<(), Breach> {
    if left == right {
        return Ok(());
    }
    Err(format!("{what}: {left:?} is not {right:?}"))
}

fn told(error: impl Display) -> Breach {
    error.to_string()
}

fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

async fn request(stage: &dyn Stage, token: &str) -> Result<ReplacementRequest, Breach> {
    let old = stage
        .provider()
        .machine(&stage.running())
        .await
        .map_err(told)?;
    Ok(ReplacementRequest {
        token: Token::from(token),
        group: stage.group(),
        zone: old.zone,
        replaces: old.id,
        tags: tags(&[("contract", token)]),
    })
}

async fn desired(stage: &dyn Stage) -> Result<u32, Breach> {
    let group = stage.provider().group(&stage.group()).await.map_err(told)?;
    Ok(group.desired)
}

async fn resolves(stage: &dyn Stage) -> Result<(), Breach> {
    let cloud = stage.provider();
    let machine = cloud.machine(&stage.running()).await.map_err(told)?;
    same(
        "state of a running machine",
        &machine.state,
        &MachineState::Ready,
    )?;
    let found = cloud.resolve(&machine.provider_id).await.map_err(told)?;
    same("machine behind its providerID", &found.id, &machine.id)?;
    let unknown = ProviderId(format!("{}0no0such", machine.provider_id));
    match cloud.resolve(&unknown).await {
        Err(Error::NotFound { .. }) => Ok(()),
        other => Err(format!("an unknown providerID gave {other:?}")),
    }
}

async fn token_makes_one_machine(stage: &dyn Stage) -> Result<(), Breach> {
    let cloud = stage.provider();
    let before = desired(stage).await?;
    let request = request(stage, "one").await?;
    same(
        "lookup before the call",
        &cloud.find_replacement(&request.token).await.map_err(told)?,
        &None,
    )?;
    let first = cloud.ensure_replacement(&request).await.map_err(told)?;
    let second = cloud.ensure_replacement(&request).await.map_err(told)?;
    same("machine of a repeated token", &second.id, &first.id)?;
    stage.settle().await;
    let third = cloud.ensure_replacement(&request).await.map_err(told)?;
    same("machine of a token repeated later", &third.id, &first.id)?;
    let found = cloud.find_replacement(&request.token).await.map_err(told)?;
    same(
        "machine found by token",
        &found.map(|machine| machine.id),
        &Some(first.id),
    )?;
    same("desired size", &desired(stage).await?, &(before + 1))?;
    let tagged = cloud.machines_tagged(&request.tags).await.map_err(told)?;
    same("machines made", &tagged.len(), &1)
}

async fn token_keeps_its_words(stage: &dyn Stage) -> Result<(), Breach> {
    let cloud = stage.provider();
    let mut request = request(stage, "words").await?;
    cloud.ensure_replacement(&request).await.map_err(told)?;
    request.tags.insert("other".to_owned(), "word".to_owned());
    match cloud.ensure_replacement(&request).await {
        Err(Error::Refused { .. }) => Ok(()),
        other => Err(format!("a token with other words gave {other:?}")),
    }
}

async fn replacement_matches_request(stage: &dyn Stage) -> Result<(), Breach> {
    let cloud = stage.provider();
    let request = request(stage, "match").await?;
    let made = cloud.ensure_replacement(&request).await.map_err(told)?;
    cloud
        .machine(&made.id)
        .await
        .map_err(|error| format!("read at once: {error}"))?;
    stage.settle().await;
    let machine = cloud.machine(&made.id).await.map_err(told)?;
    let group = cloud.group(&stage.group()).await.map_err(told)?;
    same("state", &machine.state, &MachineState::Ready)?;
    same("zone", &machine.zone, &request.zone)?;
    same("group", &machine.group, &Some(request.group))?;
    same("image", &machine.image, &group.image)?;
    let carried = request
        .tags
        .iter()
        .all(|(key, value)| machine.tags.get(key) == Some(value));
    same("tags carried", &carried, &true)
}

async fn replacing_keeps_the_size(stage: &dyn Stage) -> Result<(), Breach> {
    let cloud = stage.provider();
    let before = desired(stage).await?;
    let request = request(stage, "size").await?;
    cloud.ensure_replacement(&request).await.map_err(told)?;
    stage.settle().await;
    cloud
        .delete_machine(&request.replaces)
        .await
        .map_err(told)?;
    same(
        "desired size after the exchange",
        &desired(stage).await?,
        &before,
    )?;
    stage.settle().await;
    same("desired size later", &desired(stage).await?, &before)?;
    match cloud.machine(&request.replaces).await {
        Err(Error::NotFound { .. }) => Ok(()),
        Ok(machine) => same(
            "state of a deleted machine",
            &machine.state,
            &MachineState::Terminated,
        ),
        Err(other) => Err(format!("reading a deleted machine gave {other}")),
    }
}

async fn deleting_twice_is_once(stage: &dyn Stage) -> Result<(), Breach> {
    let cloud = stage.provider();
    let request = request(stage, "twice").await?;
    let made = cloud.ensure_replacement(&request).await.map_err(told)?;
    stage.settle().await;
    let before = desired(stage).await?;
    cloud.delete_machine(&made.id).await.map_err(told)?;
    cloud
        .delete_machine(&made.id)
        .await
        .map_err(|error| format!("second delete: {error}"))?;
    stage.settle().await;
    cloud
        .delete_machine(&made.id)
        .await
        .map_err(|error| format!("late delete: {error}"))?;
    same("desired size", &desired(stage).await?, &(before - 1))
}

async fn image_is_for_new_machines(stage: &dyn Stage) -> Result<(), Breach> {
    let cloud = stage.provider();
    let old = cloud.machine(&stage.running()).await.map_err(told)?;
    let image = ImageId(format!("{}-next", old.image));
    cloud
        .set_group_image(&stage.group(), &image)
        .await
        .map_err(told)?;
    let group = cloud.group(&stage.group()).await.map_err(told)?;
    same("image of the group", &group.image, &image)?;
    let kept = cloud.machine(&stage.running()).await.map_err(told)?;
    same("image of a running machine", &kept.image, &old.image)?;
    let request = request(stage, "image").await?;
    let made = cloud.ensure_replacement(&request).await.map_err(told)?;
    same("image of a new machine", &made.image, &image)
}

async fn tags_are_found(stage: &dyn Stage) -> Result<(), Breach> {
    let cloud = stage.provider();
    let id = stage.running();
    cloud
        .tag(&id, &tags(&[("a", "1"), ("b", "1")]))
        .await
        .map_err(told)?;
    cloud.tag(&id, &tags(&[("b", "2")])).await.map_err(told)?;
    stage.settle().await;
    let found = cloud
        .machines_tagged(&tags(&[("a", "1"), ("b", "2")]))
        .await
        .map_err(told)?;
    let ids: Vec<_> = found.into_iter().map(|machine| machine.id).collect();
    same("machines found by tags", &ids, &vec![id])?;
    let none = cloud
        .machines_tagged(&tags(&[("a", "1"), ("b", "1")]))
        .await
        .map_err(told)?;
    same("machines found by an old value", &none.len(), &0)
}

async fn protection_is_shown(stage: &dyn Stage) -> Result<(), Breach> {
    let cloud = stage.provider();
    let id = stage.running();
    for protected in [true, true, false] {
        cloud.protect(&id, protected).await.map_err(told)?;
        stage.settle().await;
        let machine = cloud.machine(&id).await.map_err(told)?;
        same("protection", &machine.protected, &protected)?;
    }
    Ok(())
}

async fn groups_are_restored(stage: &dyn Stage) -> Result<(), Breach> {
    let cloud = stage.provider();
    let before = cloud.group(&stage.group()).await.map_err(told)?;
    let request = request(stage, "restore").await?;
    cloud.ensure_replacement(&request).await.map_err(told)?;
    stage.settle().await;
    cloud
        .delete_machine(&request.replaces)
        .await
        .map_err(told)?;
    stage.settle().await;
    for _ in 0..2 {
        cloud.restore_groups().await.map_err(told)?;
    }
    let after = cloud.group(&stage.group()).await.map_err(told)?;
    same("the group", &after, &before)
}

async fn owned_machines_are_listed(stage: &dyn Stage) -> Result<(), Breach> {
    let cloud = stage.provider();
    same(
        "ours at first",
        &cloud.owned().await.map_err(told)?.len(),
        &0,
    )?;
    let request = request(stage, "owned").await?;
    let made = cloud.ensure_replacement(&request).await.map_err(told)?;
    stage.settle().await;
    let ours = cloud.owned().await.map_err(told)?;
    let ids: Vec<_> = ours.into_iter().map(|machine| machine.id).collect();
    same("ours after one was made", &ids, &vec![made.id.clone()])?;
    cloud.delete_machine(&made.id).await.map_err(told)?;
    stage.settle().await;
    same(
        "ours at the end",
        &cloud.owned().await.map_err(told)?.len(),
        &0,
    )
}

//! What all providers of one region share: clients, pace, collected reads and a short memory.
//!
//! Owns the reading of machines and groups. Must not change anything in the cloud. The memory holds
//! what this process made in the last two minutes, because the cloud may not list it yet; nothing is
//! lost with it but the certainty that "not listed" means "not there".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::try_join;
use shipshape_engine::machine::{
    Group, GroupId, ImageId, Machine, MachineId, MachineState, ProviderId, Template,
};
use shipshape_provider::{Error, Result};
use tokio::time::Instant;

use crate::batch::Batch;
use crate::connection::{Connection, Source};
use crate::ec2::calls::{Filter, Instance, TemplateVersion};
use crate::failure::Failure;
use crate::groups::{GroupFacts, Groups, Membership};
use crate::launch::untagged::Untagged;
use crate::pace::{Kind, Pace};
use crate::settings::{ClientSettings, FullGroups};

/// Most values of one filter.
const IDS_AT_ONCE: usize = 200;
/// Most names in one question about groups.
const GROUPS_AT_ONCE: usize = 50;

/// An instance and its group.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) instance: Instance,
    pub(crate) membership: Option<Membership>,
}

/// One region.
pub(crate) struct Region {
    pub(crate) calls: Arc<Calls>,
    pub(crate) settings: ClientSettings,
    machines: Batch<Seen>,
    groups: Batch<GroupFacts>,
    templates: Batch<TemplateVersion>,
    subnets: Mutex<BTreeMap<String, String>>,
    made: Mutex<BTreeMap<MachineId, (Instant, Machine)>>,
    pub(crate) untagged: Untagged,
    started: Instant,
    /// Whether the group launch is served, once known: 0 not asked, 1 yes, 2 no.
    pub(crate) launch_served: AtomicU8,
    /// One change of a group at a time.
    pub(crate) gate: tokio::sync::Mutex<()>,
}

/// Both clients and their common pace.
pub(crate) struct Calls {
    pub(crate) connection: Connection,
    pub(crate) pace: Pace,
}

impl Calls {
    pub(crate) fn groups(&self) -> Groups<'_> {
        Groups {
            client: &self.connection.autoscaling,
            pace: &self.pace,
        }
    }

    /// Instances that pass the filters, each with its group.
    pub(crate) async fn look(&self, filters: &[Filter]) -> std::result::Result<Vec<Seen>, Failure> {
        let instances = self.instances(filters).await?;
        let ids: Vec<String> = instances.iter().map(|it| it.id.clone()).collect();
        let memberships = self.groups().memberships(&ids).await?;
        Ok(pair(instances, &memberships))
    }

    async fn instances(&self, filters: &[Filter]) -> std::result::Result<Vec<Instance>, Failure> {
        let ec2 = &self.connection.ec2;
        self.pace
            .call("DescribeInstances", Kind::Read, || {
                ec2.describe_instances(filters)
            })
            .await
    }

    async fn by_ids(
        &self,
        ids: Vec<String>,
    ) -> std::result::Result<BTreeMap<String, Seen>, Failure> {
        // A filter and not the list of ids: one id that is not known would fail the whole call.
        let filters = [("instance-id".to_owned(), ids.clone())];
        let groups = self.groups();
        let (instances, memberships) =
            try_join(self.instances(&filters), groups.memberships(&ids)).await?;
        let seen = pair(instances, &memberships).into_iter();
        Ok(seen.map(|it| (it.instance.id.clone(), it)).collect())
    }
}

fn pair(instances: Vec<Instance>, memberships: &BTreeMap<String, Membership>) -> Vec<Seen> {
    let pairs = instances.into_iter().map(|instance| Seen {
        membership: memberships.get(&instance.id).cloned(),
        instance,
    });
    pairs.collect()
}

impl Region {
    pub(crate) async fn open(
        name: &str,
        source: &Source,
        settings: ClientSettings,
    ) -> Result<Self> {
        let calls = Arc::new(Calls {
            connection: Connection::open(name, source).await?,
            pace: Pace::new(settings.pace.clone()),
        });
        let (one, two, three) = (Arc::clone(&calls), Arc::clone(&calls), Arc::clone(&calls));
        Ok(Self {
            machines: Batch::new(settings.window, IDS_AT_ONCE, move |ids| {
                let calls = Arc::clone(&one);
                async move { calls.by_ids(ids).await }.boxed()
            }),
            groups: Batch::new(settings.window, GROUPS_AT_ONCE, move |names| {
                let calls = Arc::clone(&two);
                async move {
                    let found = calls.groups().describe(&names, &[]).await?;
                    Ok(found.into_iter().map(|it| (it.id.clone(), it)).collect())
                }
                .boxed()
            }),
            templates: Batch::new(settings.window, 1, move |keys| {
                let calls = Arc::clone(&three);
                async move { templates(&calls, keys).await }.boxed()
            }),
            calls,
            settings,
            subnets: Mutex::default(),
            made: Mutex::default(),
            untagged: Untagged::default(),
            started: Instant::now(),
            launch_served: AtomicU8::new(0),
            gate: tokio::sync::Mutex::new(()),
        })
    }

    /// One machine. What the cloud does not list may have been made a moment ago: then it is shown
    /// as it was made, or, when an earlier process may have made it, there is no answer yet.
    pub(crate) async fn machine(&self, id: &MachineId) -> Result<Machine> {
        let what = format!("machine {id}");
        if !is_instance_id(id.as_str()) {
            return Err(Error::NotFound { what });
        }
        let seen = self.machines.get(id.as_str()).await;
        match seen.map_err(|failure| failure.about(&what))? {
            Some(seen) => Ok(machine(seen)),
            None => self.made(id).map_or_else(|| Err(self.not_listed(what)), Ok),
        }
    }

    /// An instance with what only EC2 says of it.
    pub(crate) async fn seen(&self, id: &MachineId) -> Result<Option<Seen>> {
        let seen = self.machines.get(id.as_str()).await;
        seen.map_err(|failure| failure.about(&format!("machine {id}")))
    }

    fn not_listed(&self, what: String) -> Error {
        if self.is_young() {
            return Error::NoAnswer {
                what,
                message: "it is not listed, which proves nothing this soon after a start"
                    .to_owned(),
            };
        }
        Error::NotFound { what }
    }

    /// Whether something that an earlier process made may not be listed yet.
    pub(crate) fn is_young(&self) -> bool {
        self.started.elapsed() < self.settings.settle
    }

    /// Remembers a machine that was just made or changed.
    pub(crate) fn remember(&self, machine: &Machine) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.retain(|_, (at, _)| at.elapsed() < self.settings.settle);
        made.insert(machine.id.clone(), (Instant::now(), machine.clone()));
    }

    fn made(&self, id: &MachineId) -> Option<Machine> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.get(id)
            .filter(|(at, _)| at.elapsed() < self.settings.settle)
            .map(|(_, machine)| machine.clone())
    }

    /// A machine made here under a token, whether or not it is listed yet.
    pub(crate) fn made_under(&self, key: &str, value: &str) -> Option<Machine> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.values()
            .filter(|(at, _)| at.elapsed() < self.settings.settle)
            .find(|(_, machine)| machine.tags.get(key).map(String::as_str) == Some(value))
            .map(|(_, machine)| machine.clone())
    }

    /// One group.
    pub(crate) async fn group(&self, id: &GroupId) -> Result<GroupFacts> {
        let what = format!("group {id}");
        let found = self.groups.get(id.as_str()).await;
        found
            .map_err(|failure| failure.about(&what))?
            .ok_or(Error::NotFound { what })
    }

    /// The version of a template that a group launches from now on.
    pub(crate) async fn template(&self, group: &GroupFacts) -> Result<TemplateVersion> {
        let (template, version) = template_of(group)?;
        let what = format!("launch template {template} of group {}", group.id);
        let found = self.templates.get(&format!("{template} {version}")).await;
        found
            .map_err(|failure| failure.about(&what))?
            .ok_or(Error::NotFound { what })
    }

    /// A group as decisions see it.
    pub(crate) async fn view(&self, group: &GroupFacts) -> Result<Group> {
        let template = self.template(group).await?;
        Ok(Group {
            id: GroupId(group.id.clone()),
            image: ImageId(template.image.clone().unwrap_or_default()),
            zones: group.zones.clone(),
            min: group.min,
            max: group.max,
            desired: group.desired,
            raises_max: self.settings.full_groups != FullGroups::Respect,
            template: group.template.as_ref().map(|(id, _)| Template {
                id: id.clone(),
                version: template.number.clone(),
            }),
        })
    }

    /// The group's subnets in a zone, by name. Zones of subnets never change, so they are asked once.
    pub(crate) async fn subnets_in(&self, group: &GroupFacts, zone: &str) -> Result<Vec<String>> {
        let known = self.known_subnets();
        let unknown: Vec<String> = group
            .subnets
            .iter()
            .filter(|subnet| !known.contains_key(*subnet))
            .cloned()
            .collect();
        if !unknown.is_empty() {
            let ec2 = &self.calls.connection.ec2;
            let found = self
                .calls
                .pace
                .call("DescribeSubnets", Kind::Read, || ec2.subnet_zones(&unknown))
                .await
                .map_err(|failure| failure.about(&format!("subnets of group {}", group.id)))?;
            self.subnets
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(found);
        }
        let known = self.known_subnets();
        let inside: BTreeSet<&String> = group
            .subnets
            .iter()
            .filter(|subnet| known.get(*subnet).map(String::as_str) == Some(zone))
            .collect();
        Ok(inside.into_iter().cloned().collect())
    }

    fn known_subnets(&self) -> BTreeMap<String, String> {
        self.subnets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What is known of the group launch.
    pub(crate) fn launch_is_served(&self) -> Option<bool> {
        match self.launch_served.load(Ordering::Relaxed) {
            1 => Some(true),
            2 => Some(false),
            _ => None,
        }
    }
}

/// The template of a group, or why it has none that can be used.
pub(crate) fn template_of(group: &GroupFacts) -> Result<(&str, &str)> {
    let template = group.template.as_ref();
    let (template, version) = template.ok_or_else(|| Error::Refused {
        what: format!("group {}", group.id),
        message: "it launches from a launch configuration; give it a launch template".to_owned(),
    })?;
    Ok((template, version))
}

async fn templates(
    calls: &Calls,
    keys: Vec<String>,
) -> std::result::Result<BTreeMap<String, TemplateVersion>, Failure> {
    let mut found = BTreeMap::new();
    for key in keys {
        let (template, version) = key.split_once(' ').unwrap_or((&key, "$Default"));
        let ec2 = &calls.connection.ec2;
        let answer = calls
            .pace
            .call("DescribeLaunchTemplateVersions", Kind::Read, || {
                ec2.template_version(template, version)
            })
            .await?;
        found.insert(key, answer);
    }
    Ok(found)
}

/// Whether a text has the form of an instance's id.
fn is_instance_id(text: &str) -> bool {
    text.strip_prefix("i-")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_hexdigit()))
}

/// A machine in the words of decisions.
pub(crate) fn machine(seen: Seen) -> Machine {
    let Seen {
        instance,
        membership,
    } = seen;
    let state = state(&instance, membership.as_ref());
    Machine {
        provider_id: ProviderId(format!("aws:///{}/{}", instance.zone, instance.id)),
        id: MachineId(instance.id),
        group: membership.as_ref().map(|it| GroupId(it.group.clone())),
        zone: instance.zone,
        image: ImageId(instance.image),
        state,
        protected: membership.is_some_and(|it| it.protected),
        tags: instance.tags,
        subnet: instance.subnet,
    }
}

fn state(instance: &Instance, membership: Option<&Membership>) -> MachineState {
    let is_leaving = membership.is_some_and(|it| it.lifecycle.starts_with("Terminat"));
    match instance.state.as_str() {
        "terminated" => MachineState::Terminated,
        "shutting-down" => MachineState::Terminating,
        // The group has decided, even while a hook still holds the instance back.
        _ if is_leaving => MachineState::Terminating,
        "pending" => MachineState::Creating,
        "running" => MachineState::Ready,
        "stopping" | "stopped" => MachineState::Stopped,
        _ => MachineState::Unknown,
    }
}

/// Whether nothing brings the machine back.
pub(crate) fn has_ended(state: MachineState) -> bool {
    matches!(
        state,
        MachineState::Terminating | MachineState::Terminated | MachineState::Failed
    )
}

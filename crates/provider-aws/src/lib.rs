//! Amazon Web Services: Auto Scaling groups and EC2 instances as a `Provider`.
//!
//! Owns everything that speaks to that cloud. Must not know about controllers or Kubernetes
//! objects. Credentials and endpoints come from the environment, files and roles by the SDK's own
//! means; nothing here reads, keeps on disk or logs a secret. `docs/aws.md` says which call is made
//! when.

mod batch;
mod connection;
mod ec2;
mod failure;
mod groups;
mod hold;
mod launch;
mod pace;
mod region;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use aws_credential_types::Credentials;
use shipshape_api::ProviderRef;
use shipshape_api::names::{TAG_CLUSTER_ID, TAG_TOKEN};
use shipshape_engine::machine::{Group, GroupId, ImageId, Machine, MachineId, ProviderId, Token};
use shipshape_engine::naming::hex;
use shipshape_provider::{Error, Provider, ProviderSource, ReplacementRequest, Result};
use tokio::sync::Mutex;

use crate::connection::Source;
use crate::groups::filter;
use crate::launch::cut;
use crate::pace::Kind;
use crate::region::{Region, has_ended, machine, template_of};
pub use crate::settings::{
    AwsSettings, ClientSettings, FullGroups, LaunchMode, PaceSettings, Placement,
};

const FORM: &str = "aws:///";
/// States of instances that are not yet gone.
const LIVING: [&str; 5] = ["pending", "running", "shutting-down", "stopping", "stopped"];
const TOKEN_DIGITS: usize = 32;

/// All regions that this process speaks to; clones share them.
#[derive(Clone, Default)]
pub struct Regions {
    settings: ClientSettings,
    source: Source,
    regions: Arc<Mutex<BTreeMap<String, Arc<Region>>>>,
}

impl Regions {
    /// None open yet.
    pub fn new(settings: ClientSettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Regions that are all served at one place, for tests of wire forms; what the environment says
    /// is not read.
    pub fn at(
        endpoint: &str,
        access_key: &str,
        secret_key: &str,
        settings: ClientSettings,
    ) -> Self {
        let credentials = Credentials::new(access_key, secret_key, None, None, "given");
        Self {
            source: Source::Given {
                endpoint: endpoint.to_owned(),
                credentials,
            },
            ..Self::new(settings)
        }
    }

    /// The provider for a manifest's settings. Providers of one region share their clients, their
    /// limit of calls and their collected reads.
    pub async fn open(&self, settings: AwsSettings) -> Result<Aws> {
        let mut open = self.regions.lock().await;
        let region = match open.get(&settings.region) {
            Some(region) => Arc::clone(region),
            None => {
                let opened =
                    Region::open(&settings.region, &self.source, self.settings.clone()).await?;
                let region = Arc::new(opened);
                open.insert(settings.region.clone(), Arc::clone(&region));
                region
            }
        };
        Ok(Aws { region, settings })
    }
}

#[async_trait]
impl ProviderSource for Regions {
    async fn provider(&self, block: &ProviderRef) -> Result<Arc<dyn Provider>> {
        let settings = block.aws.as_ref().ok_or_else(|| Error::Refused {
            what: "the provider".to_owned(),
            message: "provider.aws is missing".to_owned(),
        })?;
        let provider = self.open(AwsSettings::from(settings)).await?;
        Ok(Arc::new(provider))
    }
}

/// One cluster's machines in one region.
#[derive(Clone)]
pub struct Aws {
    region: Arc<Region>,
    settings: AwsSettings,
}

impl Aws {
    /// Reads a machine, and says that one on its way out is not there to be changed.
    async fn changeable(&self, id: &MachineId) -> Result<Machine> {
        let machine = self.region.machine(id).await?;
        if has_ended(machine.state) {
            return Err(Error::NotFound {
                what: format!("machine {id}"),
            });
        }
        Ok(machine)
    }

    async fn launch_new_version(
        &self,
        template: &str,
        source: &str,
        image: &ImageId,
    ) -> Result<String> {
        let token = hex(&[template, source, image.as_str()], TOKEN_DIGITS);
        let ec2 = &self.region.calls.connection.ec2;
        let call = || ec2.create_template_version(template, source, image.as_str(), &token);
        let name = "CreateLaunchTemplateVersion";
        self.region
            .calls
            .pace
            .call(name, Kind::Repeatable, call)
            .await
            .map_err(|failure| failure.about(&format!("a version of launch template {template}")))
    }
}

#[async_trait]
impl Provider for Aws {
    async fn resolve(&self, provider_id: &ProviderId) -> Result<Machine> {
        let parts = provider_id
            .as_str()
            .strip_prefix(FORM)
            .and_then(|rest| rest.split_once('/'));
        let Some((zone, id)) = parts else {
            return Err(Error::Refused {
                what: format!("provider id {provider_id}"),
                message: format!("it is not of the form {FORM}ZONE/INSTANCE"),
            });
        };
        let machine = self.region.machine(&MachineId(id.to_owned())).await?;
        if machine.zone == zone {
            return Ok(machine);
        }
        Err(Error::NotFound {
            what: format!("provider id {provider_id}"),
        })
    }

    async fn machine(&self, id: &MachineId) -> Result<Machine> {
        self.region.machine(id).await
    }

    async fn group(&self, id: &GroupId) -> Result<Group> {
        let group = self.region.group(id).await?;
        self.region.view(&group).await
    }

    async fn groups(&self) -> Result<Vec<Group>> {
        let Some(cluster) = &self.settings.cluster_id else {
            return Err(Error::Refused {
                what: "groups of the cluster".to_owned(),
                message: "provider.aws.clusterId does not say which cluster".to_owned(),
            });
        };
        let tag = format!("kubernetes.io/cluster/{cluster}");
        let groups = self.region.calls.groups();
        let found = groups
            .describe(&[], &[filter("tag-key", &tag)])
            .await
            .map_err(|failure| failure.about(&format!("groups with tag {tag}")))?;
        let mut views = Vec::new();
        for group in found {
            views.push(self.region.view(&group).await?);
        }
        Ok(views)
    }

    async fn set_group_image(&self, id: &GroupId, image: &ImageId) -> Result<()> {
        let group = self.region.group(id).await?;
        let current = self.region.template(&group).await?;
        if current.image.as_deref() == Some(image.as_str()) {
            return Ok(());
        }
        let (template, asked) = template_of(&group)?;
        let version = self
            .launch_new_version(template, &current.number, image)
            .await?;
        let about = format!("the image of group {id}");
        let calls = &self.region.calls;
        let done = match asked {
            "$Latest" => return Ok(()),
            "$Default" => {
                let ec2 = &calls.connection.ec2;
                let call = || ec2.set_default_version(template, &version);
                calls
                    .pace
                    .call("ModifyLaunchTemplate", Kind::Repeatable, call)
                    .await
            }
            _ => calls.groups().set_version(&group, template, &version).await,
        };
        done.map_err(|failure| failure.about(&about))
    }

    async fn find_replacement(&self, token: &Token) -> Result<Option<Machine>> {
        let found = self.by_token(token).await?;
        // A machine outside of any group is not finished: the next `ensure_replacement` goes on.
        Ok(found.filter(|it| it.group.is_some() || has_ended(it.state)))
    }

    async fn ensure_replacement(&self, request: &ReplacementRequest) -> Result<Machine> {
        self.ensure(request).await
    }

    async fn protect(&self, id: &MachineId, protected: bool) -> Result<()> {
        let machine = self.changeable(id).await?;
        let about = format!("the protection of machine {id}");
        let Some(group) = machine.group else {
            return Err(Error::Refused {
                what: about,
                message: "it belongs to no group".to_owned(),
            });
        };
        let groups = self.region.calls.groups();
        groups
            .protect(group.as_str(), id.as_str(), protected)
            .await
            .map_err(|failure| failure.about(&about))
    }

    async fn tag(&self, id: &MachineId, tags: &BTreeMap<String, String>) -> Result<()> {
        self.changeable(id).await?;
        let tags: BTreeMap<String, String> = tags
            .iter()
            .map(|(key, value)| (key.clone(), cut(value)))
            .collect();
        let calls = &self.region.calls;
        let call = || calls.connection.ec2.create_tags(id.as_str(), &tags);
        let result = calls.pace.call("CreateTags", Kind::Repeatable, call).await;
        result.map_err(|failure| failure.about(&format!("machine {id}")))
    }

    async fn delete_machine(&self, id: &MachineId) -> Result<()> {
        let machine = match self.region.machine(id).await {
            Ok(machine) if has_ended(machine.state) => return Ok(()),
            Ok(machine) => machine,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let about = format!("the end of machine {id}");
        let calls = &self.region.calls;
        let Some(group) = machine.group else {
            let call = || calls.connection.ec2.terminate_instance(id.as_str());
            let name = "TerminateInstances";
            let result = calls.pace.call(name, Kind::Repeatable, call).await;
            return result.map_err(|failure| failure.about(&about));
        };
        match calls.groups().terminate(id.as_str()).await {
            // It has left the group since it was read: on its way out, or gone.
            Err(failure) if failure.says("ValidationError", "not found") => {}
            other => other.map_err(|failure| failure.about(&about))?,
        }
        self.lower(&group).await
    }

    async fn machines_tagged(&self, tags: &BTreeMap<String, String>) -> Result<Vec<Machine>> {
        let mut filters: Vec<(String, Vec<String>)> = tags
            .iter()
            .map(|(key, value)| (format!("tag:{key}"), vec![cut(value)]))
            .collect();
        filters.push((
            "instance-state-name".to_owned(),
            LIVING.map(str::to_owned).to_vec(),
        ));
        let seen = self.region.calls.look(&filters).await;
        let seen = seen.map_err(|failure| failure.about("machines by their tags"))?;
        Ok(seen.into_iter().map(machine).collect())
    }

    async fn owned(&self) -> Result<Vec<Machine>> {
        let Some(cluster) = &self.settings.cluster_id else {
            return Ok(Vec::new());
        };
        let ours = [(TAG_CLUSTER_ID.to_owned(), cluster.clone())].into();
        let mut found = self.machines_tagged(&ours).await?;
        found.retain(|machine| machine.tags.contains_key(TAG_TOKEN));
        Ok(found)
    }

    async fn restore_groups(&self) -> Result<()> {
        self.release_all().await
    }
}

//! Making a replacement: one token, one machine, in its group.
//!
//! Owns the order of calls. Every step can be the last one before a crash: the next call with the
//! same token finds what is there by its tag or by its token and goes on from there. Must not end a
//! machine.

mod attach;
pub(crate) mod untagged;

use std::collections::BTreeMap;

use shipshape_api::names::{TAG_CLUSTER_ID, TAG_REQUEST, TAG_TOKEN};
use shipshape_engine::machine::{
    GroupId, ImageId, Machine, MachineId, MachineState, ProviderId, Token,
};
use shipshape_engine::naming::hex;
use shipshape_provider::{Error, ReplacementRequest, Result};
use tokio::time::{Instant, sleep};

use crate::Aws;
use crate::ec2::calls::Launch;
use crate::failure::{Failure, Meaning};
use crate::groups::{GroupFacts, is_not_served};
use crate::hold::Way;
use crate::pace::Kind;
use crate::region::{has_ended, machine, template_of};
use crate::settings::Placement;

/// Longest client token.
const TOKEN_MAX: usize = 64;
/// Longest value of a tag.
const VALUE_MAX: usize = 256;
const HASH_DIGITS: usize = 32;

/// A request and what it comes to in this cloud.
struct Wanted<'a> {
    request: &'a ReplacementRequest,
    tags: BTreeMap<String, String>,
    words: String,
}

impl<'a> Wanted<'a> {
    fn new(request: &'a ReplacementRequest, aws: &Aws) -> Self {
        let words = words_of(request);
        let mut tags = aws.settings.extra_tags.clone();
        if let Some(cluster) = &aws.settings.cluster_id {
            tags.insert(TAG_CLUSTER_ID.to_owned(), cluster.clone());
        }
        tags.extend(request.tags.clone());
        tags.insert(TAG_TOKEN.to_owned(), request.token.0.clone());
        tags.insert(TAG_REQUEST.to_owned(), words.clone());
        let tags = tags.into_iter().map(|(key, value)| (key, cut(&value)));
        Self {
            request,
            tags: tags.collect(),
            words,
        }
    }

    /// The token of the call for a zone: another zone is another call.
    fn client_token(&self, zone: &str) -> String {
        let token = self.request.token.as_str();
        if zone == self.request.zone && token.len() <= TOKEN_MAX {
            return token.to_owned();
        }
        hex(&[token, zone], HASH_DIGITS)
    }

    fn refusal(&self) -> Error {
        Error::Refused {
            what: format!("token {}", self.request.token),
            message: "it was used before with other words".to_owned(),
        }
    }
}

/// A tag's value, as long as it may be.
pub(crate) fn cut(value: &str) -> String {
    value.chars().take(VALUE_MAX).collect()
}

fn words_of(request: &ReplacementRequest) -> String {
    let mut parts = vec![
        request.group.as_str(),
        &request.zone,
        request.replaces.as_str(),
    ];
    for (key, value) in &request.tags {
        parts.extend([key.as_str(), value]);
    }
    hex(&parts, HASH_DIGITS)
}

impl Aws {
    /// The machine of a token, when it is listed or this process has made it.
    pub(crate) async fn by_token(&self, token: &Token) -> Result<Option<Machine>> {
        let filters = [(format!("tag:{TAG_TOKEN}"), vec![cut(token.as_str())])];
        let seen = self.region.calls.look(&filters).await;
        let seen = seen.map_err(|failure| failure.about(&format!("token {token}")))?;
        // Should the impossible happen and there are two, the one that lives is the one that counts.
        let listed = seen.into_iter().map(machine);
        let best = listed.min_by_key(|it| (has_ended(it.state), it.id.clone()));
        match best.or_else(|| self.region.made_under(TAG_TOKEN, token.as_str())) {
            Some(found) => Ok(Some(found)),
            None => self.launched_under(token).await,
        }
    }

    /// Makes the machine, or goes on with the one that the token made.
    pub(crate) async fn ensure(&self, request: &ReplacementRequest) -> Result<Machine> {
        let wanted = Wanted::new(request, self);
        if let Some(found) = self.by_token(&request.token).await? {
            return self.adopt(found, &wanted).await;
        }
        let group = self.region.group(&request.group).await?;
        let way = {
            let _gate = self.region.gate.lock().await;
            self.hold(&group).await?
        };
        let mut full = None;
        for zone in self.zones(&group, request)? {
            match self.create(&group, &zone, &wanted, way).await {
                Err(Error::NoCapacity { message, .. }) => {
                    full.get_or_insert(Error::NoCapacity { zone, message });
                }
                other => return other,
            }
        }
        Err(full.unwrap_or_else(|| Error::NoCapacity {
            zone: request.zone.clone(),
            message: "there is no zone to launch in".to_owned(),
        }))
    }

    /// Zones to try, in order.
    fn zones(&self, group: &GroupFacts, request: &ReplacementRequest) -> Result<Vec<String>> {
        if !group.zones.contains(&request.zone) {
            return Err(Error::Refused {
                what: format!("a machine in group {}", group.id),
                message: format!("the group does not use zone {}", request.zone),
            });
        }
        let mut zones = vec![request.zone.clone()];
        if self.settings.placement == Placement::SameZone {
            return Ok(zones);
        }
        // An earlier process may have gone to another zone a moment ago, under another client token.
        if self.region.is_young() {
            return Err(Error::NoAnswer {
                what: format!("token {}", request.token),
                message: "it is too soon after a start to try several zones".to_owned(),
            });
        }
        let others = group.zones.iter().filter(|zone| **zone != request.zone);
        zones.extend(others.cloned());
        Ok(zones)
    }

    async fn create(
        &self,
        group: &GroupFacts,
        zone: &str,
        wanted: &Wanted<'_>,
        way: Way,
    ) -> Result<Machine> {
        if way == Way::Group {
            match self.launch_in_group(group, zone, wanted).await {
                Err(failure) if is_not_served(&failure) => {}
                Err(failure) => return Err(self.why_not(failure, group, zone).await),
                Ok(id) => return self.tag_new(&id, group, zone, wanted).await,
            }
        }
        self.run_and_attach(group, zone, wanted).await
    }

    async fn launch_in_group(
        &self,
        group: &GroupFacts,
        zone: &str,
        wanted: &Wanted<'_>,
    ) -> std::result::Result<MachineId, Failure> {
        let groups = self.region.calls.groups();
        let token = wanted.client_token(zone);
        let id = groups.launch(&group.id, zone, &token).await;
        match id {
            // A policy that mixes spot and on-demand is beyond this call; nothing was launched.
            Err(failure) if group.mixed.is_some() && failure.meaning() == Meaning::Refused => Err(
                Failure::answered("UnsupportedOperation", failure.to_string()),
            ),
            other => other.map(MachineId),
        }
    }

    /// A refusal of a launch, in the words of the trait. The service has no code of its own for a
    /// group that is at its maximum.
    async fn why_not(&self, failure: Failure, group: &GroupFacts, zone: &str) -> Error {
        match failure.meaning() {
            Meaning::Refused => {}
            Meaning::Full => {
                return Error::NoCapacity {
                    zone: zone.to_owned(),
                    message: failure.to_string(),
                };
            }
            Meaning::Throttled
            | Meaning::Away
            | Meaning::Unknown
            | Meaning::Denied
            | Meaning::OtherWords
            | Meaning::NotServed => {
                return failure.about(&format!("a machine in group {}", group.id));
            }
        }
        let _gate = self.region.gate.lock().await;
        let id = GroupId(group.id.clone());
        let now = match self.region.group(&id).await {
            Ok(now) if now.desired >= now.max => now,
            Ok(_) => return failure.about(&format!("a machine in group {}", group.id)),
            Err(error) => return error,
        };
        match self.make_room(&now, zone).await {
            // The next call with this token finds room.
            Ok(()) => Error::NoAnswer {
                what: format!("a machine in group {}", group.id),
                message: "its maximum was just raised".to_owned(),
            },
            Err(error) => error,
        }
    }

    /// A group gives its machines no tags of ours, so they follow in a second call. A crash between
    /// the two leads back here: the group launch gives the same machine for the same token.
    async fn tag_new(
        &self,
        id: &MachineId,
        group: &GroupFacts,
        zone: &str,
        wanted: &Wanted<'_>,
    ) -> Result<Machine> {
        let seen = self.region.seen(id).await?.map(machine);
        if let Some(words) = seen.as_ref().and_then(|it| it.tags.get(TAG_REQUEST))
            && *words != wanted.words
        {
            return Err(wanted.refusal());
        }
        let mut made = match seen {
            Some(seen) => seen,
            None => self.unlisted(id, group, zone).await?,
        };
        made.group = Some(wanted.request.group.clone());
        made.tags.extend(wanted.tags.clone());
        self.tag_launched(&wanted.request.token, made).await
    }

    async fn unlisted(&self, id: &MachineId, group: &GroupFacts, zone: &str) -> Result<Machine> {
        let image = self.region.template(group).await?.image.unwrap_or_default();
        Ok(Machine {
            id: id.clone(),
            provider_id: ProviderId(format!("aws:///{zone}/{id}")),
            group: None,
            zone: zone.to_owned(),
            image: ImageId(image),
            state: MachineState::Creating,
            protected: false,
            tags: BTreeMap::new(),
            subnet: None,
        })
    }

    async fn run_and_attach(
        &self,
        group: &GroupFacts,
        zone: &str,
        wanted: &Wanted<'_>,
    ) -> Result<Machine> {
        {
            let _gate = self.region.gate.lock().await;
            let now = self.region.group(&wanted.request.group).await?;
            self.make_room(&now, zone).await?;
        }
        let launch = self.launch_of(group, zone, wanted).await?;
        let ec2 = &self.region.calls.connection.ec2;
        let answer = self
            .region
            .calls
            .pace
            .call("RunInstances", Kind::Repeatable, || {
                ec2.run_instance(&launch)
            })
            .await;
        let made = match answer {
            Ok(instance) => machine(crate::region::Seen {
                instance,
                membership: None,
            }),
            Err(failure) if failure.meaning() == Meaning::OtherWords => {
                return self.find_again(wanted).await;
            }
            Err(failure) if failure.meaning() == Meaning::Full => {
                return Err(Error::NoCapacity {
                    zone: zone.to_owned(),
                    message: failure.to_string(),
                });
            }
            Err(failure) => return Err(failure.about(&format!("a machine in group {}", group.id))),
        };
        let made = Machine {
            tags: wanted.tags.clone(),
            ..made
        };
        self.region.remember(&made);
        self.attach(made, wanted).await
    }

    /// The token made a machine from other words: the template's version or a tag has changed since.
    /// It counts when it was made for this request, which its own tags say.
    async fn find_again(&self, wanted: &Wanted<'_>) -> Result<Machine> {
        let deadline = Instant::now() + self.region.settings.pace.attempt;
        loop {
            if let Some(found) = self.by_token(&wanted.request.token).await? {
                return self.adopt(found, wanted).await;
            }
            if Instant::now() > deadline {
                return Err(Error::NoAnswer {
                    what: format!("token {}", wanted.request.token),
                    message: "it was used, and its machine is not listed yet".to_owned(),
                });
            }
            sleep(self.region.settings.poll).await;
        }
    }

    async fn launch_of(
        &self,
        group: &GroupFacts,
        zone: &str,
        wanted: &Wanted<'_>,
    ) -> Result<Launch> {
        let (template, version) = template_of(group)?;
        let old = self.region.seen(&wanted.request.replaces).await?;
        let old = old.map(|it| it.instance).unwrap_or_default();
        let subnets = self.region.subnets_in(group, zone).await?;
        if subnets.is_empty() && !group.subnets.is_empty() {
            return Err(Error::Refused {
                what: format!("a machine in group {}", group.id),
                message: format!("the group has no subnet in zone {zone}"),
            });
        }
        // The old machine's own subnet if it may still be used: other words on a repeated call
        // would be refused, and this choice does not change from one call to the next.
        let subnet = subnets
            .iter()
            .find(|subnet| old.subnet.as_ref() == Some(subnet))
            .or(subnets.first());
        let types = group.mixed.as_ref().map(|mixed| mixed.types.as_slice());
        let types = types.unwrap_or_default();
        let instance_type = types
            .iter()
            .find(|it| old.instance_type.as_ref() == Some(it))
            .or(types.first());
        Ok(Launch {
            token: wanted.client_token(zone),
            template: template.to_owned(),
            version: version.to_owned(),
            zone: zone.to_owned(),
            subnet: subnet.cloned(),
            interfaces: self.region.template(group).await?.interfaces,
            instance_type: instance_type.cloned(),
            spot: group.mixed.is_some() && old.lifecycle.as_deref() == Some("spot"),
            tags: wanted.tags.clone(),
        })
    }
}

//! The client: the list of members that a majority agrees on, and each member's own word.
//!
//! Owns how calls are put together. A member is only healthy by its own answer at its own address, for
//! the same cluster, naming the same leader as the others. Called by controllers through `Etcd`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{join_all, select_ok};
use serde_json::{Value, json};
use shipshape_engine::etcd::{EtcdView, Health, MemberId, MemberView};

use crate::Etcd;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::words::{Alarms, Member, MemberList, Status, decimal, hexadecimal};

const LIST: &str = "/v3/cluster/member/list";
const REMOVE: &str = "/v3/cluster/member/remove";
const STATUS: &str = "/v3/maintenance/status";
const ALARM: &str = "/v3/maintenance/alarm";
const TRANSFER: &str = "/v3/maintenance/transfer-leadership";

/// How etcd is reached: certificates as files, and how long an answer may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdSettings {
    /// Certificates that the members' own are checked against.
    pub ca_file: PathBuf,
    /// Our certificate.
    pub cert_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
    /// How long one answer may take.
    pub timeout: Duration,
}

/// A real etcd.
#[derive(Clone, Debug)]
pub struct EtcdClient {
    gateway: Gateway,
}

impl EtcdClient {
    /// A client with these settings; nothing is opened yet.
    pub fn new(settings: EtcdSettings) -> Self {
        Self {
            gateway: Gateway {
                ca_file: settings.ca_file,
                cert_file: settings.cert_file,
                key_file: settings.key_file,
                timeout: settings.timeout,
            },
        }
    }

    /// The list as a majority has it, from the first that can say, and who that was. A member that has
    /// lost the others or was taken out cannot.
    async fn list(&self, endpoints: &[String]) -> Result<(MemberList, String)> {
        let question = json!({ "linearizable": true });
        let asked = endpoints.iter().map(|endpoint| {
            let question = &question;
            Box::pin(async move {
                let list: MemberList = self.gateway.ask(endpoint, LIST, question).await?;
                if list.members.is_empty() {
                    return Err(no_sense(endpoint, LIST, "no members"));
                }
                Ok((list, endpoint.clone()))
            })
        });
        let asked: Vec<_> = asked.collect();
        if asked.is_empty() {
            return Err(Error::Unusable("no address of a member".to_owned()));
        }
        select_ok(asked).await.map(|(found, _)| found)
    }

    /// What a member says of itself: the leader that it follows, or why it is sick.
    async fn status(&self, member: &Member, cluster: &str) -> std::result::Result<String, String> {
        let Some(address) = member.client_urls.first() else {
            return Err("it has not started".to_owned());
        };
        let status: Status = self
            .gateway
            .ask(address, STATUS, &json!({}))
            .await
            .map_err(|error| error.to_string())?;
        if status.header.member_id != member.id || status.header.cluster_id != cluster {
            return Err(format!("another member answers at {address}"));
        }
        if let Some(error) = status.errors.first() {
            return Err(error.clone());
        }
        match hexadecimal(&status.leader) {
            Some(leader) if leader != "0" => Ok(leader),
            _ => Err("it follows no leader".to_owned()),
        }
    }

    async fn alarms(&self, endpoint: &str) -> Result<Vec<String>> {
        let question = json!({ "action": "GET" });
        let told: Alarms = self.gateway.ask(endpoint, ALARM, &question).await?;
        Ok(told.alarms.into_iter().map(|one| one.alarm).collect())
    }
}

#[async_trait]
impl Etcd for EtcdClient {
    async fn look(&self, endpoints: &[String]) -> Result<EtcdView> {
        let (list, endpoint) = self.list(endpoints).await?;
        let alarms = self.alarms(&endpoint).await?;
        let cluster = list.header.cluster_id.as_str();
        let asked = list
            .members
            .iter()
            .map(|member| self.status(member, cluster));
        let told = join_all(asked).await;
        let leader = most_named(&told);
        let members = list.members.iter().zip(told).map(|(member, told)| {
            let id = hexadecimal(&member.id)
                .ok_or_else(|| no_sense(&endpoint, LIST, "an id that is no number"))?;
            Ok(MemberView {
                name: member.name.clone(),
                is_learner: member.is_learner,
                leads: leader.as_deref() == Some(id.as_str()),
                health: health(told, leader.as_deref()),
                id: MemberId(id),
            })
        });
        Ok(EtcdView {
            members: members.collect::<Result<Vec<MemberView>>>()?,
            alarms,
        })
    }

    async fn remove_member(&self, endpoints: &[String], id: &MemberId) -> Result<()> {
        let number = number(id)?;
        let (list, _) = self.list(endpoints).await?;
        let Some(leaving) = list.members.iter().find(|one| one.id == number) else {
            return Ok(());
        };
        let others = list.members.iter().filter(|one| one.id != number);
        let mut outcome = Err(Error::Unusable("it is the only member".to_owned()));
        for address in others.filter_map(|one| one.client_urls.first()) {
            let question = json!({ "ID": leaving.id });
            let told: Result<Value> = self.gateway.ask(address, REMOVE, &question).await;
            outcome = match told {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() => return Ok(()),
                // What one has refused the others refuse too.
                Err(refused @ Error::Refused { .. }) => return Err(refused),
                Err(error) => Err(error),
            };
        }
        outcome
    }

    async fn move_leader(
        &self,
        endpoints: &[String],
        from: &MemberId,
        to: &MemberId,
    ) -> Result<()> {
        let (from, to) = (number(from)?, number(to)?);
        let (list, _) = self.list(endpoints).await?;
        let leader = list.members.iter().find(|one| one.id == from);
        // Only the leader can hand over; one that is gone leads nobody.
        let Some(address) = leader.and_then(|one| one.client_urls.first()) else {
            return Ok(());
        };
        let question = json!({ "targetID": to });
        let told: Result<Value> = self.gateway.ask(address, TRANSFER, &question).await;
        match told {
            Err(Error::Refused { message, .. }) if message.contains("not leader") => Ok(()),
            told => told.map(|_| ()),
        }
    }
}

fn number(id: &MemberId) -> Result<String> {
    decimal(&id.0).ok_or_else(|| Error::Unusable(format!("{id} is no member's id")))
}

fn no_sense(endpoint: &str, what: &'static str, message: &str) -> Error {
    Error::NoAnswer {
        endpoint: endpoint.to_owned(),
        what,
        message: message.to_owned(),
    }
}

/// The leader that most members name.
fn most_named(told: &[std::result::Result<String, String>]) -> Option<String> {
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for leader in told.iter().flatten() {
        *votes.entry(leader).or_default() += 1;
    }
    let (leader, _) = votes.into_iter().max_by_key(|(_, count)| *count)?;
    Some(leader.to_owned())
}

fn health(told: std::result::Result<String, String>, leader: Option<&str>) -> Health {
    match told {
        Ok(named) if Some(named.as_str()) == leader => Health::Healthy,
        Ok(_) => Health::Sick("it follows another leader than the others".to_owned()),
        Err(why) => Health::Sick(why),
    }
}

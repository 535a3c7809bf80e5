//! What is changed about a group while replacements come and go, and how it is put back.
//!
//! Owns the record of originals: tags on the group itself, written once and before the change, so
//! that they outlive this process and its cluster. Must not touch a group that another cluster
//! holds.

use std::fmt;
use std::sync::atomic::Ordering;

use shipshape_api::names::{TAG_HELD, TAG_ORIGINAL_MAX};
use shipshape_engine::machine::GroupId;
use shipshape_provider::{Error, Result};

use crate::Aws;
use crate::failure::{Failure, Meaning};
use crate::groups::{GroupFacts, filter};
use crate::region::Region;
use crate::settings::{FullGroups, LaunchMode};

/// The process that would move machines between zones while one zone has a machine too many.
const REBALANCE: &str = "AZRebalance";
/// How often a service that gives no clear answer is asked whether it has the group launch.
const PROBES: usize = 3;

/// How the machines of a group are launched while it is held. Frozen with the hold: a token is
/// good for one of the two calls only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The group does it.
    Group,
    /// EC2 does it, then the machine is attached.
    RunAndAttach,
}

/// Who suspended the rebalancing of a held group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspender {
    Us,
    Others,
}

/// The words of the tag.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hold {
    way: Way,
    suspender: Suspender,
    cluster: String,
}

impl fmt::Display for Hold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            Way::Group => "group",
            Way::RunAndAttach => "run",
        };
        let suspender = match self.suspender {
            Suspender::Us => "us",
            Suspender::Others => "others",
        };
        write!(formatter, "{way}/{suspender}/{}", self.cluster)
    }
}

impl Hold {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, '/');
        let way = match words.next()? {
            "group" => Way::Group,
            "run" => Way::RunAndAttach,
            _ => return None,
        };
        let suspender = match words.next()? {
            "us" => Suspender::Us,
            "others" => Suspender::Others,
            _ => return None,
        };
        Some(Self {
            way,
            suspender,
            cluster: words.next().unwrap_or_default().to_owned(),
        })
    }

    fn of(group: &GroupFacts) -> Option<Self> {
        group.tags.get(TAG_HELD).and_then(|text| Self::parse(text))
    }
}

impl Aws {
    fn cluster(&self) -> &str {
        self.settings.cluster_id.as_deref().unwrap_or_default()
    }

    /// Holds a group: what it was like is recorded first, then its rebalancing is suspended.
    pub(crate) async fn hold(&self, group: &GroupFacts) -> Result<Way> {
        let hold = match Hold::of(group) {
            Some(hold) => hold,
            None => self.begin_hold(group).await?,
        };
        if hold.suspender == Suspender::Us && !group.suspended.contains(REBALANCE) {
            let groups = self.region.calls.groups();
            groups
                .suspend(&group.id, REBALANCE)
                .await
                .map_err(|failure| failure.about(&format!("the hold of group {}", group.id)))?;
        }
        Ok(hold.way)
    }

    async fn begin_hold(&self, group: &GroupFacts) -> Result<Hold> {
        let is_suspended = group.suspended.contains(REBALANCE);
        let hold = Hold {
            way: self.region.way(group).await?,
            suspender: if is_suspended {
                Suspender::Others
            } else {
                Suspender::Us
            },
            cluster: self.cluster().to_owned(),
        };
        let groups = self.region.calls.groups();
        groups
            .set_tag(&group.id, TAG_HELD, &hold.to_string())
            .await
            .map_err(|failure| failure.about(&format!("the hold of group {}", group.id)))?;
        Ok(hold)
    }

    /// Makes room for one more machine, if that is allowed.
    pub(crate) async fn make_room(&self, group: &GroupFacts, zone: &str) -> Result<()> {
        if group.desired < group.max {
            return Ok(());
        }
        if self.region.settings.full_groups == FullGroups::Respect {
            return Err(Error::NoCapacity {
                zone: zone.to_owned(),
                message: format!(
                    "group {} is at its maximum of {}, which may not be raised here \
                     (providers.aws.raiseMax)",
                    group.id, group.max
                ),
            });
        }
        let about = format!("the maximum of group {}", group.id);
        let groups = self.region.calls.groups();
        if !group.tags.contains_key(TAG_ORIGINAL_MAX) {
            groups
                .set_tag(&group.id, TAG_ORIGINAL_MAX, &group.max.to_string())
                .await
                .map_err(|failure| failure.about(&about))?;
        }
        groups
            .set_max(&group.id, group.desired + 1)
            .await
            .map_err(|failure| failure.about(&about))
    }

    /// Puts a raised maximum back, once the group fits into it again.
    pub(crate) async fn lower(&self, group: &GroupId) -> Result<()> {
        if self.region.settings.full_groups == FullGroups::Respect {
            return Ok(());
        }
        let _gate = self.region.gate.lock().await;
        let group = self.region.group(group).await?;
        self.put_max_back(&group).await.map(drop)
    }

    /// True when the group has its own maximum.
    async fn put_max_back(&self, group: &GroupFacts) -> Result<bool> {
        let original = group.tags.get(TAG_ORIGINAL_MAX);
        let Some(original) = original.and_then(|text| text.parse::<u32>().ok()) else {
            return Ok(true);
        };
        if group.desired > original {
            return Ok(false);
        }
        let about = format!("the maximum of group {}", group.id);
        let groups = self.region.calls.groups();
        if group.max != original {
            groups
                .set_max(&group.id, original)
                .await
                .map_err(|failure| failure.about(&about))?;
        }
        groups
            .remove_tag(&group.id, TAG_ORIGINAL_MAX)
            .await
            .map_err(|failure| failure.about(&about))?;
        Ok(true)
    }

    /// Ends every hold of this cluster.
    pub(crate) async fn release_all(&self) -> Result<()> {
        let _gate = self.region.gate.lock().await;
        let groups = self.region.calls.groups();
        let held = groups
            .describe(&[], &[filter("tag-key", TAG_HELD)])
            .await
            .map_err(|failure| failure.about("groups that are held"))?;
        for group in held {
            if let Some(hold) = Hold::of(&group).filter(|hold| hold.cluster == self.cluster()) {
                self.release(&group, &hold).await?;
            }
        }
        Ok(())
    }

    async fn release(&self, group: &GroupFacts, hold: &Hold) -> Result<()> {
        let about = format!("the release of group {}", group.id);
        let told = |failure: Failure| failure.about(&about);
        let groups = self.region.calls.groups();
        if hold.suspender == Suspender::Us && group.suspended.contains(REBALANCE) {
            groups.resume(&group.id, REBALANCE).await.map_err(told)?;
        }
        if !self.put_max_back(group).await? {
            return Err(Error::Refused {
                what: about,
                message: format!(
                    "its desired size of {} is above its original maximum",
                    group.desired
                ),
            });
        }
        groups.remove_tag(&group.id, TAG_HELD).await.map_err(told)
    }
}

impl Region {
    /// How machines are launched in this region. The service is asked once whether it has the group
    /// launch, by asking for no machines: with the group at hand, because rights may hang on it.
    async fn way(&self, group: &GroupFacts) -> Result<Way> {
        if self.settings.launch == LaunchMode::RunAndAttach {
            return Ok(Way::RunAndAttach);
        }
        if let Some(served) = self.launch_is_served() {
            return Ok(way_of(served));
        }
        let mut served = false;
        for _ in 0..PROBES {
            let groups = self.calls.groups();
            let zone = group.zones.first().map(String::as_str).unwrap_or_default();
            let answer = groups.launch_none(&group.id, zone).await;
            match answer.as_ref().map_err(Failure::meaning) {
                // None is too few, so the call is there.
                Err(Meaning::Refused | Meaning::Unknown | Meaning::OtherWords) | Ok(_) => {
                    served = true;
                    break;
                }
                Err(Meaning::Denied | Meaning::NotServed) => break,
                Err(Meaning::Throttled) => {
                    let failure = Failure::answered("Throttling", "asked about the group launch");
                    return Err(failure.about("LaunchInstances"));
                }
                Err(Meaning::Away | Meaning::Full) => {
                    tokio::time::sleep(self.settings.pace.first_wait).await;
                }
            }
        }
        let mark = if served { 1 } else { 2 };
        self.launch_served.store(mark, Ordering::Relaxed);
        tracing::info!(served, "whether groups launch machines when asked");
        Ok(way_of(served))
    }
}

fn way_of(served: bool) -> Way {
    if served {
        Way::Group
    } else {
        Way::RunAndAttach
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_hold_are_read_back() {
        for way in [Way::Group, Way::RunAndAttach] {
            for suspender in [Suspender::Us, Suspender::Others] {
                let hold = Hold {
                    way,
                    suspender,
                    cluster: "a/b".to_owned(),
                };
                assert_eq!(Hold::parse(&hold.to_string()), Some(hold));
            }
        }
        assert_eq!(Hold::parse("something else"), None);
    }
}

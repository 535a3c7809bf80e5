//! Machines that a group has launched here and that do not carry our tags yet.
//!
//! Owns what this process knows of them, from the launch on and by the launch's token, for as long as
//! they are there: no list of the cloud shows them as ours, and no time makes them nobody's. Must not
//! end one, however long its tags are refused: it may serve. Who asks by the token finds it, so that
//! the task uses it or sees it out by its own rules.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use shipshape_engine::machine::{Machine, Token};
use shipshape_provider::{Error, Result};
use tokio::time::Instant;

use crate::Aws;
use crate::failure::Meaning;
use crate::pace::Kind;
use crate::region::{has_ended, machine};

/// Since when a machine is there, and how it looks once it is tagged; by token.
#[derive(Default)]
pub(crate) struct Untagged {
    machines: Mutex<BTreeMap<Token, (Instant, Machine)>>,
}

impl Untagged {
    fn with<R>(&self, change: impl FnOnce(&mut BTreeMap<Token, (Instant, Machine)>) -> R) -> R {
        change(&mut self.machines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Aws {
    /// Tags a machine that was just launched. From here on it is known by its token.
    pub(super) async fn tag_launched(&self, token: &Token, made: Machine) -> Result<Machine> {
        let untagged = &self.region.untagged;
        untagged.with(|all| {
            all.entry(token.clone())
                .or_insert_with(|| (Instant::now(), made.clone()));
        });
        self.tag_made(token, &made).await?;
        Ok(made)
    }

    /// The machine of a token whose tags were not accepted, asked for them once more. Where they are
    /// refused for good it is shown all the same.
    pub(super) async fn launched_under(&self, token: &Token) -> Result<Option<Machine>> {
        let untagged = &self.region.untagged;
        let Some((since, made)) = untagged.with(|all| all.get(token).cloned()) else {
            return Ok(None);
        };
        let seen = self.region.seen(&made.id).await?.map(machine);
        let is_listed = seen.is_some();
        let made = match seen {
            Some(mut seen) => {
                seen.tags.extend(made.tags);
                Machine {
                    group: made.group,
                    ..seen
                }
            }
            None if since.elapsed() < self.region.settings.settle => made,
            None => {
                untagged.with(|all| all.remove(token));
                return Ok(None);
            }
        };
        if has_ended(made.state) {
            return Ok(Some(made));
        }
        match self.tag_made(token, &made).await {
            Err(error @ (Error::NoAnswer { .. } | Error::Throttled { .. })) => return Err(error),
            // Whoever looks for it by another name would take it for gone.
            Err(error) if !is_listed => {
                let what = format!("machine {}", made.id);
                let message = format!("EC2 does not list it yet, and {error}");
                return Err(Error::NoAnswer { what, message });
            }
            Err(error) => {
                tracing::warn!(machine = %made.id, %token, %error, "it goes on without our tags");
            }
            Ok(()) => {}
        }
        Ok(Some(made))
    }

    async fn tag_made(&self, token: &Token, made: &Machine) -> Result<()> {
        let calls = &self.region.calls;
        let call = || {
            let ec2 = &calls.connection.ec2;
            ec2.create_tags(made.id.as_str(), &made.tags)
        };
        let tagged = calls.pace.call("CreateTags", Kind::Repeatable, call).await;
        let what = format!("tags of machine {}", made.id);
        match tagged {
            // EC2 may not have heard of it yet.
            Err(failure) if failure.meaning() == Meaning::Unknown => {
                let message = failure.to_string();
                return Err(Error::NoAnswer { what, message });
            }
            other => other.map_err(|failure| failure.about(&what))?,
        }
        self.region.untagged.with(|all| all.remove(token));
        self.region.remember(made);
        Ok(())
    }
}

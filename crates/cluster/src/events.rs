//! Tells people what happened, as Kubernetes Events.
//!
//! Owns their names, times and counts. Must not fail or hold up a pass: a lost event is logged and
//! forgotten. kube-runtime's recorder is not used because it reads the machine's clock and takes
//! random names. The same event about the same object is one Event with a count; its name is a hash,
//! so that a restarted operator goes on counting. core/v1 is used because `kubectl describe` reads it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};

use crate::clock::Clock;
use crate::error::{ErrorClass, Result, call, in_full};
use crate::patch;
use shipshape_api::names::{FIELD_MANAGER, fingerprint};

/// Longest note that the API takes.
const NOTE_MAX: usize = 1024;
/// Room for the object's name before the hash; 253 is the limit of a name.
const STEM_MAX: usize = 200;

/// Whether people should worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For the record.
    Normal,
    /// Somebody should look.
    Warning,
}

/// One thing to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether people should worry.
    pub severity: Severity,
    /// Why, as one stable CamelCase word.
    pub reason: String,
    /// What was being done, as one stable CamelCase word.
    pub action: String,
    /// The sentence for people.
    pub note: String,
}

/// How much is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the controller, for people.
    pub controller: String,
    /// Name of this process, for people.
    pub instance: String,
    /// The same event is written at most this often; what happens between is counted.
    pub repeat_every: Duration,
    /// Longest that a pass waits for an event to be written.
    pub patience: Duration,
    /// Events remembered to be counted; the one not heard for longest is forgotten first.
    pub remembered: usize,
}

impl Settings {
    /// The usual bounds: once a minute, 5 s, 4096.
    pub fn new(instance: impl Into<String>) -> Self {
        Self {
            controller: "shipshape".into(),
            instance: instance.into(),
            repeat_every: Duration::from_mins(1),
            patience: Duration::from_secs(5),
            remembered: 4096,
        }
    }
}

/// What is known of one event.
#[derive(Clone, Copy, Debug)]
struct Heard {
    written_at: Timestamp,
    /// Times that it happened since it was written.
    pending: i32,
}

/// One event on its way.
#[derive(Clone, Copy)]
struct Telling<'a> {
    name: &'a str,
    about: &'a ObjectReference,
    notice: &'a Notice,
    times: i32,
}

/// A handle on the sink; clones share what is remembered.
#[derive(Clone)]
pub struct Events {
    client: Client,
    clock: Clock,
    settings: Settings,
    heard: Arc<Mutex<BTreeMap<String, Heard>>>,
}

impl Events {
    /// A sink that has told nothing yet.
    pub fn new(client: Client, clock: Clock, settings: Settings) -> Self {
        Self {
            client,
            clock,
            settings,
            heard: Arc::default(),
        }
    }

    /// Tells one thing about an object. Never fails; what cannot be written is logged.
    pub async fn publish(&self, about: &ObjectReference, notice: &Notice) {
        let name = event_name(about, notice);
        let now = self.clock.now();
        let Some(times) = self.due(&name, now) else {
            return;
        };
        let telling = self.tell(Telling {
            name: &name,
            about,
            notice,
            times,
        });
        match tokio::time::timeout(self.settings.patience, telling).await {
            Ok(Ok(())) => (),
            Ok(Err(error)) => {
                tracing::warn!(
                    error = in_full(&error),
                    reason = notice.reason,
                    note = notice.note,
                    "event lost"
                );
            }
            Err(_) => {
                tracing::warn!(
                    reason = notice.reason,
                    note = notice.note,
                    "event timed out"
                );
            }
        }
    }

    /// How many times to count now; `None` when it was written only just.
    fn due(&self, name: &str, now: Timestamp) -> Option<i32> {
        let every = SignedDuration::try_from(self.settings.repeat_every).unwrap_or_default();
        let mut heard = self.heard();
        if let Some(known) = heard.get_mut(name) {
            known.pending = known.pending.saturating_add(1);
            if now.duration_since(known.written_at) < every {
                return None;
            }
            let times = known.pending;
            *known = Heard {
                written_at: now,
                pending: 0,
            };
            return Some(times);
        }
        if heard.len() >= self.settings.remembered.max(1) {
            let oldest = heard.iter().min_by_key(|(_, known)| known.written_at);
            let oldest = oldest.map(|(name, _)| name.clone());
            heard.retain(|name, _| Some(name) != oldest.as_ref());
        }
        heard.insert(
            name.to_owned(),
            Heard {
                written_at: now,
                pending: 0,
            },
        );
        Some(1)
    }

    async fn tell(&self, telling: Telling<'_>) -> Result<()> {
        let Telling { name, times, .. } = telling;
        let event = self.event(telling);
        let namespace = event.namespace().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let object = format!("Event {namespace}/{name}");
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PostParams::default()
        };
        match call("create", &object, api.create(&params, &event)).await {
            Ok(_) => return Ok(()),
            Err(error) if error.class() == ErrorClass::Conflict => (),
            Err(error) => return Err(error),
        }
        let known = call("get", &object, api.get(name)).await?;
        let mut wanted = known.clone();
        wanted.count = Some(known.count.unwrap_or(1).saturating_add(times));
        wanted.last_timestamp = event.last_timestamp;
        patch::write(&api, &known, &wanted).await.map(|_| ())
    }

    fn event(&self, telling: Telling<'_>) -> Event {
        let Telling {
            name,
            about,
            notice,
            times,
        } = telling;
        let now = Some(Time(self.clock.now()));
        let mut event = Event {
            involved_object: about.clone(),
            type_: Some(notice.severity.word().into()),
            reason: Some(notice.reason.clone()),
            action: Some(notice.action.clone()),
            message: Some(cut(&notice.note, NOTE_MAX).to_owned()),
            count: Some(times),
            first_timestamp: now.clone(),
            last_timestamp: now,
            source: Some(EventSource {
                component: Some(self.settings.controller.clone()),
                host: None,
            }),
            reporting_component: Some(self.settings.controller.clone()),
            reporting_instance: Some(self.settings.instance.clone()),
            ..Event::default()
        };
        event.metadata.name = Some(name.to_owned());
        // The API keeps events about objects without a namespace in this one.
        event.metadata.namespace = Some(about.namespace.clone().unwrap_or("default".into()));
        event
    }

    fn heard(&self) -> MutexGuard<'_, BTreeMap<String, Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The same thing about the same object has the same name, also after a restart.
fn event_name(about: &ObjectReference, notice: &Notice) -> String {
    let kind = about.kind.as_deref().unwrap_or_default();
    let name = about.name.as_deref().unwrap_or_default();
    let uid = about.uid.as_deref().unwrap_or_default();
    let parts = [
        kind,
        name,
        uid,
        &notice.reason,
        &notice.action,
        &notice.note,
    ];
    let hash = fingerprint(&parts.join("\n"));
    format!(
        "{}.{hash:016x}",
        cut(name, STEM_MAX).trim_end_matches(['-', '.'])
    )
}

/// The head of a text, whole characters, at most `max` bytes.
fn cut(text: &str, max: usize) -> &str {
    let end = text
        .char_indices()
        .map(|(at, letter)| at + letter.len_utf8());
    let end = end.take_while(|end| *end <= max).last().unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests;

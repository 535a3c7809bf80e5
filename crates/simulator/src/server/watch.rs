//! Who follows which changes, and the streams they read.
//!
//! Owns the registry of watches and the wire form of their events. The verb `watch` decides what a
//! new watch sees first; the store tells every change.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, stream};
use jiff::Timestamp;
use shipshape_cluster::Clock;
use tokio::{sync::mpsc, time::Instant};

use super::{
    encode::{self, Format},
    failure::Failure,
    kinds::{Kind, Storage},
    meta,
    selector::Selection,
    store::{Change, Object},
};

/// How often an idle watch that asked for it hears the newest version.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);

/// What a watch event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    /// As it is written.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One event on its way to a watch.
pub(crate) type Event = (EventType, Arc<Object>);

/// What a change means to somebody who sees a selection only.
pub(crate) fn seen(change: &Change, selection: &Selection) -> Option<Event> {
    let was = change
        .before
        .as_ref()
        .is_some_and(|before| selection.matches(before.value()));
    let is = !change.gone && selection.matches(change.now.value());
    match (was, is) {
        (false, false) => None,
        (false, true) => Some((EventType::Added, Arc::clone(&change.now))),
        (true, true) => Some((EventType::Modified, Arc::clone(&change.now))),
        (true, false) if change.gone => Some((EventType::Deleted, Arc::clone(&change.now))),
        // The object left the selection: its last state inside is what is reported gone.
        (true, false) => change
            .before
            .as_ref()
            .map(|b| (EventType::Deleted, Arc::new(b.at_version(change.version)))),
    }
}

/// What narrows a watch down enough to look it up instead of asking it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Interest {
    All,
    Name(String),
    Node(String),
}

#[derive(Debug)]
struct Watcher {
    selection: Selection,
    events: mpsc::UnboundedSender<Event>,
}

/// All open watches, by kind and interest.
#[derive(Debug, Default)]
pub(crate) struct Watchers(BTreeMap<Storage, BTreeMap<Interest, Vec<Watcher>>>);

impl Watchers {
    /// Opens a watch.
    pub(crate) fn open(
        &mut self,
        storage: &Storage,
        selection: Selection,
    ) -> mpsc::UnboundedReceiver<Event> {
        let (events, receiver) = mpsc::unbounded_channel();
        let interest = if let Some(name) = selection.pinned("metadata.name") {
            Interest::Name(name.to_owned())
        } else if let Some(node) = selection.pinned("spec.nodeName") {
            Interest::Node(node.to_owned())
        } else {
            Interest::All
        };
        self.0
            .entry(Arc::clone(storage))
            .or_default()
            .entry(interest)
            .or_default()
            .push(Watcher { selection, events });
        receiver
    }

    /// Ends all watches of a kind.
    pub(crate) fn close(&mut self, storage: &Storage) {
        self.0.remove(storage);
    }

    /// Tells a change to those whom it concerns; forgets those who left.
    pub(crate) fn tell(&mut self, storage: &Storage, change: &Change) {
        let Some(by_interest) = self.0.get_mut(storage) else {
            return;
        };
        let node = |object: &Object| {
            Interest::Node(meta::text(object.value(), &["spec", "nodeName"]).to_owned())
        };
        let name = meta::meta_text(change.now.value(), "name").to_owned();
        let mut interests = vec![Interest::All, Interest::Name(name), node(&change.now)];
        if let Some(before) = &change.before {
            let former = node(before);
            if !interests.contains(&former) {
                interests.push(former);
            }
        }
        for interest in interests {
            let Some(watchers) = by_interest.get_mut(&interest) else {
                continue;
            };
            watchers.retain(|watcher| match seen(change, &watcher.selection) {
                Some(event) => watcher.events.send(event).is_ok(),
                None => !watcher.events.is_closed(),
            });
            if watchers.is_empty() {
                by_interest.remove(&interest);
            }
        }
    }
}

/// The reading end of a watch.
#[derive(Debug)]
pub(crate) struct WatchStream {
    pub(crate) kind: Arc<Kind>,
    pub(crate) format: Format,
    /// What is sent before anything else.
    pub(crate) first: VecDeque<First>,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
    /// Events up to this version are not for this watch.
    pub(crate) after: u64,
    /// The newest version of the server.
    pub(crate) version: Arc<AtomicU64>,
    /// Whether bookmarks were asked for.
    pub(crate) bookmarks: bool,
    /// When the stream ends.
    pub(crate) lifetime: Duration,
}

/// What a watch says at its start.
#[derive(Debug)]
pub(crate) enum First {
    /// A ready line.
    Line(Bytes),
    /// An event.
    Event(Event),
}

/// One event as a line. A table describes its columns in the first one only.
fn line(watch: &WatchStream, event: &Event, (now, first): (Timestamp, bool)) -> Bytes {
    let object = encode::row(&watch.kind, &watch.format, &event.1, (now, first));
    let mut line = Vec::with_capacity(object.len() + 32);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(event.0.as_str().as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(&object);
    line.extend_from_slice(b"}\n");
    line.into()
}

/// A bookmark as a line.
pub(crate) fn bookmark(kind: &Kind, version: u64, ends_initial_events: bool) -> Bytes {
    let mut metadata = serde_json::json!({ "resourceVersion": version.to_string() });
    if ends_initial_events {
        meta::put(
            meta::as_map(&mut metadata),
            "annotations",
            Some(serde_json::json!({ "k8s.io/initial-events-end": "true" })),
        );
    }
    let event = serde_json::json!({
        "type": "BOOKMARK",
        "object": {
            "kind": kind.kind,
            "apiVersion": kind.api_version.clone(),
            "metadata": metadata,
        },
    });
    format!("{event}\n").into()
}

/// A refusal as a line.
pub(crate) fn error(failure: &Failure) -> Bytes {
    let event = serde_json::json!({ "type": "ERROR", "object": failure.status() });
    format!("{event}\n").into()
}

struct Reading {
    watch: WatchStream,
    ends: Instant,
    next_bookmark: Option<Instant>,
    last_bookmark_sent: bool,
    clock: Clock,
    described: bool,
}

impl WatchStream {
    /// A watch that says one thing and ends.
    pub(crate) fn ending_with(kind: Arc<Kind>, line: Bytes) -> Self {
        let (_, events) = mpsc::unbounded_channel();
        Self {
            kind,
            format: Format::Json,
            first: VecDeque::from([First::Line(line)]),
            events,
            after: 0,
            version: Arc::default(),
            bookmarks: false,
            lifetime: Duration::ZERO,
        }
    }

    /// The lines of the stream; ends after its lifetime or with its kind.
    pub(crate) fn lines(self, clock: Clock) -> impl Stream<Item = Bytes> + Send {
        let now = Instant::now();
        let reading = Reading {
            ends: now + self.lifetime,
            next_bookmark: self.bookmarks.then(|| now + BOOKMARK_PERIOD),
            last_bookmark_sent: !self.bookmarks,
            watch: self,
            clock,
            described: false,
        };
        stream::unfold(reading, |mut reading| async move {
            let line = reading.next().await?;
            Some((line, reading))
        })
    }
}

impl Reading {
    async fn next(&mut self) -> Option<Bytes> {
        match self.watch.first.pop_front() {
            Some(First::Line(line)) => return Some(line),
            Some(First::Event(event)) => return Some(self.line(&event)),
            None => {}
        }
        let wake = self
            .next_bookmark
            .map_or(self.ends, |next| next.min(self.ends));
        loop {
            tokio::select! {
                biased;
                event = self.watch.events.recv() => {
                    let event = event?;
                    if !self.is_too_early(&event) {
                        return Some(self.line(&event));
                    }
                }
                () = tokio::time::sleep_until(wake) => return self.on_timer(),
            }
        }
    }

    fn is_too_early(&self, event: &Event) -> bool {
        let version = meta::meta_text(event.1.value(), "resourceVersion");
        version
            .parse()
            .is_ok_and(|version: u64| version <= self.watch.after)
    }

    fn line(&mut self, event: &Event) -> Bytes {
        let first = !std::mem::replace(&mut self.described, true);
        line(&self.watch, event, (self.clock.now(), first))
    }

    fn on_timer(&mut self) -> Option<Bytes> {
        let over = Instant::now() >= self.ends;
        if over && self.last_bookmark_sent {
            return None;
        }
        self.last_bookmark_sent = over;
        self.next_bookmark = self.next_bookmark.map(|at| at + BOOKMARK_PERIOD);
        let version = self.watch.version.load(Ordering::Relaxed);
        Some(bookmark(&self.watch.kind, version, false))
    }
}

//! watch: what a new watch sees first, then its stream.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::read::{not_a_version, selection};
use crate::server::{
    failure::{Failure, Outcome, forbidden_field},
    selector::Selection,
    state::{Answer, Call, Payload, State},
    watch::{self, EventType, First, WatchStream},
};

/// The real server ends a watch after half an hour to an hour when the client names no limit.
const SHORTEST_LIFETIME: u64 = 1800;

/// Opens a watch.
pub(crate) fn watch(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    let selection = selection(call)?;
    let query = &call.info.query;
    check_options(call)?;
    let first = match first_events(state, call, &selection) {
        Ok(first) => first,
        Err(failure) if failure.code == 410 => {
            let stream = WatchStream::ending_with(Arc::clone(&call.kind), watch::error(&failure));
            return Ok(answer(stream));
        }
        Err(failure) => return Err(failure),
    };
    let seconds = match query.number::<u64>("timeoutSeconds")? {
        Some(seconds) if seconds > 0 => seconds,
        _ => SHORTEST_LIFETIME + state.store.version() % SHORTEST_LIFETIME,
    };
    // A watch from the future hears nothing until the present has caught up with it.
    let after = query.number("resourceVersion").ok().flatten().unwrap_or(0);
    let events = state.store.watchers.open(&call.kind.storage, selection);
    Ok(answer(WatchStream {
        kind: Arc::clone(&call.kind),
        format: call.format.clone(),
        first,
        events,
        after,
        version: state.store.version_gauge(),
        bookmarks: query.flag("allowWatchBookmarks"),
        lifetime: Duration::from_secs(seconds),
    }))
}

fn answer(stream: WatchStream) -> Answer {
    Answer {
        payload: Payload::Watch(Box::new(stream)),
        ..Answer::json(200, "")
    }
}

fn check_options(call: &Call<'_>) -> Outcome<()> {
    let query = &call.info.query;
    let how = query.text("resourceVersionMatch");
    let cause = match query.choice("sendInitialEvents") {
        Some(_) if how != "NotOlderThan" => forbidden_field(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        Some(true) if !query.flag("allowWatchBookmarks") => forbidden_field(
            "sendInitialEvents",
            "sendInitialEvents requires allowWatchBookmarks",
        ),
        None if !how.is_empty() => forbidden_field(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        Some(_) | None => return Ok(()),
    };
    Err(Failure::invalid_kind(
        "meta.k8s.io",
        "ListOptions",
        "",
        &[cause],
    ))
}

fn first_events(state: &State, call: &Call<'_>, selection: &Selection) -> Outcome<VecDeque<First>> {
    let query = &call.info.query;
    let from = match query.text("resourceVersion") {
        "" | "0" => None,
        text => {
            let version = text
                .parse()
                .map_err(|_| Failure::plain(500, "", not_a_version(text)))?;
            Some(version)
        }
    };
    let initial = query.choice("sendInitialEvents");
    match (from, initial) {
        (from, Some(true)) => {
            if let Some(from) = from {
                super::read::refuse_future(state, from)?;
            }
            let mut first = everything(state, call, selection);
            let end = watch::bookmark(&call.kind, state.store.version(), true);
            first.push_back(First::Line(end));
            Ok(first)
        }
        (None, Some(false)) => Ok(VecDeque::new()),
        (None, None) => Ok(everything(state, call, selection)),
        (Some(from), _) => replay(state, call, selection, from),
    }
}

fn everything(state: &State, call: &Call<'_>, selection: &Selection) -> VecDeque<First> {
    state
        .store
        .list(&call.kind.storage, &call.path.namespace)
        .filter(|(_, object)| selection.matches(object.value()))
        .map(|(_, object)| First::Event((EventType::Added, Arc::clone(object))))
        .collect()
}

fn replay(
    state: &State,
    call: &Call<'_>,
    selection: &Selection,
    from: u64,
) -> Outcome<VecDeque<First>> {
    let floor = state.store.floor(&call.kind.storage);
    if from < floor {
        return Err(Failure::expired(format!(
            "too old resource version: {from} ({floor})"
        )));
    }
    let missed: Vec<_> = state
        .store
        .changes(&call.kind.storage)
        .rev()
        .take_while(|change| change.version > from)
        .filter_map(|change| watch::seen(change, selection))
        .collect();
    Ok(missed.into_iter().rev().map(First::Event).collect())
}

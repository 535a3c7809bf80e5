//! get and list.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::server::{
    encode::{self, ListMeta},
    failure::{Failure, Outcome, forbidden_field, unsupported_word},
    selector::Selection,
    state::{Answer, Call, State},
    store::Object,
};

/// Reads one object.
pub(crate) fn get(state: &State, call: &Call<'_>) -> Outcome<Answer> {
    let text = call.info.query.text("resourceVersion");
    if !text.is_empty() && text.parse::<u64>().is_err() {
        return Err(Failure::plain(500, "", not_a_version(text)));
    }
    if let Asked::NotOlderThan(version) = asked_version(call)? {
        refuse_future(state, version)?;
    }
    let object = state
        .store
        .get(&call.kind.storage, &call.key())
        .ok_or_else(|| call.not_found())?;
    Ok(Answer::object(200, call, object))
}

/// Reads many objects, in pages when asked to.
pub(crate) fn list(state: &State, call: &Call<'_>) -> Outcome<Answer> {
    let selection = selection(call)?;
    let query = &call.info.query;
    if query.choice("sendInitialEvents").is_some() {
        let cause = forbidden_field(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        );
        return Err(Failure::invalid_kind(
            "meta.k8s.io",
            "ListOptions",
            "",
            &[cause],
        ));
    }
    let limit = query.number::<i64>("limit")?.unwrap_or(0);
    let limit = usize::try_from(limit).unwrap_or(0);
    let page = Page::read(state, call, limit)?;
    let mut objects: Vec<(String, Arc<Object>)> = match page.version {
        Some(version) if version != state.store.version() => state
            .store
            .list_at(&call.kind.storage, &call.path.namespace, version)
            .into_iter()
            .filter(|(_, object)| selection.matches(object.value()))
            .collect(),
        _ => state
            .store
            .list(&call.kind.storage, &call.path.namespace)
            .filter(|(_, object)| selection.matches(object.value()))
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect(),
    };
    objects.retain(|(key, _)| page.start.as_str() <= key.as_str());
    // A selection by name reads one key and knows that there is no other.
    let by_name = query.text("fieldSelector").contains("metadata.name=");
    let full = page.limit > 0 && objects.len() == page.limit && !by_name;
    let more_stored = full && has_key_behind(state, call, objects.last());
    let mut meta = ListMeta {
        version: page.version.unwrap_or_else(|| state.store.version()),
        ..ListMeta::default()
    };
    if page.limit > 0 && objects.len() > page.limit {
        let rest = objects.split_off(page.limit);
        if let Some((last, _)) = objects.last() {
            meta.next = continue_token(meta.version, last);
        }
        meta.remaining = selection.selects_all().then_some(rest.len());
    } else if let (true, Some((last, _))) = (more_stored, objects.last()) {
        // Whether one of the others would be selected is only known when they are read.
        meta.next = continue_token(meta.version, last);
    }
    let objects: Vec<Arc<Object>> = objects.into_iter().map(|(_, object)| object).collect();
    Ok(Answer::json(
        200,
        encode::list(&call.kind, &call.format, &objects, (&meta, call.now)),
    ))
}

/// Whether the collection of a call goes on behind the last object of a page.
fn has_key_behind(state: &State, call: &Call<'_>, last: Option<&(String, Arc<Object>)>) -> bool {
    let mut stored = state.store.list(&call.kind.storage, &call.path.namespace);
    last.is_some_and(|(last, _)| stored.any(|(key, _)| key > last))
}

/// The selectors of a call.
pub(crate) fn selection(call: &Call<'_>) -> Outcome<Selection> {
    let query = &call.info.query;
    let named = format!("metadata.name={}", call.path.name);
    let fields = match (query.text("fieldSelector"), call.path.name.as_str()) {
        (fields, "") => fields.to_owned(),
        ("", _) => named,
        (fields, _) => format!("{fields},{named}"),
    };
    Selection::parse(
        &call.kind,
        &call.path.namespace,
        query.text("labelSelector"),
        &fields,
    )
}

/// Which state of the world the client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Newest,
    Any,
    NotOlderThan(u64),
    Exact(u64),
}

fn asked_version(call: &Call<'_>) -> Outcome<Asked> {
    let query = &call.info.query;
    let text = query.text("resourceVersion");
    let exact = query.text("resourceVersionMatch") == "Exact";
    match text {
        "" => Ok(Asked::Newest),
        "0" => Ok(Asked::Any),
        _ => parse_version(text).map(|version| {
            if exact {
                Asked::Exact(version)
            } else {
                Asked::NotOlderThan(version)
            }
        }),
    }
}

/// What is wrong with a version that is no number.
pub(super) fn not_a_version(text: &str) -> String {
    format!(
        "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
    )
}

/// Reads a version that a client sent.
fn parse_version(text: &str) -> Outcome<u64> {
    text.parse().map_err(|_| {
        Failure::bad_request(format!("invalid resource version: {}", not_a_version(text)))
    })
}

/// Refuses a version that this server has not reached.
pub(super) fn refuse_future(state: &State, version: u64) -> Outcome<()> {
    let current = state.store.version();
    if version > current {
        return Err(Failure::too_large_version(version, current));
    }
    Ok(())
}

/// Where a page begins and at which version.
struct Page {
    limit: usize,
    start: String,
    /// The one version to read; none for the newest.
    version: Option<u64>,
}

impl Page {
    fn read(state: &State, call: &Call<'_>, limit: usize) -> Outcome<Self> {
        let query = &call.info.query;
        check_match(call)?;
        let token = query.text("continue");
        if !token.is_empty() {
            return Self::next(state, call, token, limit);
        }
        let newest = Self {
            limit,
            start: String::new(),
            version: None,
        };
        match asked_version(call)? {
            Asked::Newest => Ok(newest),
            // What is read from a cache at any version comes whole.
            Asked::Any => Ok(Self { limit: 0, ..newest }),
            Asked::NotOlderThan(version) => {
                refuse_future(state, version)?;
                let legacy = limit > 0 && query.text("resourceVersionMatch").is_empty();
                if legacy {
                    refuse_past(state, call, version)?;
                }
                Ok(Self {
                    version: legacy.then_some(version),
                    ..newest
                })
            }
            Asked::Exact(version) => {
                refuse_future(state, version)?;
                refuse_past(state, call, version)?;
                Ok(Self {
                    version: Some(version),
                    ..newest
                })
            }
        }
    }

    fn next(state: &State, call: &Call<'_>, token: &str, limit: usize) -> Outcome<Self> {
        if !matches!(call.info.query.text("resourceVersion"), "" | "0") {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let (version, start) = read_token(token).ok_or_else(|| {
            Failure::bad_request(
                "invalid continue token: continue key is not valid: illegal base64 data",
            )
        })?;
        refuse_past(state, call, version).map_err(|_| {
            Failure::expired("The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
        })?;
        Ok(Self {
            limit,
            start,
            version: Some(version),
        })
    }
}

fn refuse_past(state: &State, call: &Call<'_>, version: u64) -> Outcome<()> {
    if version < state.store.floor(&call.kind.storage) {
        return Err(Failure::expired(
            "The resourceVersion for the provided list is too old.",
        ));
    }
    Ok(())
}

fn check_match(call: &Call<'_>) -> Outcome<()> {
    let query = &call.info.query;
    let how = query.text("resourceVersionMatch");
    let version = query.text("resourceVersion");
    let forbidden = |rule: &str| Some(forbidden_field("resourceVersionMatch", rule));
    let cause = match how {
        "" => None,
        _ if version.is_empty() && query.text("sendInitialEvents").is_empty() => {
            forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
        }
        _ if !query.text("continue").is_empty() => {
            forbidden("resourceVersionMatch is forbidden when continue is provided")
        }
        "Exact" if version == "0" => {
            forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        "Exact" | "NotOlderThan" => None,
        other => Some(unsupported_word(
            "resourceVersionMatch",
            other,
            &["Exact", "NotOlderThan", ""],
        )),
    };
    match cause {
        Some(cause) => Err(Failure::invalid_kind(
            "meta.k8s.io",
            "ListOptions",
            "",
            &[cause],
        )),
        None => Ok(()),
    }
}

/// The token of the page after a key, in the form of the real server.
fn continue_token(version: u64, last: &str) -> String {
    let token = json!({ "v": "meta.k8s.io/v1", "rv": version, "start": format!("{last}\u{0}") });
    crate::server::base64::encode(token.to_string().as_bytes())
}

fn read_token(token: &str) -> Option<(u64, String)> {
    let token: Value = serde_json::from_slice(&crate::server::base64::decode(token)?).ok()?;
    let start = token.get("start")?.as_str()?.to_owned();
    Some((token.get("rv")?.as_u64()?, start))
}

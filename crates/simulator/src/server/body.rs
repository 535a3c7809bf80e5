//! Bodies of requests: JSON, or YAML where the real server takes it too.

use serde_json::Value;

use super::{
    failure::{Failure, Outcome},
    state::Call,
};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What the real server names to whoever sends something else.
const ACCEPTED: &[&str] = &["application/json", "application/yaml", PROTOBUF];

/// Most parser events that aliases may stand for: far more than a manifest needs, far fewer than it
/// takes to keep everybody else waiting.
const ALIASED_MAX: usize = 10_000;

/// Reads the body of a call as its content type says.
pub(super) fn read(call: &Call<'_>) -> Outcome<Value> {
    let media = call.info.content_type.split(';').next().unwrap_or_default();
    let read = match media.trim() {
        "" | "application/json" | "*/*" => {
            serde_json::from_slice(call.body).map_err(|error| error.to_string())
        }
        "application/yaml" => yaml(call.body),
        PROTOBUF => return Err(Failure::bare_protobuf()),
        _ => {
            return Err(Failure::unsupported_media(ACCEPTED));
        }
    };
    read.map_err(|error| {
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error}",
            call.kind.kind
        ))
    })
}

/// Reads YAML, of which JSON is a part.
pub(super) fn yaml(body: &[u8]) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let mut options = serde_saphyr::Options::default();
    options.alias_limits.max_total_replayed_events = ALIASED_MAX;
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

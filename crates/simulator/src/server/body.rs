//! Bodies of requests: JSON, or YAML where the real server takes it too.

use serde_json::Value;

use super::{
    failure::{Failure, Outcome},
    state::Call,
};

const ACCEPTED: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// Reads the body of a call as its content type says.
pub(super) fn read(call: &Call<'_>) -> Outcome<Value> {
    let media = call.info.content_type.split(';').next().unwrap_or_default();
    let read = match media.trim() {
        "" | "application/json" | "*/*" => {
            serde_json::from_slice(call.body).map_err(|error| error.to_string())
        }
        "application/yaml" => yaml(call.body),
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
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

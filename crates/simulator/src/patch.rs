//! Patches of the three older sorts: JSON patch, JSON merge patch, strategic merge patch.
//!
//! Owns their formats and refusals. Pure: object and patch in, object out. Must not track owners
//! or store. Server-side apply is in `apply`. Called by the server's patch verb.

use serde_json::Value;

use crate::apply::KindShape;

mod strategic;
#[cfg(test)]
mod tests;

/// Most operations in one JSON patch.
const MOST_OPERATIONS: usize = 10_000;

/// The sorts of patches, by their content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
    /// `application/apply-patch+yaml`
    Apply,
}

impl PatchType {
    /// The content type, without parameters.
    pub fn media(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// What objects of a kind may be patched with.
    pub fn accepted(shape: &KindShape) -> &'static [Self] {
        if shape.is_core {
            &[Self::Json, Self::Merge, Self::Strategic, Self::Apply]
        } else {
            &[Self::Json, Self::Merge, Self::Apply]
        }
    }

    /// The sort that a `Content-Type` header names, if the kind accepts it.
    pub fn read(header: &str, shape: &KindShape) -> Result<Self, PatchError> {
        let media = header.split(';').next().unwrap_or_default();
        let accepted = Self::accepted(shape);
        accepted
            .iter()
            .copied()
            .find(|sort| sort.media() == media)
            .ok_or_else(|| {
                PatchError::UnsupportedMediaType(accepted.iter().map(|sort| sort.media()).collect())
            })
    }
}

/// Why a patch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The kind is not patched this way (415). Holds what it accepts.
    #[error(
        "the body of the request was in an unknown format - accepted media types include: {}",
        .0.join(", ")
    )]
    UnsupportedMediaType(Vec<&'static str>),
    /// The patch cannot be read (400).
    #[error("{0}")]
    BadRequest(String),
    /// The patch is too long (413).
    #[error("{0}")]
    TooLarge(String),
    /// The patch does not fit the object (422). Holds what the server keeps to itself.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable(String),
    /// A malformed strategic patch that the server does not foresee (500).
    #[error("{0}")]
    Internal(String),
}

/// The object after the patch. An apply patch is no such thing and is refused.
pub fn patched(
    shape: &KindShape,
    sort: PatchType,
    live: Value,
    body: &[u8],
) -> Result<Value, PatchError> {
    match sort {
        PatchType::Json => by_operations(live, body),
        PatchType::Merge => by_merge(live, body),
        PatchType::Strategic => {
            let patch = document(body).map_err(PatchError::BadRequest)?;
            strategic::patched(&shape.types, shape.root, live, patch)
        }
        PatchType::Apply => Err(PatchError::Internal(
            "an apply patch needs a writer".to_owned(),
        )),
    }
}

/// Reads a JSON object; what keeps it from being one is said in the words of the real server.
fn document(body: &[u8]) -> Result<Value, String> {
    let read: Value = serde_json::from_slice(body).map_err(|err| err.to_string())?;
    if read.is_object() {
        Ok(read)
    } else {
        Err(misfit(&read, "map[string]interface {}"))
    }
}

fn misfit(value: &Value, wanted: &str) -> String {
    let sort = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {sort} into Go value of type {wanted}")
}

fn undecodable(why: &str) -> PatchError {
    PatchError::BadRequest(format!("error decoding patch: {why}"))
}

fn by_operations(mut out: Value, body: &[u8]) -> Result<Value, PatchError> {
    let read: Value = serde_json::from_slice(body).map_err(|err| undecodable(&err.to_string()))?;
    let Some(operations) = read.as_array() else {
        return Err(undecodable(&misfit(&read, "[]handlers.jsonPatchOp")));
    };
    if let Some(odd) = operations.iter().find(|operation| !operation.is_object()) {
        return Err(undecodable(&misfit(odd, "handlers.jsonPatchOp")));
    }
    // An operation that makes no sense counts as one that does not fit the object.
    let unfit = |why: String| PatchError::Unprocessable(why);
    let patch: json_patch::Patch =
        serde_json::from_value(read).map_err(|err| unfit(err.to_string()))?;
    if patch.0.len() > MOST_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            patch.0.len()
        )));
    }
    for mut operation in patch.0 {
        adds_when_absent(&out, &mut operation);
        let one = json_patch::Patch(vec![operation]);
        json_patch::patch(&mut out, &one).map_err(|err| unfit(err.to_string()))?;
    }
    Ok(out)
}

/// The real server's replace of a key that an object does not have adds it.
fn adds_when_absent(object: &Value, operation: &mut json_patch::PatchOperation) {
    let json_patch::PatchOperation::Replace(replace) = operation else {
        return;
    };
    let path = replace.path.to_string();
    let parent = path
        .rsplit_once('/')
        .and_then(|(parent, _)| object.pointer(parent));
    if object.pointer(&path).is_none() && parent.is_some_and(Value::is_object) {
        *operation = json_patch::PatchOperation::Add(json_patch::AddOperation {
            path: replace.path.clone(),
            value: replace.value.clone(),
        });
    }
}

fn by_merge(mut out: Value, body: &[u8]) -> Result<Value, PatchError> {
    let patch = document(body).map_err(|why| undecodable(&why))?;
    json_patch::merge(&mut out, &patch);
    Ok(out)
}

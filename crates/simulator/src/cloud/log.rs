//! Every call that reached the cloud, in order: the witness of tests.
//!
//! Owns the record; must not be written by anything but the cloud itself.

use jiff::Timestamp;
use serde::Serialize;
use shipshape_engine::machine::{MachineId, Token};

/// One call, as the cloud saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// When the call arrived.
    pub at: Timestamp,
    /// Who called; the group itself calls under the name `group`.
    pub caller: String,
    /// Which call, for example `ensureReplacement`.
    pub call: &'static str,
    /// The machine it was about, or that it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineId>,
    /// The idempotency token it carried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// `ok`, or the error in the cloud's words. A lost answer shows what really happened, then
    /// `(answer lost)`.
    pub result: String,
}

impl CallRecord {
    /// Whether the effect of the call took place, whatever the caller was told.
    pub fn took_effect(&self) -> bool {
        self.result.starts_with("ok")
    }
}

//! The trace of a run, as one hash: two runs of one seed must agree on it.
//!
//! Owns what counts: every request the API answered, every call the cloud took and all that happened to
//! members of etcd, in order, with their times since the start. Must not read anything an actor says about itself.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::ApiServer;
use crate::cloud::Cloud;
use crate::etcd::EtcdModel;

/// SHA-256 over the request log, the cloud's call log and etcd's, in hexadecimal.
pub fn hash(api: &ApiServer, cloud: &Cloud, etcd: &EtcdModel, start: Timestamp) -> String {
    let mut digest = Sha256::new();
    for line in lines(api, cloud, etcd, start) {
        digest.update(line.as_bytes());
        digest.update(b"\n");
    }
    digest
        .finalize()
        .iter()
        .fold(String::new(), |mut text, byte| {
            for half in [byte >> 4, byte & 15] {
                text.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
            }
            text
        })
}

/// The trace as text, one event a line: what to compare when two hashes differ.
pub fn lines(api: &ApiServer, cloud: &Cloud, etcd: &EtcdModel, start: Timestamp) -> Vec<String> {
    let since = |at: Timestamp| at.duration_since(start).as_nanos();
    let requests = api.log().into_iter().map(|mut entry| {
        let at = since(std::mem::take(&mut entry.at));
        format!("{at} {entry:?}")
    });
    let calls = cloud.log().into_iter().map(|mut call| {
        let at = since(std::mem::take(&mut call.at));
        format!("{at} {call:?}")
    });
    let members = etcd.log_since(0).into_iter().map(|mut event| {
        let at = since(std::mem::take(&mut event.at));
        format!("{at} {event:?}")
    });
    requests.chain(calls).chain(members).collect()
}

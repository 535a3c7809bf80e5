//! What etcd's JSON gateway says: numbers of 64 bits are text, and what has its default is left out.
//!
//! Owns the wire form of the few messages that are used. Must not interpret them.

use serde::Deserialize;

/// Who answered, and for which cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Header {
    pub(crate) cluster_id: String,
    pub(crate) member_id: String,
}

/// The answer to `/v3/cluster/member/list`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MemberList {
    pub(crate) header: Header,
    pub(crate) members: Vec<Member>,
}

/// One member of the list. One that has never started has neither name nor addresses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Member {
    #[serde(rename = "ID")]
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(rename = "clientURLs")]
    pub(crate) client_urls: Vec<String>,
    #[serde(rename = "isLearner")]
    pub(crate) is_learner: bool,
}

/// The answer to `/v3/maintenance/status`, for the member that gives it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) header: Header,
    pub(crate) leader: String,
    pub(crate) errors: Vec<String>,
}

/// The answer to `/v3/maintenance/alarm`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Alarms {
    pub(crate) alarms: Vec<Alarm>,
}

/// One alarm that is raised.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Alarm {
    pub(crate) alarm: String,
}

/// The form in which etcd's tools show an id, of the form that the gateway has.
pub(crate) fn hexadecimal(decimal: &str) -> Option<String> {
    decimal.parse::<u64>().ok().map(|id| format!("{id:x}"))
}

/// The form that the gateway has, of the form in which etcd's tools show it.
pub(crate) fn decimal(hexadecimal: &str) -> Option<String> {
    let id = u64::from_str_radix(hexadecimal, 16).ok()?;
    Some(id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_keeps_all_its_bits() {
        let largest = u64::MAX.to_string();
        assert_eq!(hexadecimal(&largest).as_deref(), Some("ffffffffffffffff"));
        assert_eq!(decimal("ffffffffffffffff"), Some(largest));
        assert_eq!(decimal("not an id"), None);
    }

    #[test]
    fn what_a_list_leaves_out_has_its_default() {
        let text = r#"{"header":{"cluster_id":"1","member_id":"2","raft_term":"3"},"members":[
            {"ID":"2","name":"a","peerURLs":["https://a:2380"],"clientURLs":["https://a:2379"]},
            {"ID":"3","peerURLs":["https://b:2380"],"isLearner":true}]}"#;
        let list: MemberList = serde_json::from_str(text).unwrap();
        assert_eq!(list.members[0].client_urls, ["https://a:2379"]);
        assert!(!list.members[0].is_learner);
        assert!(list.members[1].is_learner && list.members[1].name.is_empty());
    }
}

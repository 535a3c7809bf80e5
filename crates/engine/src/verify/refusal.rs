//! What the API server or the cloud refuses to the gate, told where people look.
//!
//! Owns the words of it, and when they are news. Must not decide whether it is tried again: the queue does.

use shipshape_api::{PendingNodeStatus, reasons};

use crate::decision::{Effect, Notice};

/// Longest words of whoever refuses.
const WORDS_MAX: usize = 1024;

/// Who refuses something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuser {
    /// The API server: a missing namespace, a quota, a right.
    ApiServer,
    /// The cloud: a right, or a request that it does not take.
    Cloud,
}

impl Refuser {
    /// How the sentence begins by which a refusal is known again.
    fn opening(self) -> &'static str {
        match self {
            Self::ApiServer => "the API server to allow it: ",
            Self::Cloud => "the cloud to allow it: ",
        }
    }

    /// What cannot go on.
    fn consequence(self) -> &'static str {
        match self {
            Self::ApiServer => "the verification cannot go on",
            Self::Cloud => "the removal of the failed node cannot go on",
        }
    }

    /// What of the words says that it is another refusal. A server counts what is used; a cloud says what it refused
    /// and adds words that may be others with every call.
    fn gist(self, words: &str) -> String {
        match self {
            Self::ApiServer => {
                let mut gist = words.to_owned();
                gist.retain(|one| !one.is_ascii_digit());
                gist
            }
            Self::Cloud => {
                let what = words.split_once(": ").map_or(words, |(what, _)| what);
                what.to_owned()
            }
        }
    }
}

/// The status of a record whose effect was refused, and what is to be told; `None` when it says so already.
pub fn refused(
    status: &PendingNodeStatus,
    refuser: Refuser,
    why: &str,
) -> Option<(PendingNodeStatus, Notice)> {
    let end = why.floor_char_boundary(WORDS_MAX.min(why.len()));
    let why = why.get(..end).unwrap_or_default();
    let told = status.waiting_for.as_deref();
    let told = told.and_then(|told| told.strip_prefix(refuser.opening()));
    if told.is_some_and(|told| refuser.gist(told) == refuser.gist(why)) {
        return None;
    }
    let status = PendingNodeStatus {
        waiting_for: Some(format!("{}{why}", refuser.opening())),
        ..status.clone()
    };
    let message = format!("{}: {why}", refuser.consequence());
    Some((status, Notice::warning(reasons::REFUSED, message)))
}

/// Whether a sentence is one of a refusal.
pub(super) fn is_refusal(words: Option<&str>) -> bool {
    let mut refusers = [Refuser::ApiServer, Refuser::Cloud].into_iter();
    words.is_some_and(|words| refusers.any(|one| words.starts_with(one.opening())))
}

/// What was refused and is asked for again goes on being told, until it is not asked for any more: else the
/// status would change twice with every pass.
pub(super) fn keep(status: &mut PendingNodeStatus, before: Option<&str>, effects: &[Effect]) {
    if is_refusal(before) && effects.iter().any(Effect::needs_record) {
        status.waiting_for = before.map(str::to_owned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often one is told of refusals in these words, and what stands in the end.
    fn told(refuser: Refuser, words: &[&str]) -> (usize, String, String) {
        let mut status = PendingNodeStatus::default();
        let mut notices = Vec::new();
        for why in words {
            if let Some((next, notice)) = refused(&status, refuser, why) {
                status = next;
                notices.push(notice.message);
            }
        }
        let last = notices.last().cloned().unwrap_or_default();
        (notices.len(), status.waiting_for.unwrap_or_default(), last)
    }

    #[test]
    fn a_clouds_refusal_is_its_own_and_is_told_once_whatever_it_adds() {
        let words = [
            "the cloud denied the end of machine i-1: UnauthorizedOperation: 8fQx",
            "the cloud denied the end of machine i-1: UnauthorizedOperation: Zk01",
        ];
        let (count, waits, event) = told(Refuser::Cloud, &words);
        assert_eq!(count, 1);
        assert!(waits.starts_with("the cloud to allow it: the cloud denied"));
        assert!(event.starts_with("the removal of the failed node cannot go on"));
        let other = ["the cloud denied a: x", "the cloud refused a: x"];
        assert_eq!(told(Refuser::Cloud, &other).0, 2, "another refusal is news");
    }

    #[test]
    fn a_servers_refusal_is_news_again_when_it_is_another() {
        let words = [
            "cannot create Pod: exceeded quota: used pods=10",
            "cannot create Pod: exceeded quota: used pods=9",
            "cannot create Pod: pods is forbidden",
        ];
        let (count, waits, event) = told(Refuser::ApiServer, &words);
        assert_eq!(count, 2);
        assert!(waits.ends_with("pods is forbidden"), "{waits}");
        assert!(event.starts_with("the verification cannot go on"));
    }
}

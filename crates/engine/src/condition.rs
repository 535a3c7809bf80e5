//! Conditions: building them and merging them into a list keyed by type.
//!
//! Owns the rule that `lastTransitionTime` moves only when the status value does. Must not invent
//! reasons; those are constants in `shipshape_api`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The three values a condition's status can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known yet.
    Unknown,
}

impl Truth {
    /// The word that the API has for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition that shall hold from now on.
pub struct Claim<'a> {
    /// Condition type.
    pub kind: &'a str,
    /// Value.
    pub truth: Truth,
    /// Stable reason.
    pub reason: &'a str,
    /// One sentence.
    pub message: String,
}

/// Sets one condition in the list, keeping its transition time when the value stays.
pub fn set(
    conditions: &mut Vec<Condition>,
    claim: Claim<'_>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let existing = conditions.iter().position(|one| one.type_ == claim.kind);
    let since = existing
        .and_then(|index| conditions.get(index))
        .filter(|one| one.status == claim.truth.as_str())
        .map_or(Time(now), |one| one.last_transition_time.clone());
    let fresh = Condition {
        type_: claim.kind.to_owned(),
        status: claim.truth.as_str().to_owned(),
        reason: claim.reason.to_owned(),
        message: claim.message,
        observed_generation: generation,
        last_transition_time: since,
    };
    match existing.and_then(|index| conditions.get_mut(index)) {
        Some(place) => *place = fresh,
        None => conditions.push(fresh),
    }
}

/// Whether the condition of this type is `True`.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    conditions
        .iter()
        .any(|one| one.type_ == kind && one.status == "True")
}

/// Whether the condition of this type is `False`; an absent one is not.
pub fn is_false(conditions: &[Condition], kind: &str) -> bool {
    conditions
        .iter()
        .any(|one| one.type_ == kind && one.status == "False")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(truth: Truth, reason: &'static str) -> Claim<'static> {
        Claim {
            kind: "Drained",
            truth,
            reason,
            message: String::new(),
        }
    }

    #[test]
    fn transition_time_stays_while_the_value_stays() {
        let mut list = Vec::new();
        let first = Timestamp::UNIX_EPOCH;
        let later = Timestamp::from_second(60).unwrap();
        set(&mut list, claim(Truth::False, "Waiting"), None, first);
        set(&mut list, claim(Truth::False, "Blocked"), None, later);
        assert_eq!(list[0].last_transition_time, Time(first));
        assert_eq!(list[0].reason, "Blocked");
        set(&mut list, claim(Truth::True, "Empty"), None, later);
        assert_eq!(list[0].last_transition_time, Time(later));
        assert_eq!(list.len(), 1);
    }
}

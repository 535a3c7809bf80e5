//! Label selectors: does this set of labels match?
//!
//! Owns the four operators of `LabelSelector`. Must not guess: an operator that is not one of the
//! four is an error that names it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use thiserror::Error;

use crate::labels::LabelSet;

/// A selector that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "label selector operator {operator:?} on key {key:?} is not one of In, NotIn, Exists, DoesNotExist"
)]
pub struct UnknownOperator {
    /// The key it stands on.
    pub key: String,
    /// The operator as written.
    pub operator: String,
}

/// Whether `labels` match `selector`; an empty selector matches everything.
pub fn matches(selector: &LabelSelector, labels: &impl LabelSet) -> Result<bool, UnknownOperator> {
    let exact = selector.match_labels.iter().flatten();
    if exact
        .into_iter()
        .any(|(key, value)| labels.value(key) != Some(value.as_str()))
    {
        return Ok(false);
    }
    for requirement in selector.match_expressions.iter().flatten() {
        if !requirement_holds(requirement, labels)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn requirement_holds(
    requirement: &LabelSelectorRequirement,
    labels: &impl LabelSet,
) -> Result<bool, UnknownOperator> {
    let value = labels.value(&requirement.key);
    let listed =
        || value.is_some_and(|value| requirement.values.iter().flatten().any(|one| one == value));
    match requirement.operator.as_str() {
        "In" => Ok(listed()),
        "NotIn" => Ok(!listed()),
        "Exists" => Ok(value.is_some()),
        "DoesNotExist" => Ok(value.is_none()),
        other => Err(UnknownOperator {
            key: requirement.key.clone(),
            operator: other.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
            }]),
            match_labels: None,
        }
    }

    #[test]
    fn each_operator_matches_as_kubernetes_documents_it() {
        let node = labels(&[("zone", "a"), ("empty", "")]);
        let table = [
            (expression("zone", "In", &["a", "b"]), true),
            (expression("zone", "In", &["b"]), false),
            (expression("missing", "In", &["b"]), false),
            (expression("zone", "NotIn", &["a"]), false),
            (expression("missing", "NotIn", &["a"]), true),
            (expression("empty", "Exists", &[]), true),
            (expression("missing", "Exists", &[]), false),
            (expression("missing", "DoesNotExist", &[]), true),
            (expression("zone", "DoesNotExist", &[]), false),
            (LabelSelector::default(), true),
        ];
        for (selector, expected) in table {
            assert_eq!(matches(&selector, &node), Ok(expected), "{selector:?}");
        }
    }

    #[test]
    fn an_unknown_operator_is_an_error_and_not_a_miss() {
        let error = matches(&expression("zone", "Near", &["a"]), &labels(&[])).unwrap_err();
        assert_eq!(error.operator, "Near");
    }
}

//! Rules in CEL, where they stand and what they see.

use serde_json::{Value, json};

use super::errors;

#[test]
fn rule_that_fails_says_why_and_where() {
    let rule = |rule: Value| {
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "x-kubernetes-validations": [rule]})
    };
    let cases = [
        (
            json!({"rule": "self.a < self.b"}),
            "FieldValueInvalid spec.x: Invalid value: failed rule: self.a < self.b",
        ),
        (
            json!({"rule": "self.a < self.b", "message": "a must be below b"}),
            "FieldValueInvalid spec.x: Invalid value: a must be below b",
        ),
        (
            json!({"rule": "self.a < self.b", "messageExpression": "'a is ' + string(self.a)"}),
            "FieldValueInvalid spec.x: Invalid value: a is 3",
        ),
        (
            json!({"rule": "self.a < self.b", "message": "no", "fieldPath": ".a", "reason": "FieldValueForbidden"}),
            "FieldValueForbidden spec.x.a: Forbidden: no",
        ),
    ];
    for (source, expected) in cases {
        let found = errors(&rule(source.clone()), &json!({"a": 3, "b": 2}), None);
        assert_eq!(found, [expected], "{source}");
        let fine = errors(&rule(source), &json!({"a": 1, "b": 2}), None);
        assert_eq!(fine, [""; 0]);
    }
}

#[test]
fn transition_rule_runs_on_update_only() {
    let schema = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "self == oldSelf", "message": "is immutable"}]});
    assert_eq!(errors(&schema, &json!("a"), None).len(), 0);
    assert_eq!(errors(&schema, &json!("a"), Some(&json!("a"))).len(), 0);
    assert_eq!(
        errors(&schema, &json!("b"), Some(&json!("a"))),
        ["FieldValueInvalid spec.x: Invalid value: \"b\": is immutable"]
    );
}

#[test]
fn optional_old_self_lets_a_transition_rule_see_a_create() {
    let schema = json!({"type": "integer", "x-kubernetes-validations": [
        {"rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 0", "optionalOldSelf": true, "message": "grows from 0"}]});
    assert_eq!(errors(&schema, &json!(1), None).len(), 1);
    assert_eq!(errors(&schema, &json!(0), None).len(), 0);
    assert_eq!(errors(&schema, &json!(4), Some(&json!(3))).len(), 0);
    assert_eq!(errors(&schema, &json!(2), Some(&json!(3))).len(), 1);
}

#[test]
fn rules_run_in_lists_and_maps_and_match_old_items_by_key() {
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "may not shrink"}]});
    let list = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"]});
    let old = json!([{"name": "a", "size": 5}, {"name": "b", "size": 1}]);
    let new = json!([{"name": "b", "size": 2}, {"name": "a", "size": 4}]);
    assert_eq!(
        errors(&list, &new, Some(&old)),
        ["FieldValueInvalid spec.x[1]: Invalid value: may not shrink"]
    );
    let map = json!({"type": "object", "additionalProperties": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self > 0", "message": "must be positive"}]}});
    assert_eq!(
        errors(&map, &json!({"k": 0}), None),
        ["FieldValueInvalid spec.x[k]: Invalid value: 0: must be positive"]
    );
}

#[test]
fn rules_see_dates_durations_and_escaped_names() {
    let schema = json!({"type": "object", "properties": {
        "from": {"type": "string", "format": "date-time"}, "to": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"}, "my-name": {"type": "string"}, "ratio": {"type": "number"}},
        "x-kubernetes-validations": [
            {"rule": "self.to - self.from == duration('1h')"}, {"rule": "self.wait < duration('2m')"},
            {"rule": "self.my__dash__name == 'n'"}, {"rule": "self.ratio < 1.5"}]});
    let value = json!({"from": "2024-01-01T00:00:00Z", "to": "2024-01-01T01:00:00Z", "wait": "90s",
        "my-name": "n", "ratio": 1});
    assert_eq!(errors(&schema, &value, None), [""; 0]);
}

#[test]
fn rules_are_skipped_and_said_so_when_the_object_is_broken() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a > 0"}]});
    let found = errors(&schema, &json!({}), None);
    assert_eq!(found.len(), 2);
    assert!(found[1].starts_with(
        "FieldValueInvalid <nil>: Invalid value: null: some validation rules were not checked"
    ));
}

//! Properties of apply and tracking over random configurations.

use proptest::{collection::btree_set, option, prelude::*};
use serde_json::{Map, Value, json};

use super::{applied, thing, writer};
use crate::{
    apply::{OnConflict, apply, compare::compare, entries, fields::FieldSet, track},
    patch::{PatchType, patched},
};

fn words(all: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    btree_set(proptest::sample::select(all), 1..=all.len())
        .prop_map(|set| set.into_iter().collect())
}

fn parts() -> impl Strategy<Value = Value> {
    let part = (
        proptest::sample::select(&["a", "b", "c"][..]),
        option::of(0..3),
    );
    proptest::collection::btree_map(part.clone().prop_map(|(name, _)| name), part, 1..3).prop_map(
        |parts| {
            let list = parts.into_iter().map(|(name, (_, weight))| match weight {
                Some(weight) => json!({ "name": name, "weight": weight }),
                None => json!({ "name": name }),
            });
            Value::Array(list.collect())
        },
    )
}

/// A spec: every field is there, with something in it, or not.
fn spec() -> impl Strategy<Value = Value> {
    (
        option::of(0..3),
        option::of(words(&["p", "q"])),
        option::of(words(&["r", "s", "t"])),
        option::of(parts()),
        option::of(words(&["k", "l", "m"])),
        option::of((0..3, option::of(0..3))),
        option::of(words(&["a", "b"])),
    )
        .prop_map(|(size, plain, tags, parts, labels, nested, whole)| {
            let mut spec = Map::new();
            let map = |names: Vec<&str>| -> Value {
                names
                    .into_iter()
                    .map(|name| (name.to_owned(), json!("v")))
                    .collect::<Map<_, _>>()
                    .into()
            };
            let mut put = |name: &str, value: Option<Value>| {
                if let Some(value) = value {
                    spec.insert(name.to_owned(), value);
                }
            };
            put("size", size.map(|n| json!(n)));
            put("plain", plain.map(|list| json!(list)));
            put("tags", tags.map(|list| json!(list)));
            put("parts", parts);
            put("labels", labels.map(map));
            put("whole", whole.map(map));
            put(
                "nested",
                nested.map(|(x, y)| {
                    let all = [("x", Some(x)), ("y", y)];
                    let set = all
                        .into_iter()
                        .filter_map(|(k, v)| v.map(|v| (k.to_owned(), json!(v))));
                    set.collect::<Map<_, _>>().into()
                }),
            );
            Value::Object(spec)
        })
}

/// Without empty parts: whether those stay behind is not a matter of ownership.
fn solid(value: &Value) -> Value {
    let is_hollow = |value: &Value| value.is_null() || *value == json!({}) || *value == json!([]);
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), solid(field)))
            .filter(|(_, field)| !is_hollow(field))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(solid).collect(),
        Value::Null => json!({}),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn half(spec: &Value, wanted: usize) -> Value {
    let fields = spec.as_object().unwrap().iter().enumerate();
    let kept = fields
        .filter(|(at, _)| at % 2 == wanted)
        .map(|(_, (k, v))| (k.clone(), v.clone()));
    kept.collect::<Map<_, _>>().into()
}

/// The merge patch that leads from one value to another.
fn merge_diff(old: &Value, new: &Value) -> Value {
    let (Value::Object(olds), Value::Object(news)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for name in olds.keys().filter(|name| !news.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, after) in news {
        match olds.get(name) {
            Some(before) if before == after => {}
            Some(before) => {
                patch.insert(name.clone(), merge_diff(before, after));
            }
            None => {
                patch.insert(name.clone(), after.clone());
            }
        }
    }
    Value::Object(patch)
}

proptest! {
    #[test]
    fn apply_twice_is_the_same_as_once(one in spec(), two in spec()) {
        let shape = thing();
        let other = applied(None, &one, &writer("other", &shape, 0));
        let wanted = super::configuration(&two);
        let first =
            apply(Some(&other), &wanted, &writer("me", &shape, 1), OnConflict::Take).unwrap();
        let second =
            apply(Some(&first), &wanted, &writer("me", &shape, 2), OnConflict::Refuse).unwrap();
        prop_assert_eq!(first, second);
    }

    #[test]
    fn apply_of_another_configuration_leaves_nothing_of_the_first(one in spec(), two in spec()) {
        let shape = thing();
        let before = applied(None, &one, &writer("me", &shape, 0));
        let after = applied(Some(&before), &two, &writer("me", &shape, 1));
        let fresh = applied(None, &two, &writer("me", &shape, 1));
        // Merged lists may stand in another order only when both have items.
        prop_assert_eq!(solid(&after["spec"]), solid(&fresh["spec"]));
    }

    #[test]
    fn apply_without_one_field_removes_exactly_that(one in spec(), at in 0_usize..7) {
        let shape = thing();
        let before = applied(None, &one, &writer("me", &shape, 0));
        let mut less = one.clone();
        let name = one.as_object().unwrap().keys().nth(at).cloned();
        if let Some(name) = name {
            less.as_object_mut().unwrap().remove(&name);
        }
        let after = applied(Some(&before), &less, &writer("me", &shape, 1));
        prop_assert_eq!(solid(&after["spec"]), solid(&less));
    }

    #[test]
    fn appliers_of_disjoint_fields_never_meet(all in spec()) {
        let shape = thing();
        let (mine, yours) = (half(&all, 0), half(&all, 1));
        let first = applied(None, &mine, &writer("me", &shape, 0));
        let both = applied(Some(&first), &yours, &writer("you", &shape, 1));
        prop_assert_eq!(solid(&both["spec"]), solid(&all));
        let left = applied(Some(&both), &json!({}), &writer("me", &shape, 2));
        prop_assert_eq!(solid(&left["spec"]), solid(&yours));
    }

    #[test]
    fn what_a_writer_changed_is_its_own_alone(one in spec(), two in spec()) {
        let shape = thing();
        let live = applied(None, &one, &writer("applier", &shape, 0));
        let mut new = super::configuration(&two);
        let me = writer("me", &shape, 1);
        track(Some(&live), &mut new, &me);
        let changed = compare(&shape, "", &live, &new);
        let taken = changed.taken();
        for entry in entries::read(&new).unwrap() {
            if entry.manager == "me" {
                prop_assert!(taken.is_covered(&entry.fields));
            } else {
                prop_assert!(!taken.touches(&entry.fields));
                prop_assert!(!changed.removed.touches(&entry.fields));
            }
        }
    }

    #[test]
    fn field_sets_survive_the_wire(one in spec(), two in spec()) {
        let shape = thing();
        let live = applied(None, &one, &writer("me", &shape, 0));
        let changed = compare(&shape, "", &live, &super::configuration(&two));
        for set in [changed.added, changed.modified, changed.removed] {
            prop_assert_eq!(FieldSet::read(&set.write()), set.clone());
            prop_assert!(set.is_covered(&set.write()));
            let mut rest = set.clone();
            rest.subtract(&set);
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn merge_patch_of_the_difference_leads_to_the_new_object(one in spec(), two in spec()) {
        let patch = merge_diff(&one, &two).to_string();
        let made = patched(&thing(), PatchType::Merge, one, patch.as_bytes()).unwrap();
        prop_assert_eq!(made, two);
    }
}

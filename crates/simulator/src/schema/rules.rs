//! Rules in CEL (`x-kubernetes-validations`).
//!
//! Owns compiling a rule once, running it where it stands in the schema, and wording what failed.
//! Must not convert values itself: `cel_values` does. Called by `Schema::validate` after the plain
//! checks. Rules see no clock and no randomness, so the same object always gets the same answer.

use std::sync::Arc;

use kube::core::cel::KubeCelExt;
use kube::core::cel::cel::objects::OptionalValue;
use kube::core::cel::cel::{Context, Program, Value as CelValue};
use serde::Deserialize;
use serde_json::Value;

use super::cel_values;
use super::compiled::{self, Compiled};
use super::field_error::{FieldError, FieldErrorKind};
use super::node::{Additional, Node};
use super::validate::{join, matching_item};

thread_local! {
    /// Registering all functions takes longer than running a rule, so it happens once.
    static FUNCTIONS: Context<'static> = Context::default().with_all();
}

/// Longest text that a message expression may give.
const MAX_MESSAGE: usize = 5 * 1024;

/// One rule as the schema states it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Source {
    rule: String,
    message: String,
    message_expression: String,
    reason: Option<String>,
    field_path: String,
    optional_old_self: bool,
}

/// One rule, compiled.
#[derive(Debug)]
pub struct Rule {
    source: Source,
    program: Compiled<Program>,
    message: Option<Compiled<Program>>,
    is_transition: bool,
}

impl Rule {
    /// The rules of one schema node.
    pub(crate) fn read_all(schema: &Value) -> Vec<Self> {
        let list = schema
            .get("x-kubernetes-validations")
            .and_then(Value::as_array);
        list.into_iter().flatten().map(Self::read).collect()
    }

    fn read(raw: &Value) -> Self {
        let source = match Source::deserialize(raw) {
            Ok(source) => source,
            Err(error) => {
                return Self {
                    source: Source::default(),
                    program: Arc::new(Err(error.to_string())),
                    message: None,
                    is_transition: false,
                };
            }
        };
        let program = compiled::program(&source.rule);
        let is_transition = match program.as_ref() {
            Ok(program) => program.references().has_variable("oldSelf"),
            Err(_) => false,
        };
        let message = Some(source.message_expression.as_str())
            .filter(|text| !text.is_empty())
            .map(compiled::program);
        Self {
            source,
            program,
            message,
            is_transition,
        }
    }

    /// Why the rule does not compile, if so.
    pub(crate) fn fault(&self) -> Option<&str> {
        match self.program.as_ref() {
            Ok(_) => None,
            Err(error) => Some(error),
        }
    }

    fn label(&self) -> &str {
        match self.source.message.trim() {
            "" => self.source.rule.trim(),
            message => message,
        }
    }
}

/// A value, what it replaces, and the closest pair above it that can be compared.
#[derive(Clone, Copy)]
struct Spot<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    above: Option<(&'a Value, &'a Value)>,
}

impl<'a> Spot<'a> {
    fn below(self, value: &'a Value, old: Option<&'a Value>) -> Self {
        let here = self.old.map(|old| (self.value, old));
        Self {
            value,
            old,
            above: here.or(self.above),
        }
    }

    fn is_unchanged(self) -> bool {
        match self.old {
            Some(old) => old == self.value,
            None => self.above.is_some_and(|(value, old)| value == old),
        }
    }
}

/// Runs every rule of the schema over the object; `old` is present on update.
pub(crate) fn check(root: &Node, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if root.has_rules {
        let spot = Spot {
            value: object,
            old,
            above: None,
        };
        FUNCTIONS.with(|functions| check_spot(functions, root, spot, "", &mut errors));
    }
    errors
}

fn check_spot(
    functions: &Context<'static>,
    node: &Node,
    spot: Spot<'_>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if spot.value.is_null() || !node.has_rules {
        return;
    }
    run_rules(functions, node, spot, path, errors);
    match spot.value {
        Value::Array(items) => {
            let Some(child) = node.items.as_deref() else {
                return;
            };
            for (index, item) in items.iter().enumerate() {
                let below = spot.below(item, matching_item(node, item, spot.old));
                check_spot(functions, child, below, &format!("{path}[{index}]"), errors);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                let below = spot.below(value, spot.old.and_then(|old| old.get(name)));
                if let Some(child) = node.properties.get(name) {
                    check_spot(functions, child, below, &join(path, name), errors);
                } else if let Additional::Node(child) = &node.additional {
                    check_spot(functions, child, below, &format!("{path}[{name}]"), errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn run_rules(
    functions: &Context<'static>,
    node: &Node,
    spot: Spot<'_>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if node.rules.is_empty() {
        return;
    }
    let is_root = path.is_empty();
    let old = spot
        .old
        .filter(|old| !old.is_null() && node.rules.iter().any(|rule| rule.is_transition));
    let old = old.map(|old| cel_values::convert(functions, old, node, is_root));
    let mut scope = functions.new_inner_scope();
    scope.add_variable_from_value(
        "self",
        cel_values::convert(functions, spot.value, node, is_root),
    );
    if let Some(old) = &old {
        scope.add_variable_from_value("oldSelf", old.clone());
    }
    for rule in &node.rules {
        if rule.is_transition && old.is_none() && !rule.source.optional_old_self {
            continue;
        }
        let mut inner = scope.new_inner_scope();
        if rule.source.optional_old_self {
            let optional = old
                .clone()
                .map_or_else(OptionalValue::none, OptionalValue::of);
            inner.add_variable_from_value("oldSelf", CelValue::Opaque(Arc::new(optional)));
        }
        let Some(error) = run_rule(rule, &inner, node, spot.value, path) else {
            continue;
        };
        if rule.is_transition || !spot.is_unchanged() {
            errors.push(error);
        }
    }
}

fn run_rule(
    rule: &Rule,
    scope: &Context<'_>,
    node: &Node,
    value: &Value,
    path: &str,
) -> Option<FieldError> {
    let typed = |detail: &str| FieldError::invalid(path, &Value::from(node.type_name()), detail);
    let program = match rule.program.as_ref() {
        Ok(program) => program,
        Err(error) => return Some(typed(&format!("rule compile error: {error}"))),
    };
    match program.execute(scope) {
        Ok(CelValue::Bool(true)) => None,
        Ok(CelValue::Bool(false)) => Some(failure(rule, scope, node, value, path)),
        Ok(_) => Some(typed("rule did not evaluate to a boolean")),
        Err(error) => {
            let error = error.to_string().replacen("No such key", "no such key", 1);
            Some(typed(&format!("{error} evaluating rule: {}", rule.label())))
        }
    }
}

fn failure(rule: &Rule, scope: &Context<'_>, node: &Node, value: &Value, path: &str) -> FieldError {
    let detail = expressed_message(rule, scope).unwrap_or_else(|| {
        if rule.source.message.is_empty() {
            format!("failed rule: {}", rule.label())
        } else {
            rule.label().to_owned()
        }
    });
    let field = field_of(path, &rule.source.field_path);
    match rule.source.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::bare(FieldErrorKind::Forbidden, &field, &detail),
        Some("FieldValueRequired") => FieldError::required(&field, &detail),
        Some("FieldValueDuplicate") if matches!(node.type_name(), "object" | "array") => {
            FieldError::bare(FieldErrorKind::Duplicate, &field, "")
        }
        Some("FieldValueDuplicate") => {
            FieldError::of_value(FieldErrorKind::Duplicate, &field, value, "")
        }
        _ if matches!(node.type_name(), "object" | "array") => {
            FieldError::bare(FieldErrorKind::Invalid, &field, &detail)
        }
        _ => FieldError::invalid(&field, value, &detail),
    }
}

/// The text of the message expression, when it gives one fit to show.
fn expressed_message(rule: &Rule, scope: &Context<'_>) -> Option<String> {
    let program = rule.message.as_deref()?.as_ref().ok()?;
    let CelValue::String(text) = program.execute(scope).ok()? else {
        return None;
    };
    let text = text.trim();
    let fit = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
    fit.then(|| text.to_owned())
}

/// The field that a rule blames: its own place, or `fieldPath` below it.
fn field_of(path: &str, field_path: &str) -> String {
    let below = field_path.replace("['", "[").replace("']", "]");
    match below.strip_prefix('.') {
        Some(name) => join(path, name),
        None => format!("{path}{below}"),
    }
}

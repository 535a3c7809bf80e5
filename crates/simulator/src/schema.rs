//! What objects of a kind look like, and what is done to those that do not.
//!
//! Owns pruning, defaults and validation of objects against the schema of a CRD version or of a
//! built-in kind. Pure: JSON in, JSON and errors out. Must not store or answer anything. Called by
//! the server when a kind is registered (reading) and for every write (the rest).

pub mod builtin;
mod cel_values;
mod compiled;
mod defaults;
pub mod field_error;
mod formats;
mod lists;
pub mod node;
mod numbers;
mod prune;
mod rules;
pub mod structural;
mod validate;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use field_error::{FieldError, FieldErrorKind, summarize};
pub use node::Node;

/// The schema of one version of one kind, read once.
#[derive(Debug)]
pub struct Schema {
    root: Node,
    source: Value,
}

impl Schema {
    /// Reads the `openAPIV3Schema` of a CRD version. Whether it is allowed is asked of
    /// [`structural::check_crd`] first.
    pub fn of_crd(source: &Value) -> Self {
        let root = Node::read(source, &node::NoDefinitions);
        Self::from_parts(root, source.clone())
    }

    pub(crate) fn from_parts(root: Node, source: Value) -> Self {
        Self { root, source }
    }

    /// The schema as nodes.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The schema as it was written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Drops nulls that are not values and fills in defaults.
    pub fn fill_defaults(&self, object: &mut Value) {
        defaults::fill(object, &self.root);
    }

    /// Drops unknown fields and returns their paths, sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune_object(object, &self.root)
    }

    /// What is wrong with a custom object. `old` is what it replaces, on update.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let errors = validate::check(&self.root, object, old);
        self.validate_rest(errors, object, old)
    }

    /// What is wrong after a write to the status alone: the rest was checked when it was written.
    pub fn validate_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (Some(node), Some(status)) =
            (self.root.properties.get("status"), object.get("status"))
        {
            for error in validate::check(node, status, old.get("status")) {
                let field = match error.field.as_str() {
                    "<nil>" => "status".to_owned(),
                    inner => format!("status.{inner}"),
                };
                errors.push(FieldError { field, ..error });
            }
        }
        self.validate_rest(errors, object, Some(old))
    }

    /// List uniqueness and rules, which look at the whole object.
    fn validate_rest(
        &self,
        mut errors: Vec<FieldError>,
        object: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        let had_duplicates = old.is_some_and(|old| !lists::check(&self.root, old).is_empty());
        if !had_duplicates {
            errors.extend(lists::check(&self.root, object));
        }
        if !self.root.has_rules {
            return errors;
        }
        if errors.iter().any(FieldError::blocks_rules) {
            errors.push(FieldError::invalid("", &Value::Null, RULES_NOT_RUN));
        } else {
            errors.extend(rules::check(&self.root, object, old));
        }
        errors
    }
}

const RULES_NOT_RUN: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// The message of a refused write with unknown fields, after `strict decoding error: `.
pub fn unknown_fields_text(paths: &[String]) -> String {
    let named: Vec<String> = paths.iter().map(|path| unknown_field(path)).collect();
    named.join(", ")
}

/// How one unknown field is named, in refusals and in warnings.
pub fn unknown_field(path: &str) -> String {
    format!("unknown field {}", field_error::quote(path))
}

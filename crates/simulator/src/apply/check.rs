//! What a configuration must look like before it is applied.
//!
//! Owns the refusals that need no live object. Must not merge.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    ApplyError, Writer, fields,
    types::{Layout, TypeId, Types, item_name},
};

/// Refuses a configuration of another kind, with owners of its own, or unfit for its schema.
pub(super) fn configuration(applied: &Value, writer: &Writer<'_>) -> Result<(), ApplyError> {
    let text = |name: &str| {
        applied
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version != writer.api_version || kind != writer.kind {
        let shown = if api_version.contains('/') {
            api_version.to_owned()
        } else {
            format!("/{api_version}")
        };
        return Err(ApplyError::BadRequest(format!(
            "invalid object type: {shown}, Kind={kind}"
        )));
    }
    let owners = applied.pointer("/metadata/managedFields");
    if owners.is_some_and(|owners| !owners.is_null()) {
        return Err(ApplyError::BadRequest(
            "metadata.managedFields must be nil".to_owned(),
        ));
    }
    let mut search = Search {
        types: &writer.shape.types,
        path: Vec::new(),
        faults: Vec::new(),
    };
    search.visit(writer.shape.root, applied);
    refuse(&search.faults, applied, writer)
}

fn refuse(faults: &[String], applied: &Value, writer: &Writer<'_>) -> Result<(), ApplyError> {
    let listed = match faults {
        [] => return Ok(()),
        [only] => only.clone(),
        many => {
            let lines: Vec<String> = many.iter().map(|fault| format!("  {fault}")).collect();
            format!("errors:\n{}", lines.join("\n"))
        }
    };
    let meta = |name: &str| {
        applied
            .pointer(&format!("/metadata/{name}"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let version = writer.api_version;
    let version = if version.contains('/') {
        version.to_owned()
    } else {
        format!("/{version}")
    };
    Err(ApplyError::Untyped(format!(
        "failed to create typed patch object ({}/{}; {version}, Kind={}): {listed}",
        meta("namespace"),
        meta("name"),
        writer.kind,
    )))
}

struct Search<'a> {
    types: &'a Types,
    path: Vec<String>,
    faults: Vec<String>,
}

impl Search<'_> {
    fn visit(&mut self, id: TypeId, value: &Value) {
        match (self.types.layout(id, value), value) {
            (Layout::Fields, Value::Object(members)) => {
                for (name, member) in members {
                    self.path.push(format!("f:{name}"));
                    self.member(id, name, member);
                    self.path.pop();
                }
            }
            (Layout::Items(of, kind), Value::Array(items)) => {
                let mut seen = BTreeSet::new();
                for (at, item) in items.iter().enumerate() {
                    match item_name(kind, item) {
                        Err(why) => self.fault(&format!("element {at}: {why}")),
                        Ok(name) => {
                            let shown = fields::display(std::slice::from_ref(&name));
                            if !seen.insert(name.clone()) {
                                self.fault(&format!("duplicate entries for key {shown}"));
                                continue;
                            }
                            self.path.push(name);
                            self.visit(of, item);
                            self.path.pop();
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, id: TypeId, name: &str, member: &Value) {
        if !self.types.is_declared(id, name) {
            self.fault("field not declared in schema");
            return;
        }
        let (of, _) = self.types.field(id, name);
        self.visit(of, member);
    }

    fn fault(&mut self, why: &str) {
        self.faults
            .push(format!("{}: {why}", fields::display(&self.path)));
    }
}

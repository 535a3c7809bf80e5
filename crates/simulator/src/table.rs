//! Tables: how `kubectl get` sees objects.
//!
//! Owns the conversion of objects and lists into `meta.k8s.io/v1` Tables. Pure: JSON in, JSON out,
//! with the time as an argument. Must not read the store. Called by the server when a request asks
//! for `as=Table`, for answers and for watch events.

pub mod age;
mod built_in;
mod cells;
mod cluster;
mod custom;
mod jsonpath;
mod pods;
mod services;
mod workloads;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::schema::builtin;

/// What comes along with the cells of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Reads the `includeObject` parameter; `None` when it is not one of the known words.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// How a table is asked for.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// What each row carries.
    pub include: IncludeObject,
    /// Whether the columns are described; a watch does so once.
    pub headers: bool,
    /// The time that ages are counted to.
    pub now: Timestamp,
}

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) column_type: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
}

impl Column {
    /// The first column of most tables.
    pub(crate) fn name() -> Self {
        Self {
            format: "name".to_owned(),
            description: meta_description("name"),
            ..Self::plain("Name", "string")
        }
    }

    /// The time since creation.
    pub(crate) fn age() -> Self {
        Self {
            description: meta_description("creationTimestamp"),
            ..Self::plain("Age", "string")
        }
    }

    /// A column that is always shown.
    pub(crate) fn plain(name: &str, column_type: &str) -> Self {
        Self {
            name: name.to_owned(),
            column_type: column_type.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
        }
    }

    /// A column of `-o wide`.
    pub(crate) fn wide(name: &str) -> Self {
        Self {
            priority: 1,
            ..Self::plain(name, "string")
        }
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.column_type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// The columns of a kind and how their cells are found.
#[derive(Debug)]
pub struct Layout {
    columns: Vec<Column>,
    cells: Cells,
}

#[derive(Debug)]
enum Cells {
    /// By JSON paths, from the CRD.
    Paths(Vec<custom::PathColumn>),
    /// By code, for kinds the server knows.
    Code(CellFn),
}

/// Computes the cells of one object at a time.
pub(crate) type CellFn = fn(&Value, Timestamp) -> Vec<Value>;

impl Layout {
    /// The layout of one version of a CRD, given that entry of `spec.versions`.
    pub fn of_crd_version(version: &Value) -> Self {
        let (columns, paths) = custom::read(version);
        Self {
            columns,
            cells: Cells::Paths(paths),
        }
    }

    /// The layout of a built-in kind; name and creation time for those without one of their own.
    pub fn built_in(group: &str, kind: &str) -> Self {
        let (columns, cells) = built_in::find(group, kind);
        Self {
            columns,
            cells: Cells::Code(cells),
        }
    }

    /// A list or a single object as a table.
    pub fn render(&self, source: &Value, options: &TableOptions) -> Value {
        let items = source.get("items").and_then(Value::as_array);
        let rows: Vec<Value> = match items {
            Some(items) => items.iter().map(|item| self.row(item, options)).collect(),
            None => vec![self.row(source, options)],
        };
        let definitions: Value = if options.headers {
            self.columns.iter().map(Column::definition).collect()
        } else {
            Value::Null
        };
        json!({
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": list_metadata(source),
            "columnDefinitions": definitions,
            "rows": rows,
        })
    }

    fn row(&self, object: &Value, options: &TableOptions) -> Value {
        let cells = match &self.cells {
            Cells::Paths(columns) => custom::cells(columns, object, options.now),
            Cells::Code(cells) => cells(object, options.now),
        };
        let included = match options.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Object => object.clone(),
            IncludeObject::Metadata => partial(object),
        };
        let mut row = json!({"cells": cells, "object": included});
        if let Some(conditions) = pods::row_conditions(object)
            && let Some(row) = row.as_object_mut()
        {
            row.insert("conditions".to_owned(), conditions);
        }
        row
    }
}

/// An object reduced to its metadata.
pub fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

fn list_metadata(source: &Value) -> Map<String, Value> {
    let metadata = source.get("metadata").and_then(Value::as_object);
    let fields = ["resourceVersion", "continue", "remainingItemCount"];
    let kept = fields.into_iter().filter_map(|field| {
        let value = metadata?.get(field)?;
        (value != "").then(|| (field.to_owned(), value.clone()))
    });
    kept.collect()
}

fn meta_description(field: &str) -> String {
    let meta = builtin::schemas().definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    meta.and_then(|meta| meta.pointer(&format!("/properties/{field}/description")))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

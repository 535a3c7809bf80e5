//! Tables of custom kinds, from `additionalPrinterColumns`.
//!
//! Owns reading the columns and the cell for each column type. Must not know any kind. Called by
//! `Layout`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::cells::text;
use super::jsonpath::JsonPath;
use super::{Column, meta_description};

/// One column: its type, and where its value is.
#[derive(Debug)]
pub(crate) struct PathColumn {
    column_type: String,
    path: Option<JsonPath>,
}

/// The columns of one CRD version. A version without columns shows the age.
pub(crate) fn read(version: &Value) -> (Vec<Column>, Vec<PathColumn>) {
    let given = version
        .get("additionalPrinterColumns")
        .and_then(Value::as_array)
        .filter(|columns| !columns.is_empty());
    let only_age = [json!({
        "name": "Age",
        "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "description": meta_description("creationTimestamp"),
    })];
    let definitions = given.map_or(&only_age[..], Vec::as_slice);
    let mut columns = vec![Column::name()];
    let mut paths = Vec::new();
    for definition in definitions {
        let path = text(definition, "/jsonPath");
        let described = text(definition, "/description");
        columns.push(Column {
            name: text(definition, "/name").to_owned(),
            column_type: text(definition, "/type").to_owned(),
            format: text(definition, "/format").to_owned(),
            description: if described.is_empty() {
                format!("Custom resource definition column (in JSONPath format): {path}")
            } else {
                described.to_owned()
            },
            priority: super::cells::number(definition, "/priority"),
        });
        paths.push(PathColumn {
            column_type: text(definition, "/type").to_owned(),
            path: JsonPath::parse(path),
        });
    }
    (columns, paths)
}

/// The cells of one object.
pub(crate) fn cells(columns: &[PathColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![super::cells::name(object)];
    for column in columns {
        let found = column.path.as_ref().and_then(|path| path.first(object));
        cells.push(found.map_or(Value::Null, |value| cell(&column.column_type, value, now)));
    }
    cells
}

/// A value as its column's type wants it, null when it does not fit.
fn cell(column_type: &str, value: &Value, now: Timestamp) -> Value {
    match (column_type, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(text)) => Value::from(text.as_str()),
        ("string", other) => Value::from(other.to_string()),
        ("integer", Value::Number(number)) => whole(number),
        ("number", Value::Number(number)) => json!(number.as_f64()),
        ("boolean", Value::Bool(flag)) => Value::Bool(*flag),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(time) => Value::from(age::since(time, now)),
            Err(_) => Value::from("<invalid>"),
        },
        _ => Value::Null,
    }
}

fn whole(number: &serde_json::Number) -> Value {
    if let Some(whole) = number.as_i64() {
        return Value::from(whole);
    }
    let text = number.to_string();
    let whole = text
        .split('.')
        .next()
        .and_then(|text| text.parse::<i64>().ok());
    whole.map_or(Value::Null, Value::from)
}

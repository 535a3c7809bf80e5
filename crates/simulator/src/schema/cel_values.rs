//! JSON values as CEL sees them.
//!
//! Owns the conversion, guided by the schema: numbers by their declared type, dates and durations by
//! their format, member names escaped as the API server escapes them. Must not run rules. Called by
//! `rules` for the values that a rule stands on.

use std::sync::{Arc, LazyLock};

use kube::core::cel::cel::objects::{Key, Map};
use kube::core::cel::cel::{Context, Program, Value as CelValue};
use serde_json::{Number, Value};

use super::node::{Additional, Node, ValueType};

/// Words that CEL keeps for itself.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// CEL's own parsers, so that a date in an object and a date in a rule mean the same.
static TIMESTAMP: LazyLock<Option<Program>> =
    LazyLock::new(|| Program::compile("timestamp(text)").ok());
static DURATION: LazyLock<Option<Program>> =
    LazyLock::new(|| Program::compile("duration(text)").ok());

/// The value that `self` or `oldSelf` stands for.
pub(crate) fn convert(
    functions: &Context<'static>,
    value: &Value,
    node: &Node,
    is_root: bool,
) -> CelValue {
    let Value::Object(members) = value else {
        return Converter { functions }.value(value, Some(node));
    };
    if is_root || node.embedded {
        return Converter { functions }.resource(members, node);
    }
    Converter { functions }.value(value, Some(node))
}

struct Converter<'a> {
    functions: &'a Context<'static>,
}

impl Converter<'_> {
    /// Of an object's own fields, rules see the kind, the version and the name only.
    fn resource(&self, members: &serde_json::Map<String, Value>, node: &Node) -> CelValue {
        let pairs = members.iter().map(|(name, value)| {
            let value = if name == "metadata" {
                self.metadata(value)
            } else {
                self.value(value, node.member(name))
            };
            (key(&escape(name)), value)
        });
        map(pairs)
    }

    fn metadata(&self, value: &Value) -> CelValue {
        let names = ["name", "generateName"];
        let pairs = names.into_iter().filter_map(|name| {
            let value = value.get(name)?;
            Some((key(name), self.value(value, None)))
        });
        map(pairs)
    }

    fn value(&self, value: &Value, node: Option<&Node>) -> CelValue {
        match value {
            Value::Null => CelValue::Null,
            Value::Bool(flag) => CelValue::Bool(*flag),
            Value::Number(number) => convert_number(number, node),
            Value::String(text) => self.text(text, node),
            Value::Array(items) => {
                let child = node.and_then(|node| node.items.as_deref());
                let items = items.iter().map(|item| self.value(item, child));
                CelValue::List(Arc::new(items.collect()))
            }
            Value::Object(members) => {
                let is_map =
                    node.is_some_and(|node| !matches!(node.additional, Additional::Unspecified));
                map(members.iter().map(|(name, value)| {
                    let child = node.and_then(|node| node.member(name));
                    let name = if is_map { name.clone() } else { escape(name) };
                    (key(&name), self.value(value, child))
                }))
            }
        }
    }

    fn text(&self, text: &str, node: Option<&Node>) -> CelValue {
        let plain = CelValue::String(Arc::new(text.to_owned()));
        let format = node
            .filter(|node| !node.int_or_string)
            .and_then(|node| node.limits.format.as_deref());
        let parser = match format {
            Some("date-time" | "datetime") => TIMESTAMP.as_ref(),
            Some("duration") => DURATION.as_ref(),
            _ => None,
        };
        let Some(parser) = parser else {
            return plain;
        };
        let mut scope = self.functions.new_inner_scope();
        scope.add_variable_from_value("text", plain.clone());
        parser.execute(&scope).unwrap_or(plain)
    }
}

fn convert_number(number: &Number, node: Option<&Node>) -> CelValue {
    let float = || CelValue::Float(number.as_f64().unwrap_or(f64::NAN));
    if node.and_then(|node| node.value_type) == Some(ValueType::Number) {
        return float();
    }
    if let Some(whole) = number.as_i64() {
        return CelValue::Int(whole);
    }
    let is_integer = node.and_then(|node| node.value_type) == Some(ValueType::Integer);
    match number.to_string().split_once('.') {
        Some((whole, fraction)) if is_integer && fraction.bytes().all(|b| b == b'0') => {
            whole.parse().map_or_else(|_| float(), CelValue::Int)
        }
        _ => float(),
    }
}

fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}

fn map(pairs: impl Iterator<Item = (Key, CelValue)>) -> CelValue {
    CelValue::Map(Map {
        map: Arc::new(pairs.collect()),
    })
}

/// A member name as rules must write it.
fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

//! A schema in the form the checks walk: one node per value, everything looked up once.
//!
//! Owns the reading of a CRD's `openAPIV3Schema` (or of a built-in kind's schema) into nodes. Must
//! not judge whether the schema is allowed: `structural` does. Called when a kind is registered.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::compiled::Compiled;
use super::rules::Rule;

/// The JSON type that a node accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

impl ValueType {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// The name used in schemas and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// How the items of a list are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Each item occurs once.
    Set,
    /// Items are objects, identified by these fields.
    Map(Vec<String>),
}

/// What an object may hold besides its declared properties.
#[derive(Debug, Default)]
pub enum Additional {
    /// Nothing is said: unknown members are pruned.
    #[default]
    Unspecified,
    /// `additionalProperties: true`, or false with no further meaning.
    Any,
    /// Every other member follows this node.
    Node(Box<Node>),
}

/// Bounds on strings, numbers, lists and maps.
#[derive(Debug, Default)]
pub struct Limits {
    /// Allowed values; empty means all.
    pub allowed: Vec<Value>,
    /// `format`, when the API server checks it.
    pub format: Option<String>,
    /// The pattern and its source.
    pub(crate) pattern: Option<(String, Compiled<Regex>)>,
    /// `minLength`.
    pub min_length: Option<u64>,
    /// `maxLength`.
    pub max_length: Option<u64>,
    /// `minItems`.
    pub min_items: Option<u64>,
    /// `maxItems`.
    pub max_items: Option<u64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `minProperties`.
    pub min_properties: Option<u64>,
    /// `maxProperties`.
    pub max_properties: Option<u64>,
    /// `minimum`, and whether it is exclusive.
    pub minimum: Option<(f64, bool)>,
    /// `maximum`, and whether it is exclusive.
    pub maximum: Option<(f64, bool)>,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// Members that must be present.
    pub required: Vec<String>,
}

/// One value of a schema.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a keyword of its own and they combine freely"
)]
pub struct Node {
    /// The accepted type; none when anything goes.
    pub value_type: Option<ValueType>,
    /// An integer or a string.
    pub int_or_string: bool,
    /// Null is a value.
    pub nullable: bool,
    /// What a missing value becomes.
    pub default: Option<Value>,
    /// Unknown members stay.
    pub preserve_unknown: bool,
    /// The value is a whole Kubernetes object.
    pub embedded: bool,
    /// Declared members.
    pub properties: BTreeMap<String, Self>,
    /// Undeclared members.
    pub additional: Additional,
    /// The items of a list.
    pub items: Option<Box<Self>>,
    /// How items are told apart.
    pub list_type: ListType,
    /// `x-kubernetes-map-type: atomic`.
    pub atomic_map: bool,
    /// Bounds.
    pub limits: Limits,
    /// All must hold.
    pub all_of: Vec<Self>,
    /// At least one must hold.
    pub any_of: Vec<Self>,
    /// Exactly one must hold.
    pub one_of: Vec<Self>,
    /// Must not hold.
    pub not: Option<Box<Self>>,
    /// Rules in CEL.
    pub rules: Vec<Rule>,
    /// Whether this node or one below has rules, so that walks can stop early.
    pub has_rules: bool,
}

/// Follows `$ref`s while a schema is read.
pub trait Definitions {
    /// The schema that a reference names.
    fn resolve(&self, reference: &str) -> Option<&Value>;
}

/// A schema without references, as CRDs require.
pub struct NoDefinitions;

impl Definitions for NoDefinitions {
    fn resolve(&self, _reference: &str) -> Option<&Value> {
        None
    }
}

/// Depth at which a schema is cut: deeper objects are kept as they are. Only self-referring
/// built-in schemas get there.
const MAX_DEPTH: usize = 24;

impl Node {
    /// Reads a schema.
    pub fn read(schema: &Value, definitions: &dyn Definitions) -> Self {
        Reader { definitions }.node(schema, 0)
    }

    /// The node of a member: declared, or what all others follow.
    pub fn member(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Node(node) => Some(node),
            Additional::Unspecified | Additional::Any => None,
        })
    }

    /// Built-in schemas state objects of free content as objects without members.
    pub(crate) fn keep_open_objects(&mut self) {
        let is_open = self.properties.is_empty()
            && matches!(self.additional, Additional::Unspecified)
            && matches!(self.value_type, None | Some(ValueType::Object));
        self.preserve_unknown |= is_open;
        for child in self
            .properties
            .values_mut()
            .chain(self.items.as_deref_mut())
        {
            child.keep_open_objects();
        }
        if let Additional::Node(child) = &mut self.additional {
            child.keep_open_objects();
        }
    }

    /// The names of the accepted types, comma-separated.
    pub fn type_names(&self) -> Option<&'static str> {
        if self.int_or_string {
            return Some("integer,string");
        }
        self.value_type.map(ValueType::name)
    }

    /// The type as a rule's error shows it.
    pub fn type_name(&self) -> &'static str {
        self.value_type.map_or("", ValueType::name)
    }
}

struct Reader<'a> {
    definitions: &'a dyn Definitions,
}

impl Reader<'_> {
    fn node(&self, schema: &Value, depth: usize) -> Node {
        let schema = self.follow(schema);
        if depth > MAX_DEPTH {
            return Node {
                preserve_unknown: true,
                ..Node::default()
            };
        }
        let mut node = Node {
            value_type: read_type(schema),
            int_or_string: flag(schema, "x-kubernetes-int-or-string"),
            nullable: flag(schema, "nullable"),
            default: schema.get("default").filter(|v| !v.is_null()).cloned(),
            preserve_unknown: flag(schema, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(schema, "x-kubernetes-embedded-resource"),
            properties: self.properties(schema, depth),
            additional: self.additional(schema, depth),
            items: schema
                .get("items")
                .map(|items| Box::new(self.node(items, depth + 1))),
            list_type: read_list_type(schema),
            atomic_map: schema.get("x-kubernetes-map-type").and_then(Value::as_str)
                == Some("atomic"),
            limits: read_limits(schema),
            all_of: self.branches(schema, "allOf", depth),
            any_of: self.branches(schema, "anyOf", depth),
            one_of: self.branches(schema, "oneOf", depth),
            not: schema
                .get("not")
                .map(|not| Box::new(self.node(not, depth + 1))),
            rules: Rule::read_all(schema),
            has_rules: false,
        };
        node.has_rules = !node.rules.is_empty() || children(&node).any(|child| child.has_rules);
        node
    }

    /// References of built-in schemas stand alone or as the only `allOf` branch beside a description.
    fn follow<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let direct = schema.get("$ref");
        let wrapped = schema.pointer("/allOf/0/$ref");
        direct
            .or(wrapped)
            .and_then(Value::as_str)
            .and_then(|reference| self.definitions.resolve(reference))
            .unwrap_or(schema)
    }

    fn properties(&self, schema: &Value, depth: usize) -> BTreeMap<String, Node> {
        let Some(members) = schema.get("properties").and_then(Value::as_object) else {
            return BTreeMap::new();
        };
        members
            .iter()
            .map(|(name, member)| (name.clone(), self.node(member, depth + 1)))
            .collect()
    }

    fn additional(&self, schema: &Value, depth: usize) -> Additional {
        match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => Additional::Unspecified,
            Some(Value::Bool(true)) => Additional::Any,
            Some(node) => Additional::Node(Box::new(self.node(node, depth + 1))),
        }
    }

    fn branches(&self, schema: &Value, keyword: &str, depth: usize) -> Vec<Node> {
        let list = schema.get(keyword).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .map(|branch| self.node(branch, depth + 1))
            .collect()
    }
}

fn children(node: &Node) -> impl Iterator<Item = &Node> {
    let additional = match &node.additional {
        Additional::Node(child) => Some(child.as_ref()),
        Additional::Unspecified | Additional::Any => None,
    };
    node.properties
        .values()
        .chain(additional)
        .chain(node.items.as_deref())
        .chain(&node.all_of)
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn read_type(schema: &Value) -> Option<ValueType> {
    match schema.get("type") {
        Some(Value::String(name)) => ValueType::parse(name),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .find_map(ValueType::parse),
        _ => None,
    }
}

fn read_list_type(schema: &Value) -> ListType {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = schema
                .get("x-kubernetes-list-map-keys")
                .and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            ListType::Map(keys.map(str::to_owned).collect())
        }
        _ => ListType::Atomic,
    }
}

fn read_limits(schema: &Value) -> Limits {
    let count = |name: &str| schema.get(name).and_then(Value::as_u64);
    let bound = |name: &str, exclusive: &str| {
        let limit = schema.get(name).and_then(Value::as_f64)?;
        Some((limit, flag(schema, exclusive)))
    };
    let texts = |name: &str| {
        let list = schema.get(name).and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    Limits {
        allowed: schema
            .get("enum")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
        format: schema
            .get("format")
            .and_then(Value::as_str)
            .filter(|format| super::formats::is_checked(format))
            .map(str::to_owned),
        pattern: schema
            .get("pattern")
            .and_then(Value::as_str)
            .filter(|pattern| !pattern.is_empty())
            .map(|pattern| (pattern.to_owned(), super::compiled::pattern(pattern))),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: flag(schema, "uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: schema.get("multipleOf").and_then(Value::as_f64),
        required: texts("required"),
    }
}

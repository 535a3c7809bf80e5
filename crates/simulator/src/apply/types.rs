//! The shape of a kind: which of its fields are structures, maps and lists, and how each is merged.
//!
//! Owns the one answer to "what kind of list is this" for server-side apply, field tracking and
//! strategic merge patches. Must not hold objects or merge anything. Core kinds come from a table
//! (`core`), custom kinds from the schema of their definition (`custom`).

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};

mod core;
mod custom;
mod reset;

/// Index of a type in its `Types`.
pub type TypeId = usize;

/// The type of scalars and of everything that is replaced as a whole.
pub const LEAF: TypeId = 0;
/// The type of values without a schema: maps are merged, lists are replaced.
pub const ANY: TypeId = 1;

/// How server-side apply tells the items of a list apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Not at all: the list is one value.
    Atomic,
    /// By their value.
    Set,
    /// By the value of these fields.
    Map(Vec<ListKey>),
}

/// One field of a list's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListKey {
    /// Name of the field.
    pub name: String,
    /// What an item without the field is taken to say.
    pub default: Option<Value>,
}

/// How a strategic merge patch treats a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPatch {
    /// The patch's list takes the place of the old one.
    Replace,
    /// Scalars are added to those that are there.
    Merge,
    /// Items with the same value of this field are merged.
    MergeBy(String),
}

/// What a value is made of.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A scalar, or a value without parts.
    Leaf,
    /// Unknown: the value itself says.
    Any,
    /// Named fields, and those that the schema leaves to the writer.
    Struct {
        /// The declared fields.
        fields: BTreeMap<String, TypeId>,
        /// The type of a field that is not declared; without it there is none.
        rest: Option<TypeId>,
    },
    /// Free keys, one type.
    Map {
        /// Type of the values.
        of: TypeId,
    },
    /// Items of one type.
    List {
        /// Type of the items.
        of: TypeId,
        /// How apply merges it.
        kind: ListKind,
        /// How a strategic merge patch does.
        patch: ListPatch,
    },
}

/// A shape and how it behaves as a whole.
#[derive(Clone, Debug)]
pub struct Type {
    /// What it is made of.
    pub shape: Shape,
    /// Apply sees one value, whatever it is made of.
    pub atomic: bool,
    /// A strategic merge patch replaces it.
    pub replaced: bool,
}

impl Type {
    /// A type that is merged part by part.
    pub fn granular(shape: Shape) -> Self {
        Self {
            shape,
            atomic: false,
            replaced: false,
        }
    }
}

/// Whether a field is one of a structure or a key of a map: only the latter is owned by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// Declared by the schema.
    Named,
    /// Chosen by the writer.
    Free,
}

/// How apply sees one value.
#[derive(Clone, Copy, Debug)]
pub enum Layout<'t> {
    /// As a whole.
    Leaf,
    /// Field by field.
    Fields,
    /// Item by item.
    Items(TypeId, &'t ListKind),
}

/// The types that one kind is made of.
#[derive(Clone, Debug)]
pub struct Types {
    all: Vec<Type>,
}

impl Types {
    fn new() -> Self {
        Self {
            all: vec![Type::granular(Shape::Leaf), Type::granular(Shape::Any)],
        }
    }

    fn add(&mut self, new: Type) -> TypeId {
        self.all.push(new);
        self.all.len() - 1
    }

    fn get(&self, id: TypeId) -> Option<&Type> {
        self.all.get(id)
    }

    /// How apply treats a value of this type; the value decides where the schema does not.
    pub fn layout(&self, id: TypeId, value: &Value) -> Layout<'_> {
        let Some(found) = self.get(id).filter(|t| !t.atomic) else {
            return Layout::Leaf;
        };
        match (&found.shape, value) {
            (Shape::Struct { .. } | Shape::Map { .. }, Value::Object(_) | Value::Null)
            | (Shape::Any, Value::Object(_)) => Layout::Fields,
            (Shape::List { of, kind, .. }, Value::Array(_) | Value::Null)
                if *kind != ListKind::Atomic =>
            {
                Layout::Items(*of, kind)
            }
            _ => Layout::Leaf,
        }
    }

    /// Type and membership of a field of a structure or map.
    pub fn field(&self, id: TypeId, name: &str) -> (TypeId, Membership) {
        match self.get(id).map(|t| &t.shape) {
            Some(Shape::Struct { fields, rest }) => match (fields.get(name), rest) {
                (Some(of), _) => (*of, Membership::Named),
                (None, Some(of)) => (*of, Membership::Free),
                (None, None) => (LEAF, Membership::Named),
            },
            Some(Shape::Map { of }) => (*of, Membership::Free),
            _ => (ANY, Membership::Free),
        }
    }

    /// Whether the schema names this field, or leaves it to the writer.
    pub fn is_declared(&self, id: TypeId, name: &str) -> bool {
        match self.get(id).map(|t| &t.shape) {
            Some(Shape::Struct { fields, rest }) => rest.is_some() || fields.contains_key(name),
            _ => true,
        }
    }

    /// Type of the items of a list.
    pub fn item(&self, id: TypeId) -> TypeId {
        match self.get(id).map(|t| &t.shape) {
            Some(Shape::List { of, .. }) => *of,
            _ => ANY,
        }
    }

    /// How a strategic merge patch treats the list; a list without a schema is replaced.
    pub fn list_patch(&self, id: TypeId) -> &ListPatch {
        match self.get(id).map(|t| &t.shape) {
            Some(Shape::List { patch, .. }) => patch,
            _ => &ListPatch::Replace,
        }
    }

    /// Whether a strategic merge patch replaces the whole structure.
    pub fn is_replaced(&self, id: TypeId) -> bool {
        self.get(id).is_some_and(|t| t.replaced)
    }
}

/// Everything that patching and applying must know of a kind.
#[derive(Clone, Debug)]
pub struct KindShape {
    /// The types.
    pub types: Arc<Types>,
    /// The type of the object itself.
    pub root: TypeId,
    /// What an object looks like before anything was set.
    pub empty: Value,
    /// Whether strategic merge patches are understood.
    pub is_core: bool,
    /// Fields that a write to the main resource does not touch.
    reset_by_main: Vec<Vec<String>>,
    /// Fields that a write to the status does not touch.
    reset_by_status: Vec<Vec<String>>,
}

impl KindShape {
    /// The shape of a core kind; none when the table does not have it.
    pub fn core(api_version: &str, kind: &str) -> Option<Self> {
        core::shape(api_version, kind)
    }

    /// The shape of a custom kind, from its `openAPIV3Schema`.
    pub fn custom(schema: &Value, has_status: bool) -> Self {
        custom::shape(schema, has_status)
    }

    /// The shape of a kind of which nothing but its metadata is known.
    pub fn unknown() -> Self {
        Self::custom(&Value::Object(Map::new()), true)
    }

    /// Fields that a write through this subresource leaves alone.
    pub fn reset_fields(&self, subresource: &str) -> &[Vec<String>] {
        match subresource {
            "" => &self.reset_by_main,
            "status" => &self.reset_by_status,
            _ => &[],
        }
    }
}

/// The name of a list item in a field set, or what keeps it from having one.
pub fn item_name(kind: &ListKind, item: &Value) -> Result<String, &'static str> {
    match (kind, item) {
        (ListKind::Set, Value::Object(_)) => {
            Err("associative list without keys has an element that's a map type")
        }
        (ListKind::Set, Value::Array(_)) => {
            Err("not supported: associative list with lists as elements")
        }
        (ListKind::Set, Value::Null) => {
            Err("associative list without keys has an element that's an explicit null")
        }
        (ListKind::Set, scalar) => Ok(format!("v:{scalar}")),
        (ListKind::Map(keys), Value::Object(fields)) => keyed_name(keys, fields),
        (ListKind::Map(_), Value::Null) => {
            Err("associative list with keys may not have a null element")
        }
        (ListKind::Map(_), _) => Err("associative list with keys may not have non-map elements"),
        (ListKind::Atomic, _) => Err("invalid indexing of non-associative list"),
    }
}

fn keyed_name(keys: &[ListKey], fields: &Map<String, Value>) -> Result<String, &'static str> {
    let mut parts: Vec<(&str, &Value)> = keys
        .iter()
        .filter_map(|key| {
            let value = fields.get(&key.name).or(key.default.as_ref())?;
            Some((key.name.as_str(), value))
        })
        .collect();
    if parts.is_empty() {
        return Err("associative list with keys has an element that omits all key fields");
    }
    parts.sort_by_key(|(name, _)| *name);
    let written: Vec<String> = parts
        .iter()
        .map(|(name, value)| format!("{}:{value}", Value::from(*name)))
        .collect();
    Ok(format!("k:{{{}}}", written.join(",")))
}

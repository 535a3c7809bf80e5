//! The shapes of the core kinds, read once from the table beside this file.
//!
//! Owns the table's syntax (its head explains it). Must not know any kind by name: the table does.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use super::{KindShape, LEAF, ListKey, ListKind, ListPatch, Shape, Type, TypeId, Types, reset};

const TABLE: &str = include_str!("core.types");

struct KindRow {
    api_version: &'static str,
    kind: &'static str,
    root: TypeId,
    empty: Value,
}

struct Table {
    types: Arc<Types>,
    kinds: Vec<KindRow>,
    by_name: BTreeMap<&'static str, TypeId>,
}

fn table() -> &'static Table {
    static PARSED: OnceLock<Table> = OnceLock::new();
    PARSED.get_or_init(|| Reader::read(TABLE, |_| true))
}

/// The shape of one kind of the table.
pub(super) fn shape(api_version: &str, kind: &str) -> Option<KindShape> {
    let table = table();
    let row = table
        .kinds
        .iter()
        .find(|row| row.api_version == api_version && row.kind == kind)?;
    Some(KindShape {
        types: Arc::clone(&table.types),
        root: row.root,
        empty: row.empty.clone(),
        is_core: true,
        reset_by_main: reset::by_main(kind),
        reset_by_status: reset::by_status(kind),
    })
}

/// The types that every object is made of and the one of its metadata, for custom kinds to build
/// on.
pub(super) fn with_metadata() -> (Types, TypeId) {
    static PARSED: OnceLock<Table> = OnceLock::new();
    let few = ["ObjectMeta", "OwnerReference", "ManagedFieldsEntry"];
    let table = PARSED.get_or_init(|| Reader::read(TABLE, |name| few.contains(&name)));
    let metadata = table.by_name.get("ObjectMeta").copied().unwrap_or(LEAF);
    (Types::clone(&table.types), metadata)
}

/// The table while it is read.
struct Reader {
    types: Types,
    kinds: Vec<KindRow>,
    by_name: BTreeMap<&'static str, TypeId>,
}

impl Reader {
    /// Reads the kinds and those types whose names are wanted.
    fn read(text: &'static str, is_wanted: impl Fn(&str) -> bool) -> Table {
        let mut table = Self {
            types: Types::new(),
            kinds: Vec::new(),
            by_name: BTreeMap::new(),
        };
        let mut current = LEAF;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(row) = line.strip_prefix("type ") {
                let (name, flag) = row.split_once(' ').unwrap_or((row, ""));
                current = if is_wanted(name) {
                    table.open_type(name, flag)
                } else {
                    LEAF
                };
            } else if let Some(row) = line.strip_prefix("kind ") {
                table.add_kind(row);
            } else if current != LEAF {
                table.add_field(current, line.trim_start());
            }
        }
        Table {
            types: Arc::new(table.types),
            kinds: table.kinds,
            by_name: table.by_name,
        }
    }

    fn named(&mut self, name: &'static str) -> TypeId {
        if name.is_empty() {
            return LEAF;
        }
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.types.add(Type::granular(Shape::Struct {
            fields: BTreeMap::new(),
            rest: None,
        }));
        self.by_name.insert(name, id);
        id
    }

    fn add_kind(&mut self, row: &'static str) {
        let mut words = row.splitn(4, ' ');
        let (Some(api_version), Some(kind), Some(root), Some(empty)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return;
        };
        let root = self.named(root);
        self.kinds.push(KindRow {
            api_version,
            kind,
            root,
            empty: serde_json::from_str(empty).unwrap_or_default(),
        });
    }

    fn open_type(&mut self, name: &'static str, flag: &str) -> TypeId {
        let id = self.named(name);
        if let Some(opened) = self.types.all.get_mut(id) {
            opened.atomic = flag == "atomic";
        }
        id
    }

    fn add_field(&mut self, owner: TypeId, row: &'static str) {
        if let Some(scalars) = row.strip_prefix("- ") {
            for name in scalars.split(' ') {
                self.declare(owner, name, LEAF);
            }
            return;
        }
        let mut words = row.split(' ');
        let (Some(name), Some(written)) = (words.next(), words.next()) else {
            return;
        };
        let flags: Vec<&'static str> = words.collect();
        let of = self.field_type(written, &flags);
        self.declare(owner, name, of);
    }

    fn declare(&mut self, owner: TypeId, name: &str, of: TypeId) {
        if let Some(Type {
            shape: Shape::Struct { fields, .. },
            ..
        }) = self.types.all.get_mut(owner)
        {
            fields.insert(name.to_owned(), of);
        }
    }

    fn field_type(&mut self, written: &'static str, flags: &[&'static str]) -> TypeId {
        if let Some(item) = written.strip_prefix("[]") {
            let of = self.named(item);
            return self.types.add(Type::granular(Shape::List {
                of,
                kind: list_kind(flags),
                patch: list_patch(flags),
            }));
        }
        if let Some(value) = written.strip_prefix("{}") {
            let of = self.named(value);
            return self.types.add(Type {
                shape: Shape::Map { of },
                atomic: flags.contains(&"atomic"),
                replaced: false,
            });
        }
        let named = self.named(written);
        let Some(over) = flags.iter().find(|f| ["granular", "replace"].contains(f)) else {
            return named;
        };
        let copy = self.types.get(named).cloned();
        let shape = copy.map_or(Shape::Leaf, |t| t.shape);
        self.types.add(Type {
            shape,
            atomic: *over == "replace",
            replaced: *over == "replace",
        })
    }
}

fn list_kind(flags: &[&'static str]) -> ListKind {
    if flags.contains(&"set") {
        return ListKind::Set;
    }
    let Some(keys) = flags.iter().find_map(|flag| flag.strip_prefix("map=")) else {
        return ListKind::Atomic;
    };
    let default = |key: &str| {
        flags
            .iter()
            .filter_map(|flag| flag.strip_prefix("default=")?.split_once(':'))
            .find(|(name, _)| *name == key)
            .map(|(_, value)| Value::from(value))
    };
    ListKind::Map(
        keys.split(',')
            .map(|key| ListKey {
                name: key.to_owned(),
                default: default(key),
            })
            .collect(),
    )
}

fn list_patch(flags: &[&'static str]) -> ListPatch {
    flags
        .iter()
        .find_map(|flag| match flag.strip_prefix("merge")? {
            "" => Some(ListPatch::Merge),
            key => Some(ListPatch::MergeBy(key.trim_start_matches('=').to_owned())),
        })
        .unwrap_or(ListPatch::Replace)
}

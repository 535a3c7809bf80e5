//! The JSON paths of printer columns.
//!
//! Owns the subset that columns use: fields (`.a`, `.a\.b`, `['a']`), indexes (`[0]`, `[-1]`),
//! wildcards (`[*]`) and filters on equality (`[?(@.type=="Ready")]`). Must not format. Called by
//! `custom`.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Filter {
        path: JsonPath,
        equal: bool,
        value: String,
    },
}

impl JsonPath {
    /// Parses a path; `None` when it is not of the subset.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text.trim().trim_start_matches('$');
        while !rest.is_empty() {
            let (step, after) = if let Some(inner) = rest.strip_prefix('[') {
                bracket(inner)?
            } else {
                field(rest.strip_prefix('.')?)
            };
            steps.extend(step);
            rest = after;
        }
        Some(Self(steps))
    }

    /// The first value at the path.
    pub(crate) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let mut current = vec![value];
        for step in &self.0 {
            current = current
                .into_iter()
                .flat_map(|value| step.apply(value))
                .collect();
        }
        current.first().copied()
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => at(value, *index).into_iter().collect(),
            Self::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(members) => members.values().collect(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
            },
            Self::Filter {
                path,
                equal,
                value: wanted,
            } => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let fits = |item: &&Value| {
                    path.first(item)
                        .is_some_and(|found| (shown(found) == *wanted) == *equal)
                };
                items.iter().filter(fits).collect()
            }
        }
    }
}

fn at(value: &Value, index: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let length = i64::try_from(items.len()).ok()?;
    let index = if index < 0 { index + length } else { index };
    items.get(usize::try_from(index).ok()?)
}

fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// A field name up to the next `.` or `[`; a backslash takes the next character as it is.
fn field(text: &str) -> (Option<Step>, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return (step_of(name), text.get(at..).unwrap_or_default()),
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            c => name.push(c),
        }
    }
    (step_of(name), "")
}

fn step_of(name: String) -> Option<Step> {
    match name.as_str() {
        "" => None,
        "*" => Some(Step::All),
        _ => Some(Step::Field(name)),
    }
}

/// What stands between brackets, and the text behind them.
fn bracket(text: &str) -> Option<(Option<Step>, &str)> {
    if let Some(filter) = text.strip_prefix("?(") {
        let (condition, after) = filter.split_once(")]")?;
        return Some((Some(condition_of(condition)?), after));
    }
    for quote in ['\'', '"'] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let (name, after) = quoted.split_once(&format!("{quote}]"))?;
            return Some((Some(Step::Field(name.to_owned())), after));
        }
    }
    let (inner, after) = text.split_once(']')?;
    let step = match inner {
        "*" => Step::All,
        number => Step::Index(number.parse().ok()?),
    };
    Some((Some(step), after))
}

fn condition_of(text: &str) -> Option<Step> {
    let (left, equal, right) = match text.split_once("==") {
        Some((left, right)) => (left, true, right),
        None => text.split_once("!=").map(|(l, r)| (l, false, r))?,
    };
    let path = JsonPath::parse(left.trim().strip_prefix('@')?)?;
    let value = right.trim().trim_matches(['\'', '"']).to_owned();
    Some(Step::Filter { path, equal, value })
}

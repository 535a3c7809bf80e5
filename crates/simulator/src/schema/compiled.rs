//! Compiled rules and patterns, kept by their text.
//!
//! Owns one store per process: a simulation makes many clusters with the same definitions, and
//! compiling a rule costs more than all else in reading a schema. What a text compiles to depends
//! on the text alone, so sharing changes no answer. Called by `rules`, `node` and `structural`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use kube::core::cel::cel::Program;
use regex::Regex;

/// A compiled text, or the compiler's words.
pub(crate) type Compiled<T> = Arc<Result<T, String>>;

type Store<T> = LazyLock<Mutex<BTreeMap<String, Compiled<T>>>>;

static PROGRAMS: Store<Program> = LazyLock::new(Mutex::default);
static PATTERNS: Store<Regex> = LazyLock::new(Mutex::default);

/// A rule or message expression.
pub(crate) fn program(text: &str) -> Compiled<Program> {
    find(&PROGRAMS, text, |text| {
        Program::compile(text).map_err(|error| error.to_string())
    })
}

/// A pattern.
pub(crate) fn pattern(text: &str) -> Compiled<Regex> {
    find(&PATTERNS, text, |text| {
        Regex::new(text).map_err(|error| error.to_string())
    })
}

fn find<T>(
    store: &Store<T>,
    text: &str,
    compile: impl FnOnce(&str) -> Result<T, String>,
) -> Compiled<T> {
    let mut known = store.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(compiled) = known.get(text) {
        return Arc::clone(compiled);
    }
    let compiled = Arc::new(compile(text));
    known.insert(text.to_owned(), Arc::clone(&compiled));
    compiled
}

//! Rules on single files: headers, lengths, notes to self, words that must not leave a machine.
//!
//! Owns the rules; the list of files comes from git.

use std::fs;
use std::path::Path;

use crate::{Error, Finding, cargo};

/// Longest source file.
const LINES: usize = 600;

/// Texts that no file may hold. Split, so that this file does not hold them either.
const BANNED: [(&str, &str); 3] = [
    (
        concat!("/wo", "rk/"),
        "names a folder of somebody's machine",
    ),
    (
        concat!("/ro", "ot/"),
        "names a folder of somebody's machine",
    ),
    (
        concat!(": {sou", "rce}"),
        "says the cause of an error, which its source says too",
    ),
];

/// Notes to self, which need the number of an issue: `(#12)` right behind the word.
const NOTES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Files written by programs, which obey their own rules.
const FOREIGN: [&str; 4] = ["Cargo.lock", "go.sum", "go.mod", "LICENSE"];

/// All files of the repository, as git sees them: committed or about to be.
pub(crate) fn tracked(root: &Path) -> Result<Vec<String>, Error> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let list = cargo::output(root, "git".into(), &arguments)?;
    let mut files: Vec<String> = list.lines().map(str::to_owned).collect();
    files.sort();
    files.dedup();
    // A file that was removed and not yet committed is still listed.
    files.retain(|file| root.join(file).is_file());
    Ok(files)
}

/// Broken rules of one file.
pub(crate) fn check(root: &Path, file: &str) -> Result<Vec<Finding>, Error> {
    let path = root.join(file);
    let bytes = fs::read(&path).map_err(|source| Error::File { path, source })?;
    let name = file.rsplit('/').next().unwrap_or(file);
    match String::from_utf8(bytes) {
        Ok(text) if !FOREIGN.contains(&name) => Ok(look(file, &text)),
        // Pictures and lock files have no words of ours.
        Ok(_) | Err(_) => Ok(Vec::new()),
    }
}

fn look(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if Path::new(file)
        .extension()
        .is_some_and(|extension| extension == "rs")
    {
        findings.extend(look_at_rust(file, text));
    }
    for (number, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", number + 1);
        let banned = BANNED.iter().filter(|(word, _)| line.contains(word));
        findings.extend(banned.map(|(word, why)| Finding::new(&place, format!("{word} {why}"))));
        let notes = NOTES.iter().filter(|word| is_open_note(line, word));
        findings.extend(notes.map(|word| {
            Finding::new(
                &place,
                format!("{word} needs the number of an issue: {word}(#12)"),
            )
        }));
    }
    findings
}

fn look_at_rust(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//! ") {
        findings.push(Finding::new(file, "must begin with a //! header"));
    }
    let lines = text.lines().count();
    if lines > LINES {
        findings.push(Finding::new(
            file,
            format!("has {lines} lines, {LINES} are allowed"),
        ));
    }
    if file.ends_with("/mod.rs") {
        findings.push(Finding::new(file, "must be named after its module"));
    }
    findings
}

/// Whether `line` has the word on its own and no issue behind it.
fn is_open_note(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|head| head.chars().next_back());
        let after = line.get(at + word.len()..).unwrap_or_default();
        let joined = |character: char| character.is_alphanumeric() || character == '_';
        let whole = !before.is_some_and(joined) && !after.starts_with(joined);
        whole && !after.starts_with("(#")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(file: &str, text: &str) -> Vec<String> {
        look(file, text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_clean_file_has_no_findings() {
        assert_eq!(
            texts("src/a.rs", "//! Header.\n\nfn a() {}\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_source_without_a_header_is_found() {
        assert_eq!(
            texts("src/a.rs", "fn a() {}\n"),
            ["src/a.rs: must begin with a //! header"]
        );
    }

    #[test]
    fn a_source_of_601_lines_is_found_and_one_of_600_is_not() {
        let of = |lines: usize| format!("//! Header.\n{}", "\n".repeat(lines - 1));
        assert_eq!(texts("a.rs", &of(600)), Vec::<String>::new());
        assert_eq!(
            texts("a.rs", &of(601)),
            ["a.rs: has 601 lines, 600 are allowed"]
        );
    }

    #[test]
    fn a_mod_file_is_found() {
        assert_eq!(texts("a/mod.rs", "//! Header.\n").len(), 1);
    }

    #[test]
    fn a_note_without_an_issue_is_found_and_one_with_it_is_not() {
        let [note, _] = NOTES;
        assert_eq!(texts("a.md", &format!("{note} later")).len(), 1);
        assert_eq!(
            texts("a.md", &format!("{note}(#7) later")),
            Vec::<String>::new()
        );
        assert_eq!(
            texts("a.md", &format!("{note}S_OF_OTHERS")),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_folder_of_a_machine_is_found_with_its_line() {
        let [(word, _), ..] = BANNED;
        let found = texts("a.md", &format!("fine\nsee {word}main\n"));
        assert!(found[0].starts_with("a.md:2: "), "{found:?}");
    }
}

//! The thing that a command is about, as people write it: `npr/january`, `npt/january-0-n1`, `node/n1`.
//!
//! Owns the spelling. Must not ask the cluster.

use std::fmt;

/// A kind that commands know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    Run,
    Task,
    Node,
    Pending,
}

/// A kind and a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) thing: Thing,
    pub(crate) name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.thing.word(), self.name)
    }
}

impl Thing {
    fn word(self) -> &'static str {
        match self {
            Self::Run => "npr",
            Self::Task => "npt",
            Self::Node => "node",
            Self::Pending => "pn",
        }
    }
}

/// A target of a command that is about runs.
pub(crate) fn run(text: &str) -> Result<Target, String> {
    read(text, &[Thing::Run])
}

/// A target of a command that is about one node.
pub(crate) fn node(text: &str) -> Result<Target, String> {
    read(text, &[Thing::Node, Thing::Task])
}

/// A target of a command that is about anything.
pub(crate) fn any(text: &str) -> Result<Target, String> {
    read(
        text,
        &[Thing::Run, Thing::Task, Thing::Node, Thing::Pending],
    )
}

/// Reads a target and proposes only what the command takes. Another kind is read all the same: the command
/// knows better what to say of it.
fn read(text: &str, taken: &[Thing]) -> Result<Target, String> {
    let proposals = |name: &str| {
        let each = taken.iter().map(|thing| format!("{}/{name}", thing.word()));
        let each: Vec<String> = each.collect();
        match each.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            _ => each.concat(),
        }
    };
    if text.is_empty() {
        return Err(format!("it is empty; right would be {}", proposals("NAME")));
    }
    let Some((kind, name)) = text.split_once('/') else {
        return Err(format!(
            "it does not say what {text} is; right would be {}",
            proposals(text)
        ));
    };
    let word = kind.to_ascii_lowercase();
    let word = word.split('.').next().unwrap_or_default();
    let thing = match word {
        "npr" | "nodepatchrun" | "nodepatchruns" | "run" => Thing::Run,
        "npt" | "nodepatchtask" | "nodepatchtasks" | "task" => Thing::Task,
        "node" | "nodes" | "no" => Thing::Node,
        "pn" | "pendingnode" | "pendingnodes" => Thing::Pending,
        _ => {
            return Err(format!(
                "{kind} is not known here; right would be {}",
                proposals(name)
            ));
        }
    };
    if name.is_empty() {
        return Err(format!("{text} has no name; right would be {kind}/NAME"));
    }
    if name.contains('/') {
        return Err(format!(
            "{name} is no name; right would be {kind}/NAME, with the namespace in -n where there is one"
        ));
    }
    Ok(Target {
        thing,
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_named_as_kubectl_users_name_them() {
        for (text, thing) in [
            ("npr/a", Thing::Run),
            ("NodePatchRun/a", Thing::Run),
            ("nodepatchruns.shipshape.dev/a", Thing::Run),
            ("npt/a", Thing::Task),
            ("node/a", Thing::Node),
            ("pn/a", Thing::Pending),
            ("pendingnodes.shipshape.dev/a", Thing::Pending),
        ] {
            let target = any(text).unwrap();
            assert_eq!((target.thing, target.name.as_str()), (thing, "a"), "{text}");
        }
    }

    #[test]
    fn nonsense_is_answered_with_what_would_be_right() {
        for (text, right) in [
            ("january", "npr/january"),
            ("pod/web", "npr/web"),
            ("npr/", "npr/NAME"),
            ("npr/a/b", "npr/NAME"),
        ] {
            let words = any(text).unwrap_err();
            assert!(words.contains(right), "{text}: {words}");
        }
    }

    #[test]
    fn an_empty_word_and_a_name_in_parts_are_told_as_what_they_are() {
        for (text, told) in [
            ("", "it is empty; right would be npr/NAME, npt/NAME"),
            ("/", " is not known here"),
            (
                "npr/shop/a",
                "shop/a is no name; right would be npr/NAME, with the namespace in -n",
            ),
        ] {
            let words = any(text).unwrap_err();
            assert!(words.contains(told), "{text}: {words}");
        }
    }

    #[test]
    fn a_command_proposes_only_what_it_takes() {
        type Read = fn(&str) -> Result<Target, String>;
        let table: [(Read, &str); 3] = [
            (run, "right would be npr/january"),
            (node, "right would be node/january or npt/january"),
            (
                any,
                "right would be npr/january, npt/january, node/january or pn/january",
            ),
        ];
        for (read, expected) in table {
            for text in ["january", "pod/january"] {
                let words = read(text).unwrap_err();
                assert!(words.ends_with(expected), "{text}: {words}");
            }
        }
    }
}

//! The thing that a command is about, as people write it: `npr/january`, `npt/january-0-n1`, `node/n1`.
//!
//! Owns the spelling. Must not ask the cluster.

use std::fmt;
use std::str::FromStr;

/// A kind that commands know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    Run,
    Task,
    Node,
}

/// A kind and a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) thing: Thing,
    pub(crate) name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.thing {
            Thing::Run => "npr",
            Thing::Task => "npt",
            Thing::Node => "node",
        };
        write!(formatter, "{kind}/{}", self.name)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((kind, name)) = text.split_once('/') else {
            return Err(format!(
                "it does not say what {text} is: npr/{text}, npt/{text} or node/{text}"
            ));
        };
        let word = kind.to_ascii_lowercase();
        let word = word.split('.').next().unwrap_or_default();
        let thing = match word {
            "npr" | "nodepatchrun" | "nodepatchruns" | "run" => Thing::Run,
            "npt" | "nodepatchtask" | "nodepatchtasks" | "task" => Thing::Task,
            "node" | "nodes" | "no" => Thing::Node,
            _ => {
                return Err(format!(
                    "{kind} is not known here; right would be npr/{name}, npt/{name} or node/{name}"
                ));
            }
        };
        if name.is_empty() || name.contains('/') {
            return Err(format!("{text} has no name; right would be {kind}/NAME"));
        }
        Ok(Self {
            thing,
            name: name.to_owned(),
        })
    }
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
        ] {
            let target: Target = text.parse().unwrap();
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
            let words = text.parse::<Target>().unwrap_err();
            assert!(words.contains(right), "{text}: {words}");
        }
    }
}

//! Who is measured beside Shipshape, and why nobody is.
//!
//! Owns that choice. Must not start anything.

use anyhow::{Result, bail};

use super::Settings;
use crate::binaries::karpenter::Karpenter;

/// What the caller asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// Karpenter's drift; an error when it is not there.
    Karpenter,
    /// Nobody.
    None,
}

/// Who it will be.
#[derive(Debug)]
pub(super) enum Rival {
    Karpenter(Karpenter),
    /// Nobody, for this reason.
    Nobody(String),
}

impl Rival {
    /// What to say of a rival who is not there.
    pub(super) fn absence(&self) -> Option<&str> {
        match self {
            Self::Karpenter(_) => None,
            Self::Nobody(reason) => Some(reason),
        }
    }
}

/// Decides, from what was asked for and what is there.
pub(super) fn choose(settings: &Settings) -> Result<Rival> {
    let karpenter = Karpenter::locate()?;
    match verdict(settings.rival, karpenter.is_there(), settings.apart) {
        Verdict::Measured => Ok(Rival::Karpenter(karpenter)),
        Verdict::LeftOut(reason) => Ok(Rival::Nobody(reason.to_owned())),
        Verdict::Impossible(reason) => bail!("--rival karpenter: {reason}"),
    }
}

/// Whether it can be measured once the bench has gone into a network of its own.
pub(super) fn is_wanted(settings: &Settings) -> Result<bool> {
    let is_there = Karpenter::locate()?.is_there();
    let verdict = verdict(settings.rival, is_there, true);
    Ok(verdict == Verdict::Measured)
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Measured,
    LeftOut(&'static str),
    Impossible(&'static str),
}

fn verdict(choice: Option<Choice>, is_there: bool, is_apart: bool) -> Verdict {
    let obstacle = match (is_there, is_apart) {
        (false, _) => "it is not built; `cargo xtask testbed build --karpenter` builds it",
        (true, false) => {
            "it listens on every address of the machine and needs a network of its own; that takes \
             `unshare` of util-linux, `ip` of iproute2, and the right to use them"
        }
        (true, true) => "",
    };
    match choice {
        Some(Choice::None) => Verdict::LeftOut("--rival none leaves it out"),
        _ if obstacle.is_empty() => Verdict::Measured,
        Some(Choice::Karpenter) => Verdict::Impossible(obstacle),
        None => Verdict::LeftOut(obstacle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_measured_where_it_is_there_and_has_a_network_of_its_own() {
        for choice in [None, Some(Choice::Karpenter)] {
            assert_eq!(verdict(choice, true, true), Verdict::Measured);
        }
    }

    #[test]
    fn what_is_missing_is_an_error_only_to_who_asked_for_it() {
        for (is_there, is_apart, remedy) in [
            (false, true, "testbed build --karpenter"),
            (true, false, "unshare"),
        ] {
            let Verdict::LeftOut(silent) = verdict(None, is_there, is_apart) else {
                panic!("nobody asked for it");
            };
            assert!(silent.contains(remedy), "{silent}");
            let asked = verdict(Some(Choice::Karpenter), is_there, is_apart);
            assert_eq!(asked, Verdict::Impossible(silent));
        }
    }

    #[test]
    fn it_is_left_out_when_told_so() {
        let verdict = verdict(Some(Choice::None), true, true);
        assert_eq!(verdict, Verdict::LeftOut("--rival none leaves it out"));
    }
}

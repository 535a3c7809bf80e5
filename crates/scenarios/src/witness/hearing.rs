//! I23: what could not be read is unknown, and never "none".
//!
//! Owns what each process of the operator asked and last heard, and the check that nothing is made or
//! removed upon a question whose last answer did not come, or was not the truth. Must not ask whether
//! the decision was right: the other checks do. Whoever tells the facts says what an effect rests upon.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Hearing, Witness};

/// What each operator last heard, by its number and its question: in any pass, and in each.
#[derive(Debug, Default)]
pub(super) struct Heard {
    last: BTreeMap<(usize, String), bool>,
    in_pass: BTreeMap<(usize, u64, String), bool>,
}

impl Heard {
    fn take(&mut self, operator: usize, work: Option<u64>, question: String, heard: bool) {
        if let Some(work) = work {
            let key = (operator, work, question.clone());
            self.in_pass.insert(key, heard);
        }
        self.last.insert((operator, question), heard);
    }

    /// What was last heard before an act: in the same pass, because another may have met a silence of
    /// its own meanwhile; in any pass, if this one did not ask.
    fn before(&self, operator: usize, work: Option<u64>, question: &str) -> Option<bool> {
        let own = work.and_then(|work| self.in_pass.get(&(operator, work, question.to_owned())));
        let any = self.last.get(&(operator, question.to_owned()));
        own.or(any).copied()
    }

    fn forget(&mut self, operator: usize) {
        self.last.retain(|(who, _), _| *who != operator);
        self.in_pass.retain(|(who, _, _), _| *who != operator);
    }
}

impl Witness {
    pub(super) fn take_hearing(&mut self, at: Timestamp, operator: usize, hearing: Hearing) {
        match hearing {
            Hearing::Asked {
                work,
                question,
                heard,
            } => self.heard.take(operator, work, question, heard),
            // What the last process did not hear, the next one has not asked.
            Hearing::Restarted => self.heard.forget(operator),
            Hearing::Acted { work, effect, upon } => {
                for question in upon {
                    if self.heard.before(operator, work, &question) == Some(false) {
                        let text = format!("{effect} although {question:?} had no true answer");
                        self.violated("I23", at, text);
                    }
                }
            }
        }
    }
}

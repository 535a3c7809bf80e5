//! I23: what could not be read is unknown, and never "none".
//!
//! Owns what each process of the operator asked and last heard, and the check that nothing is made or
//! removed upon a question whose last answer did not come, or was not the truth. Must not ask whether
//! the decision was right: the other checks do. Whoever tells the facts says what an effect rests upon.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Hearing, Witness};

/// What each operator last heard, by its number and its question.
#[derive(Debug, Default)]
pub(super) struct Heard(BTreeMap<(usize, String), bool>);

impl Witness {
    pub(super) fn take_hearing(&mut self, at: Timestamp, operator: usize, hearing: Hearing) {
        match hearing {
            Hearing::Asked { question, heard } => {
                self.heard.0.insert((operator, question), heard);
            }
            // What the last process did not hear, the next one has not asked.
            Hearing::Restarted => self.heard.0.retain(|(who, _), _| *who != operator),
            Hearing::Acted { effect, upon } => self.check_hearing(at, operator, &effect, upon),
        }
    }

    fn check_hearing(&mut self, at: Timestamp, who: usize, effect: &str, upon: Vec<String>) {
        for question in upon {
            let key = (who, question);
            if self.heard.0.get(&key) == Some(&false) {
                let text = format!("{effect} although {:?} had no true answer", key.1);
                self.violated("I23", at, text);
            }
        }
    }
}

//! What a client asked and whether it heard a true answer, beside what it then did.
//!
//! Owns the order of both, as the client lived it. Must not judge: the witness of a story does.

use super::{Faults, State};

/// One thing in the life of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It asked for something, and the answer came or did not.
    Asked {
        /// In which piece of work: the id of the span that it asked in, if spans are recorded.
        work: Option<u64>,
        /// The question, for example `get nodes/a`, `list pods spec.nodeName=a` or `cloud machine m-1`.
        question: String,
        /// Whether it heard what is so. "Not found" is an answer; an error is none, nor is a list
        /// that the plan has taken something out of.
        heard: bool,
    },
    /// It sets out to change something.
    Acted {
        /// In which piece of work, like a question.
        work: Option<u64>,
        /// The effect, for example `delete nodes` or `cloud deleteMachine`.
        effect: String,
        /// What it is done to: `nodes/a`, or the id or token of a machine.
        object: String,
    },
    /// Another process has taken its place, which has heard nothing yet.
    Restarted,
}

impl Faults {
    /// Everything since the last call of this.
    pub fn told(&self) -> Vec<Told> {
        self.with(|state| std::mem::take(&mut state.told))
    }

    pub(super) fn heard(&self, question: Option<String>, heard: bool) {
        if let Some(question) = question {
            let work = work();
            let told = Told::Asked {
                work,
                question,
                heard,
            };
            self.with(|state| state.told.push(told));
        }
    }
}

impl State {
    pub(super) fn acts(&mut self, effect: &str, object: &str) {
        self.told.push(Told::Acted {
            work: work(),
            effect: effect.to_owned(),
            object: object.to_owned(),
        });
    }
}

fn work() -> Option<u64> {
    tracing::Span::current().id().map(|id| id.into_u64())
}

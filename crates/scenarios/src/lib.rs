//! Scenarios: a world, intents, events at times and expectations, played in virtual time.
//!
//! Owns the file format, the witness that checks invariants from outside, the report and the
//! timeline. Must not contain behaviour of the operator: it is started as it is. The same stories
//! run on the embedded cluster and, from the testbed, on a real control plane.

pub mod crash;
pub mod drawn;
pub mod observer;
pub mod pairs;
pub mod rehearsal;
pub mod repertoire;
pub mod report;
pub mod scenario;
pub mod stage;
pub mod story;
pub mod swarm;
pub mod timeline;
pub mod witness;
pub mod yaml;

pub use report::{Outcome, Report};
pub use scenario::Scenario;
pub use stage::Stage;
pub use story::{Troubles, play, play_alone, play_alone_through};

//! One module per kind, each pass in four calls: observe, decide, act, report.
//!
//! Owns the wiring between the cluster, the clouds and the engine. Must not decide (the engine does)
//! and must not keep state that a restart would lose. Entry: [`Operator`].

mod answer;
mod context;
mod drain;
mod error;
mod etcd;
mod evictions;
mod gate;
mod kept;
mod metered;
mod operator;
mod pending;
mod perform;
mod relics;
mod report;
mod run;
mod slots;
mod sweep;
mod task;
mod tuning;
mod vitals;
mod watches;

pub use etcd::EtcdAccess;
pub use gate::own::OwnChecks;
pub use operator::{Operator, Places, Providers};
pub use run::ask_dry_runs;
pub use tuning::{LiveTuning, Retune, Tuning};
pub use vitals::{Readiness, Vitals};

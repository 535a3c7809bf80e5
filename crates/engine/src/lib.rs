//! Every decision of Shipshape, as a function of a snapshot and a time.
//!
//! Nothing here does I/O, reads a clock, draws a random number or awaits. The same functions serve
//! the controllers, the command line and the simulator. A tour: [`snapshot`] is what goes in,
//! [`decision`] what comes out, [`run`], [`replace`], [`pending`] and [`verify`] are the entry
//! points, the rest serves them.

pub mod admit;
pub mod autoscaler;
pub mod closing;
pub mod condition;
pub mod decision;
pub mod drain;
pub mod etcd;
pub mod explain;
pub mod forecast;
pub mod labels;
pub mod ledger;
pub mod machine;
pub mod naming;
pub mod obstacles;
pub mod pending;
pub mod plan;
pub mod preflight;
pub mod quantity;
pub mod relic;
pub mod replace;
pub mod run;
pub mod selector;
pub mod settings;
pub mod snapshot;
pub mod span;
pub mod startup;
pub mod sweep;
pub mod syntax;
pub mod transfer;
pub mod verify;
pub mod view;
pub mod wish;

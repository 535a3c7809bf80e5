//! Every decision of Shipshape, as a function of a snapshot and a time.
//!
//! Nothing here does I/O, reads a clock, draws a random number or awaits. The same functions serve
//! the controllers, the command line and the simulator.

pub mod ledger;
pub mod machine;

//! The commands that people use, as processes, against an embedded API on loopback.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot be set up must fail"
)]

mod cluster;
mod controller;
mod demo;
mod gate;
mod orders;
mod plan;
mod rehearsal;
mod release;
mod views;

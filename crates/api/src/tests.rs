//! Rules that every kind obeys.

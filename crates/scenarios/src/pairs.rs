//! Many plays, a few at a time.
//!
//! Owns the order of the results. Plays do not notice each other: each has a runtime of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does the work for each, two at a time, and gives the results in their order.
pub fn in_pairs<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    side_by_side(all, 2, work)
}

/// Does the work for each like [`in_pairs`], and tells how many were begun, at each.
pub fn in_pairs_told<T: Sync, R: Send>(
    all: &[T],
    work: impl Fn(&T) -> R + Sync,
    on_begin: impl Fn(usize) + Sync,
) -> Vec<R> {
    let begun = AtomicUsize::new(0);
    in_pairs(all, |one| {
        on_begin(begun.fetch_add(1, Ordering::Relaxed) + 1);
        work(one)
    })
}

/// Does the work for each, so many at a time, and gives the results in their order.
pub fn side_by_side<T: Sync, R: Send>(
    all: &[T],
    at_a_time: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let waiting = Mutex::new(all.iter().enumerate());
    let done = Mutex::new(Vec::new());
    let lane = || {
        loop {
            let next = waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .next();
            let Some((place, one)) = next else { break };
            let result = work(one);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((place, result));
        }
    };
    std::thread::scope(|threads| {
        for _ in 1..at_a_time {
            threads.spawn(lane);
        }
        lane();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

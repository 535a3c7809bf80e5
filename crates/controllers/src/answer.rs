//! What a read came to: the thing, its absence, or no clear answer.
//!
//! Owns the step from a result to an [`Observed`]. An error never becomes absence.

use std::error::Error;

use shipshape_cluster::error::in_full;
use shipshape_engine::view::Observed;
use shipshape_provider::Error as CloudError;

/// A read that says itself whether the thing is there.
pub(crate) fn answer<T, E: Error + 'static>(result: Result<Option<T>, E>) -> Observed<T> {
    match result {
        Ok(found) => found.into(),
        Err(error) => Observed::Unknown(in_full(&error)),
    }
}

/// The cloud's "not found" is an answer; everything else that went wrong is not.
pub(crate) fn found<T>(result: Result<T, CloudError>) -> Observed<T> {
    match result {
        Ok(thing) => Observed::Present(thing),
        Err(CloudError::NotFound { .. }) => Observed::Absent,
        Err(error) => Observed::Unknown(in_full(&error)),
    }
}

//! Bounds on numbers.
//!
//! Owns minimum, maximum and multipleOf and their wording. Must not look at types. Called by `validate`.

use serde_json::{Number, Value};

use super::field_error::FieldError;
use super::node::Limits;

/// Adds an error for each bound that the number breaks.
pub(crate) fn check(limits: &Limits, number: &Number, path: &str, errors: &mut Vec<FieldError>) {
    let Some(value) = number.as_f64() else {
        return;
    };
    // The API server holds whole numbers against whole bounds.
    let bound = |limit: f64| {
        if number.is_f64() {
            limit
        } else {
            limit.trunc()
        }
    };
    let mut complain = |text: String| {
        let detail = format!("{path} in body should be {text}");
        errors.push(FieldError::invalid(
            path,
            &Value::Number(number.clone()),
            &detail,
        ));
    };
    if let Some(factor) = limits.multiple_of.map(bound) {
        let quotient = value / factor;
        if factor > 0.0 && quotient.fract() != 0.0 {
            complain(format!("a multiple of {factor}"));
        }
    }
    if let Some((min, exclusive)) = limits.minimum {
        let min = bound(min);
        if exclusive && value <= min {
            complain(format!("greater than {min}"));
        } else if !exclusive && value < min {
            complain(format!("greater than or equal to {min}"));
        }
    }
    if let Some((max, exclusive)) = limits.maximum {
        let max = bound(max);
        if exclusive && value >= max {
            complain(format!("less than {max}"));
        } else if !exclusive && value > max {
            complain(format!("less than or equal to {max}"));
        }
    }
}

//! Quantities in their one canonical form: `0.5` is `500m`, `1024Ki` is `1Mi`.
//!
//! Owns the form and the places where quantities stand; the units are those of `engine`.

use serde_json::{Map, Value};
use shipshape_engine::quantity::{BINARY, DECIMAL, Parts, Unit, parts};

/// Maps whose values are quantities.
const MAPS: &[&str] = &[
    "limits",
    "requests",
    "capacity",
    "allocatable",
    "overhead",
    "allocatedResources",
];
/// Fields that are quantities.
const FIELDS: &[&str] = &["sizeLimit", "divisor"];

/// A text that stands for an amount and is none.
pub(super) struct NoQuantity(pub(super) String);

/// Brings all quantities of an object into canonical form; numbers become text.
pub(super) fn canonicalize(value: &mut Value) -> Result<(), NoQuantity> {
    match value {
        Value::Object(map) => {
            for (name, member) in map.iter_mut() {
                match member {
                    Value::Object(inner) if MAPS.contains(&name.as_str()) => each(inner)?,
                    Value::String(_) | Value::Number(_) if FIELDS.contains(&name.as_str()) => {
                        one(member)?;
                    }
                    Value::Object(_) | Value::Array(_) => canonicalize(member)?,
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(canonicalize),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn each(map: &mut Map<String, Value>) -> Result<(), NoQuantity> {
    map.values_mut().try_for_each(one)
}

fn one(value: &mut Value) -> Result<(), NoQuantity> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return Ok(()),
    };
    *value = canonical(&text).ok_or(NoQuantity(text))?.into();
    Ok(())
}

/// The canonical form of a quantity; nothing when it is none.
pub(super) fn canonical(text: &str) -> Option<String> {
    let Parts {
        mantissa,
        places,
        unit,
    } = parts(text.trim())?;
    if mantissa == 0 {
        return Some("0".to_owned());
    }
    match unit {
        Unit::Binary(power) => binary(mantissa, places, power),
        Unit::Decimal(exponent) => Some(decimal_form(mantissa, exponent - places)),
        Unit::Exponent(exponent) => {
            let (mantissa, exponent) = thousands(mantissa, exponent - places)?;
            Some(match exponent {
                0 => mantissa.to_string(),
                _ => format!("{mantissa}e{exponent}"),
            })
        }
    }
}

fn binary(mantissa: i128, places: i32, power: u32) -> Option<String> {
    let scale = 10_i128.checked_pow(u32::try_from(places).ok()?)?;
    let bytes = mantissa.checked_mul(1024_i128.checked_pow(power)?)?;
    if bytes % scale != 0 {
        return Some(decimal_form(bytes.checked_mul(1000)?.div_euclid(scale), -3));
    }
    let mut value = bytes / scale;
    let mut unit = "";
    for next in BINARY {
        if value % 1024 != 0 {
            break;
        }
        value /= 1024;
        unit = next;
    }
    Some(format!("{value}{unit}"))
}

/// Moves zeros from the mantissa into the exponent, or back, until it is a multiple of three.
fn thousands(mut mantissa: i128, mut exponent: i32) -> Option<(i128, i32)> {
    while mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    while exponent % 3 != 0 {
        mantissa = mantissa.checked_mul(10)?;
        exponent -= 1;
    }
    Some((mantissa, exponent))
}

fn decimal_form(mantissa: i128, exponent: i32) -> String {
    let Some((mut mantissa, mut exponent)) = thousands(mantissa, exponent) else {
        return mantissa.to_string();
    };
    while exponent > 18 {
        mantissa = mantissa.saturating_mul(1000);
        exponent -= 3;
    }
    let unit = DECIMAL
        .iter()
        .find(|(_, e)| *e == exponent)
        .map_or("", |(unit, _)| *unit);
    format!("{mantissa}{unit}")
}

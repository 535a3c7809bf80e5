//! Amounts as Kubernetes writes them: `500m`, `64Mi`, `1e3`.
//!
//! Owns their units and how two of them compare. Called for settings, and by the embedded cluster, which brings them
//! into their canonical form.

/// Decimal units and their powers of ten.
pub const DECIMAL: &[(&str, i32)] = &[
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
/// Binary units, each 1024 times the one before.
pub const BINARY: &[&str] = &["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// What an amount is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Its digits, without their point.
    pub mantissa: i128,
    /// How many of them stand behind the point.
    pub places: i32,
    /// What it is multiplied with.
    pub unit: Unit,
}

/// What digits are multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A power of 1024.
    Binary(u32),
    /// A power of ten, by its letter.
    Decimal(i32),
    /// A power of ten, as a number.
    Exponent(i32),
}

/// Reads an amount; nothing when it is none.
pub fn parts(text: &str) -> Option<Parts> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mantissa = format!("{whole}{fraction}").parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    let unit = if let Some(power) = BINARY.iter().position(|unit| *unit == suffix) {
        Unit::Binary(u32::try_from(power).ok()? + 1)
    } else if let Some((_, exponent)) = DECIMAL.iter().find(|(unit, _)| *unit == suffix) {
        Unit::Decimal(*exponent)
    } else {
        Unit::Exponent(suffix.strip_prefix(['e', 'E'])?.parse().ok()?)
    };
    Some(Parts {
        mantissa,
        places,
        unit,
    })
}

/// The amount in billionths, which is as fine as the server keeps it; nothing when it is none, or too large.
pub fn billionths(text: &str) -> Option<i128> {
    let Parts {
        mantissa,
        places,
        unit,
    } = parts(text)?;
    let (factor, exponent) = match unit {
        Unit::Binary(power) => (1024_i128.checked_pow(power)?, 0),
        Unit::Decimal(exponent) | Unit::Exponent(exponent) => (1, exponent),
    };
    let amount = mantissa.checked_mul(factor)?;
    let power = exponent.checked_sub(places)?.checked_add(9)?;
    let scale = 10_i128.checked_pow(power.unsigned_abs())?;
    if power < 0 {
        Some(amount / scale)
    } else {
        amount.checked_mul(scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_compare_whatever_their_units() {
        for (one, other) in [
            ("1", "1000m"),
            ("0.5", "500m"),
            ("1Mi", "1024Ki"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("0", "0Mi"),
        ] {
            assert_eq!(billionths(one), billionths(other), "{one} {other}");
        }
        assert!(billionths("64Mi") < billionths("65Mi"));
        assert!(billionths("64M") < billionths("64Mi"));
        assert!(billionths("1Ei") > billionths("1E"));
    }

    #[test]
    fn other_words_are_no_amounts() {
        for text in [
            "", "lots", "1 Gi", "64MB", "1.2.3", "--1", "Mi", "1mi", "1ee3",
        ] {
            assert_eq!(billionths(text), None, "{text:?}");
        }
    }
}

//! String formats that the API server checks.
//!
//! Owns the meaning of `format`. Must not know about paths or messages. Called by `validate`.
//! Numeric formats (`int32`, `int64`) are not in the list: the API server does not check them.

use std::net::{Ipv4Addr, Ipv6Addr};

const CHECKED: [&str; 16] = [
    "date-time",
    "datetime",
    "date",
    "duration",
    "ipv4",
    "ipv6",
    "cidr",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "hostname",
    "email",
    "uri",
    "byte",
    "mac",
];

/// Whether values are held against this format.
pub(crate) fn is_checked(format: &str) -> bool {
    CHECKED.contains(&format)
}

/// Whether a text has the format; unknown formats accept everything.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "uri" => is_request_uri(text),
        "byte" => is_base64(text),
        "mac" => is_mac(text),
        _ => true,
    }
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some((date, time)) = lower.split_once('t') else {
        return false;
    };
    let clock = time.get(..8).unwrap_or_default();
    let rest = time.get(8..).unwrap_or_default();
    let offset_at = rest.find(['z', '+', '-']).unwrap_or(rest.len());
    let (fraction, offset) = rest.split_at_checked(offset_at).unwrap_or((rest, ""));
    is_date(date)
        && is_clock(clock)
        && (fraction.is_empty() || is_fraction(fraction))
        && (offset == "z" || is_offset(offset))
}

fn is_clock(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let within = |part: &str, limit: &str| is_digits(part, 2) && part <= limit;
    matches!(parts.as_slice(), [h, m, s] if within(h, "23") && within(m, "59") && within(s, "59"))
}

fn is_fraction(text: &str) -> bool {
    let digits = text.get(1..).unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

fn is_offset(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['+', '-']) else {
        return false;
    };
    matches!(rest.split_once(':'), Some((h, m)) if is_digits(h, 2) && is_digits(m, 2))
}

fn is_digits(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|b| b.is_ascii_digit())
}

/// Go's duration (`1h30m`, `1.5s`), or numbers with spelled-out units (`2 days`) anywhere in the text.
fn is_duration(text: &str) -> bool {
    is_go_duration(text) || has_spelled_duration(text)
}

/// Whether Go's parser takes this duration.
pub(crate) fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let number_len = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(number_len).unwrap_or((rest, ""));
        let has_digit = number.bytes().any(|b| b.is_ascii_digit());
        if !has_digit || number.matches('.').count() > 1 {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let Some(after) = units.iter().find_map(|unit| after.strip_prefix(unit)) else {
            return false;
        };
        rest = after;
        parts += 1;
    }
    parts > 0
}

fn has_spelled_duration(text: &str) -> bool {
    const EXACT: [&str; 13] = [
        "ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "sec", "min",
    ];
    const STEMS: [&str; 8] = [
        "nano", "micro", "milli", "sec", "min", "hour", "day", "week",
    ];
    let digits_end = |text: &str| text.find(|c: char| !c.is_ascii_digit());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let tail = rest.get(start..).unwrap_or_default();
        let Some(end) = digits_end(tail) else {
            return false;
        };
        let after = tail.get(end..).unwrap_or_default().trim_start();
        let unit_len = after
            .find(|c: char| !c.is_ascii_alphabetic() && c != 'µ')
            .unwrap_or(after.len());
        let unit = after.get(..unit_len).unwrap_or_default().to_lowercase();
        if EXACT.contains(&unit.as_str()) || STEMS.iter().any(|stem| unit.starts_with(stem)) {
            return true;
        }
        rest = after;
    }
    false
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let limit = if address.parse::<Ipv4Addr>().is_ok() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    length.parse::<u8>().is_ok_and(|length| length <= limit)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    hex.len() == 32
        && text.matches('-').count() <= 4
        && hex.chars().all(|c| c.is_ascii_hexdigit())
        && version.is_none_or(|version| hex.chars().nth(12) == Some(version))
}

fn is_hostname(text: &str) -> bool {
    let label_is_fine = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    let last_is_fine = text
        .rsplit_once('.')
        .is_none_or(|(_, last)| last.chars().count() >= 2 && last.chars().all(char::is_alphabetic));
    text.len() <= 255 && last_is_fine && text.split('.').all(label_is_fine)
}

fn is_email(text: &str) -> bool {
    let address = match (text.find('<'), text.strip_suffix('>')) {
        (Some(start), Some(inner)) => inner.get(start + 1..).unwrap_or_default(),
        _ => text,
    };
    matches!(address.rsplit_once('@'), Some((user, host)) if !user.is_empty()
        && !host.is_empty()
        && !address.contains(char::is_whitespace))
}

fn is_request_uri(text: &str) -> bool {
    let has_scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    (text.starts_with('/') || has_scheme) && !text.contains(|c: char| c == ' ' || c.is_control())
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '+' || c == '/')
}

fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let parts: Vec<&str> = text.split(separator).collect();
    [6, 8, 20].contains(&parts.len())
        && parts
            .iter()
            .all(|part| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit()))
}

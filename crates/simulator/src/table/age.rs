//! Times as people read them: `5m`, `2d3h`.
//!
//! Owns the shortening of durations. Must not read a clock. Called for every age in a table.

use jiff::Timestamp;
use serde_json::Value;

/// The time from `since` to `now`, short.
pub fn since(since: Timestamp, now: Timestamp) -> String {
    human(now.duration_since(since).as_secs())
}

/// The age of a time given as JSON text, `<unknown>` when there is none.
pub(crate) fn since_text(since_text: Option<&Value>, now: Timestamp) -> String {
    let parsed = since_text
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<Timestamp>().ok());
    parsed.map_or_else(|| "<unknown>".to_owned(), |time| since(time, now))
}

/// Seconds with two or three significant figures.
pub fn human(seconds: i64) -> String {
    // Clocks of two machines may differ by a second; more than that is an error worth showing.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let minutes = seconds / 60;
    let hours = minutes / 60;
    let days = hours / 24;
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => pair(days, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => pair(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

fn pair(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

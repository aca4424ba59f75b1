//! Numbers in a form for people.

/// A size in bytes, in a suitable unit.
pub fn bytes(count: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, size)| count >= *size) {
        Some((name, size)) => format!("{:.1} {name}", count as f64 / size as f64),
        None => format!("{count} B"),
    }
}

/// A number with its thousands separated.
pub fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// A duration in seconds, in a suitable unit, with at least two digits.
pub fn duration(seconds: f64) -> String {
    let units = [("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)];
    let (name, unit) = units.into_iter().find(|(_, unit)| seconds >= *unit).unwrap_or(("µs", 1e-6));
    match (seconds / unit * 10.0).round() / 10.0 {
        value if value >= 10.0 || value.fract() == 0.0 => format!("{value:.0} {name}"),
        value => format!("{value:.1} {name}"),
    }
}

/// An age in seconds, as its two largest units.
pub fn age(seconds: f64) -> String {
    let minutes = seconds as u64 / 60;
    match (minutes / (24 * 60), minutes / 60 % 24, minutes % 60) {
        (0, 0, 0) => format!("{seconds:.0} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_legible() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(5 << 30), "5.0 GiB");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        for (seconds, text) in [(0.0, "0 µs"), (0.00004, "40 µs"), (0.00256, "2.6 ms"), (0.64, "640 ms"), (2.0, "2 s")]
        {
            assert_eq!(duration(seconds), text);
        }
        for (seconds, text) in [(59.0, "59 s"), (60.0, "1 min"), (3725.0, "1 h 2 min"), (90_000.0, "1 d 1 h")] {
            assert_eq!(age(seconds), text);
        }
    }
}

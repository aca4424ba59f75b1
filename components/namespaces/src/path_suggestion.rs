//! Suggestions of a free path when a path is taken.

use jiff::tz::Offset;
use kit::Timestamp;

/// The path for a text that has no character allowed in paths.
const BLANK: &str = "blank";

/// How many small numbers are tried as suffixes before large ones.
const SMALL_NUMBERS: u64 = 4;

/// Suffixes that are forbidden in paths.
const FORBIDDEN_SUFFIXES: [&str; 3] = [".git", ".atom", "."];

/// Makes a path of `text`. Removes `@` and all text after it, every character except ASCII letters, digits, `_`, `-`
/// and `.`, the [`FORBIDDEN_SUFFIXES`], and leading dashes.
pub fn clean(text: &str) -> String {
    let before = text.split('@').next().unwrap_or_default();
    let kept = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.');
    let kept: String = before.chars().filter(kept).collect();
    let mut path = kept.as_str();
    while let Some(shorter) = FORBIDDEN_SUFFIXES.iter().find_map(|suffix| path.strip_suffix(suffix)) {
        path = shorter;
    }
    let path = path.trim_start_matches('-');
    if path.is_empty() { BLANK.to_owned() } else { path.to_owned() }
}

/// The candidates for a base, in order: the base alone, then the base with a number. The numbers are 1 to 4, then one
/// derived from the time, then the following numbers.
pub fn candidates(base: &str, now: Timestamp) -> impl Iterator<Item = String> {
    let small = (1..=SMALL_NUMBERS).map(|number| number.to_string());
    let first = time_suffix(now);
    let large = (0..).map(move |more: u64| first.saturating_add(more).to_string());
    std::iter::once(String::new()).chain(small).chain(large).map(move |suffix| format!("{base}{suffix}"))
}

/// Milliseconds (3 digits), minute (2) and ISO week (2), as one number.
fn time_suffix(now: Timestamp) -> u64 {
    let moment = jiff::Timestamp::from_millisecond(now.millis()).unwrap_or_default();
    let civil = Offset::UTC.to_datetime(moment);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    let week = part(civil.date().iso_week_date().week().into());
    (part(civil.millisecond().into()) * 100 + part(civil.minute().into())) * 100 + week
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_a_path() {
        for (text, path) in [
            ("acme", "acme"),
            ("NAMESPACE-1", "NAMESPACE-1"),
            ("mia@example.com", "mia"),
            ("a b/ä!c", "abc"),
            ("--a-", "a-"),
            ("a.git", "a"),
            ("a.atom.git..", "a"),
            ("a.GIT", "a.GIT"),
            (".git", "blank"),
            ("@", "blank"),
            ("---", "blank"),
            ("", "blank"),
            ("_.x_", "_.x_"),
            (".a", ".a"),
        ] {
            assert_eq!(clean(text), path, "{text}");
        }
    }

    #[test]
    fn candidates_count_to_four_and_go_on_from_the_time() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let after = |now, base: &str| candidates(base, now).take(7).collect::<Vec<_>>();
        let expected = ["x", "x1", "x2", "x3", "x4", "x38", "x39"];
        assert_eq!(after(at("2026-09-17T10:00:00.000Z"), "x"), expected, "leading zeros are no part of it");
        assert_eq!(after(at("2026-09-17T10:07:03.021Z"), "y").get(5).unwrap(), "y210738");
        let expected = "z9995953";
        assert_eq!(after(at("2027-01-01T00:59:59.999Z"), "z").get(5).unwrap(), expected, "week 53 of the year before");
        assert_eq!(after(at("2026-01-05T00:00:00Z"), "w").get(5).unwrap(), "w2");
    }
}

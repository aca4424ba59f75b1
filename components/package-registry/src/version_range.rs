//! Recognises texts that clients read as a version or a range, and not as a tag. For `name@text`, clients ask for the
//! tag `text` only if node-semver's loose `validRange` finds no range. This module follows node-semver 7.8
//! (<https://github.com/npm/node-semver#range-grammar>): it skips an unreadable comparator if another comparator of the
//! text is readable.

/// The highest number of a version that JavaScript holds exactly. With a higher number the whole text is no range.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// Signs before a version, longer signs first.
const SIGNS: [&str; 8] = ["<=", ">=", "~>", "<", ">", "=", "~", "^"];

/// Whether clients read the text as a version or a range, so that it cannot name a tag.
pub fn is_range(text: &str) -> bool {
    let alternatives: Result<Vec<bool>, NumberTooHigh> = text.split("||").map(is_alternative).collect();
    alternatives.is_ok_and(|are_ranges| are_ranges.contains(&true))
}

/// A number above [`MAX_NUMBER`] in a text that is otherwise a version.
struct NumberTooHigh;

/// Whether a text is a range: `>=1.2 <2`, `^1`, `1 - 2`, or nothing, which is any version.
fn is_alternative(text: &str) -> Result<bool, NumberTooHigh> {
    let text = without_build(text.trim_matches(is_space));
    if is_between(&text)? {
        return Ok(true);
    }
    let mut is_range = false;
    for comparator in joined_signs(&text).split(is_space) {
        let signed = SIGNS.into_iter().find_map(|sign| Some((sign, comparator.strip_prefix(sign)?)));
        let (sign, version) = signed.unwrap_or(("", comparator));
        is_range |= match Partial::parse(version)? {
            Some(version) => matches!(sign, "~" | "~>" | "^") || version.is_in_order,
            None => comparator.is_empty() || is_version_with_star(comparator)?,
        };
    }
    Ok(is_range)
}

/// Whether a comparator is a whole version with a `*`, such as `1.2.3-*`. node-semver removes the `*` and the signs
/// before it.
fn is_version_with_star(comparator: &str) -> Result<bool, NumberTooHigh> {
    let Some((before, after)) = comparator.split_once('*') else { return Ok(false) };
    let before = before.strip_suffix('=').unwrap_or(before);
    let before = before.strip_suffix(['<', '>']).unwrap_or(before);
    let without = [before, after].concat();
    // Without the `*`, a part can have become build metadata.
    let without = without_build(&without);
    let version = ["<=", ">=", "<", ">"].into_iter().find_map(|sign| without.strip_prefix(sign)).unwrap_or(&without);
    if version.split('.').count() < 3 {
        return Ok(without.is_empty());
    }
    Ok(Partial::parse(version)?.is_some_and(|version| version.is_whole))
}

/// The text without the spaces between a sign and its version. Before a space, `~>` becomes `~`. Spaces stay after an
/// `=` that is not part of a sign, as in `>==` and `v=`.
fn joined_signs(text: &str) -> String {
    let mut joined = String::new();
    let mut rest = text;
    while let Some(space) = rest.find(is_space) {
        let (word, others) = rest.split_at(space);
        joined.push_str(word);
        rest = others.trim_start_matches(is_space);
        if joined.ends_with("~>") {
            joined.pop();
        }
        let is_joined = joined.ends_with(['~', '^'])
            || joined.ends_with(['<', '>', '='])
                && !["==", "v="].iter().any(|end| joined.ends_with(end))
                && rest.starts_with(|c: char| c.is_ascii_digit() || "xX*v=".contains(c));
        if !is_joined {
            joined.push(' ');
        }
    }
    joined + rest
}

/// Whether a text is two versions with a spaced hyphen between them: `1.2 - 2`.
fn is_between(text: &str) -> Result<bool, NumberTooHigh> {
    for (hyphen, _) in text.match_indices('-') {
        let (low, rest) = text.split_at(hyphen);
        let high = rest.strip_prefix('-').unwrap_or_default();
        if low.ends_with(is_space) && high.starts_with(is_space) {
            let low = Partial::parse(low.trim_end_matches(is_space))?;
            return Ok(low.is_some() && Partial::parse(high.trim_start_matches(is_space))?.is_some());
        }
    }
    Ok(false)
}

/// The text without build metadata, which is no part of a range: `+` and the identifiers after it.
fn without_build(text: &str) -> String {
    let mut parts = text.split('+');
    let mut stripped = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !is_identifier(c) && c != '.').unwrap_or(part.len());
        let (build, _) = part.split_at(end);
        // A dot belongs to it only between two identifiers.
        let valid =
            build.split('.').take_while(|identifier| !identifier.is_empty()).map(|identifier| identifier.len() + 1);
        match valid.sum::<usize>().checked_sub(1) {
            Some(length) => stripped.push_str(part.split_at(length).1),
            None => stripped.extend(["+", part]),
        }
    }
    stripped
}

/// A version whose last numbers may be missing, and whose numbers may be `x`.
struct Partial {
    /// False if a number follows an `x`, as in `1.x.3`.
    is_in_order: bool,
    /// Whether it has three numbers.
    is_whole: bool,
}

impl Partial {
    /// `v1`, `=1.2`, `1.2.x`, `01.2.3beta`; `None` for anything else.
    fn parse(text: &str) -> Result<Option<Self>, NumberTooHigh> {
        let mut rest = text.trim_start_matches(|c| matches!(c, 'v' | '=') || is_space(c));
        let mut has_x = false;
        let mut is_in_order = true;
        let mut is_too_high = false;
        let mut numbers = 0;
        for position in 0.. {
            let digits = number_length(rest, position == 2);
            let (part, others) = match rest.strip_prefix(['x', 'X', '*']) {
                Some(others) => ("x", others),
                None => rest.split_at(digits),
            };
            match part.parse::<u64>() {
                _ if part.is_empty() => return Ok(None),
                _ if part == "x" => has_x = true,
                _ if has_x => is_in_order = false,
                number => {
                    numbers += 1;
                    is_too_high |= number.map_or(true, |number| number > MAX_NUMBER);
                }
            }
            rest = others;
            match rest.strip_prefix('.') {
                Some(others) if position < 2 => rest = others,
                _ if rest.is_empty() => break,
                _ if position == 2 && is_prerelease(rest) => break,
                _ => return Ok(None),
            }
        }
        if is_too_high { Err(NumberTooHigh) } else { Ok(Some(Partial { is_in_order, is_whole: numbers == 3 })) }
    }
}

/// How many leading digits form a number. The last digit of the third number can begin a prerelease: `1.0.12.beta` is
/// 1.0.1-2.beta.
fn number_length(text: &str, is_third: bool) -> usize {
    let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (_, after) = text.split_at(length);
    let (shorter, prerelease) = text.split_at(length.saturating_sub(1));
    let begins_prerelease = || !after.is_empty() && !is_prerelease(after) && is_prerelease(prerelease);
    if is_third && !shorter.is_empty() && begins_prerelease() { length - 1 } else { length }
}

/// `-rc.1`, or without the hyphen.
fn is_prerelease(text: &str) -> bool {
    let is_list = |text: &str| text.split('.').all(|part| !part.is_empty() && part.chars().all(is_identifier));
    is_list(text) || text.strip_prefix('-').is_some_and(is_list)
}

fn is_identifier(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

/// Whether JavaScript's `trim` removes the character.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() && c != '\u{85}' || c == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As node-semver 7.8 answers.
    #[test]
    fn versions_and_ranges_are_known() {
        for text in [
            "1",
            "1.2",
            "1.2.3",
            "v1",
            "=1.2.3",
            "v1.2.3-rc.1+b",
            "x",
            "X",
            "*",
            "1.x",
            "1.*.x",
            "^1",
            "~1.2",
            "~>1",
            "~ > 1",
            ">=1",
            ">= 1.2 <2",
            "<2.0.0-0",
            "1 - 2",
            "1.0 - 2.x",
            "1||2",
            " 1 || ^2.3 ",
            "||",
            "",
            " ",
            "20261122",
            "2024.01.01",
            "01.2.3",
            "1.2.3beta",
            "1.2.3-",
            "1.2.3-01",
            "1.2.x-beta",
            "1.2+b",
            "~1.2.3beta",
            "^1.x.3",
            "a||1",
            "1 || beta",
            "stable 1",
            "\u{feff}1",
            "9007199254740991.0.0",
            "x.99999999999999999999 1",
            "2024.11.23.1",
            "1.0.12.beta",
            "1.2.31.x",
            "1.2.x3.4",
            "1.2.90071992547409910.b",
            "1.2.3-*",
            "1.2.3*",
            ">=1.2.3-*",
            ">*1.2.3",
            "~> >1",
            "av= 1",
            "a>== 1",
            "1.2.31.2+*2",
            "1.2.3+*2",
            "1 99999999999999999999*",
        ] {
            assert!(is_range(text), "{text:?}");
        }
    }

    /// As node-semver 7.8 answers.
    #[test]
    fn tags_are_known() {
        for text in [
            "latest",
            "beta",
            "next",
            "v",
            "rc.1",
            "1.2.3.4",
            "1-beta",
            "1.2-rc",
            "release-1.x",
            "2026-11-22",
            "x1",
            "^beta",
            "^>1",
            "feat/x",
            "v1.",
            "1..2",
            ">",
            "x.1",
            "1.x.3",
            "20261122224359123",
            "99999999999999999999 || 1",
            "9007199254740992.0.0",
            "1.2.34.",
            "1.2.34..5",
            "12.3.4.5",
            "1.2.99999999999999999.b",
            "~1.2.3-*",
            "1.2-*",
            "1.2.3-**",
        ] {
            assert!(!is_range(text), "{text:?}");
        }
    }
}

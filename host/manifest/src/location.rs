//! Where the parts of a manifest are: the lines of its problems.

use toml::Spanned;
use toml::de::DeValue;

/// The parts of a document.
pub struct Locations<'a> {
    text: &'a str,
    document: &'a DeValue<'a>,
}

impl<'a> Locations<'a> {
    pub fn new(text: &'a str, document: &'a Spanned<DeValue<'a>>) -> Self {
        Self { text, document: document.get_ref() }
    }

    /// A problem of the table at `path`, with the line of the key that begins `reason`.
    pub fn in_table(&self, path: &[&str], reason: &str) -> String {
        format!("line {}, [{}]: {reason}", self.line(path, reason), path.join("."))
    }

    /// A problem of the value at `path`. `reason` names the value.
    pub fn at(&self, path: &[&str], reason: &str) -> String {
        format!("line {}: {reason}", self.line(path, ""))
    }

    /// The line of the value at `path`, or of a key in it that begins `reason`. If a part of `path` is missing, the
    /// line of the part before it.
    fn line(&self, path: &[&str], mut reason: &str) -> usize {
        let (mut start, mut value) = (0, self.document);
        for part in path {
            let Some(part) = part_of(value, part) else { return line(self.text, start) };
            (start, value) = part;
        }
        while let Some((named, rest)) = named_part(value, reason) {
            ((start, value), reason) = (named, rest);
        }
        line(self.text, start)
    }
}

/// The beginning of a part, in bytes, and the part.
type Part<'a> = (usize, &'a DeValue<'a>);

/// The value of a key, or the entry of a list by its index.
fn part_of<'a>(value: &'a DeValue<'a>, part: &str) -> Option<Part<'a>> {
    match value {
        DeValue::Table(table) => table.get_key_value(part).map(|(key, value)| (key.span().start, value.get_ref())),
        DeValue::Array(list) => {
            list.get(part.parse::<usize>().ok()?).map(|entry| (entry.span().start, entry.get_ref()))
        }
        _ => None,
    }
}

/// The value of the key that begins `reason`, and the rest of `reason`.
fn named_part<'a, 'r>(value: &'a DeValue<'a>, reason: &'r str) -> Option<(Part<'a>, &'r str)> {
    let DeValue::Table(table) = value else { return None };
    let reason = reason.trim_start_matches(['`', '.']);
    table.iter().find_map(|(key, value)| {
        let rest = reason.strip_prefix(&*shown(key.get_ref())).filter(|rest| !rest.starts_with(is_bare))?;
        Some(((key.span().start, value.get_ref()), rest))
    })
}

/// The number of the line that has the byte at `start`.
pub fn line(text: &str, start: usize) -> usize {
    text.get(..start).unwrap_or_default().split('\n').count()
}

/// A key as in TOML.
pub fn shown(key: &str) -> String {
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { format!("{key:?}") }
}

/// Whether a key without quotes may have this character.
fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

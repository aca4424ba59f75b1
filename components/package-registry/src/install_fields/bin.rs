//! `bin` in npm's normal form: an object of command names and relative paths.

use serde_json::Value;
use std::collections::BTreeMap;

/// The commands, by name. `package` is the package's name without its scope, which names the command of a single path.
pub fn map(bin: &Value, package: &str) -> BTreeMap<String, String> {
    let command = |name: &str, target: &Value| {
        let (name, target) = (last(&path(name)).to_owned(), path(target.as_str()?));
        (is_possible(&name) && !target.is_empty()).then_some((name, target))
    };
    match bin {
        Value::String(_) => command(package, bin).into_iter().collect(),
        Value::Array(targets) => targets.iter().filter_map(|target| command(last(target.as_str()?), target)).collect(),
        Value::Object(commands) => commands.iter().filter_map(|(name, target)| command(name, target)).collect(),
        _ => BTreeMap::new(),
    }
}

/// A command that an object has twice, with different paths. The order and the client decide which path counts.
pub fn ambiguous(bin: &Value) -> Option<String> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let commands = bin.as_object().into_iter().flatten();
    for (name, target) in commands.filter_map(|(name, target)| Some((last(&path(name)).to_owned(), target.as_str()?))) {
        let target = path(target);
        if is_possible(&name) && seen.get(&name).is_some_and(|other| *other != target) {
            return Some(name);
        }
        seen.insert(name, target);
    }
    None
}

/// Whether clients install a command of this name. In npm, setting `__proto__` adds no member to an object.
fn is_possible(name: &str) -> bool {
    !name.is_empty() && name != "__proto__"
}

/// Whether both are lists of the same paths.
pub fn are_same_list(one: &Value, other: &Value) -> bool {
    let paths = |list: &Value| -> Option<Vec<String>> {
        list.as_array()?.iter().map(|item| Some(path(item.as_str()?))).collect()
    };
    paths(one).is_some_and(|ours| paths(other).is_some_and(|theirs| ours == theirs))
}

/// A path relative to the package's folder, without `.` and `..`.
pub fn path(text: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split(['/', '\\', ':']) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    segments.join("/")
}

/// Whether every path in the value stays inside the package.
pub fn stays_inside(value: &Value) -> bool {
    let is_inside = |text: &str| {
        !text.starts_with(['/', '\\']) && !text.contains(':') && !text.split(['/', '\\']).any(|part| part == "..")
    };
    match value {
        Value::String(text) => is_inside(text),
        Value::Array(items) => items.iter().all(stays_inside),
        Value::Object(fields) => fields.iter().all(|(name, value)| is_inside(name) && stays_inside(value)),
        _ => true,
    }
}

/// Whether every client keeps a command: its name has usual characters only, and its path stays in the package.
pub fn is_plain(name: &str, path: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.bytes().all(is_usual) && !path.starts_with(['/', '\\']) && !path.split(['/', '\\']).any(|part| part == "..")
}

fn last(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;

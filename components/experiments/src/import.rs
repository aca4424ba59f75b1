//! The records of an import: one JSON object a line, a definition or a whole experiment as it is
//! listed.

use crate::definition::{Definition, TYPE};
use crate::store::Change;
use serde::{Deserialize, Serialize};

/// How many bad lines an answer tells about.
const MAX_ERRORS: usize = 100;

/// The longest name, in bytes, as of a feature.
const MAX_NAME: usize = 255;

/// What became of the lines.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Report {
    pub imported: Imported,
    failed: u64,
    errors: Vec<LineReport>,
}

/// How many of each kind were applied.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Imported {
    #[serde(skip_serializing_if = "is_zero")]
    pub experiment: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Debug, PartialEq, Serialize)]
struct LineReport {
    /// From 1, blank lines counted.
    line: u64,
    error: String,
}

#[derive(Deserialize)]
struct Line {
    kind: String,
    #[serde(default)]
    deleted: bool,
    definition: Option<Fields>,
    #[serde(flatten)]
    fields: Fields,
}

#[derive(Deserialize, Default)]
struct Fields {
    name: Option<String>,
    introduced_by_url: Option<String>,
    rollout_issue_url: Option<String>,
    milestone: Option<String>,
    #[serde(rename = "type")]
    of_type: Option<String>,
    group: Option<String>,
    #[serde(default)]
    default_enabled: bool,
}

/// Reads the lines of a body; those that are no experiments are told of.
pub fn read(body: &[u8]) -> (Vec<Change>, Report) {
    let mut report = Report::default();
    let mut changes = Vec::new();
    for (line, number) in body.split(|byte| *byte == b'\n').zip(1..) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match change(line) {
            Ok(change) => {
                changes.push(change);
                report.imported.experiment += 1;
            }
            Err(error) => {
                report.failed += 1;
                if report.errors.len() < MAX_ERRORS {
                    report.errors.push(LineReport { line: number, error });
                }
            }
        }
    }
    (changes, report)
}

fn change(line: &[u8]) -> Result<Change, String> {
    // An array would also do as a struct's fields in order.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err("the line is not a JSON object".into());
    }
    let Line { kind, deleted, definition, fields } = serde_json::from_slice(line).map_err(|why| why.to_string())?;
    if kind != "experiment" {
        return Err(format!("kind `{kind}` is not experiment"));
    }
    let fields = definition.unwrap_or(fields);
    let name = fields.name.ok_or("name is missing")?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/');
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_name) {
        return Err("name has characters that no feature's name has, or is too long".into());
    }
    if deleted {
        return Ok(Change::Forget(name));
    }
    if let Some(other) = fields.of_type.filter(|of_type| of_type != TYPE) {
        return Err(format!("type `{other}` is not {TYPE}"));
    }
    if fields.default_enabled {
        return Err("default_enabled of an experiment is always false".into());
    }
    Ok(Change::Save(Definition {
        name,
        introduced_by_url: fields.introduced_by_url,
        rollout_issue_url: fields.rollout_issue_url,
        milestone: fields.milestone,
        group: fields.group,
    }))
}

//! The lines of an import: each is a definition, or an experiment as `GET /experiments` lists it.

use crate::definition::{Definition, TYPE};
use crate::store::Change;
use kit::body::BodyError;
use kit::ndjson::{self, ImportReport, LineReader};
use serde::Deserialize;

const KIND: &str = "experiment";

/// The longest name, in bytes, as for features.
const MAX_NAME: usize = 255;

#[derive(Deserialize)]
struct ImportLine {
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

/// The changes that a body contains, and a report that names the bad lines.
pub async fn read(body: Vec<u8>) -> Result<(Vec<Change>, ImportReport), BodyError> {
    let mut report = ImportReport::default();
    let mut changes = Vec::new();
    let max_line = body.len();
    let mut lines = LineReader::new(body.into(), max_line);
    while let Some(line) = lines.next().await? {
        let change = line.text.map_err(|too_long| too_long.to_string()).and_then(|text| parse(&text));
        match change {
            Ok(change) => {
                changes.push(change);
                report.imported(KIND);
            }
            Err(error) => report.failed(line.number, error),
        }
    }
    Ok((changes, report))
}

fn parse(line: &[u8]) -> Result<Change, String> {
    // serde would accept an array, too, as the fields of a struct in order.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err("the line is not a JSON object".into());
    }
    let ImportLine { kind, deleted, definition, fields } =
        serde_json::from_slice(line).map_err(|why| ndjson::json_error(&why))?;
    if kind != KIND {
        return Err(format!("kind `{kind}` is not {KIND}"));
    }
    let fields = definition.unwrap_or(fields);
    let name = fields.name.ok_or("name is missing")?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/');
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_allowed) {
        return Err("name has characters that no feature's name has, or is too long".into());
    }
    if deleted {
        return Ok(Change::Delete(name));
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

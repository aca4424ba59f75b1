//! Merge requests in the shape of the reference service's own entity, one JSON object a line with
//! `"kind":"merge_request"`. Fields that are not known are ignored, so that whole entities can be
//! sent; `"deleted":true` forgets one.

use crate::merge_request::{MergeRequest, State};
use crate::store;
use kit::store::Fault;
use kit::{Body, Env, Error};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

const KIND: &str = "merge_request";

/// The longest line, in bytes: what bounds the memory of an import of any size.
const MAX_LINE: usize = 4 << 20;

/// How many bad lines an answer tells about, and how long it tells about each, in characters.
const MAX_ERRORS: usize = 100;
const MAX_TEXT: usize = 300;

/// What became of the lines.
#[derive(Default, Serialize)]
pub struct Report {
    imported: BTreeMap<&'static str, u64>,
    failed: u64,
    /// The first bad lines.
    errors: Vec<BadLine>,
}

#[derive(Serialize)]
struct BadLine {
    /// From 1, blank lines counted.
    line: u64,
    error: String,
}

/// Applies every line of `body`. A bad line changes nothing, and the others are applied.
pub async fn run(env: &Env, mut body: Body) -> Result<Report, Error> {
    let mut report = Report::default();
    let (mut line, mut number, mut too_long) = (Vec::new(), 0, false);
    loop {
        let chunk = body.next().await.transpose()?;
        let is_last = chunk.is_none();
        let chunk = chunk.unwrap_or_default();
        let mut parts = chunk.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            too_long |= line.len() + part.len() > MAX_LINE;
            if too_long {
                line.clear();
            } else {
                line.extend_from_slice(part);
            }
            if parts.peek().is_some() || is_last {
                number += 1;
                let outcome = match too_long {
                    true => Ok(Err(format!("the line is longer than {MAX_LINE} bytes"))),
                    false => apply(env, &line),
                };
                report.count(number, outcome?);
                line.clear();
                too_long = false;
            }
        }
        if is_last {
            return Ok(report);
        }
    }
}

impl Report {
    fn count(&mut self, line: u64, outcome: Result<bool, String>) {
        match outcome {
            Ok(false) => {}
            Ok(true) => *self.imported.entry(KIND).or_default() += 1,
            Err(error) => {
                self.failed += 1;
                if self.errors.len() < MAX_ERRORS {
                    self.errors.push(BadLine { line, error: error.chars().take(MAX_TEXT).collect() });
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    iid: NonZeroU64,
    /// Of the project that it is merged into; the two names mean the same.
    project_id: Option<NonZeroU64>,
    target_project_id: Option<NonZeroU64>,
    #[serde(default)]
    deleted: bool,
}

#[derive(Deserialize)]
struct Fields {
    id: NonZeroU64,
    /// Absent: the same project. Null: a fork that is gone.
    #[serde(default, deserialize_with = "given")]
    source_project_id: Option<Option<u64>>,
    source_branch: String,
    target_branch: String,
    state: Option<String>,
    title: Option<String>,
    author_id: Option<u64>,
    author: Option<ById>,
    allow_collaboration: Option<bool>,
}

#[derive(Deserialize)]
struct ById {
    id: u64,
}

/// Tells null from absence.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Whether the line had something; or what is wrong with it.
fn apply(env: &Env, line: &[u8]) -> Result<Result<bool, String>, Fault> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(Ok(false));
    }
    let (project, iid, merge_request) = match read(line) {
        Ok(read) => read,
        Err(why) => return Ok(Err(why)),
    };
    store::save_merge_request(env, project, iid, merge_request.as_ref())?;
    Ok(Ok(true))
}

/// The merge request's key, and what it is to be; `None` if it is to go.
fn read(line: &[u8]) -> Result<(u64, u64, Option<MergeRequest>), String> {
    // An array would also do as a struct's fields in order.
    if !line.starts_with(b"{") {
        return Err("the line is not a JSON object".into());
    }
    let json = |why: serde_json::Error| {
        let text = why.to_string();
        // To the parser each line is line 1, which would only confuse.
        let place = format!(" at line {} column {}", why.line(), why.column());
        format!("{} (column {})", text.strip_suffix(&place).unwrap_or(&text), why.column())
    };
    let record: Record = serde_json::from_slice(line).map_err(json)?;
    if record.kind != KIND {
        return Err(format!("kind `{}` is not {KIND}", record.kind));
    }
    let project = record.target_project_id.or(record.project_id).ok_or("project_id is missing")?.get();
    if record.deleted {
        return Ok((project, record.iid.get(), None));
    }
    let fields: Fields = serde_json::from_slice(line).map_err(json)?;
    let state = fields.state.as_deref().unwrap_or("opened");
    let state = State::parse(state).ok_or_else(|| format!("state `{state}` is not known"))?;
    let merge_request = MergeRequest {
        id: fields.id.get(),
        state,
        source_project_id: fields.source_project_id.unwrap_or(Some(project)),
        source_branch: fields.source_branch,
        target_branch: fields.target_branch,
        title: fields.title.unwrap_or_default(),
        author_id: fields.author_id.or(fields.author.map(|author| author.id)),
        allow_collaboration: fields.allow_collaboration.unwrap_or(false),
    };
    Ok((project, record.iid.get(), Some(merge_request)))
}

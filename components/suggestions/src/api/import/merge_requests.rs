//! Merge requests in the shape of the reference service's own entity, one JSON object a line with
//! `"kind":"merge_request"`. Fields that are not known are ignored, so that whole entities can be
//! sent; `"deleted":true` forgets one.

use crate::merge_request::{MergeRequest, State};
use crate::store;
use kit::ndjson::{ImportReport, LineReader};
use kit::store::StoreError;
use kit::{Body, Env, Error};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::num::NonZeroU64;

const KIND: &str = "merge_request";

/// The longest line, in bytes: what bounds the memory of an import of any size.
const MAX_LINE: usize = 4 << 20;

/// Applies every line of `body`. A bad line changes nothing, and the others are applied.
pub async fn run(env: &Env, body: Body) -> Result<ImportReport, Error> {
    let mut report = ImportReport::default();
    let mut lines = LineReader::new(body, MAX_LINE);
    while let Some(line) = lines.next().await? {
        let outcome = match line.text {
            Ok(text) => apply(env, &text)?,
            Err(too_long) => Err(too_long.to_string()),
        };
        match outcome {
            Ok(()) => report.imported(KIND),
            Err(error) => report.failed(line.number, error),
        }
    }
    Ok(report)
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

/// What is wrong with the line, if anything is.
fn apply(env: &Env, line: &[u8]) -> Result<Result<(), String>, StoreError> {
    let (project, iid, merge_request) = match read(line.trim_ascii()) {
        Ok(read) => read,
        Err(why) => return Ok(Err(why)),
    };
    store::save_merge_request(env, project, iid, merge_request.as_ref())?;
    Ok(Ok(()))
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

//! Import of merge requests as NDJSON: entities of the reference service with `"kind":"merge_request"`.
//! Unknown fields are ignored, so that whole entities can be sent; `"deleted":true` deletes one.

use crate::api::context::RequestContext;
use crate::api::{access, context};
use crate::git::MAX_REF_NAME;
use crate::merge_request::{End, MergeRequest, MergeRequestState};
use crate::repository_id::RepositoryId;
use crate::store::merge_requests as store;
use directory::project::{self, Existence, Incarnation, ProjectKey};
use directory::user::{self, UserKey};
use kit::body::BodyError;
use kit::ndjson::{self, ImportReport, Line, LineReader};
use kit::store::StoreError;
use kit::{Body, Env, Error, Response, Timestamp};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

const KIND: &str = "merge_request";

/// A warning to the operator.
const NO_LOCK: &str = "discussion_locked is not supported by this server: who may read the merge request may comment";

/// The longest line, in bytes. It bounds the memory of an import of any size.
const MAX_LINE: usize = 4 << 20;

/// The most lines of a batch. Without its last line, a batch has at most [`MAX_LINE`] bytes.
const MAX_BATCH: usize = 100;

/// The largest iid. A merge request that is made here gets the next iid.
const MAX_IID: u64 = i64::MAX as u64;

/// The longest name of a commit, in bytes.
const MAX_SHA: usize = 64;

/// `POST /import/suggestions`. A bad line changes nothing; the others are applied, in batches. If the caller is no
/// administrator any more when a batch has arrived, the batch changes nothing.
pub async fn merge_requests(context: &mut RequestContext, body: Body) -> Result<Response, Error> {
    access::require_admin(context)?;
    let mut report = ImportReport::default();
    let mut lines = LineReader::new(body, MAX_LINE);
    loop {
        let batch = read_batch(&mut lines).await?;
        if batch.is_empty() {
            return Ok(Response::ok(&report));
        }
        context.renew()?;
        access::require_admin(context)?;
        let mut unsaved: BTreeMap<ProjectKey, BTreeMap<u64, Option<MergeRequest>>> = BTreeMap::new();
        for line in batch {
            let outcome = match line.text {
                Ok(text) => read(&context.env, &text)?,
                Err(too_long) => Err(too_long.to_string()),
            };
            let ParsedLine { project, iid, merge_request, is_locked } = match outcome {
                Ok(read) => read,
                Err(error) => {
                    report.failed(line.number, error);
                    continue;
                }
            };
            report.imported(KIND);
            if is_locked {
                report.warn(line.number, NO_LOCK.to_owned());
            }
            // The last line about a merge request counts.
            unsaved.entry(project).or_default().insert(iid, merge_request);
        }
        for (project, merge_requests) in unsaved {
            store::save_all(&context.env, &project, &merge_requests)?;
        }
    }
}

/// The next lines; none at the end of the body.
async fn read_batch(lines: &mut LineReader) -> Result<Vec<Line>, BodyError> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < MAX_BATCH && bytes < MAX_LINE {
        let Some(line) = lines.next().await? else { break };
        bytes += line.text.as_ref().map_or(0, |text| text.len());
        batch.push(line);
    }
    Ok(batch)
}

/// The fields of every line.
#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    iid: NonZeroU64,
    /// The target project; the two fields mean the same.
    project_id: Option<NonZeroU64>,
    target_project_id: Option<NonZeroU64>,
    #[serde(default)]
    deleted: bool,
}

/// The fields of a line that does not delete.
#[derive(Deserialize)]
struct Fields {
    id: NonZeroU64,
    /// Absent: the target project. Null: a fork that was deleted.
    #[serde(default, deserialize_with = "deserialize_present")]
    source_project_id: Option<Option<u64>>,
    source_branch: String,
    target_branch: String,
    state: Option<String>,
    title: Option<String>,
    description: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
    merged_at: Option<String>,
    closed_at: Option<String>,
    sha: Option<String>,
    author_id: Option<u64>,
    author: Option<Author>,
    allow_collaboration: Option<bool>,
    discussion_locked: Option<bool>,
}

impl Fields {
    /// Fails if a text is too long. Lists of merge requests show all of these texts.
    fn check_lengths(&self) -> Result<(), String> {
        if let Some(why) = self.title.as_deref().and_then(context::find_excess_of_title) {
            return Err(format!("title {why}"));
        }
        if let Some(why) = self.description.as_deref().and_then(context::find_excess) {
            return Err(format!("description {why}"));
        }
        for (name, value, limit) in [
            ("source_branch", Some(&self.source_branch), MAX_REF_NAME),
            ("target_branch", Some(&self.target_branch), MAX_REF_NAME),
            ("sha", self.sha.as_ref(), MAX_SHA),
        ] {
            if value.is_some_and(|value| value.len() > limit) {
                return Err(format!("{name} is too long (maximum is {limit} bytes)"));
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Author {
    id: u64,
}

/// Distinguishes null (`Some(None)`) from absence.
fn deserialize_present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// The change that a line asks for.
struct ParsedLine<P = ProjectKey> {
    /// The target project.
    project: P,
    iid: u64,
    /// `None` if it is deleted.
    merge_request: Option<MergeRequest>,
    /// Whether only members may comment in the service that the line comes from.
    is_locked: bool,
}

/// Reads a line. The inner error says what is wrong with it.
fn read(env: &Env, line: &[u8]) -> Result<Result<ParsedLine, String>, StoreError> {
    let ParsedLine { project, iid, mut merge_request, is_locked } = match parse(line.trim_ascii()) {
        Ok(parsed) => parsed,
        Err(why) => return Ok(Err(why)),
    };
    let incarnation = match project::existence(env, project)? {
        Existence::Present(incarnation) => incarnation,
        // The project may be imported later.
        Existence::Unknown => Incarnation::default(),
        Existence::Deleted => return Ok(Err(format!("project {project} was deleted"))),
    };
    if let Some(merge_request) = &mut merge_request {
        let source = merge_request.source.map(|source| RepositoryId::find(env, source.project));
        merge_request.source = source.transpose()?.flatten();
        if let Some(author) = &mut merge_request.author {
            *author = user::key_of(env, author.id)?;
        }
    }
    Ok(Ok(ParsedLine { project: ProjectKey { id: project, incarnation }, iid, merge_request, is_locked }))
}

/// Parses a line. The project, the source and the author have only their ids yet.
fn parse(line: &[u8]) -> Result<ParsedLine<u64>, String> {
    // serde would accept an array, too, as the fields of a struct in order.
    if !line.starts_with(b"{") {
        return Err("the line is not a JSON object".into());
    }
    let json_error = |why: serde_json::Error| ndjson::json_error(&why);
    let header: Header = serde_json::from_slice(line).map_err(json_error)?;
    if header.kind != KIND {
        return Err(format!("kind `{}` is not {KIND}", header.kind));
    }
    if header.iid.get() > MAX_IID {
        return Err(format!("iid {} is larger than {MAX_IID}", header.iid));
    }
    let project = header.target_project_id.or(header.project_id).ok_or("project_id is missing")?.get();
    if header.deleted {
        return Ok(ParsedLine { project, iid: header.iid.get(), merge_request: None, is_locked: false });
    }
    let fields: Fields = serde_json::from_slice(line).map_err(json_error)?;
    fields.check_lengths()?;
    let state = fields.state.as_deref().unwrap_or("opened");
    let state = MergeRequestState::parse(state).ok_or_else(|| format!("state `{state}` is not known"))?;
    let time = |text: Option<String>| text.as_deref().and_then(Timestamp::parse);
    let ended = time(fields.merged_at).or_else(|| time(fields.closed_at)).map(|at| End { at, user: None });
    let merge_request = MergeRequest {
        id: fields.id.get(),
        state,
        description: fields.description,
        created: time(fields.created_at),
        updated: time(fields.updated_at),
        ended,
        sha: fields.sha,
        merged_into: None,
        source: fields.source_project_id.unwrap_or(Some(project)).map(RepositoryId::first),
        source_branch: fields.source_branch,
        target_branch: fields.target_branch,
        title: fields.title.unwrap_or_default(),
        author: fields.author_id.or(fields.author.map(|author| author.id)).map(UserKey::first),
        allow_collaboration: fields.allow_collaboration.unwrap_or(false),
    };
    let is_locked = fields.discussion_locked == Some(true);
    Ok(ParsedLine { project, iid: header.iid.get(), merge_request: Some(merge_request), is_locked })
}

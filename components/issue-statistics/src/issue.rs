//! A line of an import: an issue in the form of the reference service. Unknown fields are ignored.

mod facets;
mod json_text;

use json_text::{JsonText, LabelName};
use kit::Timestamp;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The change that a line makes.
#[derive(Debug)]
pub enum Change<'a> {
    Upsert(Box<Issue<'a>>),
    /// By the id of an issue. The index need not have the issue.
    Delete(u64),
}

#[derive(Debug)]
pub struct Issue<'a> {
    pub id: u64,
    pub title: Cow<'a, str>,
    pub description: Cow<'a, str>,
    pub created_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    /// The incarnation of its project, if the project has a reused id. The import looks it up; lines do not have it.
    pub project_incarnation: Option<String>,
    /// The incarnations of its users with reused ids, by user id. The import looks them up, too.
    pub reused_id_users: BTreeMap<u64, String>,
    record: IssueRecord<'a>,
}

impl Issue<'_> {
    pub fn project_id(&self) -> u64 {
        // A line without a project is refused.
        self.record.project_id.unwrap_or_default()
    }

    /// The ids of its author, its assignees, and the users who reacted. An id may repeat.
    pub fn user_ids(&self) -> impl Iterator<Item = u64> {
        let record = &self.record;
        let author = record.author.as_ref().map(|author| author.id).or(record.author_id);
        let assignees = record.assignees.iter().flatten().chain(&record.assignee).map(|user| user.id);
        author.into_iter().chain(assignees).chain(record.reactions.iter().flatten().map(|reaction| reaction.user.id))
    }
}

/// The reason why a line is refused. The text is part of the import report.
#[derive(Debug, PartialEq, Eq)]
pub enum IssueError {
    NotAnObject,
    Json(String),
    Kind(String),
    Missing(&'static str),
    Value {
        field: &'static str,
        value: String,
    },
    /// A list with more than [`MAX_VALUES`].
    TooMany(&'static str),
}

/// The most labels, assignees or reactions of an issue. Each takes about 100 bytes of memory in a batch.
const MAX_VALUES: usize = 10_000;

impl std::fmt::Display for IssueError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IssueError::NotAnObject => f.write_str("the line is not a JSON object"),
            IssueError::Json(error) => f.write_str(error),
            IssueError::Kind(kind) => write!(f, "kind `{kind}` is not issue"),
            IssueError::Missing(field) => write!(f, "{field} is missing"),
            IssueError::Value { field, value } => write!(f, "{field} cannot be `{value}`"),
            IssueError::TooMany(field) => write!(f, "{field} has more than {MAX_VALUES} values"),
        }
    }
}

impl From<serde_json::Error> for IssueError {
    fn from(error: serde_json::Error) -> Self {
        IssueError::Json(kit::ndjson::json_error(&error))
    }
}

/// The fields of a line.
#[derive(Debug, Deserialize)]
struct IssueRecord<'a> {
    #[serde(borrow, default)]
    kind: Option<JsonText<'a>>,
    id: Option<u64>,
    #[serde(default)]
    deleted: bool,
    iid: Option<u64>,
    project_id: Option<u64>,
    #[serde(borrow, default)]
    title: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    description: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    state: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    created_at: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    updated_at: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    labels: Option<Vec<LabelName<'a>>>,
    #[serde(borrow, default)]
    milestone: Option<Milestone<'a>>,
    #[serde(borrow, default)]
    author: Option<User<'a>>,
    author_id: Option<u64>,
    #[serde(borrow, default)]
    assignees: Option<Vec<User<'a>>>,
    #[serde(borrow, default)]
    assignee: Option<User<'a>>,
    #[serde(default)]
    confidential: Option<bool>,
    #[serde(default)]
    hidden: Option<bool>,
    #[serde(borrow, default)]
    issue_type: Option<JsonText<'a>>,
    /// `issue_type` in capital letters. The API returns both.
    #[serde(borrow, default, rename = "type")]
    work_item_type: Option<JsonText<'a>>,
    epic: Option<ById>,
    epic_id: Option<u64>,
    weight: Option<i64>,
    #[serde(borrow, default)]
    health_status: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    iteration: Option<Iteration<'a>>,
    #[serde(borrow, default, alias = "award_emoji")]
    reactions: Option<Vec<Reaction<'a>>>,
}

#[derive(Debug, Deserialize)]
struct ById {
    id: u64,
}

#[derive(Debug, Deserialize)]
struct User<'a> {
    id: u64,
    #[serde(borrow, default)]
    state: Option<JsonText<'a>>,
}

#[derive(Debug, Deserialize)]
struct Milestone<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    title: Cow<'a, str>,
    #[serde(borrow, default)]
    state: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    start_date: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    due_date: Option<JsonText<'a>>,
    project_id: Option<u64>,
    group_id: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Iteration<'a> {
    id: u64,
    #[serde(borrow, default)]
    title: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    start_date: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    due_date: Option<JsonText<'a>>,
}

#[derive(Debug, Deserialize)]
struct Reaction<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    user: ById,
}

/// The types of work items that count as issues, in lower case.
const COUNTED_TYPES: [&str; 6] = ["issue", "incident", "test_case", "requirement", "task", "ticket"];
/// The known types that do not count as issues.
const UNCOUNTED_TYPES: [&str; 3] = ["epic", "objective", "key_result"];

/// Parses and checks a line.
pub fn parse(line: &[u8]) -> Result<Change<'_>, IssueError> {
    // From an array, serde would read the fields in order.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err(IssueError::NotAnObject);
    }
    let mut record: IssueRecord = serde_json::from_slice(line)?;
    if let Some(kind) = record.kind.as_deref().filter(|kind| *kind != "issue") {
        return Err(IssueError::Kind(kind.to_owned()));
    }
    let id = record.id.filter(|id| *id > 0).ok_or(IssueError::Missing("id"))?;
    if record.deleted || !is_counted_type(record.issue_type.as_deref().or(record.work_item_type.as_deref()))? {
        return Ok(Change::Delete(id));
    }
    record.project_id.ok_or(IssueError::Missing("project_id"))?;
    if let Some(state) = record.state.as_deref().filter(|state| !["opened", "closed", "reopened"].contains(state)) {
        return Err(invalid("state", state));
    }
    for (field, count) in [
        ("labels", record.labels.as_ref().map_or(0, Vec::len)),
        ("assignees", record.assignees.as_ref().map_or(0, Vec::len)),
        ("reactions", record.reactions.as_ref().map_or(0, Vec::len)),
    ] {
        if count > MAX_VALUES {
            return Err(IssueError::TooMany(field));
        }
    }
    let created_at = parse_timestamp("created_at", record.created_at.as_deref())?;
    let updated_at = parse_timestamp("updated_at", record.updated_at.as_deref())?;
    for date in record.milestone.iter().flat_map(|milestone| [&milestone.start_date, &milestone.due_date]) {
        check_date("milestone", date.as_deref())?;
    }
    for date in record.iteration.iter().flat_map(|iteration| [&iteration.start_date, &iteration.due_date]) {
        check_date("iteration", date.as_deref())?;
    }
    let title = record.title.take().map_or(Cow::Borrowed(""), |text| text.0);
    let description = record.description.take().map_or(Cow::Borrowed(""), |text| text.0);
    Ok(Change::Upsert(Box::new(Issue {
        id,
        title,
        description,
        created_at,
        updated_at,
        project_incarnation: None,
        reused_id_users: BTreeMap::new(),
        record,
    })))
}

fn invalid(field: &'static str, value: &str) -> IssueError {
    IssueError::Value { field, value: value.chars().take(100).collect() }
}

fn is_counted_type(issue_type: Option<&str>) -> Result<bool, IssueError> {
    let Some(given) = issue_type else { return Ok(true) };
    let is_one_of = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(given));
    match (is_one_of(&COUNTED_TYPES), is_one_of(&UNCOUNTED_TYPES)) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(invalid("issue_type", given)),
    }
}

fn parse_timestamp(field: &'static str, text: Option<&str>) -> Result<Option<Timestamp>, IssueError> {
    let Some(text) = text else { return Ok(None) };
    Timestamp::parse(text).map(Some).ok_or_else(|| invalid(field, text))
}

fn check_date(field: &'static str, text: Option<&str>) -> Result<(), IssueError> {
    match text {
        Some(text) if text.len() != 10 || Timestamp::parse(text).is_none() => Err(invalid(field, text)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

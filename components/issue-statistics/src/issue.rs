//! A line of an import: an issue in the form of the reference service. Unknown fields are ignored.

use crate::facet::{self, Facet, FacetUser, IterationDates, MilestoneDates, MilestoneOwner, ProjectKey};
use kit::Timestamp;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use thiserror::Error;

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
#[derive(Debug, PartialEq, Eq, Error)]
pub enum IssueError {
    #[error("the line is not a JSON object")]
    NotAnObject,
    #[error("{0}")]
    Json(String),
    #[error("kind `{0}` is not issue")]
    Kind(String),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{field} cannot be `{value}`")]
    Value { field: &'static str, value: String },
    /// A list with more than [`MAX_VALUES`].
    #[error("{0} has more than {max} values", max = MAX_VALUES)]
    TooMany(&'static str),
}

/// The most labels, assignees or reactions of an issue. Each takes about 100 bytes of memory in a batch.
const MAX_VALUES: usize = 10_000;

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
    confidential: Option<bool>,
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

impl Issue<'_> {
    /// Calls `each` for every facet of this issue. A facet may repeat.
    pub fn facets(&self, mut each: impl FnMut(Facet)) {
        let record = &self.record;
        let project_id = self.project_id();
        each(ProjectKey { id: project_id, incarnation: self.project_incarnation.as_deref() }.facet());
        if record.state.as_deref() != Some("closed") {
            each(Facet::Opened);
        }
        if record.confidential == Some(true) {
            each(Facet::Confidential);
        }
        let is_banned = |user: &User| user.state.as_deref() == Some("banned");
        if record.hidden == Some(true) || record.author.as_ref().is_some_and(is_banned) {
            each(Facet::Hidden);
        }
        if let Some(author) = record.author.as_ref().map(|author| author.id).or(record.author_id) {
            each(self.user(author).author());
        }
        // The API returns both fields. The list is the newer one.
        match &record.assignees {
            Some(assignees) => self.assignee_facets(assignees, &mut each),
            None => self.assignee_facets(record.assignee.as_slice(), &mut each),
        }
        for label in record.labels.iter().flatten() {
            each(Facet::Label(&label.0));
            each(Facet::HasLabel);
        }
        if let Some(iid) = record.iid {
            each(Facet::Iid(iid));
        }
        if let Some(epic) = record.epic.as_ref().map(|epic| epic.id).or(record.epic_id) {
            each(Facet::Epic(epic));
            each(Facet::HasEpic);
        }
        if let Some(weight) = record.weight {
            each(Facet::Weight(weight));
            each(Facet::HasWeight);
        }
        if let Some(status) = record.health_status.as_deref() {
            each(Facet::Health(&status.to_ascii_lowercase()));
            each(Facet::HasHealth);
        }
        for reaction in record.reactions.iter().flatten() {
            let user = self.user(reaction.user.id);
            each(user.reaction(&reaction.name));
            each(user.any_reaction());
        }
        self.milestone_facets(project_id, &mut each);
        self.iteration_facets(&mut each);
    }

    fn user(&self, id: u64) -> FacetUser<'_> {
        FacetUser { id, incarnation: self.reused_id_users.get(&id).map(String::as_str) }
    }

    fn assignee_facets(&self, users: &[User], each: &mut impl FnMut(Facet)) {
        for user in users {
            each(self.user(user.id).assignee());
            each(Facet::HasAssignee);
        }
    }

    fn milestone_facets(&self, project_id: u64, each: &mut impl FnMut(Facet)) {
        let Some(milestone) = &self.record.milestone else { return };
        each(Facet::Milestone(&milestone.title));
        each(Facet::HasMilestone);
        if milestone.start_date.is_none() && milestone.due_date.is_none() {
            return;
        }
        let owner = match (milestone.group_id, milestone.project_id) {
            (Some(id), _) => MilestoneOwner::Group(id),
            (None, id) => MilestoneOwner::Project(id.unwrap_or(project_id)),
        };
        each(Facet::MilestoneDates(&MilestoneDates {
            owner,
            id: milestone.id,
            title: facet::short_title(&milestone.title),
            active: milestone.state.as_deref() != Some("closed"),
            start: milestone.start_date.as_deref().map(str::to_owned),
            due: milestone.due_date.as_deref().map(str::to_owned),
        }));
    }

    fn iteration_facets(&self, each: &mut impl FnMut(Facet)) {
        let Some(iteration) = &self.record.iteration else { return };
        each(Facet::Iteration(iteration.id));
        each(Facet::HasIteration);
        if let Some(title) = iteration.title.as_deref() {
            each(Facet::IterationTitle(title));
        }
        if let (Some(start), Some(due)) = (iteration.start_date.as_deref(), iteration.due_date.as_deref()) {
            each(Facet::IterationDates(&IterationDates { id: iteration.id, start: start.into(), due: due.into() }));
        }
    }
}

/// A text. A plain `Cow` inside an `Option` would always be copied by serde.
#[derive(Debug)]
pub struct JsonText<'a>(pub Cow<'a, str>);

impl Deref for JsonText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor { accepts_object: false }).map(JsonText)
    }
}

/// The name of a label: a text, or an object with a name.
#[derive(Debug)]
pub struct LabelName<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for LabelName<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor { accepts_object: true }).map(LabelName)
    }
}

struct TextVisitor {
    accepts_object: bool,
}

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.accepts_object { "a name, or an object with a name" } else { "a text" })
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut name = None;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "name" | "title" => name = Some(map.next_value::<Cow<'de, str>>()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        name.ok_or_else(|| A::Error::missing_field("name"))
    }
}

#[cfg(test)]
mod tests;

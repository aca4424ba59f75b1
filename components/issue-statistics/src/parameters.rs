//! The query parameters of the three count endpoints: names, forms and error texts.

use crate::route::Level;
use crate::segment::Field;
use crate::text;
use directory::setting::License;
use kit::params::{Params, Validation};
use kit::{Error, Timestamp};

/// The parameters as the client sent them. Names are not looked up yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parameters {
    pub scope: Scope,
    pub include: NegatableFilters,
    /// The filters in `not[…]`.
    pub exclude: NegatableFilters,
    /// Folded texts. An issue must contain all of them.
    pub search: Vec<String>,
    pub fields: Vec<Field>,
    pub reaction: Option<ValueFilter<String>>,
    pub confidential: Option<bool>,
    pub created: TimeRange,
    pub updated: TimeRange,
    pub epic: Option<ValueFilter<i64>>,
    pub health: Option<ValueFilter<String>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    All,
    CreatedByMe,
    AssignedToMe,
}

/// The filters that can be negated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NegatableFilters {
    pub labels: Vec<String>,
    pub milestone: Option<MilestoneFilter>,
    pub iids: Option<Vec<u64>>,
    pub author: Option<UserSelector>,
    pub assignee_id: Option<ValueFilter<i64>>,
    /// Usernames. The issue must be assigned to all of them.
    pub assignees: Vec<String>,
    pub weight: Option<ValueFilter<i64>>,
    pub iteration: Option<ValueFilter<i64>>,
    pub iteration_title: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserSelector {
    Id(i64),
    /// A username, or the handle of a group.
    Name(String),
}

/// Both ends are included; `None` is an open end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeRange {
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

impl TimeRange {
    pub fn is_open(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

const INSTANCE_SCOPES: [&str; 3] = ["created_by_me", "assigned_to_me", "all"];
const NAMESPACE_SCOPES: [&str; 5] = ["created-by-me", "assigned-to-me", "created_by_me", "assigned_to_me", "all"];

/// Reads and checks every parameter. 400 with the errors of all of them.
pub fn read(params: &Params, level: &Level, license: License) -> Result<Parameters, Error> {
    let checks = Validation::new(params);
    let licensed = license >= License::Premium;
    check_forms(params, &checks, "", &SCALARS, &[]);
    if licensed {
        check_forms(params, &checks, "", &["epic_id"], &[]);
    }
    if license >= License::Ultimate {
        check_forms(params, &checks, "", &["health_status"], &[]);
    }
    let parameters = Parameters {
        include: filters(params, &checks, "", licensed),
        scope: scope(&checks, level),
        search: params.text("search").map(substrings).unwrap_or_default(),
        fields: fields(params.text("in")),
        reaction: params.text("my_reaction_emoji").map(ValueFilter::text),
        confidential: checks.boolean("confidential"),
        created: TimeRange { from: checks.datetime("created_after"), to: checks.datetime("created_before") },
        updated: TimeRange { from: checks.datetime("updated_after"), to: checks.datetime("updated_before") },
        epic: licensed.then(|| number(params, &checks, "epic_id", "")).flatten(),
        health: (license >= License::Ultimate).then(|| health(params, &checks)).flatten(),
        exclude: excluded(params, &checks, licensed),
    };
    checks.finish()?;
    Ok(parameters)
}

const SCALARS: [&str; 9] = [
    "scope",
    "search",
    "in",
    "my_reaction_emoji",
    "confidential",
    "created_after",
    "created_before",
    "updated_after",
    "updated_before",
];

/// Rejects parameters in unsupported forms, such as `author_id[]` or `labels[0]`. If such a parameter were ignored, the
/// request would count everything.
fn check_forms(params: &Params, checks: &Validation, outer: &str, scalars: &[&str], lists: &[&str]) {
    let has_other_form = |name: &str, is_list: bool| {
        let mut forms = params.pairs().filter_map(|(key, _)| key.strip_prefix(name)?.strip_prefix('['));
        forms.any(|form| !is_list || form != "]")
    };
    let scalars = scalars.iter().filter(|name| has_other_form(name, false));
    for name in scalars.chain(lists.iter().filter(|name| has_other_form(name, true))) {
        checks.reject(format!("{} is invalid", full_name(outer, name)));
    }
}

fn scope(checks: &Validation, level: &Level) -> Scope {
    let (allowed, default) = match level {
        Level::Instance => (&INSTANCE_SCOPES[..], Scope::CreatedByMe),
        Level::Group(_) | Level::Project(_) => (&NAMESPACE_SCOPES[..], Scope::All),
    };
    match checks.one_of("scope", allowed) {
        None => default,
        Some("created_by_me" | "created-by-me") => Scope::CreatedByMe,
        Some("assigned_to_me" | "assigned-to-me") => Scope::AssignedToMe,
        Some(_) => Scope::All,
    }
}

/// Unknown names are ignored. Without a known name, both fields are searched.
fn fields(given: Option<&str>) -> Vec<Field> {
    let mut fields: Vec<Field> = given
        .into_iter()
        .flat_map(|text| text.split(','))
        .filter_map(|name| match name.trim() {
            "title" => Some(Field::Title),
            "description" => Some(Field::Description),
            _ => None,
        })
        .collect();
    fields.sort();
    fields.dedup();
    if fields.is_empty() { crate::segment::FIELDS.to_vec() } else { fields }
}

fn excluded(params: &Params, checks: &Validation, licensed: bool) -> NegatableFilters {
    if params.text("not").is_some() || params.list("not[]").is_some_and(|list| !list.is_empty()) {
        checks.reject("not is invalid");
        return NegatableFilters::default();
    }
    filters(&params.below("not"), checks, "not", licensed)
}

/// `outer` is `not` or empty. Error texts have the full name, as `not[labels]`.
fn filters(params: &Params, checks: &Validation, outer: &str, licensed: bool) -> NegatableFilters {
    let check_exclusive = |names: [&str; 2]| {
        if names.iter().all(|name| params.has(name)) {
            let names = names.map(|name| full_name(outer, name));
            checks.reject(format!("{} are mutually exclusive", names.join(", ")));
        }
    };
    check_forms(
        params,
        checks,
        outer,
        &["milestone", "milestone_id", "author_id", "author_username", "assignee_id"],
        &["labels", "iids", "assignee_username"],
    );
    if licensed {
        check_forms(params, checks, outer, &["weight", "iteration_id", "iteration_title"], &[]);
    }
    let texts =
        |name: &str| -> Vec<String> { params.list(name).unwrap_or_default().into_iter().map(str::to_owned).collect() };
    let filters = NegatableFilters {
        labels: texts("labels"),
        milestone: milestone(params, checks, outer),
        iids: params.list("iids").filter(|list| !list.is_empty()).map(|list| {
            // No issue has the iid 0.
            list.into_iter().map(|iid| iid.parse().unwrap_or(0)).collect()
        }),
        author: integer(params, checks, "author_id", outer)
            .map(UserSelector::Id)
            .or_else(|| params.text("author_username").map(|name| UserSelector::Name(name.to_owned()))),
        assignee_id: match outer {
            "" => number(params, checks, "assignee_id", outer),
            // `not[assignee_id]` takes no wildcards.
            _ => integer(params, checks, "assignee_id", outer).map(ValueFilter::Is),
        },
        assignees: texts("assignee_username"),
        weight: licensed.then(|| number(params, checks, "weight", outer)).flatten(),
        iteration: licensed.then(|| iteration(params, checks, outer)).flatten(),
        iteration_title: params.text("iteration_title").filter(|_| licensed).map(str::to_owned),
    };
    if !licensed && filters.assignees.len() > 1 {
        let name = full_name(outer, "assignee_username");
        let (found, given) = (filters.assignees.len(), filters.assignees.join(", "));
        checks.reject(format!("{name} allows one value, but found {found}: {given}"));
    }
    check_exclusive(["milestone_id", "milestone"]);
    check_exclusive(["author_id", "author_username"]);
    check_exclusive(["assignee_id", "assignee_username"]);
    if licensed {
        check_exclusive(["iteration_id", "iteration_title"]);
    }
    filters
}

/// The folded texts that an issue must contain. White space separates them. A text in double quotes may contain white
/// space. The quotes must be at the ends of `search` or beside white space. White space at the ends of a text is
/// ignored.
pub fn substrings(search: &str) -> Vec<String> {
    let mut substrings = Vec::new();
    let mut rest = search.trim_start();
    while !rest.is_empty() {
        let (substring, after) =
            quoted(rest).unwrap_or_else(|| rest.split_once(char::is_whitespace).unwrap_or((rest, "")));
        let substring = substring.trim();
        if !substring.is_empty() {
            substrings.push(text::folded(substring));
        }
        rest = after.trim_start();
    }
    substrings.sort();
    substrings.dedup();
    substrings
}

/// The quoted text at the beginning of `text`, and the remaining text.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (inside, after) = text.strip_prefix('"')?.split_once('"')?;
    let is_quoted = !inside.is_empty() && (after.is_empty() || after.starts_with(char::is_whitespace));
    is_quoted.then_some((inside, after))
}

/// A filter by one value, or by the presence of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueFilter<T> {
    None,
    Any,
    /// For iterations only: the current iteration.
    Current,
    Is(T),
}

impl ValueFilter<String> {
    /// The wildcards `none` and `any` in any letter case, or a value.
    pub fn text(text: &str) -> Self {
        match parse_wildcard(text) {
            Some(Wildcard::None) => ValueFilter::None,
            Some(Wildcard::Any) => ValueFilter::Any,
            None => ValueFilter::Is(text.to_owned()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MilestoneFilter {
    None,
    Any,
    Upcoming,
    Started,
    Title(String),
}

enum Wildcard {
    None,
    Any,
}

fn parse_wildcard(text: &str) -> Option<Wildcard> {
    match text {
        text if text.eq_ignore_ascii_case("none") => Some(Wildcard::None),
        text if text.eq_ignore_ascii_case("any") => Some(Wildcard::Any),
        _ => None,
    }
}

/// `name`, or `outer[name]`.
pub fn full_name(outer: &str, name: &str) -> String {
    if outer.is_empty() { name.to_owned() } else { format!("{outer}[{name}]") }
}

pub fn integer(params: &Params, checks: &Validation, name: &str, outer: &str) -> Option<i64> {
    let number = params.text(name)?.trim().parse().ok();
    if number.is_none() {
        checks.reject(format!("{} is invalid", full_name(outer, name)));
    }
    number
}

/// An integer, `none` or `any`.
pub fn number(params: &Params, checks: &Validation, name: &str, outer: &str) -> Option<ValueFilter<i64>> {
    let text = params.text(name)?.trim();
    match parse_wildcard(text) {
        Some(Wildcard::None) => return Some(ValueFilter::None),
        Some(Wildcard::Any) => return Some(ValueFilter::Any),
        None => {}
    }
    let number = text.parse().ok().map(ValueFilter::Is);
    if number.is_none() {
        let name = full_name(outer, name);
        checks.reject(format!("{name} should be an integer, none, or any, however got {text}"));
    }
    number
}

/// An integer, `none`, `any` or `current`.
pub fn iteration(params: &Params, checks: &Validation, outer: &str) -> Option<ValueFilter<i64>> {
    match params.text("iteration_id") {
        Some(text) if text.trim().eq_ignore_ascii_case("current") => Some(ValueFilter::Current),
        _ => number(params, checks, "iteration_id", outer),
    }
}

const HEALTH: [&str; 3] = ["on_track", "needs_attention", "at_risk"];

pub fn health(params: &Params, checks: &Validation) -> Option<ValueFilter<String>> {
    match ValueFilter::text(&params.text("health_status")?.to_ascii_lowercase()) {
        ValueFilter::Is(status) if !HEALTH.contains(&status.as_str()) => {
            checks.reject("health_status does not have a valid value");
            None
        }
        filter => Some(filter),
    }
}

/// A wildcard in `milestone_id`, or a title or wildcard in `milestone`.
pub fn milestone(params: &Params, checks: &Validation, outer: &str) -> Option<MilestoneFilter> {
    let by_id = params.text("milestone_id").and_then(|text| {
        let filter = match text {
            "None" => Some(MilestoneFilter::None),
            "Any" => Some(MilestoneFilter::Any),
            "Upcoming" => Some(MilestoneFilter::Upcoming),
            "Started" => Some(MilestoneFilter::Started),
            _ => None,
        };
        if filter.is_none() {
            checks.reject(format!("{} does not have a valid value", full_name(outer, "milestone_id")));
        }
        filter
    });
    let by_title = || params.text("milestone").map(|title| milestone_by_title(title, outer.is_empty()));
    by_id.or_else(by_title)
}

/// In `not[milestone]`, `None` and `Any` are titles like others.
fn milestone_by_title(title: &str, accepts_wildcards: bool) -> MilestoneFilter {
    match title {
        "#upcoming" => MilestoneFilter::Upcoming,
        "#started" => MilestoneFilter::Started,
        "No Milestone" if accepts_wildcards => MilestoneFilter::None,
        "Any Milestone" if accepts_wildcards => MilestoneFilter::Any,
        title => match parse_wildcard(title).filter(|_| accepts_wildcards) {
            Some(Wildcard::None) => MilestoneFilter::None,
            Some(Wildcard::Any) => MilestoneFilter::Any,
            None => MilestoneFilter::Title(title.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod search_text_tests {
    use super::*;

    #[test]
    fn words_and_phrases() {
        for (search, expected) in [
            ("", vec![]),
            ("  \t ", vec![]),
            ("Login  ERROR", vec!["error", "login"]),
            ("a a", vec!["a"]),
            ("\"Login error\" x", vec!["login error", "x"]),
            ("x \"a  b\"", vec!["a  b", "x"]),
            ("\" a b \"", vec!["a b"]),
            ("\"open", vec!["\"open"]),
            ("a\"b c\"", vec!["a\"b", "c\""]),
            ("\"a b\"c", vec!["\"a", "b\"c"]),
            ("\"\"", vec!["\"\""]),
            ("\" \"", vec![]),
            ("ÄÖ", vec!["äö"]),
        ] {
            assert_eq!(substrings(search), expected, "{search}");
        }
    }
}

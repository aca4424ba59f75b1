//! The query parameters of the three count endpoints: names, forms and error texts.

mod search_text;
mod value_filter;

pub use value_filter::{MilestoneFilter, ValueFilter};

use crate::route::Level;
use crate::segment::Field;
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
        search: params.text("search").map(search_text::substrings).unwrap_or_default(),
        fields: fields(params.text("in")),
        reaction: params.text("my_reaction_emoji").map(ValueFilter::text),
        confidential: checks.boolean("confidential"),
        created: TimeRange { from: checks.datetime("created_after"), to: checks.datetime("created_before") },
        updated: TimeRange { from: checks.datetime("updated_after"), to: checks.datetime("updated_before") },
        epic: licensed.then(|| value_filter::number(params, &checks, "epic_id", "")).flatten(),
        health: (license >= License::Ultimate).then(|| value_filter::health(params, &checks)).flatten(),
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
        checks.reject(format!("{} is invalid", value_filter::full_name(outer, name)));
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
            let names = names.map(|name| value_filter::full_name(outer, name));
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
        milestone: value_filter::milestone(params, checks, outer),
        iids: params.list("iids").filter(|list| !list.is_empty()).map(|list| {
            // No issue has the iid 0.
            list.into_iter().map(|iid| iid.parse().unwrap_or(0)).collect()
        }),
        author: value_filter::integer(params, checks, "author_id", outer)
            .map(UserSelector::Id)
            .or_else(|| params.text("author_username").map(|name| UserSelector::Name(name.to_owned()))),
        assignee_id: match outer {
            "" => value_filter::number(params, checks, "assignee_id", outer),
            // `not[assignee_id]` takes no wildcards.
            _ => value_filter::integer(params, checks, "assignee_id", outer).map(ValueFilter::Is),
        },
        assignees: texts("assignee_username"),
        weight: licensed.then(|| value_filter::number(params, checks, "weight", outer)).flatten(),
        iteration: licensed.then(|| value_filter::iteration(params, checks, outer)).flatten(),
        iteration_title: params.text("iteration_title").filter(|_| licensed).map(str::to_owned),
    };
    if !licensed && filters.assignees.len() > 1 {
        let name = value_filter::full_name(outer, "assignee_username");
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

#[cfg(test)]
mod tests;

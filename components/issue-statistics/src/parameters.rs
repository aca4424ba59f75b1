//! The parameters of a question: their names, forms and faults, for all three endpoints.

mod search_text;
mod value_filter;

pub use value_filter::{MilestoneFilter, ValueFilter};

use crate::route::Level;
use crate::segment::Field;
use directory::setting::License;
use kit::params::{Params, Validation};
use kit::{Error, Timestamp};

/// A question, before anything was looked up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parameters {
    pub scope: Scope,
    pub include: NegatableFilters,
    pub exclude: NegatableFilters,
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
    /// The issue is assigned to all of them.
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

/// Both ends included.
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

const SCOPES: [&str; 3] = ["created_by_me", "assigned_to_me", "all"];
const SCOPES_BELOW: [&str; 5] = ["created-by-me", "assigned-to-me", "created_by_me", "assigned_to_me", "all"];

/// Reads and checks every parameter; 400 with all faults.
pub fn read(params: &Params, level: &Level, license: License) -> Result<Parameters, Error> {
    let checks = Validation::new(params);
    let licensed = license >= License::Premium;
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
        exclude: negated(params, &checks, licensed),
    };
    checks.finish()?;
    Ok(parameters)
}

fn scope(checks: &Validation, level: &Level) -> Scope {
    let (allowed, default) = match level {
        Level::Instance => (&SCOPES[..], Scope::CreatedByMe),
        Level::Group(_) | Level::Project(_) => (&SCOPES_BELOW[..], Scope::All),
    };
    match checks.one_of("scope", allowed) {
        None => default,
        Some("created_by_me" | "created-by-me") => Scope::CreatedByMe,
        Some("assigned_to_me" | "assigned-to-me") => Scope::AssignedToMe,
        Some(_) => Scope::All,
    }
}

/// Unknown names are dropped; both if none is left.
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

fn negated(params: &Params, checks: &Validation, licensed: bool) -> NegatableFilters {
    if params.text("not").is_some() || params.list("not[]").is_some_and(|list| !list.is_empty()) {
        checks.reject("not is invalid");
        return NegatableFilters::default();
    }
    filters(&params.below("not"), checks, "not", licensed)
}

/// The filters of `params`; those below `not` are told by their full names in faults.
fn filters(params: &Params, checks: &Validation, outer: &str, licensed: bool) -> NegatableFilters {
    let one_of = |names: [&str; 2]| {
        if names.iter().all(|name| params.has(name)) {
            let names = names.map(|name| value_filter::full_name(outer, name));
            checks.reject(format!("{} are mutually exclusive", names.join(", ")));
        }
    };
    let texts =
        |name: &str| -> Vec<String> { params.list(name).unwrap_or_default().into_iter().map(str::to_owned).collect() };
    let filters = NegatableFilters {
        labels: texts("labels"),
        milestone: value_filter::milestone(params, checks, outer),
        iids: params.list("iids").filter(|list| !list.is_empty()).map(|list| {
            // What is no number is 0, which no issue has.
            list.into_iter().map(|iid| iid.parse().unwrap_or(0)).collect()
        }),
        author: value_filter::integer(params, checks, "author_id", outer)
            .map(UserSelector::Id)
            .or_else(|| params.text("author_username").map(|name| UserSelector::Name(name.to_owned()))),
        assignee_id: match outer {
            "" => value_filter::number(params, checks, "assignee_id", outer),
            // Negated it is a plain number.
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
    one_of(["milestone_id", "milestone"]);
    one_of(["author_id", "author_username"]);
    one_of(["assignee_id", "assignee_username"]);
    if licensed {
        one_of(["iteration_id", "iteration_title"]);
    }
    filters
}

#[cfg(test)]
mod tests;

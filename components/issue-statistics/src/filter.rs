//! The filters of a query, in terms of the index: facets, ranges of time and substrings.

use crate::facet::Facet;
use crate::parameters::{MilestoneFilter, NegatableFilters, Parameters, Scope, TimeRange, UserSelector, ValueFilter};
use crate::segment::Field;
use std::collections::HashSet;

/// A condition. An issue has to match all filters of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// The issue has at least one of these facets, by their keys.
    AnyOf(Vec<Vec<u8>>),
    /// The issue has none of these facets.
    NoneOf(Vec<Vec<u8>>),
    /// Depends on today's date; [`crate::count`] replaces it by facets.
    MilestoneDates {
        milestone: MilestoneFilter,
        negated: bool,
    },
    /// Likewise.
    CurrentIteration {
        negated: bool,
    },
    Created(TimeRange),
    Updated(TimeRange),
    /// One of the fields contains the folded text.
    Contains {
        text: String,
        fields: Vec<Field>,
    },
    /// No issue matches.
    MatchNone,
}

/// Looks up users by name.
pub trait UserResolver {
    type Error;

    /// The id of the user with this username, or those of the members of the group with this handle;
    /// empty if there is neither.
    fn user_ids(&self, name: &str) -> Result<Vec<u64>, Self::Error>;
}

/// The filters of a request of the user `me`. `in_namespace`: of a group or project, where the
/// reference service matches no issue if a label is given twice.
pub fn resolve<P: UserResolver>(
    parameters: &Parameters,
    me: u64,
    in_namespace: bool,
    users: &P,
) -> Result<Vec<Filter>, P::Error> {
    let mut all = Vec::new();
    match parameters.scope {
        Scope::All => {}
        Scope::CreatedByMe => all.push(with(Facet::Author(me))),
        Scope::AssignedToMe => all.push(with(Facet::Assignee(me))),
    }
    let has_duplicate = |labels: &[String]| labels.iter().collect::<HashSet<_>>().len() < labels.len();
    let has_wildcard = |name: &str| parameters.include.labels.iter().any(|label| label.eq_ignore_ascii_case(name));
    match () {
        () if has_wildcard("none") => all.push(without(Facet::HasLabel)),
        () if has_wildcard("any") => all.push(with(Facet::HasLabel)),
        () if in_namespace && has_duplicate(&parameters.include.labels) => all.push(Filter::MatchNone),
        () => all.extend(parameters.include.labels.iter().map(|label| with(Facet::Label(label)))),
    }
    add_included(&parameters.include, users, &mut all)?;
    all.extend(parameters.exclude.labels.iter().map(|label| without(Facet::Label(label))));
    add_excluded(&parameters.exclude, users, &mut all)?;
    match &parameters.reaction {
        None => {}
        Some(ValueFilter::None) => all.push(without(Facet::HasReaction(me))),
        Some(ValueFilter::Is(name)) => all.push(with(Facet::Reaction(me, name))),
        Some(ValueFilter::Any | ValueFilter::Current) => all.push(with(Facet::HasReaction(me))),
    }
    match parameters.confidential {
        None => {}
        Some(true) => all.push(with(Facet::Confidential)),
        Some(false) => all.push(without(Facet::Confidential)),
    }
    all.extend(parameters.epic.iter().map(|epic| included(epic, Facet::HasEpic, |id| Facet::Epic(unsigned_id(*id)))));
    all.extend(
        parameters.health.iter().map(|health| included(health, Facet::HasHealth, |status| Facet::Health(status))),
    );
    if !parameters.created.is_open() {
        all.push(Filter::Created(parameters.created));
    }
    if !parameters.updated.is_open() {
        all.push(Filter::Updated(parameters.updated));
    }
    let text = |text: &String| Filter::Contains { text: text.clone(), fields: parameters.fields.clone() };
    all.extend(parameters.search.iter().map(text));
    Ok(all)
}

fn add_included<P: UserResolver>(include: &NegatableFilters, users: &P, all: &mut Vec<Filter>) -> Result<(), P::Error> {
    match &include.milestone {
        None => {}
        Some(MilestoneFilter::None) => all.push(without(Facet::HasMilestone)),
        Some(MilestoneFilter::Any) => all.push(with(Facet::HasMilestone)),
        Some(MilestoneFilter::Title(title)) => all.push(with(Facet::Milestone(title))),
        Some(by_date) => all.push(Filter::MilestoneDates { milestone: by_date.clone(), negated: false }),
    }
    if let Some(iids) = &include.iids {
        all.push(Filter::AnyOf(iids.iter().map(|iid| Facet::Iid(*iid).key()).collect()));
    }
    match &include.author {
        None => {}
        Some(UserSelector::Id(id)) => all.push(with(Facet::Author(unsigned_id(*id)))),
        Some(UserSelector::Name(name)) => all.push(Filter::AnyOf(facet_keys(users.user_ids(name)?, Facet::Author))),
    }
    all.extend(
        include.assignee_id.iter().map(|id| included(id, Facet::HasAssignee, |id| Facet::Assignee(unsigned_id(*id)))),
    );
    for name in &include.assignees {
        all.push(Filter::AnyOf(facet_keys(users.user_ids(name)?, Facet::Assignee)));
    }
    all.extend(include.weight.iter().map(|weight| included(weight, Facet::HasWeight, |weight| Facet::Weight(*weight))));
    all.extend(include.iteration.iter().map(|iteration| match iteration {
        ValueFilter::Current => Filter::CurrentIteration { negated: false },
        iteration => included(iteration, Facet::HasIteration, |id| Facet::Iteration(unsigned_id(*id))),
    }));
    all.extend(include.iteration_title.iter().map(|title| with(Facet::IterationTitle(title))));
    Ok(())
}

fn add_excluded<P: UserResolver>(exclude: &NegatableFilters, users: &P, all: &mut Vec<Filter>) -> Result<(), P::Error> {
    match &exclude.milestone {
        None => {}
        Some(MilestoneFilter::None) => all.push(with(Facet::HasMilestone)),
        Some(MilestoneFilter::Any) => all.push(without(Facet::HasMilestone)),
        Some(MilestoneFilter::Title(title)) => all.push(without(Facet::Milestone(title))),
        Some(by_date) => all.push(Filter::MilestoneDates { milestone: by_date.clone(), negated: true }),
    }
    if let Some(iids) = &exclude.iids {
        all.push(Filter::NoneOf(iids.iter().map(|iid| Facet::Iid(*iid).key()).collect()));
    }
    match &exclude.author {
        None => {}
        Some(UserSelector::Id(id)) => all.push(without(Facet::Author(unsigned_id(*id)))),
        Some(UserSelector::Name(name)) => all.push(Filter::NoneOf(facet_keys(users.user_ids(name)?, Facet::Author))),
    }
    all.extend(
        exclude.assignee_id.iter().map(|id| excluded(id, Facet::HasAssignee, |id| Facet::Assignee(unsigned_id(*id)))),
    );
    for name in &exclude.assignees {
        all.push(Filter::NoneOf(facet_keys(users.user_ids(name)?, Facet::Assignee)));
    }
    all.extend(exclude.weight.iter().map(|weight| excluded(weight, Facet::HasWeight, |weight| Facet::Weight(*weight))));
    all.extend(exclude.iteration.iter().map(|iteration| match iteration {
        ValueFilter::Current => Filter::CurrentIteration { negated: true },
        iteration => excluded(iteration, Facet::HasIteration, |id| Facet::Iteration(unsigned_id(*id))),
    }));
    all.extend(exclude.iteration_title.iter().map(|title| without(Facet::IterationTitle(title))));
    Ok(())
}

fn with(facet: Facet) -> Filter {
    Filter::AnyOf(vec![facet.key()])
}

fn without(facet: Facet) -> Filter {
    Filter::NoneOf(vec![facet.key()])
}

fn facet_keys(ids: Vec<u64>, facet: fn(u64) -> Facet<'static>) -> Vec<Vec<u8>> {
    ids.into_iter().map(|id| facet(id).key()).collect()
}

/// `any` is the facet of all issues that have a value.
fn included<'a, T>(filter: &'a ValueFilter<T>, any: Facet<'a>, facet: impl Fn(&'a T) -> Facet<'a>) -> Filter {
    match filter {
        ValueFilter::None => without(any),
        ValueFilter::Any | ValueFilter::Current => with(any),
        ValueFilter::Is(value) => with(facet(value)),
    }
}

fn excluded<'a, T>(filter: &'a ValueFilter<T>, any: Facet<'a>, facet: impl Fn(&'a T) -> Facet<'a>) -> Filter {
    match included(filter, any, facet) {
        Filter::AnyOf(keys) => Filter::NoneOf(keys),
        Filter::NoneOf(keys) => Filter::AnyOf(keys),
        other => other,
    }
}

/// No issue has a negative id; none has the id `u64::MAX` either.
fn unsigned_id(id: i64) -> u64 {
    u64::try_from(id).unwrap_or(u64::MAX)
}

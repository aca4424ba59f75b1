//! The filters of a query as terms of the index: facets, time ranges and substrings.

use crate::facet::{Facet, FacetUser};
use crate::parameters::{MilestoneFilter, NegatableFilters, Parameters, Scope, TimeRange, UserSelector, ValueFilter};
use crate::segment::Field;
use directory::user::UserKey;
use std::collections::HashSet;

/// A condition. An issue must match all filters of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// The issue has at least one of the facets with these keys.
    AnyOf(Vec<Vec<u8>>),
    /// The issue has none of the facets with these keys.
    NoneOf(Vec<Vec<u8>>),
    /// Depends on the current date. [`crate::count`] replaces it by a filter on facets.
    MilestoneDates {
        milestone: MilestoneFilter,
        negated: bool,
    },
    /// Replaced like [`Filter::MilestoneDates`].
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

/// Looks up users.
pub trait UserResolver {
    type Error;

    /// The user who has this id now, or the first user with the id if the id is free.
    fn user(&self, id: u64) -> Result<UserKey, Self::Error>;

    /// The user with this username, or the members of the group with this handle. Empty without such a user or group.
    fn users(&self, name: &str) -> Result<Vec<UserKey>, Self::Error>;
}

/// The filters of a request by the user `me`. `in_namespace` says that the request is about a group or project. There
/// the reference service matches no issue if a label is given twice.
pub fn resolve<P: UserResolver>(
    parameters: &Parameters,
    me: &UserKey,
    in_namespace: bool,
    users: &P,
) -> Result<Vec<Filter>, P::Error> {
    let (mut all, me) = (Vec::new(), FacetUser::from(me));
    match parameters.scope {
        Scope::All => {}
        Scope::CreatedByMe => all.push(with(me.author())),
        Scope::AssignedToMe => all.push(with(me.assignee())),
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
        Some(ValueFilter::None) => all.push(without(me.any_reaction())),
        Some(ValueFilter::Is(name)) => all.push(with(me.reaction(name))),
        Some(ValueFilter::Any | ValueFilter::Current) => all.push(with(me.any_reaction())),
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
    if let Some(author) = &include.author {
        all.push(Filter::AnyOf(author_keys(author, users)?));
    }
    if let Some(assignee) = &include.assignee_id {
        all.push(with_assignee(assignee, users)?);
    }
    for name in &include.assignees {
        all.push(Filter::AnyOf(facet_keys(&users.users(name)?, FacetUser::assignee)));
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
    if let Some(author) = &exclude.author {
        all.push(Filter::NoneOf(author_keys(author, users)?));
    }
    if let Some(assignee) = &exclude.assignee_id {
        all.push(negated(with_assignee(assignee, users)?));
    }
    for name in &exclude.assignees {
        all.push(Filter::NoneOf(facet_keys(&users.users(name)?, FacetUser::assignee)));
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

fn author_keys<P: UserResolver>(author: &UserSelector, users: &P) -> Result<Vec<Vec<u8>>, P::Error> {
    let found = match author {
        UserSelector::Id(id) => vec![users.user(unsigned_id(*id))?],
        UserSelector::Name(name) => users.users(name)?,
    };
    Ok(facet_keys(&found, FacetUser::author))
}

fn with_assignee<P: UserResolver>(assignee: &ValueFilter<i64>, users: &P) -> Result<Filter, P::Error> {
    Ok(match assignee {
        ValueFilter::None => without(Facet::HasAssignee),
        ValueFilter::Any | ValueFilter::Current => with(Facet::HasAssignee),
        ValueFilter::Is(id) => with(FacetUser::from(&users.user(unsigned_id(*id))?).assignee()),
    })
}

fn facet_keys<'a>(users: &'a [UserKey], facet: fn(FacetUser<'a>) -> Facet<'a>) -> Vec<Vec<u8>> {
    users.iter().map(|user| facet(user.into()).key()).collect()
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
    negated(included(filter, any, facet))
}

fn negated(filter: Filter) -> Filter {
    match filter {
        Filter::AnyOf(keys) => Filter::NoneOf(keys),
        Filter::NoneOf(keys) => Filter::AnyOf(keys),
        other => other,
    }
}

/// A negative id becomes `u64::MAX`, which no issue has.
fn unsigned_id(id: i64) -> u64 {
    u64::try_from(id).unwrap_or(u64::MAX)
}

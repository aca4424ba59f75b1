//! Filters as the index knows them: terms, of which an issue has some or has none.

use crate::facet::Term;
use crate::parameters::{Asked, Between, Choice, Filters, Milestone, Person, Scope};
use crate::segment::Field;

/// What an issue has to satisfy; all of a list at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// It has one of these terms, or more, by their keys.
    Has(Vec<Vec<u8>>),
    /// It has none of them.
    Lacks(Vec<Vec<u8>>),
    Milestone {
        word: Milestone,
        negated: bool,
    },
    CurrentIteration {
        negated: bool,
    },
    Created(Between),
    Updated(Between),
    Text {
        text: String,
        fields: Vec<Field>,
    },
    /// No issue does.
    Never,
}

/// What usernames and handles mean.
pub trait People {
    type Error;

    /// The ids of the user, or of the group's members; nobody if there is no such user.
    fn ids(&self, name: &str) -> Result<Vec<u64>, Self::Error>;
}

/// The filters of a question that the user `me` asks. `below`: of a group or project, where the
/// same label twice is no label.
pub fn filters<P: People>(asked: &Asked, me: u64, below: bool, people: &P) -> Result<Vec<Filter>, P::Error> {
    let mut all = Vec::new();
    match asked.scope {
        Scope::All => {}
        Scope::CreatedByMe => all.push(has(Term::Author(me))),
        Scope::AssignedToMe => all.push(has(Term::Assignee(me))),
    }
    let repeated = |labels: &[String]| {
        labels.iter().enumerate().any(|(at, label)| labels.iter().skip(at + 1).any(|other| other == label))
    };
    let is_word = |word: &str| asked.is.labels.iter().any(|label| label.eq_ignore_ascii_case(word));
    match () {
        () if is_word("none") => all.push(lacks(Term::Labelled)),
        () if is_word("any") => all.push(has(Term::Labelled)),
        () if below && repeated(&asked.is.labels) => all.push(Filter::Never),
        () => all.extend(asked.is.labels.iter().map(|label| has(Term::Label(label)))),
    }
    positive(&asked.is, people, &mut all)?;
    all.extend(asked.not.labels.iter().map(|label| lacks(Term::Label(label))));
    negative(&asked.not, people, &mut all)?;
    match &asked.reaction {
        None => {}
        Some(Choice::None) => all.push(lacks(Term::Reacted(me))),
        Some(Choice::Is(name)) => all.push(has(Term::Reaction(me, name))),
        Some(Choice::Any | Choice::Current) => all.push(has(Term::Reacted(me))),
    }
    match asked.confidential {
        None => {}
        Some(true) => all.push(has(Term::Confidential)),
        Some(false) => all.push(lacks(Term::Confidential)),
    }
    all.extend(asked.epic.iter().map(|epic| chosen(epic, Term::InEpic, |id| Term::Epic(unsigned(*id)))));
    all.extend(asked.health.iter().map(|health| chosen(health, Term::HasHealth, |status| Term::Health(status))));
    if !asked.created.is_open() {
        all.push(Filter::Created(asked.created));
    }
    if !asked.updated.is_open() {
        all.push(Filter::Updated(asked.updated));
    }
    let text = |text: &String| Filter::Text { text: text.clone(), fields: asked.fields.clone() };
    all.extend(asked.search.iter().map(text));
    Ok(all)
}

fn positive<P: People>(is: &Filters, people: &P, all: &mut Vec<Filter>) -> Result<(), P::Error> {
    match &is.milestone {
        None => {}
        Some(Milestone::None) => all.push(lacks(Term::InMilestone)),
        Some(Milestone::Any) => all.push(has(Term::InMilestone)),
        Some(Milestone::Title(title)) => all.push(has(Term::Milestone(title))),
        Some(word) => all.push(Filter::Milestone { word: word.clone(), negated: false }),
    }
    if let Some(iids) = &is.iids {
        all.push(Filter::Has(iids.iter().map(|iid| Term::Iid(*iid).key()).collect()));
    }
    match &is.author {
        None => {}
        Some(Person::Id(id)) => all.push(has(Term::Author(unsigned(*id)))),
        Some(Person::Name(name)) => all.push(Filter::Has(keys(people.ids(name)?, Term::Author))),
    }
    all.extend(is.assignee_id.iter().map(|id| chosen(id, Term::Assigned, |id| Term::Assignee(unsigned(*id)))));
    for name in &is.assignees {
        all.push(Filter::Has(keys(people.ids(name)?, Term::Assignee)));
    }
    all.extend(is.weight.iter().map(|weight| chosen(weight, Term::Weighted, |weight| Term::Weight(*weight))));
    all.extend(is.iteration.iter().map(|iteration| match iteration {
        Choice::Current => Filter::CurrentIteration { negated: false },
        known => chosen(known, Term::InIteration, |id| Term::Iteration(unsigned(*id))),
    }));
    all.extend(is.iteration_title.iter().map(|title| has(Term::IterationTitle(title))));
    Ok(())
}

fn negative<P: People>(not: &Filters, people: &P, all: &mut Vec<Filter>) -> Result<(), P::Error> {
    match &not.milestone {
        None => {}
        Some(Milestone::None) => all.push(has(Term::InMilestone)),
        Some(Milestone::Any) => all.push(lacks(Term::InMilestone)),
        Some(Milestone::Title(title)) => all.push(lacks(Term::Milestone(title))),
        Some(word) => all.push(Filter::Milestone { word: word.clone(), negated: true }),
    }
    if let Some(iids) = &not.iids {
        all.push(Filter::Lacks(iids.iter().map(|iid| Term::Iid(*iid).key()).collect()));
    }
    match &not.author {
        None => {}
        Some(Person::Id(id)) => all.push(lacks(Term::Author(unsigned(*id)))),
        Some(Person::Name(name)) => all.push(Filter::Lacks(keys(people.ids(name)?, Term::Author))),
    }
    all.extend(not.assignee_id.iter().map(|id| unchosen(id, Term::Assigned, |id| Term::Assignee(unsigned(*id)))));
    for name in &not.assignees {
        all.push(Filter::Lacks(keys(people.ids(name)?, Term::Assignee)));
    }
    all.extend(not.weight.iter().map(|weight| unchosen(weight, Term::Weighted, |weight| Term::Weight(*weight))));
    all.extend(not.iteration.iter().map(|iteration| match iteration {
        Choice::Current => Filter::CurrentIteration { negated: true },
        known => unchosen(known, Term::InIteration, |id| Term::Iteration(unsigned(*id))),
    }));
    all.extend(not.iteration_title.iter().map(|title| lacks(Term::IterationTitle(title))));
    Ok(())
}

fn has(term: Term) -> Filter {
    Filter::Has(vec![term.key()])
}

fn lacks(term: Term) -> Filter {
    Filter::Lacks(vec![term.key()])
}

fn keys(ids: Vec<u64>, term: fn(u64) -> Term<'static>) -> Vec<Vec<u8>> {
    ids.into_iter().map(|id| term(id).key()).collect()
}

/// `any` is the term that tells that there is a value.
fn chosen<'a, T>(choice: &'a Choice<T>, any: Term<'a>, term: impl Fn(&'a T) -> Term<'a>) -> Filter {
    match choice {
        Choice::None => lacks(any),
        Choice::Any | Choice::Current => has(any),
        Choice::Is(value) => has(term(value)),
    }
}

fn unchosen<'a, T>(choice: &'a Choice<T>, any: Term<'a>, term: impl Fn(&'a T) -> Term<'a>) -> Filter {
    match chosen(choice, any, term) {
        Filter::Has(keys) => Filter::Lacks(keys),
        Filter::Lacks(keys) => Filter::Has(keys),
        other => other,
    }
}

/// Nothing has a negative id; nothing has this one either.
fn unsigned(id: i64) -> u64 {
    u64::try_from(id).unwrap_or(u64::MAX)
}

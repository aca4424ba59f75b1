//! What an issue can be found by.

use super::{Issue, User};
use crate::facet::{IterationDates, MilestoneDates, Owner, Term};

impl Issue<'_> {
    /// Calls `each` for every term of this issue; the same one may come twice.
    pub fn terms(&self, mut each: impl FnMut(Term)) {
        let record = &self.record;
        let project_id = record.project_id.unwrap_or_default();
        each(Term::Project(project_id));
        if record.state.as_deref() != Some("closed") {
            each(Term::Opened);
        }
        if record.confidential == Some(true) {
            each(Term::Confidential);
        }
        let banned = |user: &User| user.state.as_deref() == Some("banned");
        if record.hidden == Some(true) || record.author.as_ref().is_some_and(banned) {
            each(Term::Hidden);
        }
        if let Some(author) = record.author.as_ref().map(|author| author.id).or(record.author_id) {
            each(Term::Author(author));
        }
        // Entities have both; the list is the newer form.
        match &record.assignees {
            Some(assignees) => assigned(assignees, &mut each),
            None => assigned(record.assignee.as_slice(), &mut each),
        }
        for label in record.labels.iter().flatten() {
            each(Term::Label(&label.0));
            each(Term::Labelled);
        }
        if let Some(iid) = record.iid {
            each(Term::Iid(iid));
        }
        if let Some(epic) = record.epic.as_ref().map(|epic| epic.id).or(record.epic_id) {
            each(Term::Epic(epic));
            each(Term::InEpic);
        }
        if let Some(weight) = record.weight {
            each(Term::Weight(weight));
            each(Term::Weighted);
        }
        if let Some(status) = record.health_status.as_deref() {
            each(Term::Health(&status.to_ascii_lowercase()));
            each(Term::HasHealth);
        }
        for reaction in record.reactions.iter().flatten() {
            each(Term::Reaction(reaction.user.id, &reaction.name));
            each(Term::Reacted(reaction.user.id));
        }
        self.milestone_terms(project_id, &mut each);
        self.iteration_terms(&mut each);
    }

    fn milestone_terms(&self, project_id: u64, each: &mut impl FnMut(Term)) {
        let Some(milestone) = &self.record.milestone else { return };
        each(Term::Milestone(&milestone.title));
        each(Term::InMilestone);
        if milestone.start_date.is_none() && milestone.due_date.is_none() {
            return;
        }
        let owner = match (milestone.group_id, milestone.project_id) {
            (Some(id), _) => Owner::Group(id),
            (None, id) => Owner::Project(id.unwrap_or(project_id)),
        };
        each(Term::MilestoneDates(&MilestoneDates {
            owner,
            id: milestone.id,
            title: milestone.title.clone().into_owned(),
            active: milestone.state.as_deref() != Some("closed"),
            start: milestone.start_date.as_deref().map(str::to_owned),
            due: milestone.due_date.as_deref().map(str::to_owned),
        }));
    }

    fn iteration_terms(&self, each: &mut impl FnMut(Term)) {
        let Some(iteration) = &self.record.iteration else { return };
        each(Term::Iteration(iteration.id));
        each(Term::InIteration);
        if let Some(title) = iteration.title.as_deref() {
            each(Term::IterationTitle(title));
        }
        if let (Some(start), Some(due)) = (iteration.start_date.as_deref(), iteration.due_date.as_deref()) {
            each(Term::IterationDates(&IterationDates { id: iteration.id, start: start.into(), due: due.into() }));
        }
    }
}

fn assigned(users: &[User], each: &mut impl FnMut(Term)) {
    for user in users {
        each(Term::Assignee(user.id));
        each(Term::Assigned);
    }
}

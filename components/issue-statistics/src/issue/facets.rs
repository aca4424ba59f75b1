//! The facets of an issue.

use super::{Issue, User};
use crate::facet::{self, Facet, FacetUser, IterationDates, MilestoneDates, MilestoneOwner, ProjectKey};

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

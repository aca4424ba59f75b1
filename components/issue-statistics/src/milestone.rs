//! Milestones and iterations by date. Dates are `YYYY-MM-DD`, so their text order is their time order.

use crate::facet::{IterationDates, MilestoneDates, MilestoneOwner};
use crate::parameters::MilestoneFilter;
use std::collections::BTreeMap;

/// The milestones that the filter selects today, by the rules of the reference service:
///
/// - started: open, and it starts today or earlier
/// - upcoming: of each group or project, the open milestone with the earliest due date after today
/// - not started: open, and it starts after today
/// - not upcoming: open, and due today or earlier
pub fn select_by_dates<'a>(
    all: &'a [MilestoneDates],
    filter: &MilestoneFilter,
    negated: bool,
    today: &str,
) -> Vec<&'a MilestoneDates> {
    let open = all.iter().filter(|milestone| milestone.active);
    let starts = |milestone: &MilestoneDates, early: bool| {
        milestone.start.as_deref().is_some_and(|start| (start <= today) == early)
    };
    let due =
        |milestone: &MilestoneDates, early: bool| milestone.due.as_deref().is_some_and(|due| (due <= today) == early);
    match (filter, negated) {
        (MilestoneFilter::Started, negated) => open.filter(|milestone| starts(milestone, !negated)).collect(),
        (MilestoneFilter::Upcoming, true) => open.filter(|milestone| due(milestone, true)).collect(),
        (MilestoneFilter::Upcoming, false) => {
            let coming: Vec<&MilestoneDates> = open.filter(|milestone| due(milestone, false)).collect();
            let mut next: BTreeMap<MilestoneOwner, &MilestoneDates> = BTreeMap::new();
            for milestone in &coming {
                let earliest = next.entry(milestone.owner).or_insert(milestone);
                if due_order(milestone) < due_order(earliest) {
                    *earliest = milestone;
                }
            }
            // Imports may have given one milestone different dates.
            let is_next = |milestone: &MilestoneDates| {
                next.get(&milestone.owner)
                    .is_some_and(|next| (next.id, &next.title) == (milestone.id, &milestone.title))
            };
            coming.into_iter().filter(|milestone| is_next(milestone)).collect()
        }
        _ => Vec::new(),
    }
}

fn due_order(milestone: &MilestoneDates) -> (&Option<String>, Option<u64>, &str) {
    (&milestone.due, milestone.id, &milestone.title)
}

pub fn is_current(iteration: &IterationDates, today: &str) -> bool {
    *iteration.start <= *today && *today <= *iteration.due
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milestone(id: u64, owner: MilestoneOwner, active: bool, start: &str, due: &str) -> MilestoneDates {
        let date = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        MilestoneDates { owner, id: Some(id), title: format!("m{id}"), active, start: date(start), due: date(due) }
    }

    fn ids(filter: MilestoneFilter, negated: bool) -> Vec<u64> {
        let (group, project) = (MilestoneOwner::Group(1), MilestoneOwner::Project(1));
        let all = [
            milestone(1, group, true, "2026-05-10", "2026-05-11"),
            milestone(2, group, true, "2026-05-11", "2026-05-12"),
            milestone(3, group, true, "", "2026-05-20"),
            milestone(4, project, true, "2026-06-01", "2026-06-30"),
            milestone(5, project, false, "2026-05-01", "2026-05-30"),
            milestone(6, project, true, "2026-01-01", ""),
        ];
        select_by_dates(&all, &filter, negated, "2026-05-10").into_iter().filter_map(|milestone| milestone.id).collect()
    }

    #[test]
    fn filters_by_date_depend_on_today() {
        assert_eq!(ids(MilestoneFilter::Started, false), [1, 6]);
        assert_eq!(ids(MilestoneFilter::Started, true), [2, 4]);
        assert_eq!(ids(MilestoneFilter::Upcoming, false), [1, 4], "one for each group and project");
        assert_eq!(ids(MilestoneFilter::Upcoming, true), [0; 0]);
        let today = [milestone(1, MilestoneOwner::Group(1), true, "", "2026-05-10")];
        assert_eq!(select_by_dates(&today, &MilestoneFilter::Upcoming, true, "2026-05-10").len(), 1);
        let found = select_by_dates(&today, &MilestoneFilter::Upcoming, false, "2026-05-10").len();
        assert_eq!(found, 0, "strictly after today");
    }

    #[test]
    fn iterations_include_their_days() {
        let iteration = IterationDates { id: 1, start: "2026-05-01".into(), due: "2026-05-14".into() };
        for (today, current) in
            [("2026-04-30", false), ("2026-05-01", true), ("2026-05-14", true), ("2026-05-15", false)]
        {
            assert_eq!(is_current(&iteration, today), current, "{today}");
        }
    }
}

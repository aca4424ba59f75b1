//! Counting: queries each segment separately and adds up the counts.

use crate::facet::{
    Facet, ITERATION_DATES_KIND, IterationDates, MILESTONE_DATES_KIND, MilestoneDates, MilestoneOwner, json_value,
};
use crate::filter::Filter;
use crate::manifest::SegmentInfo;
use crate::parameters::{MilestoneFilter, TimeRange};
use crate::query_cost::{LOOKUP_COST, QueryCost, SearchError};
use crate::segment::{Field, Segment, TableName, phrase_search, time_index};
use crate::set;
use crate::store::IndexStore;
use crate::visibility::{self, AuthorizedCount, documents_with_facet};
use kit::store::StoreError;
use roaring::RoaringBitmap;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub all: u64,
    pub opened: u64,
}

/// The reason for the lack of a count.
#[derive(Debug)]
pub enum CountError {
    Store(StoreError),
    /// The request costs more than [`MAX_COST`](crate::query_cost::MAX_COST) allows.
    CostExceeded(CostExceeded),
}

/// The part of a request that exceeded the limit of its cost.
#[derive(Debug, PartialEq, Eq)]
pub enum CostExceeded {
    /// The search for this text.
    Search(String),
    /// The values of the filters.
    Filters,
    /// The decision about which projects the caller may read, or which are in a group.
    Projects,
}

impl CountError {
    fn of(error: SearchError, exceeded: CostExceeded) -> Self {
        match error {
            SearchError::Store(error) => CountError::Store(error),
            SearchError::CostExceeded => CountError::CostExceeded(exceeded),
        }
    }
}

impl From<StoreError> for CountError {
    fn from(error: StoreError) -> Self {
        CountError::Store(error)
    }
}

impl From<SearchError> for CountError {
    fn from(error: SearchError) -> Self {
        CountError::of(error, CostExceeded::Filters)
    }
}

/// Counts the issues that match all filters and that the caller may see.
pub fn count(
    store: &IndexStore,
    authorized: &AuthorizedCount,
    filters: &[Filter],
    cost: &QueryCost,
) -> Result<Counts, CountError> {
    let mut counts = Counts::default();
    if filters.contains(&Filter::MatchNone) {
        return Ok(counts);
    }
    let manifest = store.manifest()?;
    let filters = resolve_dates(store, &manifest.segments, filters, cost)?;
    for info in &manifest.segments {
        let segment = store.segment(info)?;
        let found = matching_documents(store, &segment, info, authorized, &filters, cost)?;
        let opened = documents_with_facet(store, &segment, &Facet::Opened.key())?;
        counts.all += found.len();
        counts.opened += found.intersection_len(&opened);
    }
    Ok(counts)
}

/// The matching documents of one segment. The smallest set is intersected first, so that a filter with few matches
/// makes the count cheap. Searches come last.
fn matching_documents(
    store: &IndexStore,
    segment: &Segment,
    info: &SegmentInfo,
    authorized: &AuthorizedCount,
    filters: &[Filter],
    cost: &QueryCost,
) -> Result<RoaringBitmap, CountError> {
    let mut sets: Vec<Rc<RoaringBitmap>> = Vec::new();
    for filter in filters {
        if let Filter::AnyOf(keys) = filter {
            let set = union_of_facets(store, segment, keys, cost)?;
            if set.is_empty() {
                return Ok(RoaringBitmap::new());
            }
            sets.push(set);
        }
        if let Filter::Created(range) | Filter::Updated(range) = filter {
            let is_created = matches!(filter, Filter::Created(_));
            let table = if is_created { TableName::Created } else { TableName::Updated };
            sets.push(Rc::new(documents_in_range(store, segment, table, range)?));
        }
    }
    sets.sort_by_key(|set| set.len());
    let visible = visibility::visible_documents(store, segment, info.tombstones.as_ref(), authorized, cost)
        .map_err(|error| CountError::of(error, CostExceeded::Projects))?;
    let mut found = match sets.split_first() {
        None => (*visible).clone(),
        Some((smallest, rest)) => {
            let mut found = &**smallest & &*visible;
            rest.iter().for_each(|set| found &= &**set);
            found
        }
    };
    for filter in filters {
        if found.is_empty() {
            break;
        }
        if let Filter::NoneOf(keys) = filter {
            for key in keys {
                cost.add(LOOKUP_COST)?;
                found -= &*documents_with_facet(store, segment, key)?;
            }
        }
    }
    for filter in filters {
        if found.is_empty() {
            break;
        }
        if let Filter::Contains { text, fields } = filter {
            let documents = documents_with_text(store, segment, text, fields, cost);
            found &= &*documents.map_err(|error| CountError::of(error, CostExceeded::Search(text.clone())))?;
        }
    }
    Ok(found)
}

/// The documents that contain a text.
fn documents_with_text(
    store: &IndexStore,
    segment: &Segment,
    text: &str,
    fields: &[Field],
    cost: &QueryCost,
) -> Result<Rc<RoaringBitmap>, SearchError> {
    let key = [b"text ", segment.id.as_bytes(), format!(" {fields:?} ").as_bytes(), text.as_bytes()].concat();
    store.cache.get_or_compute(&key, cost, || phrase_search::substring_documents(segment, text, fields, cost))
}

fn union_of_facets(
    store: &IndexStore,
    segment: &Segment,
    keys: &[Vec<u8>],
    cost: &QueryCost,
) -> Result<Rc<RoaringBitmap>, CountError> {
    cost.add(LOOKUP_COST * keys.len() as u64)?;
    match keys {
        [key] => Ok(documents_with_facet(store, segment, key)?),
        keys => {
            let mut all = RoaringBitmap::new();
            for key in keys {
                all |= &*documents_with_facet(store, segment, key)?;
            }
            Ok(Rc::new(all))
        }
    }
}

fn documents_in_range(
    store: &IndexStore,
    segment: &Segment,
    table: TableName,
    range: &TimeRange,
) -> Result<RoaringBitmap, StoreError> {
    if let TimeRange { from: Some(from), to: Some(to) } = range
        && from > to
    {
        return Ok(RoaringBitmap::new());
    }
    time_index::range(&segment.table(table), segment.document_count(), range.from, range.to, |blocks, make| {
        let key = format!("{} {} {} {}", table.as_str(), segment.id, blocks.start, blocks.end);
        store.cache.get_or_insert_with(key.as_bytes(), make)
    })
}

/// Replaces date filters by filters on the facets of the milestones and iterations that match today. The facets of all
/// segments are compared, because only one milestone of all segments is the next.
fn resolve_dates(
    store: &IndexStore,
    segments: &[SegmentInfo],
    filters: &[Filter],
    cost: &QueryCost,
) -> Result<Vec<Filter>, CountError> {
    let today = store.env.now.to_date();
    let resolved = |filter: &Filter| -> Result<Filter, CountError> {
        match filter {
            Filter::MilestoneDates { milestone, negated } => {
                let all: Vec<MilestoneDates> = live_values(store, segments, MILESTONE_DATES_KIND, cost)?;
                Ok(any_of_milestones(&all, milestone, *negated, &today))
            }
            Filter::CurrentIteration { negated } => {
                let all: Vec<IterationDates> = live_values(store, segments, ITERATION_DATES_KIND, cost)?;
                let current = all.iter().filter(|iteration| is_current(iteration, &today));
                let keys = current.map(|iteration| Facet::IterationDates(iteration).key()).collect();
                Ok(if *negated { Filter::NoneOf(keys) } else { Filter::AnyOf(keys) })
            }
            other => Ok(other.clone()),
        }
    };
    filters.iter().map(resolved).collect()
}

/// An issue must be in one of the selected milestones, even if the filter is negated.
fn any_of_milestones(all: &[MilestoneDates], filter: &MilestoneFilter, negated: bool, today: &str) -> Filter {
    let selected = select_by_dates(all, filter, negated, today);
    Filter::AnyOf(selected.into_iter().map(|milestone| Facet::MilestoneDates(milestone).key()).collect())
}

/// The values of all facets of a JSON kind that belong to a document without tombstone.
fn live_values<T: DeserializeOwned>(
    store: &IndexStore,
    segments: &[SegmentInfo],
    kind: u8,
    cost: &QueryCost,
) -> Result<Vec<T>, CountError> {
    let mut keys = BTreeSet::new();
    for info in segments {
        let segment = store.segment(info)?;
        let tombstones = info.tombstones.as_ref().map(|tombstones| store.tombstones(tombstones)).transpose()?;
        let mut cursor = segment.table(TableName::Facets).cursor_from(&[kind])?;
        while let Some(facet) = cursor.next()?.filter(|facet| facet.key.first() == Some(&kind)) {
            cost.add(LOOKUP_COST + facet.value.len() as u64)?;
            let is_live = match &tombstones {
                None => true,
                Some(tombstones) => {
                    let set = set::decode(&facet.value).ok_or_else(|| segment.corrupt(TableName::Facets))?;
                    !set.is_subset(tombstones)
                }
            };
            if is_live {
                keys.insert(facet.key.to_vec());
            }
        }
    }
    Ok(keys.iter().filter_map(|key| json_value(key, kind)).collect())
}

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
        assert_eq!(
            select_by_dates(&today, &MilestoneFilter::Upcoming, false, "2026-05-10").len(),
            0,
            "strictly after today"
        );
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

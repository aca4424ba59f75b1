//! Counting: each segment is queried by itself, and the counts are added up.

use crate::authorization::{AuthorizedCount, Target};
use crate::facet::{
    Facet, ITERATION_DATES_KIND, IterationDates, MILESTONE_DATES_KIND, MilestoneDates, ProjectKey, json_value,
};
use crate::filter::Filter;
use crate::manifest::SegmentInfo;
use crate::milestone;
use crate::parameters::{MilestoneFilter, TimeRange};
use crate::segment::{Field, Segment, TableName, substring_search, time_index};
use crate::set;
use crate::store::IndexStore;
use crate::visibility::{self, documents_with_facet};
use crate::work::{LOOK_UP, SearchError, WorkBudget};
use kit::store::StoreError;
use roaring::RoaringBitmap;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::rc::Rc;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub all: u64,
    pub opened: u64,
}

/// Why there is no count.
#[derive(Debug)]
pub enum CountError {
    Store(StoreError),
    /// The request needs more work than is allowed.
    TooMuchWork(Excess),
}

/// The part of a request that was too much work.
#[derive(Debug, PartialEq, Eq)]
pub enum Excess {
    /// The search for this text.
    Search(String),
    /// The values of the filters.
    Filters,
    /// Deciding which projects the caller may read, or which are in a group.
    Projects,
}

impl CountError {
    fn of(error: SearchError, excess: Excess) -> Self {
        match error {
            SearchError::Store(error) => CountError::Store(error),
            SearchError::TooMuchWork => CountError::TooMuchWork(excess),
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
        CountError::of(error, Excess::Filters)
    }
}

/// How many issues match all filters, among those that the caller may see.
pub fn count(
    store: &IndexStore,
    authorized: &AuthorizedCount,
    filters: &[Filter],
    work: &WorkBudget,
) -> Result<Counts, CountError> {
    let mut counts = Counts::default();
    if filters.contains(&Filter::MatchNone) {
        return Ok(counts);
    }
    let manifest = store.manifest()?;
    let filters = resolve_dates(store, &manifest.segments, filters, work)?;
    for info in &manifest.segments {
        let segment = store.segment(info)?;
        let found = matching_documents(store, &segment, info, authorized, &filters, work)?;
        let opened = documents_with_facet(store, &segment, &Facet::Opened.key())?;
        counts.all += found.len();
        counts.opened += found.intersection_len(&opened);
    }
    Ok(counts)
}

/// The documents of one segment. The smallest set comes first, so that a filter with few matches makes
/// the count cheap, and the searches come last.
fn matching_documents(
    store: &IndexStore,
    segment: &Segment,
    info: &SegmentInfo,
    authorized: &AuthorizedCount,
    filters: &[Filter],
    work: &WorkBudget,
) -> Result<RoaringBitmap, CountError> {
    let mut sets: Vec<Rc<RoaringBitmap>> = Vec::new();
    for filter in filters {
        if let Filter::AnyOf(keys) = filter {
            let set = union_of_facets(store, segment, keys, work)?;
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
    match authorized.target {
        Target::Instance => {}
        Target::Group(id) => {
            let documents = visibility::documents_of_group(store, segment, &authorized.catalog, id, work);
            sets.push(documents.map_err(|error| CountError::of(error, Excess::Projects))?);
        }
        Target::Project(id) => {
            let incarnation = authorized.catalog.project(id).and_then(|project| project.issues_incarnation());
            let key = ProjectKey { id, incarnation }.facet().key();
            sets.push(documents_with_facet(store, segment, &key)?);
        }
    }
    sets.sort_by_key(|set| set.len());
    let visible = visibility::visible_documents(store, segment, info.tombstones.as_ref(), authorized, work)
        .map_err(|error| CountError::of(error, Excess::Projects))?;
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
                work.spend(LOOK_UP)?;
                found -= &*documents_with_facet(store, segment, key)?;
            }
        }
    }
    for filter in filters {
        if found.is_empty() {
            break;
        }
        if let Filter::Contains { text, fields } = filter {
            let documents = documents_with_text(store, segment, text, fields, work);
            found &= &*documents.map_err(|error| CountError::of(error, Excess::Search(text.clone())))?;
        }
    }
    Ok(found)
}

/// The documents that contain a text. A result from the cache counts as the work that it was.
fn documents_with_text(
    store: &IndexStore,
    segment: &Segment,
    text: &str,
    fields: &[Field],
    work: &WorkBudget,
) -> Result<Rc<RoaringBitmap>, SearchError> {
    let key = [b"text ", segment.id.as_bytes(), format!(" {fields:?} ").as_bytes(), text.as_bytes()].concat();
    store.cache.found(&key, work, || substring_search::documents(segment, text, fields, work))
}

fn union_of_facets(
    store: &IndexStore,
    segment: &Segment,
    keys: &[Vec<u8>],
    work: &WorkBudget,
) -> Result<Rc<RoaringBitmap>, CountError> {
    work.spend(LOOK_UP * keys.len() as u64)?;
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
        store.cache.set(key.as_bytes(), make)
    })
}

/// Replaces filters by today's date with filters by the facets of the milestones and iterations that match today. The
/// facets of all segments are compared, because only one of all is the next.
fn resolve_dates(
    store: &IndexStore,
    segments: &[SegmentInfo],
    filters: &[Filter],
    work: &WorkBudget,
) -> Result<Vec<Filter>, CountError> {
    let today = store.env.now.to_date();
    let resolved = |filter: &Filter| -> Result<Filter, CountError> {
        match filter {
            Filter::MilestoneDates { milestone, negated } => {
                let all: Vec<MilestoneDates> = live_values(store, segments, MILESTONE_DATES_KIND, work)?;
                Ok(any_of_milestones(&all, milestone, *negated, &today))
            }
            Filter::CurrentIteration { negated } => {
                let all: Vec<IterationDates> = live_values(store, segments, ITERATION_DATES_KIND, work)?;
                let current = all.iter().filter(|iteration| milestone::is_current(iteration, &today));
                let keys = current.map(|iteration| Facet::IterationDates(iteration).key()).collect();
                Ok(if *negated { Filter::NoneOf(keys) } else { Filter::AnyOf(keys) })
            }
            other => Ok(other.clone()),
        }
    };
    filters.iter().map(resolved).collect()
}

/// An issue has to be in one of the selected milestones, also if the filter is negated.
fn any_of_milestones(all: &[MilestoneDates], filter: &MilestoneFilter, negated: bool, today: &str) -> Filter {
    let selected = milestone::select_by_dates(all, filter, negated, today);
    Filter::AnyOf(selected.into_iter().map(|milestone| Facet::MilestoneDates(milestone).key()).collect())
}

/// The values of all facets of a JSON kind that a document without tombstone has.
fn live_values<T: DeserializeOwned>(
    store: &IndexStore,
    segments: &[SegmentInfo],
    kind: u8,
    work: &WorkBudget,
) -> Result<Vec<T>, CountError> {
    let mut keys = BTreeSet::new();
    for info in segments {
        let segment = store.segment(info)?;
        let tombstones = info.tombstones.as_ref().map(|tombstones| store.tombstones(tombstones)).transpose()?;
        let mut cursor = segment.table(TableName::Facets).cursor_from(&[kind])?;
        while let Some(facet) = cursor.next()?.filter(|facet| facet.key.first() == Some(&kind)) {
            work.spend(LOOK_UP + facet.value.len() as u64)?;
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

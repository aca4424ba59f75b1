//! Counting: each segment is asked by itself.

use crate::facet::{ITERATION_DATES, IterationDates, MILESTONE_DATES, MilestoneDates, Term, value_of};
use crate::filter::Filter;
use crate::manifest::Entry;
use crate::milestone;
use crate::parameters::{Between, Milestone};
use crate::segment::{Part, Segment, substring_search, time_index};
use crate::store::Store;
use crate::visibility::{self, Viewer, term};
use kit::store::StoreError;
use roaring::RoaringBitmap;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Where is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Everywhere,
    Group(u64),
    Project(u64),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub all: u64,
    pub opened: u64,
}

/// How many issues satisfy all filters, among those that the viewer may see.
pub fn count(store: &Store, viewer: &Viewer, place: Place, filters: &[Filter]) -> Result<Counts, StoreError> {
    let mut counts = Counts::default();
    if filters.contains(&Filter::Never) {
        return Ok(counts);
    }
    let index = store.index()?;
    let filters = with_dates(store, &index.segments, filters)?;
    for entry in &index.segments {
        let segment = store.segment(&entry.id)?;
        let found = matching(store, &segment, entry, viewer, place, &filters)?;
        let opened = term(store, &segment, &Term::Opened.key())?;
        counts.all += found.len();
        counts.opened += found.intersection_len(&opened);
    }
    Ok(counts)
}

/// The documents of one segment. The smallest set comes first, so that what has few matches costs
/// little, and texts come last.
fn matching(
    store: &Store,
    segment: &Segment,
    entry: &Entry,
    viewer: &Viewer,
    place: Place,
    filters: &[Filter],
) -> Result<RoaringBitmap, StoreError> {
    let dead = entry.dead.as_ref().map(|dead| dead.id.as_str());
    let mut sets: Vec<Rc<RoaringBitmap>> = Vec::new();
    for filter in filters {
        if let Filter::Has(keys) = filter {
            let set = united(store, segment, keys)?;
            if set.is_empty() {
                return Ok(RoaringBitmap::new());
            }
            sets.push(set);
        }
        if let Filter::Created(between) | Filter::Updated(between) = filter {
            let part = if matches!(filter, Filter::Created(_)) { Part::Created } else { Part::Updated };
            sets.push(Rc::new(in_time(store, segment, part, between)?));
        }
    }
    match place {
        Place::Everywhere => {}
        Place::Group(id) => sets.push(visibility::of_group(store, segment, &viewer.catalog, id)?),
        Place::Project(id) => sets.push(term(store, segment, &Term::Project(id).key())?),
    }
    sets.sort_by_key(|set| set.len());
    let visible = visibility::visible(store, segment, dead, viewer)?;
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
        if let Filter::Lacks(keys) = filter {
            for key in keys {
                found -= &*term(store, segment, key)?;
            }
        }
    }
    for filter in filters {
        if found.is_empty() {
            break;
        }
        if let Filter::Text { text, fields } = filter {
            let key = [b"text ", segment.id.as_bytes(), format!(" {fields:?} ").as_bytes(), text.as_bytes()].concat();
            found &= &*store.warm.set(&key, || substring_search::documents(segment, text, fields))?;
        }
    }
    Ok(found)
}

fn united(store: &Store, segment: &Segment, keys: &[Vec<u8>]) -> Result<Rc<RoaringBitmap>, StoreError> {
    match keys {
        [key] => term(store, segment, key),
        keys => {
            let mut all = RoaringBitmap::new();
            for key in keys {
                all |= &*term(store, segment, key)?;
            }
            Ok(Rc::new(all))
        }
    }
}

fn in_time(store: &Store, segment: &Segment, part: Part, between: &Between) -> Result<RoaringBitmap, StoreError> {
    if let Between { from: Some(from), to: Some(to) } = between
        && from > to
    {
        return Ok(RoaringBitmap::new());
    }
    time_index::range(&segment.table(part), segment.documents(), between.from, between.to, |blocks, make| {
        let key = format!("{} {} {} {}", part.name(), segment.id, blocks.start, blocks.end);
        store.warm.set(key.as_bytes(), make)
    })
}

/// Filters by dates become filters by terms: the milestones and iterations that are meant today.
/// Those of all segments are looked through together, because one is only next among all.
fn with_dates(store: &Store, segments: &[Entry], filters: &[Filter]) -> Result<Vec<Filter>, StoreError> {
    let today = store.env.now.to_date();
    let replaced = |filter: &Filter| -> Result<Filter, StoreError> {
        match filter {
            Filter::Milestone { word, negated } => {
                let all: Vec<MilestoneDates> = living(store, segments, MILESTONE_DATES)?;
                Ok(by_dates(&all, word, *negated, &today))
            }
            Filter::CurrentIteration { negated } => {
                let all: Vec<IterationDates> = living(store, segments, ITERATION_DATES)?;
                let current = all.iter().filter(|iteration| milestone::is_current(iteration, &today));
                let keys = current.map(|iteration| Term::IterationDates(iteration).key()).collect();
                Ok(if *negated { Filter::Lacks(keys) } else { Filter::Has(keys) })
            }
            other => Ok(other.clone()),
        }
    };
    filters.iter().map(replaced).collect()
}

/// Words name the milestones that an issue has to be in, also where they are negated.
fn by_dates(all: &[MilestoneDates], word: &Milestone, negated: bool, today: &str) -> Filter {
    let meant = milestone::meant(all, word, negated, today);
    Filter::Has(meant.into_iter().map(|milestone| Term::MilestoneDates(milestone).key()).collect())
}

/// The values of a kind that an issue has which is not superseded.
fn living<T: DeserializeOwned>(store: &Store, segments: &[Entry], kind: u8) -> Result<Vec<T>, StoreError> {
    let mut keys = BTreeSet::new();
    for entry in segments {
        let segment = store.segment(&entry.id)?;
        let dead = entry.dead.as_ref().map(|dead| store.dead(&dead.id)).transpose()?;
        let mut cursor = segment.table(Part::Terms).from(&[kind])?;
        while let Some(term) = cursor.next()?.filter(|term| term.key.first() == Some(&kind)) {
            let lives = match &dead {
                None => true,
                Some(dead) => {
                    let set = crate::set::bitmap(&term.value).ok_or_else(|| segment.damaged(Part::Terms))?;
                    !set.is_subset(dead)
                }
            };
            if lives {
                keys.insert(term.key.to_vec());
            }
        }
    }
    Ok(keys.iter().filter_map(|key| value_of(key, kind)).collect())
}

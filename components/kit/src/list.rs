//! Sorted lists of any length: keys with values, in pages of bounded size.
//!
//! A list is a copy-on-write B-tree. The root record has the top page. A page that outgrows [`MAX_PAGE`] is split, and
//! its parts become blobs below a new top page. A change writes the pages on the way to its key and then swaps the
//! root, so it costs the same however long the list is. The changes of a batch share their pages and their swap. After
//! the swap, the writer deletes the pages that it has replaced. A reader that misses a page reads the root again.
//!
//! A [`List`] has a root of its own. A root with further fields has the [`Top`] of a list among them, and [`Pages`]
//! changes it.
//!
//! The area that has a list marks its pages ([`List::trace`]), because a crash leaves pages that no root names.

use crate::env::Env;
use crate::gc;
use crate::reachability::Tracer;
use crate::root::{self, Decision};
use crate::store::StoreError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

/// The most bytes of a page, about as JSON. A single entry may take more.
const MAX_PAGE: usize = 16 * 1024;

/// The bytes that an entry takes besides its texts, about as JSON.
const ENTRY_OVERHEAD: usize = 8;

/// The bytes that the reference of a page takes besides its first key.
const REFERENCE_OVERHEAD: usize = 80;

/// The longest key and the longest value, in bytes.
const MAX_TEXT: usize = 4096;

/// How often a reader or a writer reads the root again because others have replaced pages.
const MAX_ATTEMPTS: u32 = 100;

/// The form of a list that an earlier build stored under the root's key.
pub trait FormerList: DeserializeOwned {
    /// Keys and values, in any order. `root` is the key of the record. An earlier build may have stored a part of the
    /// list under other keys.
    fn into_entries(self, env: &Env, root: &str) -> Result<Vec<(String, String)>, StoreError>;
}

/// A list that no earlier build stored in another form.
#[derive(Deserialize)]
pub enum NoFormerList {}

impl FormerList for NoFormerList {
    fn into_entries(self, _: &Env, _: &str) -> Result<Vec<(String, String)>, StoreError> {
        match self {}
    }
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key gets this value.
    Put(String),
    /// The key is removed if it has this value.
    Remove(String),
}

/// A list, by its keys in the store. `F` is its form in earlier builds.
pub struct List<F = NoFormerList> {
    root: String,
    pages: Pages,
    former: PhantomData<F>,
}

/// The pages of lists, below a prefix of keys.
pub struct Pages {
    prefix: String,
    max_page: usize,
}

/// The record of a root. A build that knows the former form only cannot read it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RootRecord<F> {
    Present {
        list: Top,
    },
    #[serde(skip_serializing)]
    Former(F),
}

/// The top of a list, in a root's record. An earlier build may have had the sorted keys there.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "TopForm")]
pub struct Top {
    /// The number of levels of pages below the top page.
    height: u32,
    page: Page,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TopForm {
    Pages { height: u32, page: Page },
    Keys(BTreeSet<String>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Page {
    #[serde(rename = "entries")]
    Leaf(Vec<(String, String)>),
    #[serde(rename = "pages")]
    Inner(Vec<Reference>),
}

/// A page below another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Reference {
    /// The first key of the page.
    first: String,
    id: String,
    /// The entries in and below the page.
    count: u64,
}

/// A page below an inner one, during a change.
enum Child {
    Stored(Reference),
    New(Page),
}

impl Default for Page {
    fn default() -> Self {
        Page::Leaf(Vec::new())
    }
}

impl From<TopForm> for Top {
    fn from(form: TopForm) -> Self {
        match form {
            TopForm::Pages { height, page } => Top { height, page },
            TopForm::Keys(keys) => Top::of(keys.into_iter().map(|key| (key, String::new())).collect()),
        }
    }
}

impl Top {
    /// A list with these entries, which [`Pages::change`] divides into pages.
    fn of(sorted: Vec<(String, String)>) -> Self {
        Top { height: 0, page: Page::Leaf(sorted) }
    }

    /// The number of keys.
    pub fn count(&self) -> u64 {
        self.page.count()
    }
}

impl Page {
    fn bytes(&self) -> usize {
        match self {
            Page::Leaf(entries) => entries.iter().map(entry_bytes).sum(),
            Page::Inner(below) => below.iter().map(reference_bytes).sum(),
        }
    }

    fn count(&self) -> u64 {
        match self {
            Page::Leaf(entries) => entries.len() as u64,
            Page::Inner(below) => below.iter().map(|page| page.count).sum(),
        }
    }

    fn first(&self) -> &str {
        match self {
            Page::Leaf(entries) => entries.first().map_or("", |(key, _)| key),
            Page::Inner(below) => below.first().map_or("", |page| &page.first),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Page::Leaf(entries) => entries.is_empty(),
            Page::Inner(below) => below.is_empty(),
        }
    }

    /// Appends the content of a page of the same level with greater keys.
    fn append(&mut self, more: Page) {
        match (self, more) {
            (Page::Leaf(entries), Page::Leaf(more)) => entries.extend(more),
            (Page::Inner(below), Page::Inner(more)) => below.extend(more),
            _ => {}
        }
    }

    /// Whether it has several entries that take more than `max` bytes together.
    fn is_too_large(&self, max: usize) -> bool {
        let is_one = match self {
            Page::Leaf(entries) => entries.len() < 2,
            Page::Inner(below) => below.len() < 2,
        };
        !is_one && self.bytes() > max
    }

    /// Pages of about equal size, none of them above `max` except for a single entry.
    fn split(self, max: usize) -> Vec<Page> {
        let parts = self.bytes().div_ceil(max).max(1);
        let target = self.bytes().div_ceil(parts);
        match self {
            Page::Leaf(entries) => chunks(entries, target, max, entry_bytes).into_iter().map(Page::Leaf).collect(),
            Page::Inner(below) => chunks(below, target, max, reference_bytes).into_iter().map(Page::Inner).collect(),
        }
    }
}

fn entry_bytes((key, value): &(String, String)) -> usize {
    key.len() + value.len() + ENTRY_OVERHEAD
}

fn reference_bytes(page: &Reference) -> usize {
    page.first.len() + REFERENCE_OVERHEAD
}

/// Cuts a list after each `target` bytes, and before a chunk has more than `max`.
fn chunks<T>(items: Vec<T>, target: usize, max: usize, bytes: fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut chunks, mut chunk, mut filled) = (Vec::new(), Vec::new(), 0);
    for item in items {
        let size = bytes(&item);
        if filled > 0 && (filled >= target || filled + size > max) {
            chunks.push(std::mem::take(&mut chunk));
            filled = 0;
        }
        filled += size;
        chunk.push(item);
    }
    chunks.push(chunk);
    chunks
}

impl<F: FormerList> List<F> {
    /// The list with this root, whose pages are below the prefix `pages`.
    pub fn new(root: String, pages: String) -> Self {
        List { root, pages: Pages::new(pages), former: PhantomData }
    }

    /// The value of a key. Reads the root, and a page for each level that is not cached.
    pub fn get(&self, env: &Env, key: &str) -> Result<Option<String>, StoreError> {
        retrying(env, &self.root, || self.pages.get(env, self.read(env)?, key))
    }

    /// Up to `limit` keys after `after` with their values, in the order of bytes. Reads the root, and the pages with
    /// these keys that are not cached.
    pub fn after(&self, env: &Env, after: &str, limit: usize) -> Result<Vec<(String, String)>, StoreError> {
        retrying(env, &self.root, || self.pages.after(env, self.read(env)?, after, limit))
    }

    /// The number of keys. Reads the root.
    pub fn count(&self, env: &Env) -> Result<u64, StoreError> {
        Ok(self.read(env)?.count())
    }

    /// Changes keys. Without contention it reads the root and the pages of these keys, writes the changed ones, and
    /// swaps the root; without an effect it only reads. If the reply to a swap is lost, a change may be applied a second
    /// time, after a later change of another writer.
    pub fn apply(&self, env: &Env, changes: &BTreeMap<String, Change>) -> Result<(), StoreError> {
        let mut replaced = Vec::new();
        retrying(env, &self.root, || {
            root::update(env, &self.root, |record: Option<RootRecord<F>>| {
                let top = self.top(env, record)?;
                let list = self.pages.change(env, &top, changes, &mut replaced)?;
                Ok(if list == top { Decision::Keep(()) } else { Decision::Replace(RootRecord::Present { list }, ()) })
            })
        })?;
        self.pages.delete(env, &replaced)
    }

    /// Marks the pages, for the area's garbage collection. In a check it also reads every page, and reports keys that
    /// are out of order and counts that are wrong. A list in its former form has no pages.
    pub fn trace(&self, env: &Env, tracer: &mut Tracer) -> Result<(), StoreError> {
        if let Some(RootRecord::Former(_)) = root::read::<RootRecord<F>>(&*env.store, &self.root)? {
            return Ok(());
        }
        retrying(env, &self.root, || self.pages.trace(env, (&self.root, &self.read(env)?), tracer))
    }

    fn read(&self, env: &Env) -> Result<Top, StoreError> {
        self.top(env, root::read(&*env.store, &self.root)?)
    }

    fn top(&self, env: &Env, record: Option<RootRecord<F>>) -> Result<Top, StoreError> {
        Ok(match record {
            None => Top::default(),
            Some(RootRecord::Present { list }) => list,
            Some(RootRecord::Former(former)) => {
                let entries: BTreeMap<String, String> = former.into_entries(env, &self.root)?.into_iter().collect();
                Top::of(entries.into_iter().collect())
            }
        })
    }
}

/// Whether this instance knows that the store has the marker of its area.
#[derive(Default)]
struct IsMarked(Cell<bool>);

/// Marks a store before the first record of a new format: `marker` is a key below the prefix of the format. A host then
/// refuses components that read earlier formats only, also while no list has pages. An instance reads the marker once.
pub fn mark_format(env: &Env, marker: &str) -> Result<(), StoreError> {
    let known = env.instance_cache.get_or_insert_with(IsMarked::default);
    if !known.0.get() {
        if !env.store.exists(marker)? {
            env.store.set(marker, b"{}")?;
        }
        known.0.set(true);
    }
    Ok(())
}

/// Repeats `attempt` as long as it misses a page because another writer has replaced the root under the key `root`.
pub fn retrying<T>(env: &Env, root: &str, mut attempt: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let mut attempts = Attempts::default();
    loop {
        match attempt() {
            Err(error) => attempts.check(env, root, error)?,
            done => return done,
        }
    }
}

impl Pages {
    /// The pages below this prefix.
    pub fn new(prefix: String) -> Self {
        Pages { prefix, max_page: MAX_PAGE }
    }

    /// The value of a key. Reads a page for each level that is not cached.
    pub fn get(&self, env: &Env, top: Top, key: &str) -> Result<Option<String>, StoreError> {
        let (mut page, mut height) = (top.page, top.height);
        while let Page::Inner(below) = page {
            let Some(next) = below.get(position(&below, key)) else { return Ok(None) };
            height = height.saturating_sub(1);
            page = self.load(env, &next.id, height)?;
        }
        let Page::Leaf(entries) = page else { return Ok(None) };
        let at = entries.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok();
        Ok(at.and_then(|at| entries.into_iter().nth(at)).map(|(_, value)| value))
    }

    /// Up to `limit` keys after `after` with their values, in the order of bytes.
    pub fn after(&self, env: &Env, top: Top, after: &str, limit: usize) -> Result<Vec<(String, String)>, StoreError> {
        let mut found = Vec::new();
        self.collect(env, top.page, top.height, after, limit, &mut found)?;
        Ok(found)
    }

    /// The top with changes, for a swap of its root. Writes the changed pages. `replaced` gets the ids of former
    /// pages, which [`delete`](Self::delete) removes after the swap. Without an effect, the top is the same.
    pub fn change(
        &self,
        env: &Env,
        top: &Top,
        changes: &BTreeMap<String, Change>,
        replaced: &mut Vec<String>,
    ) -> Result<Top, StoreError> {
        let is_too_long = |key: &String, change: &Change| {
            let (Change::Put(value) | Change::Remove(value)) = change;
            key.len().max(value.len()) > MAX_TEXT
        };
        if let Some((key, _)) = changes.iter().find(|(key, change)| is_too_long(key, change)) {
            let (prefix, bytes) = (&self.prefix, key.len());
            return Err(StoreError::Other(format!(
                "`{prefix}`: keys and values of a list have at most {MAX_TEXT} bytes; a key of {bytes} bytes does not fit"
            )));
        }
        let changes: Vec<(&str, &Change)> = changes.iter().map(|(key, change)| (key.as_str(), change)).collect();
        replaced.clear();
        let mut new = top.clone();
        new.page = self.changed(env, new.page, new.height, &changes, replaced)?;
        if new == *top {
            return Ok(new);
        }
        self.divide(env, new, replaced)
    }

    /// The top with pages of bounded size: one that an earlier build wrote may have all keys. For a swap of its root.
    pub fn divide(&self, env: &Env, mut top: Top, replaced: &mut Vec<String>) -> Result<Top, StoreError> {
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate);
        }
        self.level(env, &mut top, replaced)?;
        Ok(top)
    }

    /// Deletes replaced pages.
    pub fn delete(&self, env: &Env, replaced: &[String]) -> Result<(), StoreError> {
        replaced.iter().try_for_each(|id| env.store.delete(&self.key(id)))
    }

    /// As [`List::trace`], for the top in the record under the key `root`.
    pub fn trace(&self, env: &Env, (root, top): (&str, &Top), tracer: &mut Tracer) -> Result<(), StoreError> {
        let mut last = None;
        self.trace_page(env, (root, &top.page), top.height, tracer, &mut last).map(drop)
    }

    fn key(&self, id: &str) -> String {
        format!("{}{id}", self.prefix)
    }

    /// The page of a level above the leaves.
    fn load(&self, env: &Env, id: &str, height: u32) -> Result<Page, StoreError> {
        let key = self.key(id);
        let blob =
            env.blob(&key)?.ok_or_else(|| StoreError::corrupt(&key, "a list names this page, which is missing"))?;
        let page: Page = serde_json::from_slice(&blob).map_err(|why| StoreError::corrupt(&key, why))?;
        match matches!(page, Page::Leaf(_)) == (height == 0) {
            true => Ok(page),
            false => Err(StoreError::corrupt(&key, "the page belongs to another level of the list")),
        }
    }

    fn collect(
        &self,
        env: &Env,
        page: Page,
        height: u32,
        after: &str,
        limit: usize,
        found: &mut Vec<(String, String)>,
    ) -> Result<(), StoreError> {
        match page {
            Page::Leaf(entries) => {
                let room = limit.saturating_sub(found.len());
                found.extend(entries.into_iter().filter(|(key, _)| key.as_str() > after).take(room));
            }
            Page::Inner(below) => {
                for next in below.iter().skip(position(&below, after)) {
                    if found.len() >= limit {
                        break;
                    }
                    let page = self.load(env, &next.id, height.saturating_sub(1))?;
                    self.collect(env, page, height.saturating_sub(1), after, limit, found)?;
                }
            }
        }
        Ok(())
    }

    /// A page with changes that belong to it. It has any size.
    fn changed(
        &self,
        env: &Env,
        page: Page,
        height: u32,
        changes: &[(&str, &Change)],
        replaced: &mut Vec<String>,
    ) -> Result<Page, StoreError> {
        let below = match page {
            Page::Leaf(entries) => return Ok(Page::Leaf(merged(entries, changes))),
            Page::Inner(below) => below,
        };
        let height = height.saturating_sub(1);
        let mut children = Vec::with_capacity(below.len());
        let mut rest = changes;
        let ends = below.iter().skip(1).map(|next| Some(next.first.clone())).chain([None]).collect::<Vec<_>>();
        for (reference, end) in below.into_iter().zip(ends) {
            let count = end.map_or(rest.len(), |end| rest.partition_point(|(key, _)| *key < end.as_str()));
            let (own, later) = rest.split_at(count);
            rest = later;
            if own.is_empty() {
                children.push(Child::Stored(reference));
                continue;
            }
            let page = self.load(env, &reference.id, height)?;
            let new = self.changed(env, page.clone(), height, own, replaced)?;
            if new == page {
                children.push(Child::Stored(reference));
            } else {
                replaced.push(reference.id);
                children.push(Child::New(new));
            }
        }
        self.join_small(env, &mut children, height, replaced)?;
        let mut below = Vec::with_capacity(children.len());
        for child in children {
            match child {
                Child::Stored(reference) => below.push(reference),
                Child::New(page) => below.extend(self.write(env, page)?),
            }
        }
        Ok(Page::Inner(below))
    }

    /// Joins new pages below a quarter of the greatest size with a neighbour.
    fn join_small(
        &self,
        env: &Env,
        children: &mut Vec<Child>,
        height: u32,
        replaced: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let mut at = 0;
        while let Some(child) = children.get(at) {
            let is_small = matches!(child, Child::New(page) if page.bytes() < self.max_page / 4);
            if !is_small || children.len() < 2 {
                at += 1;
                continue;
            }
            at = at.min(children.len() - 2);
            let mut joined: Option<Page> = None;
            for child in children.drain(at..at + 2) {
                let page = match child {
                    Child::New(page) => page,
                    Child::Stored(reference) => {
                        let page = self.load(env, &reference.id, height)?;
                        replaced.push(reference.id);
                        page
                    }
                };
                match &mut joined {
                    Some(joined) => joined.append(page),
                    None => joined = Some(page),
                }
            }
            children.insert(at, Child::New(joined.unwrap_or_default()));
        }
        Ok(())
    }

    /// Writes a page, in parts if it is large. An empty page is not written.
    fn write(&self, env: &Env, page: Page) -> Result<Vec<Reference>, StoreError> {
        let mut below = Vec::new();
        for part in page.split(self.max_page).into_iter().filter(|part| !part.is_empty()) {
            let id = env.id();
            let key = self.key(&id);
            let bytes = serde_json::to_vec(&part).map_err(|why| StoreError::corrupt(&key, why))?;
            env.store.set(&key, &bytes)?;
            env.blobs.put(&key, bytes.into());
            below.push(Reference { first: part.first().to_owned(), id, count: part.count() });
        }
        Ok(below)
    }

    /// Adds levels until the top page is small, or removes levels with one page.
    fn level(&self, env: &Env, top: &mut Top, replaced: &mut Vec<String>) -> Result<(), StoreError> {
        while top.page.is_too_large(self.max_page) {
            let page = std::mem::take(&mut top.page);
            top.page = Page::Inner(self.write(env, page)?);
            top.height += 1;
        }
        while let Page::Inner(below) = &top.page {
            match below.as_slice() {
                [] => *top = Top::default(),
                [only] => {
                    let id = only.id.clone();
                    top.height = top.height.saturating_sub(1);
                    top.page = self.load(env, &id, top.height)?;
                    replaced.push(id);
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Marks the pages below a page. In a check, returns the number of entries that it has.
    fn trace_page(
        &self,
        env: &Env,
        (root, page): (&str, &Page),
        height: u32,
        tracer: &mut Tracer,
        last: &mut Option<String>,
    ) -> Result<u64, StoreError> {
        let below = match page {
            Page::Leaf(entries) => {
                for (key, _) in entries {
                    if last.as_ref().is_some_and(|last| last >= key) {
                        tracer.report(root, format!("the key `{key}` of the list is out of order"));
                    }
                    *last = Some(key.clone());
                }
                return Ok(entries.len() as u64);
            }
            Page::Inner(below) => below,
        };
        let mut count = 0;
        for reference in below {
            tracer.mark_id(&reference.id);
            if !tracer.check && height <= 1 {
                continue;
            }
            let height = height.saturating_sub(1);
            let page = self.load(env, &reference.id, height)?;
            tracer.read(page.bytes());
            let found = self.trace_page(env, (root, &page), height, tracer, last)?;
            if tracer.check && found != reference.count {
                let known = reference.count;
                tracer.report(
                    self.key(&reference.id),
                    format!("the page has {found} entries, and the list says {known}"),
                );
            }
            count += found;
        }
        Ok(count)
    }
}

/// The index of the page that may have `key`.
fn position(below: &[Reference], key: &str) -> usize {
    below.partition_point(|page| page.first.as_str() <= key).saturating_sub(1)
}

/// The entries with changes. Both are sorted by key.
fn merged(entries: Vec<(String, String)>, changes: &[(&str, &Change)]) -> Vec<(String, String)> {
    let mut merged = Vec::with_capacity(entries.len() + changes.len());
    let mut old = entries.into_iter().peekable();
    for (key, change) in changes {
        while let Some(before) = old.next_if(|(known, _)| known.as_str() < *key) {
            merged.push(before);
        }
        let present = old.next_if(|(known, _)| known == key);
        match change {
            Change::Put(value) => merged.push(((*key).to_owned(), value.clone())),
            Change::Remove(value) => merged.extend(present.filter(|(_, known)| known != value)),
        }
    }
    merged.extend(old);
    merged
}

/// Attempts to read a list whose pages are replaced meanwhile.
#[derive(Default)]
struct Attempts {
    made: u32,
    root: Option<Option<Vec<u8>>>,
}

impl Attempts {
    /// Whether another attempt may succeed: a page is missing, and the root differs from the last attempt's. Otherwise
    /// returns the error.
    fn check(&mut self, env: &Env, root: &str, error: StoreError) -> Result<(), StoreError> {
        let StoreError::Corrupt { key, .. } = &error else { return Err(error) };
        if key == root || self.made >= MAX_ATTEMPTS {
            return Err(error);
        }
        self.made += 1;
        let present = env.store.get(root)?;
        if self.root.as_ref() == Some(&present) {
            return Err(error);
        }
        self.root = Some(present);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Discussions, the list of each merge request's discussions, and the discussion of each suggestion.
//!
//! The initial record of a discussion is a blob. Once the discussion is changed, a root has its state, the present
//! notes. An internal discussion has such a root from the beginning, and no blob.

use super::counter;
use super::discussion_record::{DiscussionInitialRecord, DiscussionListRecord, DiscussionStateRecord, LocatorRecord};
use super::key::Key;
use crate::discussion::{self, Discussion, Note};
use crate::suggestion::Suggestion;
use directory::project::ProjectKey;
use kit::root::{self, Decision};
use kit::store::{CompareAndSwap, StoreError};
use kit::{Env, gc};
use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;

/// How many discussions a full page of a list names. Each comment rewrites the page that is not full.
const PAGE: usize = 100;

/// Allocates `count` consecutive ids for suggestions and returns the first.
pub fn allocate_suggestion_ids(env: &Env, count: usize) -> Result<u64, StoreError> {
    counter::take(env, &Key::SuggestionCounter, i64::try_from(count).unwrap_or(i64::MAX))
}

/// How many ids of notes an instance takes at once.
const NOTE_IDS: i64 = 64;

/// Ids of notes that the instance has taken: the next one, and how many are left.
struct NoteIds(Cell<(u64, i64)>);

/// Allocates an id for a note. The ids of an instance grow. Ids that an instance has left when it ends are never used,
/// so gaps are normal. 1 increment for each 64 ids of an instance.
pub fn allocate_note_id(env: &Env) -> Result<u64, StoreError> {
    if let Some(ids) = env.instance_cache.get::<NoteIds>()
        && let (next, left @ 1..) = ids.0.get()
    {
        ids.0.set((next + 1, left - 1));
        return Ok(next);
    }
    let first = counter::take(env, &Key::NoteCounter, NOTE_IDS)?;
    env.instance_cache.put(Rc::new(NoteIds(Cell::new((first + 1, NOTE_IDS - 1)))));
    Ok(first)
}

/// Writes a discussion that begins with `note`, then adds it to its merge request's list.
pub fn save(env: &Env, new: &Discussion, note: &Note) -> Result<(), StoreError> {
    let initial = DiscussionInitialRecord::new(new, note);
    if new.is_internal() {
        root::update(env, &Key::DiscussionState(&new.id).to_string(), |current: Option<DiscussionStateRecord>| {
            let is_written = current.is_some();
            let state = DiscussionStateRecord::new(new, &initial);
            Ok::<_, StoreError>(if is_written { Decision::Keep(()) } else { Decision::Replace(state, ()) })
        })?;
    } else {
        counter::write(env, &Key::DiscussionInitial(&new.id), &initial)?;
    }
    save_locators(env, &new.id, &note.suggestions)?;
    let key = Key::Discussions(&new.project, new.merge_request_iid).to_string();
    let page = env.id();
    root::update(env, &key, |current: Option<DiscussionListRecord>| {
        let mut list = current.unwrap_or_default();
        // A swap that was reported as lost may have taken place, and may have filled the page.
        let is_listed =
            list.last.contains(&new.id) || list.pages.contains(&page) && read_page(env, &page)?.contains(&new.id);
        if is_listed {
            return Ok(Decision::Keep(()));
        }
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate);
        }
        list.last.push(new.id.clone());
        if list.last.len() >= PAGE {
            // The page may be written again by a later attempt of this request: until the swap succeeds,
            // no list names it.
            counter::write(env, &Key::Page(&page), &list.last)?;
            list.pages.push(page.clone());
            list.last.clear();
        }
        Ok::<_, StoreError>(Decision::Replace(list, ()))
    })
}

/// Records the discussion of these suggestions.
fn save_locators(env: &Env, discussion: &str, suggestions: &[Suggestion]) -> Result<(), StoreError> {
    let locator = LocatorRecord { discussion: discussion.to_owned(), index: 0 };
    suggestions.iter().try_for_each(|suggestion| counter::write(env, &Key::Suggestion(suggestion.id), &locator))
}

/// Changes the notes of a discussion. `decide` gets the present discussion (`None` if it was deleted), changes it, and
/// returns a result; an error changes nothing. As in [`root::update`], it must recognise its own effect. A discussion
/// without a note is deleted, and leaves its merge request's list.
pub fn update<T, E: From<StoreError>>(
    env: &Env,
    id: &str,
    decide: impl FnMut(Option<&mut Discussion>) -> Result<T, E>,
) -> Result<T, E> {
    let (state, swap) = root::read_for_update(env, &Key::DiscussionState(id).to_string())?;
    let initial = read_initial(env, id, state.as_ref())?.map(|initial| (initial, swap));
    DiscussionUpdate { id: id.to_owned(), initial }.update(env, decide)
}

/// A discussion that was read to be changed.
pub struct DiscussionUpdate {
    id: String,
    /// The initial record, and the swap of the state; `None` if the discussion was deleted.
    initial: Option<(DiscussionInitialRecord, Box<dyn CompareAndSwap>)>,
}

impl DiscussionUpdate {
    /// The id of the discussion.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// See [`update`]. Reads nothing, unless another request changes the discussion meanwhile.
    pub fn update<T, E: From<StoreError>>(
        self,
        env: &Env,
        mut decide: impl FnMut(Option<&mut Discussion>) -> Result<T, E>,
    ) -> Result<T, E> {
        let id = &self.id;
        match self.initial {
            None => decide(None),
            Some((initial, swap)) => update_state(env, id, &initial, swap, decide),
        }
    }
}

fn update_state<T, E: From<StoreError>>(
    env: &Env,
    id: &str,
    initial: &DiscussionInitialRecord,
    swap: Box<dyn CompareAndSwap>,
    mut decide: impl FnMut(Option<&mut Discussion>) -> Result<T, E>,
) -> Result<T, E> {
    let mut deleted = None;
    let key = Key::DiscussionState(id).to_string();
    let result = root::update_compared(env, &key, swap, |current: Option<DiscussionStateRecord>| {
        let present = initial.clone().into_discussion(id, current.clone());
        let Some(mut discussion) = present else { return Ok(Decision::Keep(decide(None)?)) };
        let known: Vec<u64> = discussion.suggestions().map(|suggestion| suggestion.id).collect();
        let result = decide(Some(&mut discussion))?;
        for note in &discussion.notes {
            let is_new = |suggestion: &&Suggestion| !known.contains(&suggestion.id);
            let new: Vec<Suggestion> = note.suggestions.iter().filter(is_new).cloned().collect();
            save_locators(env, id, &new)?;
        }
        let state = DiscussionStateRecord::new(&discussion, initial);
        deleted = discussion.notes.is_empty().then_some((discussion.project, discussion.merge_request_iid));
        let unchanged = current.as_ref() == Some(&state);
        Ok::<_, E>(if unchanged { Decision::Keep(result) } else { Decision::Replace(state, result) })
    })?;
    if let Some((project, iid)) = deleted {
        remove_from_list(env, &project, iid, id)?;
    }
    Ok(result)
}

/// Removes a discussion from its list. Its page and the pages after it are rewritten.
fn remove_from_list(env: &Env, project: &ProjectKey, iid: u64, id: &str) -> Result<(), StoreError> {
    root::update(env, &Key::Discussions(project, iid).to_string(), |current: Option<DiscussionListRecord>| {
        let mut list = current.unwrap_or_default();
        let mut kept = Vec::new();
        let mut following = Vec::new();
        for page in &list.pages {
            let ids = read_page(env, page)?;
            if following.is_empty() && !ids.iter().any(|listed| listed == id) {
                kept.push(page.clone());
            } else {
                following.extend(ids);
            }
        }
        following.append(&mut list.last);
        if !following.iter().any(|listed| listed == id) {
            return Ok(Decision::Keep(()));
        }
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate);
        }
        following.retain(|listed| listed != id);
        let mut chunks = following.chunks_exact(PAGE);
        for ids in &mut chunks {
            let page = env.id();
            counter::write(env, &Key::Page(&page), &ids)?;
            kept.push(page);
        }
        let last = chunks.remainder().to_vec();
        Ok::<_, StoreError>(Decision::Replace(DiscussionListRecord { pages: kept, last }, ()))
    })
}

/// How many discussions of a merge request are read to count their notes.
const MAX_COUNTED: usize = 1000;

/// How much may still be read to count the notes of the merge requests of one answer.
pub struct CountBudget {
    discussions: usize,
    /// Of notes.
    bytes: usize,
}

impl CountBudget {
    pub fn new() -> Self {
        CountBudget { discussions: 5000, bytes: 16 << 20 }
    }
}

/// How many notes of users a merge request has; internal ones count with `sees_internal`. 2 reads for each discussion,
/// of at most 1,000 and at most as many as the budget has. Every further discussion counts as one note.
pub fn count_notes(
    env: &Env,
    project: &ProjectKey,
    iid: u64,
    sees_internal: bool,
    budget: &mut CountBudget,
) -> Result<usize, StoreError> {
    let (mut notes, mut visited) = (0, 0);
    let most = if budget.bytes > 0 { MAX_COUNTED.min(budget.discussions) } else { 0 };
    let total = visit(env, project, iid, sees_internal, 0..most, |discussion| {
        visited += 1;
        for note in discussion.iter().flat_map(|discussion| &discussion.notes) {
            notes += usize::from(!note.is_system);
            budget.bytes = budget.bytes.saturating_sub(note.body.len());
        }
        if budget.bytes > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    budget.discussions -= visited.min(budget.discussions);
    Ok(notes + total.saturating_sub(visited))
}

fn read_page(env: &Env, page: &str) -> Result<Vec<String>, StoreError> {
    let key = Key::Page(page);
    counter::read(env, &key)?.ok_or_else(|| StoreError::corrupt(&key.to_string(), "it is missing"))
}

/// Calls `each` for the discussions of a merge request in `range`, oldest first, until it breaks: all of them at once
/// may be larger than the memory. It gets `None` for a discussion that is deleted meanwhile. Without `sees_internal`,
/// internal discussions are neither visited nor counted. Returns how many discussions the merge request has; after a
/// break, and for an empty range, the count may include internal ones. 2 reads for each discussion, and at most 2 for
/// the list; without `sees_internal`, 1 for each 100 discussions of the list.
pub fn visit(
    env: &Env,
    project: &ProjectKey,
    iid: u64,
    sees_internal: bool,
    range: Range<usize>,
    mut each: impl FnMut(Option<Discussion>) -> ControlFlow<()>,
) -> Result<usize, StoreError> {
    let key = Key::Discussions(project, iid).to_string();
    let list = root::read::<DiscussionListRecord>(&*env.store, &key)?.unwrap_or_default();
    // Only the pages tell which discussions are internal.
    let first = if sees_internal { list.pages.len().min(range.start / PAGE) } else { 0 };
    let mut number = first * PAGE;
    let mut unread = list.pages.len() * PAGE + list.last.len() - number;
    let mut is_over = range.is_empty();
    for page in list.pages.iter().skip(first).map(Some).chain([None]) {
        if is_over || sees_internal && number >= range.end {
            break;
        }
        let ids = page.map_or_else(|| Ok(list.last.clone()), |page| read_page(env, page))?;
        unread = unread.saturating_sub(ids.len());
        for id in ids.iter().filter(|id| sees_internal || !discussion::is_internal(id)) {
            is_over = is_over || range.contains(&number) && each(read_existing(env, id)?).is_break();
            number += 1;
        }
    }
    Ok(number + unread)
}

/// The discussion with this id. 2 reads.
pub fn read(env: &Env, id: &str) -> Result<Option<Discussion>, StoreError> {
    if !discussion::is_id(id) {
        return Ok(None);
    }
    let state = root::read::<DiscussionStateRecord>(&*env.store, &Key::DiscussionState(id).to_string())?;
    let initial = read_initial(env, id, state.as_ref())?;
    Ok(initial.and_then(|initial| initial.into_discussion(id, state)))
}

/// The initial record of a discussion whose state was read.
fn read_initial(
    env: &Env,
    id: &str,
    state: Option<&DiscussionStateRecord>,
) -> Result<Option<DiscussionInitialRecord>, StoreError> {
    match discussion::is_internal(id) {
        true => Ok(state.and_then(DiscussionStateRecord::internal_initial).cloned()),
        false => counter::read(env, &Key::DiscussionInitial(id)),
    }
}

/// A discussion that a list or a suggestion names, so that its absence is damage; `None` if it was deleted.
fn read_existing(env: &Env, id: &str) -> Result<Option<Discussion>, StoreError> {
    let state = root::read::<DiscussionStateRecord>(&*env.store, &Key::DiscussionState(id).to_string())?;
    Ok(join_state(env, id, state)?.map(|(_, discussion)| discussion))
}

/// As [`read_existing`], for a discussion whose state was read; also returns its initial record.
fn join_state(
    env: &Env,
    id: &str,
    state: Option<DiscussionStateRecord>,
) -> Result<Option<(DiscussionInitialRecord, Discussion)>, StoreError> {
    let key = if discussion::is_internal(id) { Key::DiscussionState(id) } else { Key::DiscussionInitial(id) };
    let missing = || StoreError::corrupt(&key.to_string(), "it is missing");
    // Garbage collection removes the blob of a deleted discussion.
    let is_deleted = state.as_ref().is_some_and(DiscussionStateRecord::is_deleted);
    let initial = match read_initial(env, id, state.as_ref())? {
        None if is_deleted => return Ok(None),
        initial => initial.ok_or_else(missing)?,
    };
    let discussion = initial.clone().into_discussion(id, state);
    Ok(discussion.map(|discussion| (initial, discussion)))
}

/// The suggestion with this id, and the discussion that it is in. 3 reads.
pub fn find_suggestion(env: &Env, id: u64) -> Result<Option<(Suggestion, Discussion)>, StoreError> {
    let Some(discussion) = find_discussion_id(env, id)? else { return Ok(None) };
    let Some(discussion) = read_existing(env, &discussion)? else { return Ok(None) };
    let suggestion = discussion.suggestion(id).map(|(_, suggestion)| suggestion.clone());
    Ok(suggestion.map(|suggestion| (suggestion, discussion)))
}

/// The id of the discussion that a suggestion is in, or was.
pub fn find_discussion_id(env: &Env, suggestion: u64) -> Result<Option<String>, StoreError> {
    let locator = counter::read::<LocatorRecord>(env, &Key::Suggestion(suggestion))?;
    Ok(locator.map(|locator| locator.discussion))
}

/// A discussion to be changed later in this request.
pub fn read_for_update(env: &Env, id: &str) -> Result<Option<(Discussion, DiscussionUpdate)>, StoreError> {
    let (state, swap) = root::read_for_update(env, &Key::DiscussionState(id).to_string())?;
    let Some((initial, discussion)) = join_state(env, id, state)? else { return Ok(None) };
    Ok(Some((discussion, DiscussionUpdate { id: id.to_owned(), initial: Some((initial, swap)) })))
}

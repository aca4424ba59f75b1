//! Discussions, the list of them that each merge request has, and which one a suggestion is in.

use super::json_blob;
use super::key::Key;
use super::record::{DiscussionListRecord, DiscussionRecord, LocatorRecord};
use crate::discussion::Discussion;
use crate::suggestion::Suggestion;
use kit::Env;
use kit::gc;
use kit::root::{self, Decision};
use kit::store::StoreError;

/// How many discussions a full page of a list names. Each comment rewrites the page that is not full.
const PAGE: usize = 100;

/// Allocates `count` consecutive ids for suggestions and returns the first.
pub fn allocate_suggestion_ids(env: &Env, count: usize) -> Result<u64, StoreError> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let last = env.store.increment(&Key::SuggestionCounter.to_string(), count)?;
    u64::try_from(last - count + 1).map_err(|why| StoreError::corrupt(&Key::SuggestionCounter.to_string(), why))
}

/// Allocates an id for a note.
pub fn allocate_note_id(env: &Env) -> Result<u64, StoreError> {
    let key = Key::NoteCounter.to_string();
    u64::try_from(env.store.increment(&key, 1)?).map_err(|why| StoreError::corrupt(&key, why))
}

/// Writes a discussion, then adds it to its merge request's list.
pub fn save(env: &Env, new: &Discussion) -> Result<(), StoreError> {
    json_blob::write(env, &Key::Discussion(&new.id), &DiscussionRecord::from(new))?;
    for (index, suggestion) in new.suggestions.iter().enumerate() {
        let locator = LocatorRecord { discussion: new.id.clone(), index };
        json_blob::write(env, &Key::Suggestion(suggestion.id), &locator)?;
    }
    let key = Key::Discussions(new.project_id, new.merge_request_iid).to_string();
    let page = env.id();
    root::update(env, &key, |current: Option<DiscussionListRecord>| {
        let mut list = current.unwrap_or_default();
        // A swap that was reported as lost may have taken place, and may have filled the page.
        let is_listed =
            list.last.contains(&new.id) || list.pages.contains(&page) && read_page(env, &page)?.contains(&new.id);
        if is_listed {
            return Ok(Decision::Done(()));
        }
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate);
        }
        list.last.push(new.id.clone());
        if list.last.len() >= PAGE {
            // The page may be written again by a later attempt of this request: until the swap succeeds,
            // no list names it.
            json_blob::write(env, &Key::Page(&page), &list.last)?;
            list.pages.push(page.clone());
            list.last.clear();
        }
        Ok::<_, StoreError>(Decision::Write(list, ()))
    })
}

fn read_page(env: &Env, page: &str) -> Result<Vec<String>, StoreError> {
    let key = Key::Page(page);
    json_blob::read(env, &key)?.ok_or_else(|| StoreError::corrupt(&key.to_string(), "it is missing"))
}

/// How many discussions a merge request has, and `count` of them after the first `skip`, oldest
/// first. 2 reads at most for the list, and 1 for each.
pub fn list(
    env: &Env,
    project: u64,
    iid: u64,
    skip: usize,
    count: usize,
) -> Result<(usize, Vec<Discussion>), StoreError> {
    let key = Key::Discussions(project, iid).to_string();
    let list = root::read::<DiscussionListRecord>(&*env.store, &key)?.unwrap_or_default();
    let total = list.pages.len() * PAGE + list.last.len();
    let mut discussions = Vec::new();
    let mut number = skip;
    while number < total.min(skip.saturating_add(count)) {
        let page = match list.pages.get(number / PAGE) {
            Some(page) => read_page(env, page)?,
            None => list.last.clone(),
        };
        let ids = page.iter().skip(number % PAGE).take(skip + count - number);
        let before = discussions.len();
        for id in ids {
            discussions.push(read_existing(env, id)?);
        }
        if discussions.len() == before {
            break;
        }
        number += discussions.len() - before;
    }
    Ok((total, discussions))
}

/// The discussion with this id. 1 read.
pub fn read(env: &Env, id: &str) -> Result<Option<Discussion>, StoreError> {
    // The text is a client's; another length is no id, and could exceed what a key may have.
    if id.len() != 40 {
        return Ok(None);
    }
    Ok(json_blob::read::<DiscussionRecord>(env, &Key::Discussion(id))?.map(|record| record.into_discussion(id)))
}

/// A discussion that a list or a suggestion names, so that its absence is damage.
fn read_existing(env: &Env, id: &str) -> Result<Discussion, StoreError> {
    read(env, id)?.ok_or_else(|| StoreError::corrupt(&Key::Discussion(id).to_string(), "it is missing"))
}

/// A suggestion and its discussion. 2 reads.
pub fn find_suggestion(env: &Env, id: u64) -> Result<Option<(Discussion, Suggestion)>, StoreError> {
    let Some(locator) = json_blob::read::<LocatorRecord>(env, &Key::Suggestion(id))? else { return Ok(None) };
    let discussion = read_existing(env, &locator.discussion)?;
    let suggestion = discussion.suggestions.get(locator.index).cloned();
    Ok(suggestion.map(|suggestion| (discussion, suggestion)))
}

//! Discussions and their lists, and where each suggestion is.

use super::record::{DiscussionRecord, ListRecord, LocatorRecord};
use super::{Key, get, put};
use crate::discussion::Discussion;
use crate::suggestion::Suggestion;
use kit::Env;
use kit::gc;
use kit::root::{self, Decision};
use kit::store::StoreError;

/// How many discussions a full page of a list names. A comment rewrites a part of the list that
/// is not longer than this.
const PAGE: usize = 100;

/// As many new ids for suggestions; the first one.
pub fn reserve_suggestions(env: &Env, count: usize) -> Result<u64, StoreError> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let last = env.store.increment(&Key::SuggestionCounter.to_string(), count)?;
    u64::try_from(last - count + 1).map_err(|why| StoreError::corrupt(&Key::SuggestionCounter.to_string(), why))
}

/// A new id for a note.
pub fn reserve_note(env: &Env) -> Result<u64, StoreError> {
    let key = Key::NoteCounter.to_string();
    u64::try_from(env.store.increment(&key, 1)?).map_err(|why| StoreError::corrupt(&key, why))
}

/// Writes a discussion, then names it in its merge request's list.
pub fn save_discussion(env: &Env, new: &Discussion) -> Result<(), StoreError> {
    put(env, &Key::Discussion(&new.id), &DiscussionRecord::from(new))?;
    for (index, suggestion) in new.suggestions.iter().enumerate() {
        put(env, &Key::Suggestion(suggestion.id), &LocatorRecord { discussion: new.id.clone(), index })?;
    }
    let key = Key::Discussions(new.project_id, new.merge_request_iid).to_string();
    let page = env.id();
    root::update(&*env.store, &key, |current: Option<ListRecord>| {
        let mut list = current.unwrap_or_default();
        // The page that a lost swap may have closed is named last.
        let is_there =
            list.last.contains(&new.id) || list.pages.contains(&page) && read_page(env, &page)?.contains(&new.id);
        if is_there {
            return Ok(Decision::Done(()));
        }
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate);
        }
        list.last.push(new.id.clone());
        if list.last.len() >= PAGE {
            // A page that another attempt of this request wrote is in no list.
            put(env, &Key::Page(&page), &list.last)?;
            list.pages.push(page.clone());
            list.last.clear();
        }
        Ok::<_, StoreError>(Decision::Write(list, ()))
    })
}

fn read_page(env: &Env, page: &str) -> Result<Vec<String>, StoreError> {
    get(env, &Key::Page(page))?.ok_or_else(|| StoreError::corrupt(&Key::Page(page).to_string(), "it is missing"))
}

/// How many discussions a merge request has, and `count` of them after the first `skip`, oldest
/// first. 2 reads at most for the list, and 1 for each.
pub fn discussions(
    env: &Env,
    project: u64,
    iid: u64,
    skip: usize,
    count: usize,
) -> Result<(usize, Vec<Discussion>), StoreError> {
    let key = Key::Discussions(project, iid).to_string();
    let list = root::read::<ListRecord>(&*env.store, &key)?.unwrap_or_default();
    let total = list.pages.len() * PAGE + list.last.len();
    let mut found = Vec::new();
    let mut number = skip;
    while number < total.min(skip.saturating_add(count)) {
        let page = match list.pages.get(number / PAGE) {
            Some(page) => read_page(env, page)?,
            None => list.last.clone(),
        };
        let ids = page.iter().skip(number % PAGE).take(skip + count - number);
        let before = found.len();
        for id in ids {
            found.push(named(env, id)?);
        }
        if found.len() == before {
            break;
        }
        number += found.len() - before;
    }
    Ok((total, found))
}

/// The discussion with this id. 1 read.
pub fn discussion(env: &Env, id: &str) -> Result<Option<Discussion>, StoreError> {
    // A longer text is no id, and may be more than a key can have.
    if id.len() != 40 {
        return Ok(None);
    }
    Ok(get::<DiscussionRecord>(env, &Key::Discussion(id))?.map(|record| record.into_discussion(id)))
}

/// A discussion that a list or a suggestion names.
fn named(env: &Env, id: &str) -> Result<Discussion, StoreError> {
    discussion(env, id)?.ok_or_else(|| StoreError::corrupt(&Key::Discussion(id).to_string(), "it is missing"))
}

/// A suggestion and the discussion that it is in. 2 reads.
pub fn locate(env: &Env, id: u64) -> Result<Option<(Discussion, Suggestion)>, StoreError> {
    let Some(locator) = get::<LocatorRecord>(env, &Key::Suggestion(id))? else { return Ok(None) };
    let discussion = named(env, &locator.discussion)?;
    let suggestion = discussion.suggestions.get(locator.index).cloned();
    Ok(suggestion.map(|suggestion| (discussion, suggestion)))
}

//! Deriving the catalog and the entries of paths anew. Derived data that cannot be read is overwritten; a record that
//! cannot be read is reported, and the data derived from it stays. A token that cannot be read is removed: nothing is
//! derived from it, and its owner makes another one.

use super::{Comparison, PREFIX, PresentPath, Subject, holders, missing, token_lists, tree};
use crate::catalog::changes::Changes;
use crate::catalog::intent_log::{self, DanglingRows, IntentLog};
use crate::catalog::manifest::{Intent, Root};
use crate::path;
use crate::save_error::SaveError;
use crate::store::{self, Key, PathRecord};
use kit::Env;
use kit::fsck::CheckReport;
use kit::reachability::StepError;
use kit::root::{self, Decision};
use kit::store::{StoreError, list_all};

/// How many records, or entries of paths, a step looks at.
const RECORDS: usize = 1000;

/// One step. The records come first; then groups and projects outside of the tree, which the catalog must have by then;
/// then the entries of paths that no record has made anew, which may be left over; then the lists of tokens, and then
/// tokens. The cursor is the last key that was looked at.
pub fn step(env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
    let env = &env.with_current_time();
    match cursor {
        Some(after) if after.starts_with(tree::CURSOR) => {
            let after = after.trim_start_matches(tree::CURSOR);
            let (report, last) = tree::step(env, after, RECORDS)?;
            let next = last.map_or(Key::PATHS.to_owned(), |last| format!("{}{last}", tree::CURSOR));
            Ok(CheckReport { cursor: Some(next), ..report })
        }
        Some(after) if after.starts_with(Key::PATHS) => remove_ownerless_paths(env, after),
        Some(after) if after.starts_with(Key::TOKEN_LISTS) => token_lists::repair(env, after),
        Some(after) if after.starts_with(Key::TOKENS) => token_lists::remove_unlisted(env, after),
        _ => derive(env, cursor),
    }
}

/// Derives the catalog's rows and the entries of paths of some records.
fn derive(env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
    if cursor.is_none() {
        empty_if_damaged(env)?;
    }
    let mut report = CheckReport::default();
    let prefixes = ["access/", "namespace/", "project/", "user/"].map(|kind| format!("{PREFIX}{kind}"));
    let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
    let keys = list_all(&*env.store, &prefixes, cursor.unwrap_or_default(), RECORDS)?;
    let tables = Comparison::default().tables(env)?;
    let mut changes = Changes::default();
    if cursor.is_none() {
        for subject in missing::in_tables(env, &tables)? {
            subject.add_to(env, &mut changes, &tables)?;
            report.add_problem(&subject.key(), "the record is missing, and is removed from the catalog".to_owned());
        }
        let ended = holders::end_gates(env, &mut report);
        super::note(&mut report, ended)?;
    }
    let mut subjects = Vec::new();
    for key in &keys {
        let Some(subject) = Subject::of_key(key) else { continue };
        let added = subject.add_to(env, &mut changes, &tables);
        if super::note(&mut report, added)?.is_some() {
            subjects.push(subject);
        }
    }
    let intent_log = IntentLog::begin(env, changes)?;
    let mut readable = Vec::new();
    for subject in subjects {
        let derived = derive_path(env, subject, &mut report);
        if super::note(&mut report, derived)?.is_some() {
            readable.push(subject);
            report.roots += 1;
        }
    }
    // Orphans of a deleted namespace are deleted in a later step, when the catalog has everything below them.
    intent_log.update_catalog(env, DanglingRows::Listed)?;
    holders::end(env, &readable, &mut report)?;
    report.cursor = Some(keys.last().filter(|_| keys.len() >= RECORDS).map_or(tree::CURSOR, String::as_str).to_owned());
    Ok(report)
}

/// Makes the entry of the path that a record has.
fn derive_path(env: &Env, subject: Subject, report: &mut CheckReport) -> Result<(), StoreError> {
    let Some(PresentPath { parent_id, segment, owner, incarnation }) = subject.path(env)? else { return Ok(()) };
    let derive = || {
        path::claim(env, parent_id, &segment, owner, None)?;
        path::confirm(env, parent_id, &segment, owner, &incarnation)
    };
    let derived = match derive() {
        Err(SaveError::Store(StoreError::Corrupt { .. })) if is_replaced(env, parent_id, &segment)? => derive(),
        derived => derived,
    };
    match derived {
        Err(SaveError::Invalid(why)) => report.add_problem(&subject.key(), why.to_string()),
        Err(SaveError::Store(error)) => return Err(error),
        Ok(()) => {}
    }
    Ok(())
}

/// Removes an entry that cannot be read; false if it can be read.
fn is_replaced(env: &Env, parent_id: Option<u64>, segment: &str) -> Result<bool, StoreError> {
    store::replace_unreadable::<PathRecord>(env, &Key::path(parent_id, segment), None)
}

/// Removes entries that cannot be read, or whose owner is missing, among up to [`RECORDS`] after the key `after`.
fn remove_ownerless_paths(env: &Env, after: &str) -> Result<CheckReport, StepError> {
    let mut report = CheckReport::default();
    let keys = env.store.list(Key::PATHS, after, RECORDS)?;
    for key in &keys {
        let Some((parent_id, segment)) = Key::parse_path(key) else { continue };
        if is_replaced(env, parent_id, segment)? {
            report.add_problem(key, "the path entry could not be read, and is removed: no record has this path".to_owned());
            continue;
        }
        let Some((owner, _)) = path::owner(env, parent_id, segment)? else { continue };
        let is_missing = |owner| missing::is_owner_missing(env, owner);
        if path::remove_ownerless(env, parent_id, segment, is_missing)? {
            let owner = missing::describe(owner);
            report.add_problem(key, format!("the path entry had {owner}, whose record is missing, and is removed"));
        }
    }
    let last = keys.last().filter(|_| keys.len() >= RECORDS).map_or(Key::TOKEN_LISTS, String::as_str);
    report.cursor = Some(last.to_owned());
    Ok(report)
}

/// Empties a catalog that cannot be read, and intents, of which nothing is left to do after a repair.
fn empty_if_damaged(env: &Env) -> Result<(), StoreError> {
    let empty = || Root { revision: String::new(), batch: env.id() };
    store::replace_unreadable(env, &Key::Catalog, Some(&empty()))?;
    store::replace_unreadable::<Vec<Intent>>(env, &Key::CatalogChanges, Some(&Vec::new()))?;
    intent_log::drop_damaged(env)?;
    match Comparison::default().tables(env) {
        Err(StoreError::Corrupt { .. }) => root::update(env, &Key::Catalog.to_string(), |root: Option<Root>| {
            let is_empty = root.is_none_or(|root| root.revision.is_empty());
            Ok(if is_empty { Decision::Keep(()) } else { Decision::Replace(empty(), ()) })
        }),
        outcome => outcome.map(drop),
    }
}

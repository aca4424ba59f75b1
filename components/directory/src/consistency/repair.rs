//! The repair derives the catalog and the path entries again. Derived data that cannot be read is overwritten. A record
//! that cannot be read is reported, and the data derived from it stays. A token that cannot be read is removed: nothing
//! is derived from it, and its owner can create another one.

use super::{CheckedRecord, Comparison, PREFIX, PresentPath, dangling_roles, missing, token_lists, tree};
use crate::catalog::changes::Changes;
use crate::catalog::intent_log::{self, DanglingPolicy, IntentLog};
use crate::catalog::manifest::{Intent, Root};
use crate::path;
use crate::save_error::SaveError;
use crate::store::{self, Key, PathRecord};
use kit::Env;
use kit::fsck::CheckReport;
use kit::reachability::StepError;
use kit::root::{self, Decision};
use kit::store::{StoreError, list_all};

/// The most records, or path entries, in a step.
const MAX_RECORDS: usize = 1000;

/// Does one step. The cursor is the last handled key. The phases in order are:
/// - the records;
/// - groups and projects outside of the tree, which the catalog must already have;
/// - path entries that no record has restored, which may be left over;
/// - the lists of tokens;
/// - the tokens.
pub fn step(env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
    let env = &env.with_current_time();
    match cursor {
        Some(after) if after.starts_with(tree::CURSOR) => {
            let after = after.trim_start_matches(tree::CURSOR);
            let (report, last) = tree::step(env, after, MAX_RECORDS)?;
            let next = last.map_or(Key::PATHS.to_owned(), |last| format!("{}{last}", tree::CURSOR));
            Ok(CheckReport { cursor: Some(next), ..report })
        }
        Some(after) if after.starts_with(Key::PATHS) => remove_ownerless_paths(env, after),
        Some(after) if after.starts_with(Key::TOKEN_LISTS) => token_lists::repair(env, after),
        Some(after) if after.starts_with(Key::TOKENS) => token_lists::remove_unlisted(env, after),
        _ => derive(env, cursor),
    }
}

/// Derives the catalog's rows and the path entries of some records.
fn derive(env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
    if cursor.is_none() {
        empty_if_damaged(env)?;
    }
    let mut report = CheckReport::default();
    let prefixes = ["access/", "namespace/", "project/", "user/"].map(|kind| format!("{PREFIX}{kind}"));
    let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
    let keys = list_all(&*env.store, &prefixes, cursor.unwrap_or_default(), MAX_RECORDS)?;
    let tables = Comparison::default().tables(env)?;
    let mut changes = Changes::default();
    if cursor.is_none() {
        for subject in missing::in_tables(env, &tables)? {
            subject.add_to(env, &mut changes, &tables)?;
            report.add_problem(&subject.key(), "the record is missing, and is removed from the catalog".to_owned());
        }
        let ended = dangling_roles::remove_gates(env, &mut report);
        super::tolerate(&mut report, ended)?;
    }
    let mut subjects = Vec::new();
    for key in &keys {
        let Some(subject) = CheckedRecord::of_key(key) else { continue };
        let added = subject.add_to(env, &mut changes, &tables);
        if super::tolerate(&mut report, added)?.is_some() {
            subjects.push(subject);
        }
    }
    let intent_log = IntentLog::begin(env, changes)?;
    let mut readable = Vec::new();
    for subject in subjects {
        let derived = derive_path(env, subject, &mut report);
        if super::tolerate(&mut report, derived)?.is_some() {
            readable.push(subject);
            report.roots += 1;
        }
    }
    // Orphans of a deleted namespace are deleted in a later step, when the catalog has everything below them.
    intent_log.update_catalog(env, DanglingPolicy::Keep)?;
    dangling_roles::remove(env, &readable, &mut report)?;
    report.cursor =
        Some(keys.last().filter(|_| keys.len() >= MAX_RECORDS).map_or(tree::CURSOR, String::as_str).to_owned());
    Ok(report)
}

/// Writes the path entry of a record.
fn derive_path(env: &Env, subject: CheckedRecord, report: &mut CheckReport) -> Result<(), StoreError> {
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

/// Removes entries that cannot be read, or whose owner is missing, among up to [`MAX_RECORDS`] after the key `after`.
fn remove_ownerless_paths(env: &Env, after: &str) -> Result<CheckReport, StepError> {
    let mut report = CheckReport::default();
    let keys = env.store.list(Key::PATHS, after, MAX_RECORDS)?;
    for key in &keys {
        let Some((parent_id, segment)) = Key::parse_path(key) else { continue };
        if is_replaced(env, parent_id, segment)? {
            report.add_problem(
                key,
                "the path entry could not be read, and is removed: no record has this path".to_owned(),
            );
            continue;
        }
        let Some((owner, _)) = path::owner(env, parent_id, segment)? else { continue };
        let is_missing = |owner| missing::is_owner_missing(env, owner);
        if path::remove_ownerless(env, parent_id, segment, is_missing)? {
            let owner = missing::describe(owner);
            report.add_problem(key, format!("the path entry had {owner}, whose record is missing, and is removed"));
        }
    }
    let last = keys.last().filter(|_| keys.len() >= MAX_RECORDS).map_or(Key::TOKEN_LISTS, String::as_str);
    report.cursor = Some(last.to_owned());
    Ok(report)
}

/// Empties a catalog that cannot be read, and its intents, which a repair makes superfluous.
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

//! The names of a project's packages, in a tree of lists.
//!
//! A list takes [`CAPACITY`] names. Further names go to one of the sixteen lists below it, by the next digit of the
//! name's digest. A full list is never written again. So a new name costs the same however many names there are, and a
//! project with few packages has one list. Earlier builds had the root list only. It may be longer; it counts as full
//! and stays as it is.

use super::key::Key;
use super::record::PackageNamesRecord;
use crate::name::PackageName;
use directory::project::ProjectKey;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

/// How many names a list takes. A list at the full depth takes more.
const CAPACITY: usize = 512;

const HEX_DIGITS: [&str; 16] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f"];

/// Digits of a digest: the depth of the tree.
const DEPTH: usize = 16;

/// The digits of the root list. A list has one digit more than the list above it.
const ROOT: &str = "";

fn key(project: &ProjectKey, digits: &str) -> String {
    Key::PackageNames(project, digits).text()
}

/// Whether further names go to the lists below.
fn is_full(record: &PackageNamesRecord, digits: &str) -> bool {
    record.packages.len() >= CAPACITY && digits.len() < DEPTH
}

fn below(digits: &str) -> impl Iterator<Item = String> {
    HEX_DIGITS.into_iter().map(move |digit| format!("{digits}{digit}"))
}

/// The names of the packages that a project may have, sorted. An incomplete publication leaves a name without a
/// package. 1 read of each list, and of each possible list below a full list.
pub fn names(env: &Env, project: &ProjectKey) -> Result<Vec<PackageName>, StoreError> {
    let mut names = BTreeSet::new();
    let mut pending = vec![ROOT.to_owned()];
    while let Some(digits) = pending.pop() {
        let stored = root::read::<PackageNamesRecord>(&*env.store, &key(project, &digits))?;
        let Some(record) = stored else { continue };
        if is_full(&record, &digits) {
            pending.extend(below(&digits));
        }
        names.extend(record.packages);
    }
    Ok(names.iter().filter_map(|name| PackageName::parse(name)).collect())
}

/// Adds a name, unless it is listed. 1 read for each level of the tree, and a swap for a new name.
pub fn add(env: &Env, project: &ProjectKey, name: &PackageName) -> Result<(), StoreError> {
    let digest = format!("{:016x}", xxh3_64(name.as_str().as_bytes()));
    let digits = |depth: usize| digest.chars().take(depth).collect::<String>();
    // If the list below exists, this list is full and need not be read: the root list of earlier builds may be long.
    let mut depth = 0;
    while depth < DEPTH && env.store.exists(&key(project, &digits(depth + 1)))? {
        depth += 1;
    }
    while !add_at(env, project, &digits(depth), name)? {
        depth += 1;
    }
    Ok(())
}

/// False if the list is full.
fn add_at(env: &Env, project: &ProjectKey, digits: &str, name: &PackageName) -> Result<bool, StoreError> {
    root::update(env, &key(project, digits), |record: Option<PackageNamesRecord>| {
        let mut record = record.unwrap_or_default();
        if record.packages.contains(name.as_str()) {
            return Ok(Decision::Keep(true));
        }
        if is_full(&record, digits) {
            return Ok(Decision::Keep(false));
        }
        record.packages.insert(name.as_str().to_owned());
        Ok(Decision::Replace(record, true))
    })
}

/// The names in the list under this key, sorted. 1 read.
pub fn names_at(env: &Env, key: &str) -> Result<Vec<PackageName>, StoreError> {
    let record = root::read::<PackageNamesRecord>(&*env.store, key)?.unwrap_or_default();
    Ok(record.packages.iter().filter_map(|name| PackageName::parse(name)).collect())
}

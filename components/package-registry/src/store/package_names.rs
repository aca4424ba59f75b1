//! The names of a project's packages, in a tree of lists.
//!
//! A list takes [`MOST`] names. Further ones go to one of the sixteen lists below it, by a digit of the name's digest,
//! and a list that is full is never written again. So a new name costs the same however many there are, and a project
//! with few packages has one list. Earlier builds had that one only: it may be longer, stays as it is, and tells later
//! builds as much as any full one.

use super::key::Key;
use super::record::PackageNamesRecord;
use crate::name::PackageName;
use directory::project::ProjectKey;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

/// How many names a list takes, but for those whose place has all digits of their digest.
const MOST: usize = 512;

const DIGITS: [&str; 16] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f"];

/// Digits of a digest, which is how deep the tree can be.
const DEPTH: usize = 16;

/// The place of the first list. That of one below another has a digit more.
const FIRST: &str = "";

fn key(project: &ProjectKey, place: &str) -> String {
    Key::PackageNames(project, place).text()
}

/// Whether there are lists below one.
fn is_full(record: &PackageNamesRecord, place: &str) -> bool {
    record.packages.len() >= MOST && place.len() < DEPTH
}

fn below(place: &str) -> impl Iterator<Item = String> {
    DIGITS.into_iter().map(move |digit| format!("{place}{digit}"))
}

/// The packages that a project may have, sorted. A publication that was not completed leaves a name without a package.
/// 1 read of each list, and of each below a full one.
pub fn names(env: &Env, project: &ProjectKey) -> Result<Vec<PackageName>, StoreError> {
    let mut names = BTreeSet::new();
    let mut places = vec![FIRST.to_owned()];
    while let Some(place) = places.pop() {
        let stored = root::read::<PackageNamesRecord>(&*env.store, &key(project, &place))?;
        let Some(record) = stored else { continue };
        if is_full(&record, &place) {
            places.extend(below(&place));
        }
        names.extend(record.packages);
    }
    Ok(names.iter().filter_map(|name| PackageName::parse(name)).collect())
}

/// Adds a name, which may be there already. 1 read for each level of the tree, and a swap if it was not.
pub fn add(env: &Env, project: &ProjectKey, name: &PackageName) -> Result<(), StoreError> {
    let digest = format!("{:016x}", xxh3_64(name.as_str().as_bytes()));
    let place = |depth: usize| digest.chars().take(depth).collect::<String>();
    // The list below another tells that this one is full. The first one of earlier builds may be long.
    let mut depth = 0;
    while depth < DEPTH && env.store.exists(&key(project, &place(depth + 1)))? {
        depth += 1;
    }
    while !add_at(env, project, &place(depth), name)? {
        depth += 1;
    }
    Ok(())
}

/// False if the list is full.
fn add_at(env: &Env, project: &ProjectKey, place: &str, name: &PackageName) -> Result<bool, StoreError> {
    root::update(env, &key(project, place), |record: Option<PackageNamesRecord>| {
        let mut record = record.unwrap_or_default();
        if record.packages.contains(name.as_str()) {
            return Ok(Decision::Keep(true));
        }
        if is_full(&record, place) {
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

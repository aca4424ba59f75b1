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
            return Ok(Decision::Done(true));
        }
        if is_full(&record, place) {
            return Ok(Decision::Done(false));
        }
        record.packages.insert(name.as_str().to_owned());
        Ok(Decision::Write(record, true))
    })
}

/// Whether a project ever had a package, and its lists are not removed.
pub fn exist(env: &Env, project: &ProjectKey) -> Result<bool, StoreError> {
    env.store.exists(&key(project, FIRST))
}

/// Removes the lists of a deleted project, the first one last, so that a removal that was interrupted can be repeated.
pub fn remove_all(env: &Env, project: &ProjectKey) -> Result<(), StoreError> {
    remove_from(env, project, FIRST)
}

fn remove_from(env: &Env, project: &ProjectKey, place: &str) -> Result<(), StoreError> {
    let key = key(project, place);
    let has_more = match root::read::<PackageNamesRecord>(&*env.store, &key) {
        Ok(None) => return Ok(()),
        Ok(Some(record)) => is_full(&record, place),
        // What a damaged list had is unknown.
        Err(StoreError::Corrupt { .. }) => place.len() < DEPTH,
        Err(error) => return Err(error),
    };
    if has_more {
        below(place).try_for_each(|place| remove_from(env, project, &place))?;
    }
    env.store.delete(&root::counter(&key))?;
    env.store.delete(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::store::Store as _;
    use kit::testing::{FailingStore, MemoryStore, env};

    #[test]
    fn a_removal_that_breaks_off_can_be_repeated_and_leaves_nothing() {
        let project = ProjectKey::parse("7").unwrap();
        let first = key(&project, FIRST);
        for is_damaged in [false, true] {
            let store = MemoryStore::default();
            for number in 0..10_000 {
                let name = PackageName::parse(&format!("lib-{number}")).unwrap();
                add(&env(store.clone(), &[]), &project, &name).unwrap();
            }
            assert!(store.keys().len() > 2 * 17);
            if is_damaged {
                store.set(&first, b"{").unwrap();
            }
            let mut attempts = 0;
            while exist(&env(store.clone(), &[]), &project).unwrap() {
                let failing = FailingStore::after(100, store.clone());
                let outcome = remove_all(&env(failing.clone(), &[]), &project);
                assert_eq!(outcome.is_err(), failing.failed());
                attempts += 1;
            }
            assert_eq!(store.keys(), [""; 0]);
            assert!(attempts > 2, "{attempts}");
        }
    }
}

//! The names of a project's packages, in a [`kit::list`].
//!
//! Builds before format 3 had a tree of records. One took [`CAPACITY`] names. Further names went to one of the sixteen
//! records below it, by the next digit of the name's digest. The tree is read until the project gets its next name. The
//! records below the first one stay, unread, until the project is deleted.

use super::key::Key;
use super::record::PackageNamesRecord;
use crate::name::PackageName;
use directory::project::ProjectKey;
use kit::Env;
use kit::list::{self, Change, FormerList, List};
use kit::reachability::Tracer;
use kit::root;
use kit::store::StoreError;

/// How many names a record of the former tree took, unless an even earlier build wrote it.
const CAPACITY: usize = 512;

/// Digits of a digest: the depth of the former tree.
const DEPTH: usize = 16;

fn list(project: &ProjectKey) -> List<PackageNamesRecord> {
    List::new(Key::PackageNames(project, "").text(), Key::name_pages())
}

impl FormerList for PackageNamesRecord {
    fn into_entries(self, env: &Env, root: &str) -> Result<Vec<(String, String)>, StoreError> {
        let mut names = Vec::new();
        let mut pending = vec![(String::new(), self)];
        while let Some((digits, record)) = pending.pop() {
            if record.packages.len() >= CAPACITY
                && digits.len() < DEPTH
                && let Some(project) = Key::parse_package_names(root)
            {
                for digit in "0123456789abcdef".chars() {
                    let below = format!("{digits}{digit}");
                    let stored = root::read(&*env.store, &Key::PackageNames(&project, &below).text())?;
                    pending.extend(stored.map(|record| (below, record)));
                }
            }
            names.extend(record.packages.into_iter().map(|name| (name, String::new())));
        }
        Ok(names)
    }
}

/// The names of the packages that a project may have, sorted. An incomplete publication leaves a name without a
/// package. 1 read, and 1 for each page that is not cached.
pub fn names(env: &Env, project: &ProjectKey) -> Result<Vec<PackageName>, StoreError> {
    let names = list(project).after(env, "", usize::MAX)?;
    Ok(names.iter().filter_map(|(name, _)| PackageName::parse(name)).collect())
}

/// Adds a name, unless it is listed.
pub fn add(env: &Env, project: &ProjectKey, name: &PackageName) -> Result<(), StoreError> {
    list::mark_format(env, Key::FORMAT_3)?;
    list(project).apply(env, &[(name.as_str().to_owned(), Change::Put(String::new()))].into())
}

/// The names in the list, or in the record of a former tree, under this key, sorted.
pub fn names_at(env: &Env, key: &str, project: &ProjectKey) -> Result<Vec<PackageName>, StoreError> {
    if key == Key::PackageNames(project, "").text() {
        return names(env, project);
    }
    let record = root::read::<PackageNamesRecord>(&*env.store, key)?.unwrap_or_default();
    Ok(record.packages.iter().filter_map(|name| PackageName::parse(name)).collect())
}

/// Marks the pages of the list under this key. The records of a former tree have none.
pub fn trace(env: &Env, key: &str, project: &ProjectKey, tracer: &mut Tracer) -> Result<(), StoreError> {
    if key == Key::PackageNames(project, "").text() {
        list(project).trace(env, tracer)?;
    }
    Ok(())
}

//! Going through everything that is stored, a page at a time: for maintenance only.

use super::{Key, PREFIX, blob_as_stored, package};
use crate::name::PackageName;
use crate::package::Package;
use crate::segment::{Index, State};
use kit::Env;
use kit::gc::{self, Marks, Plan, Step, Stopped, Wanted};
use kit::store::Fault;

/// A package's key, and what it says.
pub struct PackageKey {
    pub key: String,
    pub project: u64,
    pub name: PackageName,
}

/// Up to about `limit` packages whose keys sort after `after`, and the last key that was looked at;
/// `None` at the end.
pub fn packages_after(env: &Env, after: &str, limit: usize) -> Result<(Vec<PackageKey>, Option<String>), Fault> {
    let keys = env.store.list(&packages(), after, limit)?;
    let last = keys.last().filter(|_| keys.len() >= limit).cloned();
    let mut found = Vec::new();
    for key in keys {
        found.extend(read_key(&key)?);
    }
    Ok((found, last))
}

/// The package that a key is of.
pub fn package_key(key: &str) -> Option<PackageKey> {
    read_key(key).ok().flatten()
}

fn packages() -> String {
    format!("{PREFIX}package/")
}

/// The package that a key is of; `None` for the counter beside it (see [`kit::root::update`]).
fn read_key(key: &str) -> Result<Option<PackageKey>, Fault> {
    let read = |key: &str| {
        let (project, name) = key.strip_prefix(&packages())?.split_once('/')?;
        Some((project.parse().ok()?, PackageName::parse(name)?))
    };
    match read(key) {
        Some((project, name)) => Ok(Some(PackageKey { key: key.to_owned(), project, name })),
        None if key.strip_suffix("/init").and_then(read).is_some() => Ok(None),
        None => Err(Fault::corrupt(key, "no package is called so")),
    }
}

/// A step of removing what no package reaches (see [`kit::gc`]).
pub fn collect_garbage(env: &Env, wanted: &Wanted) -> Result<Step, Stopped> {
    let [roots, segments, uploads, marks] =
        ["package/", "segment/", "upload/", "gc/"].map(|kind| format!("{PREFIX}{kind}"));
    let plan = Plan { roots: &[&roots], blobs: &[&segments, &uploads], marks: &marks };
    gc::step(env, &plan, wanted, |key, found| mark(env, key, found))
}

fn mark(env: &Env, key: &str, marks: &mut Marks) -> Result<bool, Fault> {
    let Some(PackageKey { project, name, .. }) = read_key(key)? else { return Ok(false) };
    // Between two reads a segment may be replaced, and removed by another run.
    let mut seen = None;
    loop {
        let Some(package) = package(env, project, &name)? else { return Ok(true) };
        match reach(env, &package, marks) {
            Err(Fault::Corrupt { .. }) if seen != Some(package.state()) => seen = Some(package.state()),
            outcome => return outcome.map(|()| true),
        }
    }
}

/// Marks what a package names. A version that was taken back keeps its number, not its file.
fn reach(env: &Env, package: &Package, marks: &mut Marks) -> Result<(), Fault> {
    package.about.iter().for_each(|upload| marks.reach(upload));
    for segment in &package.segments {
        marks.reach(&segment.id);
        let key = Key::Index(&segment.id);
        let text =
            String::from_utf8(blob_as_stored(env, &key)?).map_err(|why| Fault::corrupt(&key.to_string(), why))?;
        let index = Index(text);
        if !index.is_sound() {
            return Err(Fault::corrupt(&key.to_string(), "not an index of versions"));
        }
        index.entries().filter(|entry| entry.state == State::Listed).for_each(|entry| marks.reach(entry.upload));
    }
    Ok(())
}

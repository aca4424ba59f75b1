//! The state of the demo of `hexad up --demo`. Its record is in the store, so every host that shares the store, and
//! every copy of it, has the state.

use crate::dependents::finish_interrupted;
use crate::store::{self, Key};
use crate::{catalog, feature, record_cache, setting, user};
use kit::Env;
use kit::store::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The progress of loading the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DemoState {
    /// Written before the demo's first record. The next host that is asked to load the demo finishes it.
    Loading,
    Loaded,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DemoRecord {
    state: DemoState,
}

/// The reason why the demo is not loaded.
#[derive(Debug)]
pub enum DemoError {
    /// The store has this other record.
    Occupied(String),
    Store(StoreError),
}

impl From<StoreError> for DemoError {
    fn from(error: StoreError) -> Self {
        DemoError::Store(error)
    }
}

/// Begins or continues to load the demo. `demo` has the [names](names) of the demo's records. The store must be empty
/// at first. It may have records of the demo only if loading was interrupted. Earlier builds recorded no state: if all
/// groups, projects and users of the demo exist, the demo counts as loaded.
pub fn begin(env: &Env, demo: &BTreeSet<String>) -> Result<DemoState, DemoError> {
    let recorded = state(env)?;
    match begin_from(env, demo, recorded) {
        // Another host has begun meanwhile and has written the records.
        Err(DemoError::Occupied(_)) if recorded.is_none() && state(env)?.is_some() => {
            begin_from(env, demo, state(env)?)
        }
        begun => begun,
    }
}

fn state(env: &Env) -> Result<Option<DemoState>, StoreError> {
    Ok(store::read::<DemoRecord>(env, &Key::Demo)?.map(|record| record.state))
}

fn begin_from(env: &Env, demo: &BTreeSet<String>, recorded: Option<DemoState>) -> Result<DemoState, DemoError> {
    let state = match recorded {
        Some(DemoState::Loaded) => return Ok(DemoState::Loaded),
        Some(DemoState::Loading) => match names(env)?.difference(demo).next() {
            Some(other) => return Err(DemoError::Occupied(other.clone())),
            None => DemoState::Loading,
        },
        None => {
            let stored = names(env)?;
            match stored.iter().find(|name| !demo.contains(*name)).or(stored.first()) {
                None => match any_record(env)? {
                    None => DemoState::Loading,
                    Some(key) => return Err(DemoError::Occupied(format!("the record {key}"))),
                },
                Some(_) if has_tree(&stored, demo) => DemoState::Loaded,
                Some(name) => return Err(DemoError::Occupied(name.clone())),
            }
        }
    };
    let reached = advance(env, state)?;
    // Other writers may have written since the names were read. From now on they see the demo's record.
    match reached == DemoState::Loading && recorded.is_none() {
        true => match names(env)?.difference(demo).next() {
            Some(other) => Err(DemoError::Occupied(other.clone())),
            None => Ok(reached),
        },
        false => Ok(reached),
    }
}

/// A key of a user, namespace or project. The catalog, which [`names`] uses, may have lost its row.
fn any_record(env: &Env) -> Result<Option<String>, StoreError> {
    for kind in ["user/", "namespace/", "project/"] {
        if let Some(key) = env.store.list(&format!("{}{kind}", record_cache::PREFIX), "", 1)?.into_iter().next() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Records that the demo is loaded.
pub fn finish(env: &Env) -> Result<DemoState, StoreError> {
    advance(env, DemoState::Loaded)
}

/// Records a state, unless another host has finished loading.
fn advance(env: &Env, state: DemoState) -> Result<DemoState, StoreError> {
    let mut reached = state;
    store::update(env, &Key::Demo, |current: Option<DemoRecord>| {
        let is_loaded = current.is_some_and(|record| record.state == DemoState::Loaded);
        reached = if is_loaded { DemoState::Loaded } else { state };
        DemoRecord { state: reached }
    })?;
    Ok(reached)
}

/// The users, groups, projects, settings and features of the store, as `user 1 (root)`, `group 5 (acme)`, `project 7
/// (acme/site)`, `setting license`, `feature dark`.
fn names(env: &Env) -> Result<BTreeSet<String>, StoreError> {
    finish_interrupted(env)?;
    let catalog = catalog::read(env)?;
    let mut names = BTreeSet::new();
    for namespace in catalog.namespaces() {
        let owner = namespace.owner().map(|id| Ok((id, user::by_id(env, id)?))).transpose()?;
        names.insert(match owner {
            Some((id, user)) => {
                format!("user {id} ({})", user.as_ref().map_or(namespace.path(), |user| &user.username))
            }
            None => format!("group {} ({})", namespace.id(), namespace.full_path()),
        });
    }
    names.extend(catalog.projects().map(|project| format!("project {} ({})", project.id(), project.full_path())));
    names.extend(setting::read(env)?.all().keys().map(|name| format!("setting {name}")));
    names.extend(feature::all(env)?.keys().map(|name| format!("feature {name}")));
    Ok(names)
}

/// Whether all users, groups and projects of the demo are stored.
fn has_tree(stored: &BTreeSet<String>, demo: &BTreeSet<String>) -> bool {
    let mut tree = demo.iter().filter(|name| !name.starts_with("setting ") && !name.starts_with("feature ")).peekable();
    tree.peek().is_some() && tree.all(|name| stored.contains(name))
}

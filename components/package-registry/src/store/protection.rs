//! The protection rules of a project's packages.

use super::key::Key;
use directory::project::ProjectKey;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::rc::Rc;

/// Rules in the form of the setting [`directory::protection::SETTING`], each with a numeric `id` and without a project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Protection {
    pub rules: Vec<Value>,
}

/// The rules of a project. 1 read.
pub fn protection(env: &Env, project: &ProjectKey) -> Result<Rc<Protection>, StoreError> {
    Ok(root::read_cached(env, &Key::Protection(project).text(), Ok)?.unwrap_or_default())
}

/// Changes the rules of a project. `change` returns false if nothing is to be changed.
pub fn update_protection<E: From<StoreError>>(
    env: &Env,
    project: &ProjectKey,
    mut change: impl FnMut(&mut Vec<Value>) -> Result<bool, E>,
) -> Result<(), E> {
    root::update(env, &Key::Protection(project).text(), |current: Option<Protection>| {
        let mut current = current.unwrap_or_default();
        Ok(if change(&mut current.rules)? { Decision::Replace(current, ()) } else { Decision::Keep(()) })
    })
}

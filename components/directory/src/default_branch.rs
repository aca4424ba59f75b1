//! The default branch of a project's repository: the branch that git checks out in a clone.
//!
//! The area `suggestions` writes repositories, and uses this module's order of candidates. Other areas read the few
//! records that they need; the area's tests compare both.

use crate::project::Project;
use kit::list::{self, Pages, Top};
use kit::store::StoreError;
use kit::{Env, id, root};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "suggestions/v1/";

/// The prefix of the pages of names of refs.
pub const REF_NAMES: &str = "suggestions/v2/names/";

/// The longest name of a ref, in bytes.
const MAX_REF_NAME: usize = 255;

/// The value of a ref. A deleted ref is `null`.
#[derive(Deserialize)]
struct RefRecord {
    lock: Option<RefLockRecord>,
}

/// The lock of a ref that is updated together with other refs.
#[derive(Deserialize)]
struct RefLockRecord {
    transaction: String,
    new: Option<IgnoredAny>,
    #[serde(default)]
    is_creation: bool,
}

#[derive(Default, Deserialize)]
struct HeadRecord {
    default: Option<String>,
}

#[derive(Default, Deserialize)]
struct NamesRecord {
    #[serde(default)]
    names: Top,
    #[serde(default)]
    creating: BTreeMap<String, IgnoredAny>,
}

/// The pages of the names of a repository's refs.
pub fn ref_name_pages() -> Pages {
    Pages::new(REF_NAMES.to_owned())
}

/// Names of refs such as `heads/main`. The first existing ref is the default branch. If all are missing, any branch is.
/// `configured` is the branch in the project's record. `imported` is the ref that the imported repository had checked
/// out.
pub fn candidates(configured: Option<&str>, imported: Option<String>) -> impl Iterator<Item = String> {
    let configured = configured.map(|branch| format!("heads/{branch}"));
    configured.into_iter().chain(imported).chain(["heads/main".into(), "heads/master".into()])
}

/// The default branch; for an empty repository the branch in the project's record. 1 read if that branch exists.
/// Otherwise 1 more for the names, and 1 for each candidate.
pub fn find(env: &Env, project: &Project) -> Result<Option<String>, StoreError> {
    let repository = Repository::of(env, project);
    let branch = |name: &str| name.strip_prefix("heads/").map(str::to_owned);
    let configured = project.default_branch.as_deref();
    if let Some(name) = configured.map(|branch| format!("heads/{branch}"))
        && repository.has(&name)?
    {
        return Ok(branch(&name));
    }
    let key = format!("{PREFIX}branches/{}", repository.id);
    let Some(record) = env.store.get(&key)? else { return Ok(configured.map(str::to_owned)) };
    // Of the form of earlier builds, only a part must be read.
    let HeadRecord { default } = serde_json::from_slice(&record).map_err(|why| StoreError::corrupt(&key, why))?;
    for name in candidates(None, default) {
        if repository.has(&name)? {
            return Ok(branch(&name));
        }
    }
    let names = list::retrying(env, &key, || {
        let NamesRecord { names, creating } = root::read(&*env.store, &key)?.unwrap_or_default();
        let listed = ref_name_pages().after(env, names, "heads/", usize::MAX)?;
        Ok(listed.into_iter().map(|(name, _)| name).chain(creating.into_keys()).collect::<BTreeSet<_>>())
    })?;
    for name in names.iter().filter(|name| name.starts_with("heads/")) {
        if repository.has(name)? {
            return Ok(branch(name));
        }
    }
    Ok(configured.map(str::to_owned))
}

struct Repository<'a> {
    env: &'a Env,
    /// The id in keys: the project's id, and the incarnation unless it is the first one.
    id: String,
}

impl<'a> Repository<'a> {
    fn of(env: &'a Env, project: &Project) -> Self {
        let incarnation = project.repository_incarnation.id().and_then(id::number);
        let later = incarnation.map_or(String::new(), |number| format!("-{number:032x}"));
        Repository { env, id: format!("{}{later}", project.id) }
    }

    /// Whether a ref exists. 1 read, and 1 more for a ref with a lock.
    fn has(&self, name: &str) -> Result<bool, StoreError> {
        if name.len() > MAX_REF_NAME {
            return Ok(false);
        }
        let key = format!("{PREFIX}ref/{}/{}", self.id, kit::path::encode(name));
        let record: Option<Option<RefRecord>> = root::read(&*self.env.store, &key)?;
        let Some(RefRecord { lock }) = record.flatten() else { return Ok(false) };
        let Some(lock) = lock else { return Ok(true) };
        let outcome: Option<String> =
            root::read(&*self.env.store, &format!("{PREFIX}ref_transaction/{}", lock.transaction))?;
        Ok(if outcome.as_deref() == Some("committed") { lock.new.is_some() } else { !lock.is_creation })
    }
}

//! Checks and repairs of the directory:
//! - the catalog and the path entries may differ from the records ([`Comparison`]) or name missing records
//!   ([`missing`]); [`repair`] derives both again;
//! - a record may be outside of the tree ([`tree_position`]), or have roles, invitations or gates of deleted records
//!   ([`dangling_roles`]); a repair corrects these if it can;
//! - lists of tokens may lack a token or name a lost one ([`token_lists`]).

mod dangling_roles;
pub mod repair;
mod subject;
pub mod token_lists;

use crate::catalog::changes::Changes;
use crate::catalog::intent_log;
use crate::catalog::manifest::{Manifest, Part, Root, decode, manifest};
use crate::catalog::table::{MemberRow, NamespaceRow, ProjectRow, Row};
pub(crate) use crate::consistency::dangling_roles::gate_problems;
pub use crate::consistency::subject::CheckedRecord;
use crate::consistency::subject::TreePosition;
pub use crate::consistency::token_lists::TokenLists;
use crate::model::incarnation::Incarnation;
use crate::path::{self, PathOwner};
use crate::store::{self, Incarnated as _, Key, NamespaceRecord, ProjectRecord};
use kit::fsck::CheckReport;
use kit::store::StoreError;
use kit::{Env, root};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const PREFIX: &str = subject::PREFIX;

impl CheckedRecord {
    /// The problem of a personal namespace whose user is missing.
    fn missing_user(self, env: &Env) -> Result<Option<String>, StoreError> {
        let CheckedRecord::Namespace(id) = self else { return Ok(None) };
        let record = store::read::<NamespaceRecord>(env, &Key::Namespace(id))?;
        let Some(user_id) = record.and_then(|record| record.owner_id) else { return Ok(None) };
        let is_missing = CheckedRecord::User(user_id).is_missing(env)? && !self.is_pending(env)?;
        Ok(is_missing.then(|| format!("it belongs to user {user_id}, whose record is missing; import the user again")))
    }

    /// Adds all rows of the record, including rows that only the catalog has.
    fn add_to(self, env: &Env, changes: &mut Changes, tables: &Tables) -> Result<(), StoreError> {
        match self {
            CheckedRecord::Namespace(id) => changes.group(id),
            CheckedRecord::Project(id) => changes.project(id),
            CheckedRecord::User(_) => {}
            CheckedRecord::Memberships(id) => {
                let listed = tables.members.get(&id).into_iter().flatten().cloned();
                for row in listed.chain(intent_log::rows_of_member(env, id)?) {
                    changes.member_row(row.key());
                }
            }
        }
        Ok(())
    }

    /// The path of the record; `None` if the record or the path is absent.
    fn path(self, env: &Env) -> Result<Option<PresentPath>, StoreError> {
        Ok(match self {
            CheckedRecord::Namespace(id) => {
                store::read::<NamespaceRecord>(env, &Key::Namespace(id))?.map(|record| PresentPath {
                    parent_id: record.parent_id,
                    owner: PathOwner::Namespace(id),
                    incarnation: record.incarnation().clone(),
                    segment: record.path,
                })
            }
            CheckedRecord::Project(id) => {
                store::read::<ProjectRecord>(env, &Key::Project(id))?.map(|record| PresentPath {
                    parent_id: Some(record.namespace_id),
                    owner: PathOwner::Project(id),
                    incarnation: record.incarnation().clone(),
                    segment: record.path,
                })
            }
            CheckedRecord::Memberships(_) | CheckedRecord::User(_) => None,
        })
    }
}

/// The present path in a record.
struct PresentPath {
    parent_id: Option<u64>,
    segment: String,
    owner: PathOwner,
    incarnation: Incarnation,
}

/// The rows of the catalog, read once for all comparisons of a step.
#[derive(Default)]
pub struct Comparison(RefCell<Option<Rc<Tables>>>);

struct Tables {
    namespaces: Vec<NamespaceRow>,
    projects: Vec<ProjectRow>,
    /// By user.
    members: BTreeMap<u64, Vec<MemberRow>>,
}

impl Comparison {
    /// The differences between the catalog and a record. While a writer's intent names the record, they are ignored.
    pub fn problems(&self, env: &Env, subject: CheckedRecord) -> Result<Vec<String>, StoreError> {
        let mut problems = Vec::new();
        if let Some(PresentPath { parent_id, segment, owner, .. }) = subject.path(env)? {
            let position = TreePosition::of(env, subject, parent_id)?;
            if position != TreePosition::InTree && !subject.is_pending(env)? {
                problems.push(position.to_string());
            }
            // A challenge in the entry is no damage: its writer was interrupted.
            let leads_to = path::owner(env, parent_id, &segment)?.map(|(owner, _)| owner);
            if leads_to != Some(owner) && !subject.is_pending(env)? {
                problems.push(format!("its path `{segment}` does not lead to it; `hexad fsck --repair` can mend that"));
            }
        }
        problems.extend(subject.missing_user(env)?);
        // Most records have no problem, and then the intents, which can be long, are not read.
        let dangling = dangling_roles::problems(env, subject)?;
        if !dangling.is_empty() && !subject.is_pending(env)? {
            problems.extend(dangling);
        }
        if !self.is_in_catalog(env, subject)? {
            let was_pending = subject.is_pending(env)?;
            self.0.take();
            if !was_pending && !self.is_in_catalog(env, subject)? && !subject.is_pending(env)? {
                problems.push("the catalog has it otherwise; `hexad fsck --repair` can mend that".to_owned());
            }
        }
        Ok(problems)
    }

    /// Whether the catalog has exactly the rows of this record.
    fn is_in_catalog(&self, env: &Env, subject: CheckedRecord) -> Result<bool, StoreError> {
        let tables = self.tables(env)?;
        Ok(match subject {
            CheckedRecord::Namespace(id) => row(&tables.namespaces, id) == intent_log::namespace_row(env, id)?.as_ref(),
            CheckedRecord::Project(id) => row(&tables.projects, id) == intent_log::project_row(env, id)?.as_ref(),
            CheckedRecord::Memberships(id) => {
                let listed = tables.members.get(&id).map(Vec::as_slice).unwrap_or_default();
                listed == intent_log::rows_of_member(env, id)?
            }
            CheckedRecord::User(_) => true,
        })
    }

    fn tables(&self, env: &Env) -> Result<Rc<Tables>, StoreError> {
        if let Some(tables) = &*self.0.borrow() {
            return Ok(tables.clone());
        }
        let manifest = present_manifest(env)?;
        let mut members: BTreeMap<u64, Vec<MemberRow>> = BTreeMap::new();
        rows(env, &manifest.members)?.into_iter().for_each(|row: MemberRow| {
            members.entry(row.user_id).or_default().push(row);
        });
        let (namespaces, projects) = (rows(env, &manifest.namespaces)?, rows(env, &manifest.projects)?);
        let tables = Rc::new(Tables { namespaces, projects, members });
        self.0.replace(Some(tables.clone()));
        Ok(tables)
    }
}

/// Records damage as a problem; passes other errors through.
fn tolerate<T>(report: &mut CheckReport, outcome: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Corrupt { key, why }) => {
            report.add_problem(&key, why);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn present_manifest(env: &Env) -> Result<Manifest, StoreError> {
    let revision = store::read::<Root>(env, &Key::Catalog)?.map(|root| root.revision).unwrap_or_default();
    manifest(env, &revision)
}

fn rows<R: Row>(env: &Env, parts: &[Part]) -> Result<Vec<R>, StoreError> {
    let mut rows = Vec::new();
    for part in parts {
        rows.extend(decode(env, part, R::decode)?);
    }
    Ok(rows)
}

fn row<R: Row>(rows: &[R], id: u64) -> Option<&R> {
    rows.binary_search_by_key(&(id, 0), Row::key).ok().and_then(|at| rows.get(at))
}

/// The page size when keys are listed.
const LIST_PAGE: usize = 10_000;

impl Comparison {
    /// The missing records that the catalog has, unless a writer's intent names them.
    pub fn missing(&self, env: &Env) -> Result<Vec<CheckedRecord>, StoreError> {
        in_tables(env, &*self.tables(env)?)
    }
}

/// Like [`Comparison::missing`], for these tables. Lists the keys of all records of the catalog, and reads nothing else
/// if all exist.
fn in_tables(env: &Env, tables: &Tables) -> Result<Vec<CheckedRecord>, StoreError> {
    let namespaces = tables.namespaces.iter().map(|row| row.id);
    let projects = tables.projects.iter().map(|row| row.id);
    let unlisted = [
        unlisted(env, "access", CheckedRecord::Memberships, tables.members.keys().copied())?,
        unlisted(env, "namespace", CheckedRecord::Namespace, namespaces)?,
        unlisted(env, "project", CheckedRecord::Project, projects)?,
    ];
    let mut missing = Vec::new();
    for subject in unlisted.into_iter().flatten() {
        if subject.is_missing(env)? {
            missing.push(subject);
        }
    }
    Ok(missing)
}

/// The keys of the settings and the features, if the record is missing and the counter beside it exists
/// ([`kit::root::update`]). A writer has then begun to create the record, and may have finished. 1 read for each, and 2
/// more for an absent one.
pub fn singletons(env: &Env) -> Result<Vec<String>, StoreError> {
    let mut missing = Vec::new();
    for key in [Key::Features.text(), Key::Settings.text()] {
        let is_absent = || env.store.exists(&key).map(|exists| !exists);
        // A writer may have created the record before the counter was read.
        if is_absent()? && env.store.exists(&root::counter(&key))? && is_absent()? {
            missing.push(key);
        }
    }
    Ok(missing)
}

fn unlisted(
    env: &Env,
    kind: &str,
    subject: fn(u64) -> CheckedRecord,
    ids: impl Iterator<Item = u64>,
) -> Result<Vec<CheckedRecord>, StoreError> {
    let mut ids: BTreeSet<u64> = ids.collect();
    let (prefix, mut after) = (format!("{PREFIX}{kind}/"), String::new());
    while !ids.is_empty() {
        let keys = env.store.list(&prefix, &after, LIST_PAGE)?;
        for key in &keys {
            key.strip_prefix(&prefix).and_then(|id| id.parse().ok()).map(|id: u64| ids.remove(&id));
        }
        match keys.last() {
            Some(last) if keys.len() >= LIST_PAGE => after.clone_from(last),
            _ => break,
        }
    }
    Ok(ids.into_iter().map(subject).collect())
}

/// Whether the record that owns a path is missing.
fn is_owner_missing(env: &Env, owner: PathOwner) -> Result<bool, StoreError> {
    subject(owner).is_missing(env)
}

fn subject(owner: PathOwner) -> CheckedRecord {
    match owner {
        PathOwner::Namespace(id) => CheckedRecord::Namespace(id),
        PathOwner::Project(id) => CheckedRecord::Project(id),
    }
}

/// The problem of the path entry under this key, if its owner is missing.
pub fn path_problem(env: &Env, key: &str) -> Result<Option<String>, StoreError> {
    let Some((parent_id, segment)) = Key::parse_path(key) else { return Ok(None) };
    let Some((owner, _)) = path::owner(env, parent_id, segment)? else { return Ok(None) };
    Ok(is_owner_missing(env, owner)?.then(|| {
        format!("the path entry has {owner}, whose record is missing; import it again, or remove the entry by `hexad fsck --repair`")
    }))
}

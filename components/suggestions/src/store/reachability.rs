//! Everything that is reachable from refs, reflog entries and discussions, for garbage collection and checks.

mod named_records;
mod trace;
mod traced_blob;

use super::counter::CounterCheck;
use super::discussion_record::LocatorRecord;
use super::key::{Key, PREFIX};
use super::objects;
use super::semispace_roles::{self, SemispaceRoles};
use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use crate::store::key::Semispace;
use directory::default_branch::REF_NAMES;
use directory::project::{self, Existence, ProjectKey};
use kit::gc::{self, GRACE, GcReport, GcRequest};
use kit::maintenance::Maintain;
use kit::reachability::{BlobId, GcSource, KeyLayout, LONGEST_RUN, Node, StepError, Tracer};
use kit::store::StoreError;
use kit::{Env, Timestamp, root};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use traced_blob::{TracedBlob, copy_blob_id, discussion_blob_id, object_blob_id, parse_blob_id};

/// Prefixes of blobs, below [`PREFIX`]. Each semispace has objects and their chunks.
const SEMISPACES: [(&str, Semispace); 4] = [
    ("chunk/", Semispace::First),
    ("chunk2/", Semispace::Second),
    ("object/", Semispace::First),
    ("object2/", Semispace::Second),
];
const PACKS: &str = "pack/";
const PACK_INDEXES: &str = "pack_index/";
const DISCUSSIONS: &str = "discussion/";
const PAGES: &str = "page/";
const REFLOG: &str = "reflog/";
const REPLACED_PACKS: &str = "replaced_packs/";
const REF_TRANSACTIONS: &str = "ref_transaction/";
const LOCATORS: &str = "suggestion/";

/// The kind of the root that names the merge requests of a project.
const MERGE_REQUESTS: &str = "merge_requests";

/// The prefix of the records of merge requests, below [`PREFIX`], and how many keys of them are listed at once.
const MERGE_REQUEST: &str = "merge_request/";
const MERGE_REQUESTS_AT_ONCE: usize = 1000;

/// The kind of the failure domain that is a whole project, with all of its repositories.
const PROJECT: &str = "project";

/// The owner of a root.
enum Owner {
    Project(ProjectKey),
    Repository(RepositoryId),
}

/// The kind and the owner of a root; `None` if it belongs to no project.
fn parse_root_key(key: &str) -> Option<(&str, Owner)> {
    let (kind, rest) = key.strip_prefix(PREFIX)?.split_once('/')?;
    let owner = rest.split('/').next()?;
    let owner = match kind {
        MERGE_REQUESTS | "discussions" => Owner::Project(ProjectKey::parse(owner)?),
        "branches" | "packs" | "ref" => Owner::Repository(RepositoryId::parse(owner)?),
        _ => return None,
    };
    Some((kind, owner))
}

/// How long a reflog entry keeps its history, in milliseconds: longer than any run, and than a request
/// that read a ref may take to build on its commit.
const REFLOG_RETENTION: i64 = LONGEST_RUN + GRACE;

/// How long joined packs are kept, in milliseconds, for clones that have begun. The host ends a response that takes
/// longer.
const REPLACED_PACKS_RETENTION: i64 = 6 * 60 * 60 * 1000;

/// The repositories and discussions, for [`kit::maintenance`] to collect and check.
pub struct Repositories<'a> {
    env: &'a Env,
    roles: Option<SemispaceRoles>,
    /// The present repositories of projects, and whether projects exist, as far as this step has looked them up.
    repositories: RefCell<BTreeMap<u64, Option<RepositoryId>>>,
    projects: RefCell<BTreeMap<u64, Existence>>,
    /// Whether repositories have a list of packs, as far as this step has looked.
    pack_lists: RefCell<BTreeMap<RepositoryId, bool>>,
    /// Whether the semispace that is swept has objects, and whether a transaction is old enough to be swept, once this
    /// step has looked.
    has_swept_objects: Cell<Option<bool>>,
    has_old_transactions: Cell<Option<bool>>,
    /// For checks: the counters, and the encoded names of refs of one repository.
    counters: CounterCheck,
    listed_refs: RefCell<Option<(RepositoryId, BTreeSet<String>)>>,
}

impl<'a> Repositories<'a> {
    pub fn new(env: &'a Env) -> Result<Self, StoreError> {
        Ok(Repositories {
            env,
            roles: semispace_roles::read(env)?,
            repositories: RefCell::default(),
            projects: RefCell::default(),
            pack_lists: RefCell::default(),
            has_swept_objects: Cell::default(),
            has_old_transactions: Cell::default(),
            counters: CounterCheck::default(),
            listed_refs: RefCell::default(),
        })
    }

    fn is_sweep_due(&self, began: Timestamp) -> bool {
        self.roles.is_some_and(|roles| roles.is_sweep_due(began))
    }

    /// Whether a run that began at this time removes unreached objects below the prefix of this kind.
    fn is_swept(&self, kind: &str, began: Timestamp) -> bool {
        let semispace = SEMISPACES.iter().find(|(prefix, _)| *prefix == kind).map(|(_, semispace)| *semispace);
        self.is_sweep_due(began) && self.roles.is_some_and(|roles| Some(roles.current) != semispace)
    }

    /// Whether objects are traced: only for a sweep that finds loose objects, or for a check. Nothing is added to the
    /// semispace that is swept, so that all steps of a run agree.
    fn traces_objects(&self, tracer: &Tracer) -> Result<bool, StoreError> {
        if tracer.check || !self.is_sweep_due(self.env.now) {
            return Ok(tracer.check);
        }
        if let Some(known) = self.has_swept_objects.get() {
            return Ok(known);
        }
        let mut has_objects = false;
        for (prefix, _) in SEMISPACES.iter().filter(|(prefix, _)| self.is_swept(prefix, self.env.now)) {
            has_objects |= !self.env.store.list(&format!("{PREFIX}{prefix}"), "", 1)?.is_empty();
        }
        self.has_swept_objects.set(Some(has_objects));
        Ok(has_objects)
    }

    /// Whether a transaction is so old that it is garbage unless a ref names it. The oldest one is the first.
    fn has_old_transactions(&self) -> Result<bool, StoreError> {
        if let Some(known) = self.has_old_transactions.get() {
            return Ok(known);
        }
        let prefix = format!("{PREFIX}{REF_TRANSACTIONS}");
        let first = self.env.store.list(&prefix, "", 1)?;
        let id = first.first().and_then(|key| BlobId::of_id(key.strip_prefix(&prefix)?.split('/').next()?));
        let is_old = id.is_some_and(|id| id.is_older(self.env.now, GRACE));
        self.has_old_transactions.set(Some(is_old));
        Ok(is_old)
    }

    /// The present repository of a project; `None` if it was deleted. Each step reads it from the store once.
    fn present_repository(&self, project: u64) -> Result<Option<RepositoryId>, StoreError> {
        if let Some(known) = self.repositories.borrow().get(&project) {
            return Ok(*known);
        }
        let repository = RepositoryId::find(self.env, project)?;
        self.repositories.borrow_mut().insert(project, repository);
        Ok(repository)
    }

    /// Whether a repository has a list of packs. Each step looks once.
    fn has_pack_list(&self, repository: RepositoryId) -> Result<bool, StoreError> {
        if let Some(known) = self.pack_lists.borrow().get(&repository) {
            return Ok(*known);
        }
        let has_list = self.env.store.exists(&Key::Packs(repository).to_string())?;
        self.pack_lists.borrow_mut().insert(repository, has_list);
        Ok(has_list)
    }

    /// Whether a project exists. Each step reads it from the store once.
    fn existence(&self, project: u64) -> Result<Existence, StoreError> {
        if let Some(known) = self.projects.borrow().get(&project) {
            return Ok(known.clone());
        }
        let existence = project::existence(self.env, project)?;
        self.projects.borrow_mut().insert(project, existence.clone());
        Ok(existence)
    }
}

impl GcSource for Repositories<'_> {
    fn layout(&self) -> KeyLayout {
        let below = |kinds: &[&str]| kinds.iter().map(|kind| format!("{PREFIX}{kind}")).collect();
        let mut blobs = SEMISPACES.map(|(prefix, _)| prefix).to_vec();
        blobs.extend([PACKS, PACK_INDEXES, DISCUSSIONS, PAGES, REFLOG, REPLACED_PACKS, REF_TRANSACTIONS, LOCATORS]);
        blobs.sort_unstable();
        let mut blobs: Vec<String> = below(&blobs);
        blobs.push(REF_NAMES.to_owned());
        KeyLayout {
            // The reflog comes last: if a ref is moved while roots are visited, either its old value or its reflog
            // entry is seen. Replaced packs come last, too.
            roots: below(&["branches/", "discussions/", "merge_requests/", "packs/", "ref/", REFLOG, REPLACED_PACKS]),
            records: below(&["applied/", MERGE_REQUEST, LOCATORS, "thread/"]),
            blobs,
            marks: format!("{PREFIX}gc/"),
        }
    }

    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError> {
        match node {
            Node::Root(key) => self.trace_root(key, tracer),
            Node::Blob(blob) => {
                match parse_blob_id(blob) {
                    Some(TracedBlob::Object(project, fingerprint, id)) if self.traces_objects(tracer)? => {
                        if let Some(repository) = self.find_repository(project, fingerprint)? {
                            self.trace_object(repository, id, tracer)?;
                        }
                    }
                    Some(TracedBlob::Discussion(id)) if self.traces_objects(tracer)? => {
                        self.trace_discussion(id, tracer)?;
                    }
                    _ => {}
                }
                Ok(true)
            }
        }
    }

    /// Whether a root is one of a deleted project. A project that the directory never knew was not deleted: its
    /// records may be imported later. 1 read, or 2, for each project.
    fn is_orphaned(&self, key: &str) -> Result<bool, StoreError> {
        let project = match parse_root_key(key) {
            None => return Ok(false),
            Some((_, Owner::Repository(repository))) => {
                return Ok(self.present_repository(repository.project)? != Some(repository));
            }
            Some((_, Owner::Project(project))) => project,
        };
        Ok(match self.existence(project.id)? {
            Existence::Unknown => false,
            Existence::Deleted => true,
            Existence::Present(incarnation) => incarnation != project.incarnation,
        })
    }

    /// Removes a root of a deleted project. Merge requests are removed before their list, so that an interrupted
    /// removal can be repeated, and in parts if they are more than a step changes. Their keys are listed, because the
    /// list may be damaged. No later project uses these keys.
    fn remove_orphaned(&self, key: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
        if let Some((MERGE_REQUESTS, Owner::Project(project))) = parse_root_key(key)
            && !key.ends_with("/init")
        {
            let prefix = format!("{PREFIX}{MERGE_REQUEST}{project}/");
            loop {
                let records = self.env.store.list(&prefix, "", MERGE_REQUESTS_AT_ONCE)?;
                if records.is_empty() {
                    break;
                }
                for record in &records {
                    if tracer.is_full() {
                        tracer.suspend(String::new());
                        return Ok(());
                    }
                    tracer.count_change();
                    self.env.store.delete(record)?;
                }
            }
        }
        tracer.count_change();
        self.env.store.delete(&format!("{key}/init"))?;
        self.env.store.delete(key)
    }

    fn follows(&self) -> bool {
        true
    }

    /// The kind of a damaged node, and the repository: `packs/7`. `project/7` if the record is damaged that says which
    /// repositories of the project were deleted. Comments are on objects of any repository, so damage of a comment ends
    /// a collection.
    fn failure_domain(&self, node: Node) -> Result<Option<String>, StoreError> {
        Ok(match node {
            Node::Root(key) => match parse_root_key(key) {
                Some((kind, Owner::Repository(repository))) => Some(format!("{kind}/{repository}")),
                Some((_, Owner::Project(_))) | None => None,
            },
            Node::Blob(blob) => match parse_blob_id(blob) {
                Some(TracedBlob::Object(project, fingerprint, _)) => match self.find_repository(project, fingerprint) {
                    Err(StoreError::Corrupt { .. }) => Some(format!("{PROJECT}/{project}")),
                    found => found?.map(|repository| format!("object/{repository}")),
                },
                Some(TracedBlob::Discussion(_)) | None => None,
            },
        })
    }

    fn may_be_in(&self, prefix: &str, rest: &str, damaged: &BTreeSet<String>) -> bool {
        let Some(kind) = prefix.strip_prefix(PREFIX) else { return true };
        match kind {
            "object/" | "object2/" => {
                let repository = rest.split('/').next().unwrap_or_default();
                let project = RepositoryId::parse(repository).map(|repository| repository.project.to_string());
                damaged.iter().filter_map(|part| part.split_once('/')).any(|(kind, name)| match kind {
                    PROJECT => project.as_deref() == Some(name),
                    _ => repository == name,
                })
            }
            // These keys do not name their repository, so they may be of a damaged one.
            "chunk/" | "chunk2/" | PACKS | PACK_INDEXES | REPLACED_PACKS | REFLOG | REF_TRANSACTIONS => true,
            _ => false,
        }
    }

    fn blob_id(&self, prefix: &str, rest: &str) -> Option<BlobId> {
        match prefix.strip_prefix(PREFIX).unwrap_or(prefix) {
            kind @ ("object/" | "object2/") => {
                let (repository, id) = rest.split_once('/')?;
                let (repository, id) = (RepositoryId::parse(repository)?, ObjectId::parse(id)?);
                // Other objects are kept in any case.
                let is_swept = self.is_swept(kind, self.env.now);
                let is_copy = is_swept && objects::is_packed(self.env, repository, id).unwrap_or(false);
                Some(if is_copy { copy_blob_id(repository, id) } else { object_blob_id(repository, id) })
            }
            DISCUSSIONS => ObjectId::parse(rest).map(discussion_blob_id),
            // A locator is removed together with its discussion.
            LOCATORS => {
                let locator: Option<LocatorRecord> = root::read(&*self.env.store, &format!("{prefix}{rest}")).ok()?;
                ObjectId::parse(&locator?.discussion).map(discussion_blob_id)
            }
            _ => BlobId::of_id(rest.split('/').next()?),
        }
    }

    fn is_garbage(&self, prefix: &str, blob: &BlobId, began: Timestamp) -> bool {
        let kind = prefix.strip_prefix(PREFIX).unwrap_or(prefix);
        if SEMISPACES.iter().any(|(prefix, _)| *prefix == kind) {
            return self.is_swept(kind, began);
        }
        match kind {
            REFLOG => blob.is_older(began, REFLOG_RETENTION),
            REPLACED_PACKS => blob.is_older(began, REPLACED_PACKS_RETENTION),
            DISCUSSIONS | LOCATORS => self.is_unlisted_discussion(blob, began),
            _ => blob.is_older(began, GRACE),
        }
    }
}

impl Maintain for Repositories<'_> {
    fn collect(&self, env: &Env, request: &GcRequest) -> Result<GcReport, StepError> {
        if request.cursor.is_none() && !request.dry_run {
            semispace_roles::flip(env)?;
        }
        let report = gc::step(env, self, request)?;
        if report.cursor.is_none()
            && !request.dry_run
            && let Some((roles, began)) = self.roles.zip(gc::began(request))
            && roles.is_sweep_due(began)
        {
            semispace_roles::record_sweep(env, &roles)?;
        }
        Ok(report)
    }
}

//! Everything that is reachable from refs, reflog entries and discussions, for garbage collection and
//! checks.

use super::discussion_record::{DiscussionListRecord, DiscussionRecord, LocatorRecord, ThreadRecord};
use super::key::{Key, PREFIX};
use super::objects;
use super::record::{
    AppliedRecord, MergeRequestListRecord, MergeRequestRecord, PackListRecord, RefNamesRecord, RefRecord, ReflogRecord,
};
use super::semispace::Semispace;
use super::semispace_roles::{self, SemispaceRoles};
use crate::git::{self, Link, ObjectId};
use crate::repository_id::RepositoryId;
use directory::project::{self, Existence, ProjectKey};
use kit::gc::{self, GRACE, GcReport, GcRequest};
use kit::maintenance::Maintain;
use kit::reachability::{BlobId, KeyLayout, LONGEST_RUN, Node, Roots, StepError, Tracer};
use kit::root;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::BTreeMap;

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
const REF_TRANSACTIONS: &str = "ref_transaction/";
const LOCATORS: &str = "suggestion/";

/// The kind of the root that names the merge requests of a project.
const MERGE_REQUESTS: &str = "merge_requests";

/// What a root belongs to.
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

/// What [`kit::maintenance`] collects and checks: repositories and discussions.
pub struct Repositories<'a> {
    env: &'a Env,
    roles: Option<SemispaceRoles>,
    /// The present repositories of projects that this step has looked up.
    repositories: RefCell<BTreeMap<u64, Option<RepositoryId>>>,
}

impl<'a> Repositories<'a> {
    pub fn new(env: &'a Env) -> Result<Self, StoreError> {
        Ok(Repositories { env, roles: semispace_roles::read(env)?, repositories: RefCell::default() })
    }

    fn is_sweep_due(&self, began: Timestamp) -> bool {
        self.roles.is_some_and(|roles| roles.is_sweep_due(began))
    }

    /// Whether a run that began at this time removes unreached objects below the prefix of this kind.
    fn is_swept(&self, kind: &str, began: Timestamp) -> bool {
        let semispace = SEMISPACES.iter().find(|(prefix, _)| *prefix == kind).map(|(_, semispace)| *semispace);
        self.is_sweep_due(began) && self.roles.is_some_and(|roles| Some(roles.current) != semispace)
    }

    /// Whether objects are traced: only for a sweep of objects, or for a check.
    fn traces_objects(&self, tracer: &Tracer) -> bool {
        tracer.check || self.is_sweep_due(self.env.now)
    }
}

/// Last bytes of a [`BlobId`].
const OBJECT_TAG: u8 = 1;
const DISCUSSION_TAG: u8 = 2;
const COPY_TAG: u8 = 3;

/// What a [`BlobId`] of this area identifies, unless it is a time-ordered id.
enum TracedBlob {
    /// An object of a repository, of which the project's id and the fingerprint are known.
    Object(u64, [u8; 3], ObjectId),
    Discussion(ObjectId),
}

/// The [`BlobId`] of an object: project, object id, the repository's fingerprint and, in the last byte, a tag, which is
/// 0 in that of a time-ordered id.
fn object_blob_id(repository: RepositoryId, id: ObjectId) -> BlobId {
    tagged_blob_id(repository.project, id, repository.fingerprint(), OBJECT_TAG)
}

/// The [`BlobId`] of the loose copies of an object that is in a pack. It is never marked.
fn copy_blob_id(repository: RepositoryId, id: ObjectId) -> BlobId {
    tagged_blob_id(repository.project, id, repository.fingerprint(), COPY_TAG)
}

/// The [`BlobId`] of a discussion, whose id has the form of an object id.
fn discussion_blob_id(id: ObjectId) -> BlobId {
    tagged_blob_id(0, id, [0; 3], DISCUSSION_TAG)
}

fn tagged_blob_id(project: u64, id: ObjectId, fingerprint: [u8; 3], tag: u8) -> BlobId {
    let mut bytes = [0; BlobId::LENGTH];
    let filled = project.to_be_bytes().into_iter().chain(*id.bytes()).chain(fingerprint).chain([tag]);
    bytes.iter_mut().zip(filled).for_each(|(byte, filled)| *byte = filled);
    BlobId(bytes)
}

fn parse_blob_id(blob: &BlobId) -> Option<TracedBlob> {
    let (project, rest) = blob.0.split_first_chunk()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (fingerprint, rest) = rest.split_first_chunk()?;
    match *rest.last()? {
        OBJECT_TAG => Some(TracedBlob::Object(u64::from_be_bytes(*project), *fingerprint, ObjectId::new(*id))),
        DISCUSSION_TAG => Some(TracedBlob::Discussion(ObjectId::new(*id))),
        _ => None,
    }
}

impl Roots for Repositories<'_> {
    fn plan(&self) -> KeyLayout {
        let below = |kinds: &[&str]| kinds.iter().map(|kind| format!("{PREFIX}{kind}")).collect();
        let mut blobs = SEMISPACES.map(|(prefix, _)| prefix).to_vec();
        blobs.extend([PACKS, PACK_INDEXES, DISCUSSIONS, PAGES, REFLOG, REF_TRANSACTIONS, LOCATORS]);
        blobs.sort_unstable();
        KeyLayout {
            // The reflog comes last: of a ref that is moved while roots are visited, either the old value
            // or its reflog entry is seen.
            roots: below(&["branches/", "discussions/", "merge_requests/", "packs/", "ref/", REFLOG]),
            records: below(&["applied/", "merge_request/", LOCATORS, "thread/"]),
            blobs: below(&blobs),
            marks: format!("{PREFIX}gc/"),
        }
    }

    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError> {
        match node {
            Node::Root(key) => self.trace_root(key, tracer),
            Node::Blob(blob) => {
                match parse_blob_id(blob) {
                    Some(TracedBlob::Object(project, fingerprint, id)) if self.traces_objects(tracer) => {
                        if let Some(repository) = self.find_repository(project, fingerprint)? {
                            self.trace_object(repository, id, tracer)?;
                        }
                    }
                    Some(TracedBlob::Discussion(id)) if self.traces_objects(tracer) => {
                        self.trace_discussion(id, tracer)?;
                    }
                    _ => {}
                }
                Ok(true)
            }
        }
    }

    /// Whether a root is one of a deleted project. A project that the directory never knew was not deleted: its
    /// records may be imported later. 1 read, or 2.
    fn is_abandoned(&self, key: &str) -> Result<bool, StoreError> {
        let project = match parse_root_key(key) {
            None => return Ok(false),
            Some((_, Owner::Repository(repository))) => return repository.is_deleted(self.env),
            Some((_, Owner::Project(project))) => project,
        };
        Ok(match project::existence(self.env, project.id)? {
            Existence::Unknown => false,
            Existence::Deleted => true,
            Existence::Present(incarnation) => incarnation != project.incarnation,
        })
    }

    /// Removes such a root; the merge requests before the list that names them, so that a removal that was
    /// interrupted can be repeated. No later project uses their keys.
    fn remove_abandoned(&self, key: &str) -> Result<(), StoreError> {
        let remove = |key: &str| {
            self.env.store.delete(&format!("{key}/init"))?;
            self.env.store.delete(key)
        };
        if let Some((MERGE_REQUESTS, Owner::Project(project))) = parse_root_key(key)
            && !key.ends_with("/init")
        {
            let list: Option<MergeRequestListRecord> = root::read(&*self.env.store, key)?;
            for iid in list.unwrap_or_default().iids {
                remove(&Key::MergeRequest(&project, iid).to_string())?;
            }
        }
        remove(key)
    }

    fn follows(&self) -> bool {
        true
    }

    fn mark(&self, prefix: &str, rest: &str) -> Option<BlobId> {
        match prefix.strip_prefix(PREFIX)? {
            kind @ ("object/" | "object2/") => {
                let (repository, id) = rest.split_once('/')?;
                let (repository, id) = (RepositoryId::parse(repository)?, ObjectId::parse(id)?);
                // Others are kept anyhow.
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
        let Some(kind) = prefix.strip_prefix(PREFIX) else { return false };
        if SEMISPACES.iter().any(|(prefix, _)| *prefix == kind) {
            return self.is_swept(kind, began);
        }
        match kind {
            REFLOG => blob.is_older(began, REFLOG_RETENTION),
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

impl Repositories<'_> {
    fn read<R: DeserializeOwned>(&self, key: &str) -> Result<R, StoreError> {
        root::read(&*self.env.store, key)?.ok_or_else(|| StoreError::corrupt(key, "it is missing"))
    }

    /// The repository of a marked object; `None` if its project was deleted. It is read from the store once in each
    /// step.
    fn find_repository(&self, project: u64, fingerprint: [u8; 3]) -> Result<Option<RepositoryId>, StoreError> {
        let known = self.repositories.borrow().get(&project).copied();
        let repository = match known {
            Some(repository) => repository,
            None => {
                let repository = RepositoryId::find(self.env, project)?;
                self.repositories.borrow_mut().insert(project, repository);
                repository
            }
        };
        Ok(repository.filter(|repository| repository.fingerprint() == fingerprint))
    }

    fn trace_root(&self, key: &str, tracer: &mut Tracer) -> Result<bool, StoreError> {
        let Some((kind, name)) = key.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/')) else {
            return Ok(false);
        };
        // The counter that decides who creates a root (see `kit::root::update`).
        if name.ends_with("/init") {
            return Ok(false);
        }
        let repository = || {
            let repository = name.split('/').next().and_then(RepositoryId::parse);
            repository.ok_or_else(|| StoreError::corrupt(key, "no repository has such a name"))
        };
        match kind {
            "discussions" => self.trace_discussion_list(key, tracer)?,
            "packs" => {
                let list = self.read::<PackListRecord>(key)?;
                list.packs.iter().for_each(|pack| tracer.reach(&pack.id));
            }
            "ref" => self.trace_ref(key, repository()?, tracer)?,
            "reflog" if !self.traces_objects(tracer) => {}
            "reflog" => {
                // It may have been removed since it was listed.
                if let Some(entry) = root::read::<ReflogRecord>(&*self.env.store, key)? {
                    tracer.mark(object_blob_id(entry.repository(), entry.commit));
                }
            }
            "applied" => drop(self.read::<AppliedRecord>(key)?),
            "branches" => drop(self.read::<RefNamesRecord>(key)?),
            "merge_request" => drop(self.read::<Option<MergeRequestRecord>>(key)?),
            "merge_requests" => drop(self.read::<MergeRequestListRecord>(key)?),
            "suggestion" => drop(self.read::<LocatorRecord>(key)?),
            "thread" => drop(self.read::<ThreadRecord>(key)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Marks the commit of a ref. Of one that is locked, also that of the transaction, and how that ended.
    fn trace_ref(&self, key: &str, repository: RepositoryId, tracer: &mut Tracer) -> Result<(), StoreError> {
        let Some(record) = self.read::<Option<RefRecord>>(key)? else { return Ok(()) };
        if let Some(lock) = &record.lock {
            tracer.reach(&lock.transaction);
        }
        if self.traces_objects(tracer) {
            let new = record.lock.and_then(|lock| lock.new);
            for commit in [Some(record.commit), new].into_iter().flatten() {
                tracer.mark(object_blob_id(repository, commit));
            }
        }
        Ok(())
    }

    /// Marks the discussions of a merge request, and the pages that name them.
    fn trace_discussion_list(&self, key: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
        let DiscussionListRecord { pages, last } = self.read(key)?;
        let mut mark = |discussions: &[String]| {
            discussions.iter().filter_map(|id| ObjectId::parse(id)).for_each(|id| tracer.mark(discussion_blob_id(id)));
        };
        mark(&last);
        for page in &pages {
            mark(&self.read::<Vec<String>>(&Key::Page(page).to_string())?);
        }
        pages.iter().for_each(|page| tracer.reach(page));
        Ok(())
    }

    /// Marks the blob that a discussion is on, unless it is one of a fork that was deleted.
    fn trace_discussion(&self, id: ObjectId, tracer: &mut Tracer) -> Result<(), StoreError> {
        let key = Key::Discussion(&id.to_string()).to_string();
        if let Some(file) = self.read::<DiscussionRecord>(&key)?.into_file()
            && self.find_repository(file.repository.project, file.repository.fingerprint())?.is_some()
        {
            tracer.mark(object_blob_id(file.repository, file.blob));
        }
        Ok(())
    }

    /// Whether a discussion that no list names is so old that the request that wrote it will not list it.
    fn is_unlisted_discussion(&self, blob: &BlobId, began: Timestamp) -> bool {
        let Some(TracedBlob::Discussion(id)) = parse_blob_id(blob) else { return false };
        let key = Key::Discussion(&id.to_string()).to_string();
        match root::read::<DiscussionRecord>(&*self.env.store, &key) {
            Ok(Some(record)) => record.created().millis() < began.millis() - GRACE,
            // The discussion was removed; its locators follow.
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// Marks the objects that an object links to, and its chunks. A missing parent is the end of a shallow
    /// history.
    fn trace_object(&self, project: RepositoryId, id: ObjectId, tracer: &mut Tracer) -> Result<(), StoreError> {
        let scanned = objects::scan(self.env, project, id, tracer.check)?;
        tracer.read(scanned.size);
        scanned.uploads.iter().for_each(|upload| tracer.reach(upload));
        let Some(contents) = scanned.contents else { return Ok(()) };
        let corrupt = |why: String| StoreError::corrupt(&Key::Object(Semispace::First, project, id).to_string(), why);
        let links = git::parse_links(scanned.kind, contents);
        for link in links.ok_or_else(|| corrupt(format!("it is not a {}", scanned.kind.as_str())))? {
            match link {
                Link::Part(id) => tracer.mark(object_blob_id(project, id)),
                Link::Parent(id) if objects::exists_anywhere(self.env, project, id)? => {
                    tracer.mark(object_blob_id(project, id));
                }
                Link::Parent(parent) if tracer.check => {
                    let key = Key::Object(Semispace::First, project, id);
                    tracer.found(key, format!("its parent {parent} is missing"));
                }
                Link::Parent(_) => {}
            }
        }
        Ok(())
    }
}

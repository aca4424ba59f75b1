//! The blobs that each root and each blob names.

use super::Repositories;
use super::traced_blob::{TracedBlob, discussion_blob_id, object_blob_id, parse_blob_id};
use crate::git::{self, Link, ObjectId};
use crate::repository_id::RepositoryId;
use crate::store::discussion_record::{
    DiscussionInitialRecord, DiscussionListRecord, DiscussionStateRecord, LocatorRecord,
};
use crate::store::key::{Key, PREFIX, Semispace};
use crate::store::merge_requests::counter_value;
use crate::store::record::{
    AppliedRecord, MergeRequestListRecord, MergeRequestRecord, PackListRecord, RefNamesRecord, RefRecord, ReflogRecord,
    ReplacedPacksRecord,
};
use crate::store::refs::read_value;
use crate::store::{objects, packs};
use directory::default_branch::ref_name_pages;
use kit::gc::GRACE;
use kit::reachability::{BlobId, Tracer};
use kit::store::StoreError;
use kit::{Timestamp, root};
use serde::de::DeserializeOwned;

impl Repositories<'_> {
    fn read<R: DeserializeOwned>(&self, key: &str) -> Result<R, StoreError> {
        root::read(&*self.env.store, key)?.ok_or_else(|| StoreError::corrupt(key, "it is missing"))
    }

    /// The repository of a marked object; `None` if its project was deleted.
    pub(super) fn find_repository(
        &self,
        project: u64,
        fingerprint: [u8; 3],
    ) -> Result<Option<RepositoryId>, StoreError> {
        let repository = self.present_repository(project)?;
        Ok(repository.filter(|repository| repository.fingerprint() == fingerprint))
    }

    pub(super) fn trace_root(&self, key: &str, tracer: &mut Tracer) -> Result<bool, StoreError> {
        let Some((kind, name)) = key.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/')) else {
            return Ok(false);
        };
        // The counter that decides which writer creates a root (see `kit::root::update`).
        if name.ends_with("/init") {
            return Ok(false);
        }
        let repository = || {
            let repository = name.split('/').next().and_then(RepositoryId::parse);
            repository.ok_or_else(|| StoreError::corrupt(key, "no repository has such a name"))
        };
        match kind {
            "discussions" => {
                self.trace_discussion_list(key, tracer)?;
                if tracer.check {
                    self.check_merge_request(key, tracer)?;
                }
            }
            "packs" => {
                let list = self.read::<PackListRecord>(key)?;
                list.packs.iter().for_each(|pack| tracer.mark_id(&pack.id));
                // The sweep removes loose copies of objects that are in packs.
                let expects_blobs = self.traces_objects(tracer)?;
                packs::check(self.env, repository()?, list, expects_blobs, tracer)?;
            }
            "ref" => self.trace_ref(key, repository()?, tracer)?,
            "reflog" if !self.traces_objects(tracer)? => {}
            "reflog" => {
                // It may have been removed since it was listed.
                if let Some(entry) = root::read::<ReflogRecord>(&*self.env.store, key)? {
                    tracer.mark(object_blob_id(entry.repository(), entry.commit));
                }
            }
            "replaced_packs" => {
                // It may have been removed since it was listed.
                let replaced = root::read::<ReplacedPacksRecord>(&*self.env.store, key)?.unwrap_or_default();
                replaced.packs.iter().for_each(|pack| tracer.mark_id(pack));
            }
            "applied" => drop(self.read::<AppliedRecord>(key)?),
            "branches" => kit::list::retrying(self.env, key, || {
                let names = self.read::<RefNamesRecord>(key)?.names;
                ref_name_pages().trace(self.env, (key, &names), tracer)?;
                if self.traces_objects(tracer)? {
                    self.check_refs(key, repository()?, names, tracer)?;
                }
                Ok(())
            })?,
            "merge_request" => {
                let id = self.read::<Option<MergeRequestRecord>>(key)?.and_then(|record| counter_value(record.id));
                id.map_or(Ok(()), |id| self.counters.compare(self.env, &Key::MergeRequestCounter, id, tracer))?;
            }
            "merge_requests" => drop(self.read::<MergeRequestListRecord>(key)?),
            "suggestion" => {
                self.read::<LocatorRecord>(key)?;
                let id = name.parse().map_err(|why| StoreError::corrupt(key, why))?;
                self.counters.compare(self.env, &Key::SuggestionCounter, id, tracer)?;
            }
            "thread" => {
                let state = self.read::<DiscussionStateRecord>(key)?;
                self.check_note_ids(state.note_ids().max(), tracer)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn check_note_ids(&self, greatest: Option<u64>, tracer: &mut Tracer) -> Result<(), StoreError> {
        greatest.map_or(Ok(()), |id| self.counters.compare(self.env, &Key::NoteCounter, id, tracer))
    }

    /// Marks the commit of a ref; for a locked ref, also the transaction and its commit. The ref is not read if neither
    /// commits nor transactions are swept and the repository has a list of packs.
    fn trace_ref(&self, key: &str, repository: RepositoryId, tracer: &mut Tracer) -> Result<(), StoreError> {
        let traces_objects = self.traces_objects(tracer)?;
        let has_pack_list = self.has_pack_list(repository)?;
        if !traces_objects && has_pack_list && !self.has_old_transactions()? {
            return Ok(());
        }
        let Some(record) = self.read::<Option<RefRecord>>(key)? else { return Ok(()) };
        if let Some(lock) = &record.lock {
            tracer.mark_id(&lock.transaction);
        }
        if traces_objects {
            let new = record.lock.as_ref().and_then(|lock| lock.new);
            for commit in [Some(record.commit), new].into_iter().flatten() {
                tracer.mark(object_blob_id(repository, commit));
            }
        }
        if tracer.check {
            self.check_transaction(key, &record, tracer)?;
            self.remark_ambiguous_name(key, repository, tracer);
        }
        if !tracer.check && has_pack_list {
            return Ok(());
        }
        let Some(value) = read_value(self.env, Some(record))? else { return Ok(()) };
        if tracer.check {
            self.check_name(key, repository, tracer)?;
        }
        if has_pack_list { Ok(()) } else { self.check_pack_list(key, repository, value.commit, tracer) }
    }

    /// Marks the discussions of a merge request, and the pages that name them.
    fn trace_discussion_list(&self, key: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
        let DiscussionListRecord { pages, last } = self.read(key)?;
        let mut mark = |discussions: &[String]| -> Result<(), StoreError> {
            for id in discussions {
                match ObjectId::parse(id) {
                    Some(id) => tracer.mark(discussion_blob_id(id)),
                    None if tracer.check => self.check_internal_discussion(key, id, tracer)?,
                    None => {}
                }
            }
            Ok(())
        };
        mark(&last)?;
        for page in &pages {
            mark(&self.read::<Vec<String>>(&Key::Page(page).to_string())?)?;
        }
        pages.iter().for_each(|page| tracer.mark_id(page));
        Ok(())
    }

    /// Marks the commented blob of a discussion, unless it belongs to a deleted fork.
    pub(super) fn trace_discussion(&self, id: ObjectId, tracer: &mut Tracer) -> Result<(), StoreError> {
        let key = Key::DiscussionInitial(&id.to_string()).to_string();
        let record = self.read::<DiscussionInitialRecord>(&key)?;
        if tracer.check {
            self.check_note_ids(Some(record.note_id()), tracer)?;
        }
        let Some(file) = record.into_file() else { return Ok(()) };
        let is_kept = match self.find_repository(file.repository.project, file.repository.fingerprint()) {
            // It is not known whether the fork was deleted.
            Err(StoreError::Corrupt { .. }) => true,
            found => found?.is_some(),
        };
        if is_kept {
            tracer.mark(object_blob_id(file.repository, file.blob));
        }
        Ok(())
    }

    /// Whether a discussion that no list names is so old that the request that wrote it will not list it.
    pub(super) fn is_unlisted_discussion(&self, blob: &BlobId, began: Timestamp) -> bool {
        let Some(TracedBlob::Discussion(id)) = parse_blob_id(blob) else { return false };
        let key = Key::DiscussionInitial(&id.to_string()).to_string();
        match root::read::<DiscussionInitialRecord>(&*self.env.store, &key) {
            Ok(Some(record)) => record.created().millis() < began.millis() - GRACE,
            // The discussion was removed; its locators follow.
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// Marks the objects that an object links to, and its chunks. A missing parent is the end of a shallow history.
    pub(super) fn trace_object(
        &self,
        project: RepositoryId,
        id: ObjectId,
        tracer: &mut Tracer,
    ) -> Result<(), StoreError> {
        let scanned = objects::scan(self.env, project, id, tracer.check)?;
        tracer.read(scanned.size);
        scanned.uploads.iter().for_each(|upload| tracer.mark_id(upload));
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
                    tracer.report(key, format!("its parent {parent} is missing"));
                }
                Link::Parent(_) => {}
            }
        }
        Ok(())
    }
}

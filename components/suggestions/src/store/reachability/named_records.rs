//! Records that others name, and that may be lost.

use super::{MERGE_REQUEST, Repositories};
use crate::git::{ObjectId, explain_ambiguity, find_ambiguity};
use crate::repository_id::RepositoryId;
use crate::store::key::{Key, PREFIX};
use crate::store::record::RefRecord;
use crate::store::{objects, ref_names};
use kit::list::Top;
use kit::path::Segment;
use kit::reachability::{GcSource, Tracer};
use kit::store::StoreError;
use std::collections::BTreeMap;
use std::fmt;

/// How many keys of refs are listed at once.
const KEYS_AT_ONCE: usize = 1000;

impl Repositories<'_> {
    /// Reports a lost record, unless `root` belongs to a deleted project, whose records are being removed. In a
    /// collection, it is damage of `root`.
    fn report_lost(
        &self,
        root: &str,
        lost: impl fmt::Display,
        why: impl fmt::Display,
        tracer: &mut Tracer,
    ) -> Result<(), StoreError> {
        if self.is_orphaned(root)? {
            return Ok(());
        }
        if !tracer.check {
            return Err(StoreError::corrupt(&lost.to_string(), why));
        }
        tracer.report(lost, why);
        Ok(())
    }

    /// Checks that the merge request of a list of discussions has a record. The record is written before the first
    /// comment; a deletion makes it `null`. A merge request that only its project's list names may lack a record: the
    /// request that listed it may have died before it wrote the record.
    pub(super) fn check_merge_request(&self, list: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
        let Some(name) = list.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix("discussions/")) else {
            return Ok(());
        };
        let key = format!("{PREFIX}{MERGE_REQUEST}{name}");
        if self.env.store.exists(&key)? {
            return Ok(());
        }
        self.report_lost(list, key, "it is missing, and has discussions", tracer)
    }

    /// Checks that an internal discussion has a state, which is written before the discussion is listed.
    pub(super) fn check_internal_discussion(
        &self,
        list: &str,
        id: &str,
        tracer: &mut Tracer,
    ) -> Result<(), StoreError> {
        let state = Key::DiscussionState(id).to_string();
        if self.env.store.exists(&state)? {
            return Ok(());
        }
        self.report_lost(list, state, format!("it is missing, and {list} names it"), tracer)
    }

    /// Checks that each listed ref has a record. The record is written before the name is listed for good; a deletion
    /// makes it `null`. But earlier builds listed a name first. Without the counter that creates a root, such a ref
    /// never existed, and the next request with a conflicting name removes its name. 1 list of keys for each 500 refs.
    pub(super) fn check_refs(
        &self,
        list: &str,
        repository: RepositoryId,
        names: Top,
        tracer: &mut Tracer,
    ) -> Result<(), StoreError> {
        let key = |name: &String| Key::Ref(repository, name).to_string();
        // The refs whose record was not seen, and whether their counter was.
        let mut unseen: BTreeMap<String, bool> =
            ref_names::listed(self.env, names)?.iter().map(|name| (key(name), false)).collect();
        let prefix = Key::Ref(repository, "").to_string();
        let mut after = String::new();
        loop {
            let keys = self.env.store.list(&prefix, &after, KEYS_AT_ONCE)?;
            for key in &keys {
                match key.strip_suffix("/init") {
                    Some(root) => unseen.get_mut(root).into_iter().for_each(|has_counter| *has_counter = true),
                    None => drop(unseen.remove(key)),
                }
            }
            match keys.into_iter().nth(KEYS_AT_ONCE - 1) {
                Some(last) => after = last,
                None => break,
            }
        }
        for (lost, _) in unseen.into_iter().filter(|(_, has_counter)| *has_counter) {
            self.report_lost(list, lost, format!("it is missing, and {list} names it"), tracer)?;
        }
        Ok(())
    }

    /// Checks that a repository has a list of packs, which is written before a ref that needs a pack. A repository may
    /// lack the list: nothing was pushed, or all its objects are loose.
    pub(super) fn check_pack_list(
        &self,
        key: &str,
        repository: RepositoryId,
        commit: ObjectId,
        tracer: &mut Tracer,
    ) -> Result<(), StoreError> {
        if objects::exists_anywhere(self.env, repository, commit)? {
            return Ok(());
        }
        let why = format!("it is missing, and {key} names {commit}, which is no loose object");
        self.report_lost(key, Key::Packs(repository), why, tracer)
    }

    /// Checks that the transaction that has locked a ref exists. It begins before the lock, and is kept as long as a
    /// lock names it. Without it, a ref whose new value was committed would have the old value.
    pub(super) fn check_transaction(
        &self,
        key: &str,
        record: &RefRecord,
        tracer: &mut Tracer,
    ) -> Result<(), StoreError> {
        let Some(lock) = &record.lock else { return Ok(()) };
        let transaction = Key::RefTransaction(&lock.transaction).to_string();
        if self.env.store.exists(&transaction)? {
            return Ok(());
        }
        self.report_lost(key, transaction, format!("it is missing, and {key} is locked by it"), tracer)
    }

    /// Remarks on the ambiguous name of an existing ref, which an earlier build created.
    pub(super) fn remark_ambiguous_name(&self, key: &str, repository: RepositoryId, tracer: &mut Tracer) {
        let name = key.rsplit('/').next().and_then(|name| Segment(name).decode());
        if let Some((name, taken_for)) = name.and_then(|name| Some((name.clone(), find_ambiguity(&name)?))) {
            let project = repository.project;
            tracer.remark(
                key,
                format!("in the repository of project {project}: {}", explain_ambiguity(&name, taken_for)),
            );
        }
    }

    /// Checks that the name of an existing ref is listed: it is reserved before the ref is created, and removed after
    /// the ref is deleted. 1 read of the names for each repository and step, and 1 for each report.
    pub(super) fn check_name(
        &self,
        key: &str,
        repository: RepositoryId,
        tracer: &mut Tracer,
    ) -> Result<(), StoreError> {
        let Some(name) = key.rsplit('/').next() else { return Ok(()) };
        let mut listed = self.listed_refs.borrow_mut();
        if listed.as_ref().is_some_and(|(of, names)| *of == repository && names.contains(name)) {
            return Ok(());
        }
        let names = match ref_names::read(self.env, repository) {
            // The visit of the names reports the damage.
            Err(StoreError::Corrupt { .. }) => return Ok(()),
            read => read?.names,
        };
        let names = names.iter().map(|name| kit::path::encode(name)).collect();
        let (_, names) = listed.insert((repository, names));
        if names.contains(name) {
            return Ok(());
        }
        let why = format!("it does not name {key}, which is there");
        self.report_lost(key, Key::RefNames(repository), why, tracer)
    }
}

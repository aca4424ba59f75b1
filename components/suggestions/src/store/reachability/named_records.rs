//! Records that others name, and that may be lost.

use super::{MERGE_REQUEST, Repositories};
use crate::git::{ObjectId, explain_ambiguity, find_ambiguity};
use crate::repository_id::RepositoryId;
use crate::store::key::{Key, PREFIX};
use crate::store::record::{RefNamesRecord, RefRecord};
use crate::store::{objects, ref_names};
use kit::path::Segment;
use kit::reachability::{GcSource, Tracer};
use kit::store::StoreError;
use std::collections::BTreeMap;
use std::fmt;

/// How many keys of refs are listed at once.
const KEYS_AT_ONCE: usize = 1000;

impl Repositories<'_> {
    /// Reports a lost record, unless `root` is of a deleted project, whose records are being removed. In a collection it
    /// is damage of `root`.
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

    /// Looks for the merge request of a list of discussions. Its record was written before its first comment, and that
    /// of a deleted one is `null`. A merge request that only its project's list names need not have a record: it is
    /// listed first, by a request that may have died before it wrote the record.
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

    /// Looks for the notes of an internal discussion, which were written before it was listed.
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

    /// Looks for each listed ref. Its record is written before its name is listed for good, and that of a deleted one
    /// is `null`. But earlier builds listed a name first: without the counter by which a root is created, the ref was
    /// never there, and the next request that the name is in the way of removes it. 1 list of keys for each 500 refs.
    pub(super) fn check_refs(
        &self,
        list: &str,
        repository: RepositoryId,
        names: &RefNamesRecord,
        tracer: &mut Tracer,
    ) -> Result<(), StoreError> {
        let key = |name: &String| Key::Ref(repository, name).to_string();
        // Of each ref whose record was not seen, whether its counter was.
        let mut unseen: BTreeMap<String, bool> = names.names.iter().map(|name| (key(name), false)).collect();
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

    /// Looks for the list of a repository's packs, which is written before a ref that needs one of them. A repository
    /// may have none: nothing was pushed, or all its objects are loose.
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

    /// Looks for the transaction that has locked a ref. It is begun before that, and kept as long as a lock names it;
    /// without it, a ref whose new value was committed would have the old one.
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

    /// Remarks on the name of a ref that is there, and that earlier builds created.
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

    /// Looks for the name of a ref that is there: it is reserved before the ref is created, and forgotten after it is
    /// deleted. 1 read of the names for each repository and step, and 1 for each report.
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
            // The visit of the names reports it.
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

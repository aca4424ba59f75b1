//! Files that a request has read, and how they differ.

use crate::discussion::CommentedFile;
use crate::git::ObjectId;
use crate::line_diff::{LineDiff, StepBudget};
use crate::lines::IndexedFile;
use crate::repository_id::RepositoryId;
use crate::store::objects;
use crate::suggestion::Suggestion;
use bytes::Bytes;
use kit::Env;
use kit::lru::ByteLru;
use kit::store::StoreError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The most that a request keeps, in bytes, unless one file alone takes more.
const CAPACITY: usize = 32 << 20;

/// The most that an instance keeps of files and of differences, in bytes.
const INSTANCE_FILES: usize = 12 << 20;
const INSTANCE_DIFFS: usize = 4 << 20;

/// The files and differences that an instance keeps across requests. Ids of blobs name contents that never change.
struct InstanceFiles {
    /// By repository and blob.
    files: ByteLru<(RepositoryId, ObjectId), Rc<IndexedFile>>,
    /// By two blobs, the earlier one first.
    diffs: ByteLru<(ObjectId, ObjectId), Rc<LineDiff>>,
}

/// The files of a request, each read and indexed once as long as they fit.
pub struct FileCache<'a> {
    env: &'a Env,
    /// By repository and blob.
    files: RefCell<BTreeMap<(RepositoryId, ObjectId), Rc<IndexedFile>>>,
    instance: Rc<InstanceFiles>,
    budget: StepBudget,
}

impl<'a> FileCache<'a> {
    pub fn new(env: &'a Env) -> Self {
        let instance = env.instance_cache.get_or_insert_with(|| InstanceFiles {
            files: ByteLru::new(INSTANCE_FILES),
            diffs: ByteLru::new(INSTANCE_DIFFS),
        });
        FileCache { env, files: RefCell::default(), instance, budget: StepBudget::new() }
    }

    pub fn env(&self) -> &'a Env {
        self.env
    }

    /// An existing file; `None` if it is larger than [`objects::MAX_WHOLE`], or was removed with its project.
    pub fn read(&self, project: RepositoryId, blob: ObjectId) -> Result<Option<Rc<IndexedFile>>, StoreError> {
        if let Some(file) = self.files.borrow().get(&(project, blob)) {
            return Ok(Some(file.clone()));
        }
        let file = match self.instance.files.get(&(project, blob)) {
            Some(file) => file,
            None => {
                let contents = match objects::read_blob(self.env, project, blob) {
                    Err(StoreError::Corrupt { .. }) if project.is_deleted(self.env)? => None,
                    read => read?,
                };
                let Some(contents) = contents else { return Ok(None) };
                let file = Rc::new(IndexedFile::new(contents));
                self.instance.files.put((project, blob), file.size(), file.clone());
                file
            }
        };
        let mut cached = self.files.borrow_mut();
        if cached.values().map(|file| file.size()).sum::<usize>() + file.size() > CAPACITY {
            cached.clear();
        }
        cached.insert((project, blob), file.clone());
        Ok(Some(file))
    }

    /// Whether git takes an existing file for binary; false for a file larger than [`objects::MAX_WHOLE`].
    pub fn is_binary(&self, project: RepositoryId, blob: ObjectId) -> Result<bool, StoreError> {
        Ok(self.read(project, blob)?.is_some_and(|file| file.is_binary()))
    }

    /// The difference between two existing files, given by repository and blob; `None` if one of them is larger than
    /// [`objects::MAX_WHOLE`]. Once the request has spent its steps, everything between the common beginning and end
    /// counts as changed.
    pub fn diff(
        &self,
        before: (RepositoryId, ObjectId),
        after: (RepositoryId, ObjectId),
    ) -> Result<Option<Rc<LineDiff>>, StoreError> {
        let key = (before.1, after.1);
        if let Some(diff) = self.instance.diffs.get(&key) {
            return Ok(Some(diff));
        }
        let files = (self.read(before.0, before.1)?, self.read(after.0, after.1)?);
        let (Some(before), Some(after)) = files else { return Ok(None) };
        let Some(diff) = LineDiff::between(&before, &after, &self.budget).map(Rc::new) else {
            return Ok(Some(Rc::new(LineDiff::of_ends(&before, &after))));
        };
        self.instance.diffs.put(key, diff.size(), diff.clone());
        Ok(Some(diff))
    }

    /// The numbers that lines of a commented file have in a later version, given by repository and blob. The lines may
    /// reach beyond the end of the file. `None` if they were changed, or a file is larger than [`objects::MAX_WHOLE`].
    pub fn follow(
        &self,
        file: &CommentedFile,
        lines: &RangeInclusive<u64>,
        later: (RepositoryId, ObjectId),
    ) -> Result<Option<RangeInclusive<u64>>, StoreError> {
        let Some(commented) = self.read(file.repository, file.blob)? else { return Ok(None) };
        let lines = *lines.start()..=(*lines.end()).min(commented.count());
        if lines.is_empty() {
            return Ok(None);
        }
        if later.1 == file.blob {
            return Ok(Some(lines));
        }
        let diff = self.diff((file.repository, file.blob), later)?;
        Ok(diff.and_then(|diff| diff.follow(&lines)))
    }

    /// The lines that a suggestion replaces, at the commit that was commented on.
    pub fn read_commented_lines(&self, file: &CommentedFile, suggestion: &Suggestion) -> Result<Bytes, StoreError> {
        let file = self.read(file.repository, file.blob)?;
        Ok(file.and_then(|file| file.slice(&suggestion.lines())).unwrap_or_default())
    }
}

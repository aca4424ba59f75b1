//! Files that a request has read.

use crate::discussion::CommentedFile;
use crate::git::ObjectId;
use crate::lines::IndexedFile;
use crate::store::objects;
use crate::suggestion::Suggestion;
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The most that is cached, in bytes, unless one file alone takes more.
const CAPACITY: usize = 32 << 20;

/// Files, each read and indexed once as long as they fit.
pub struct FileCache<'a> {
    env: &'a Env,
    /// By project and blob.
    files: RefCell<BTreeMap<(u64, ObjectId), Rc<IndexedFile>>>,
}

impl<'a> FileCache<'a> {
    pub fn new(env: &'a Env) -> Self {
        FileCache { env, files: RefCell::default() }
    }

    /// An existing file; `None` if it is larger than [`objects::MAX_WHOLE`].
    pub fn read(&self, project: u64, blob: ObjectId) -> Result<Option<Rc<IndexedFile>>, StoreError> {
        if let Some(file) = self.files.borrow().get(&(project, blob)) {
            return Ok(Some(file.clone()));
        }
        let Some(contents) = objects::read_blob(self.env, project, blob)? else { return Ok(None) };
        let file = Rc::new(IndexedFile::new(contents));
        let mut cached = self.files.borrow_mut();
        if cached.values().map(|file| file.size()).sum::<usize>() + file.size() > CAPACITY {
            cached.clear();
        }
        cached.insert((project, blob), file.clone());
        Ok(Some(file))
    }

    /// The lines that a suggestion replaces, at the commit that was commented on.
    pub fn read_commented_lines(&self, file: &CommentedFile, suggestion: &Suggestion) -> Result<Bytes, StoreError> {
        let file = self.read(file.project_id, file.blob)?;
        Ok(file.and_then(|file| file.slice(&suggestion.lines())).unwrap_or_default())
    }
}

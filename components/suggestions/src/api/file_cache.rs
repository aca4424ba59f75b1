//! Files that a request has read.

use crate::discussion::CommentedFile;
use crate::git::ObjectId;
use crate::lines;
use crate::store::objects;
use crate::suggestion::Suggestion;
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The most that is cached, in bytes.
const CAPACITY: usize = 32 << 20;

/// Contents of files, each read once as long as they fit.
pub struct FileCache<'a> {
    env: &'a Env,
    /// By project and blob.
    contents: RefCell<BTreeMap<(u64, ObjectId), Bytes>>,
}

impl<'a> FileCache<'a> {
    pub fn new(env: &'a Env) -> Self {
        FileCache { env, contents: RefCell::default() }
    }

    /// The contents of an existing file; `None` if it is larger than [`objects::MAX_WHOLE`].
    pub fn read(&self, project: u64, blob: ObjectId) -> Result<Option<Bytes>, StoreError> {
        if let Some(contents) = self.contents.borrow().get(&(project, blob)) {
            return Ok(Some(contents.clone()));
        }
        let Some(contents) = objects::read_blob(self.env, project, blob)? else { return Ok(None) };
        let mut cached = self.contents.borrow_mut();
        if cached.values().map(Bytes::len).sum::<usize>() + contents.len() > CAPACITY {
            cached.clear();
        }
        cached.insert((project, blob), contents.clone());
        Ok(Some(contents))
    }

    /// The lines that a suggestion replaces, at the commit that was commented on.
    pub fn read_commented_lines(&self, file: &CommentedFile, suggestion: &Suggestion) -> Result<Bytes, StoreError> {
        let contents = self.read(file.project_id, file.blob)?.unwrap_or_default();
        let lines = lines::slice(&contents, &suggestion.lines()).unwrap_or_default();
        Ok(contents.slice_ref(lines))
    }
}

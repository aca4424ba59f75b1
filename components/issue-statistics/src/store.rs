//! Keys and stored bytes; nothing else knows them. The table of keys is in the crate's
//! documentation.

mod reachability;

use crate::cache::Warm;
use crate::manifest::{Index, Retired};
use crate::segment::{Head, Part, Segment, Shelf};
use crate::set;
use bytes::Bytes;
use kit::Env;
use kit::gc;
use kit::root::{self, Decision};
use kit::store::StoreError;
use roaring::RoaringBitmap;
use std::rc::Rc;

const INDEX: &str = "issue-statistics/v1/index";

/// Below this are the counts of the rate limit of searches.
pub const SEARCHES: &str = "issue-statistics/v1/rate/";

fn head_key(segment: &str) -> String {
    format!("issue-statistics/v1/segment/{segment}/head")
}

/// `table` is a [`Part::name`].
fn page_key(segment: &str, table: &str, number: usize) -> String {
    format!("issue-statistics/v1/segment/{segment}/{table}/{number}")
}

fn dead_key(id: &str) -> String {
    format!("issue-statistics/v1/dead/{id}")
}

/// Storage, with what this instance remembers of it.
pub struct Store {
    pub env: Env,
    pub warm: Rc<Warm>,
    /// Whether pages are remembered: those of a merge are not asked for again.
    remember: bool,
}

impl Store {
    pub fn new(env: &Env) -> Self {
        Store { env: env.clone(), warm: Warm::of(env), remember: true }
    }

    /// The same for reading everything once.
    pub fn for_merging(&self) -> Self {
        Store { env: self.env.clone(), warm: self.warm.clone(), remember: false }
    }

    /// The index as it is. 1 read.
    pub fn index(&self) -> Result<Rc<Index>, StoreError> {
        let bytes = self.env.store.get(INDEX)?.unwrap_or_default();
        self.warm.index(bytes, |bytes| match bytes {
            [] => Ok(Index::default()),
            bytes => serde_json::from_slice(bytes).map_err(|why| StoreError::corrupt(INDEX, why)),
        })
    }

    /// Changes the index; `change` tells whether it did, and gets a new revision.
    pub fn update_index<T>(
        &self,
        mut change: impl FnMut(&mut Index) -> Result<(bool, T), StoreError>,
    ) -> Result<T, StoreError> {
        root::update(&*self.env.store, INDEX, |current: Option<Index>| {
            let mut index = current.unwrap_or_default();
            let (changed, answer) = change(&mut index)?;
            if !changed {
                return Ok(Decision::Done(answer));
            }
            if gc::is_too_late(&self.env) {
                return Err(StoreError::TooLate);
            }
            index.revision = self.env.id();
            Ok(Decision::Write(index, answer))
        })
    }

    pub fn segment<'a>(&'a self, id: &'a str) -> Result<Segment<'a>, StoreError> {
        let head = self.warm.head(id, || {
            let key = head_key(id);
            let bytes = self.env.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "the blob is missing"))?;
            serde_json::from_slice(&bytes).map_err(|why| StoreError::corrupt(&key, why))
        })?;
        Ok(Segment { id, head, shelf: self })
    }

    pub fn save_head(&self, segment: &str, head: &Head) -> Result<(), StoreError> {
        let key = head_key(segment);
        let bytes = serde_json::to_vec(head).map_err(|why| StoreError::corrupt(&key, why))?;
        self.env.store.set(&key, &bytes)
    }

    /// A set of superseded documents.
    pub fn dead(&self, id: &str) -> Result<Rc<RoaringBitmap>, StoreError> {
        let key = dead_key(id);
        self.warm.set(key.as_bytes(), || {
            let bytes = self.env.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "the blob is missing"))?;
            set::bitmap(&bytes).ok_or_else(|| StoreError::corrupt(&key, "no set"))
        })
    }

    pub fn save_dead(&self, id: &str, dead: &RoaringBitmap) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        set::put_bitmap(&mut bytes, dead);
        self.env.store.set(&dead_key(id), &bytes)
    }

    /// Deletes what nothing refers to any more. The head of a segment goes last, so that an
    /// interrupted deletion can be repeated.
    pub fn delete(&self, retired: &Retired) -> Result<(), StoreError> {
        let id = match retired {
            Retired::Dead(id) => return self.env.store.delete(&dead_key(id)),
            Retired::Segment(id) => id,
        };
        let Some(bytes) = self.env.store.get(&head_key(id))? else { return Ok(()) };
        let head: Head = serde_json::from_slice(&bytes).map_err(|why| StoreError::corrupt(&head_key(id), why))?;
        for (part, index) in &head.tables {
            for number in 0..index.pages.len() {
                self.env.store.delete(&page_key(id, part, number))?;
            }
        }
        self.env.store.delete(&head_key(id))
    }
}

impl Shelf for Store {
    fn page(&self, segment: &str, part: Part, number: usize) -> Result<Bytes, StoreError> {
        let key = page_key(segment, part.name(), number);
        let page = match self.remember {
            true => self.warm.pages.get(&*self.env.store, &key)?,
            false => self.env.store.get(&key)?.map(Bytes::from),
        };
        page.ok_or_else(|| StoreError::corrupt(&key, "the blob is missing"))
    }

    fn put(&self, segment: &str, part: Part, number: usize, page: &[u8]) -> Result<(), StoreError> {
        self.env.store.set(&page_key(segment, part.name(), number), page)
    }

    fn damaged(&self, segment: &str, part: Part) -> StoreError {
        StoreError::corrupt(&format!("issue-statistics/v1/segment/{segment}/{}", part.name()), "a page is damaged")
    }
}

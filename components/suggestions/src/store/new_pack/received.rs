//! The entries of a pack that is being received, and why it is not accepted.

use crate::git::{ObjectId, ObjectKind};
use kit::store::StoreError;
use thiserror::Error;

/// Why a pack is not accepted.
#[derive(Debug, Error)]
pub enum PackError {
    #[error(transparent)]
    Bad(BadPack),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A defect of a pack; its text is for the sender.
#[derive(Debug, Error)]
pub enum BadPack {
    #[error("{0}")]
    Invalid(String),
    /// A commit's parent is neither in the pack nor in the repository.
    #[error("missing necessary objects: {0} is not there")]
    LacksParent(ObjectId),
}

/// Where a pack comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackOrigin {
    /// A client, whose objects are checked as `git fsck --strict` does.
    Push,
    /// An administrator. Old histories have faults.
    Import,
}

pub fn invalid(why: impl Into<String>) -> PackError {
    PackError::Bad(BadPack::Invalid(why.into()))
}

/// An entry of the pack that is being received.
pub struct ReceivedEntry {
    pub offset: u64,
    pub length: u64,
    pub base: ReceivedBase,
    /// Known from the beginning unless the entry is a delta.
    pub object: Option<(ObjectId, ObjectKind)>,
}

/// A pack whose entries are all stored.
#[derive(Clone, Copy)]
pub struct ReceivedPack<'e> {
    pub id: &'e str,
    pub entries: &'e [ReceivedEntry],
}

impl<'e> ReceivedPack<'e> {
    pub fn entry(self, number: u32) -> Result<&'e ReceivedEntry, PackError> {
        let entry = usize::try_from(number).ok().and_then(|number| self.entries.get(number));
        entry.ok_or_else(|| invalid("unresolved delta"))
    }
}

/// The object of each entry, and how many deltas are to be applied to get it. `None` as long as it is not known.
pub type Objects = Vec<Option<(ObjectId, ObjectKind, u16)>>;

pub fn get(objects: &Objects, number: u32) -> Option<(ObjectId, ObjectKind, u16)> {
    usize::try_from(number).ok().and_then(|number| objects.get(number)).copied().flatten()
}

pub fn set(objects: &mut Objects, number: u32, object: (ObjectId, ObjectKind, u16)) {
    if let Some(slot) = usize::try_from(number).ok().and_then(|number| objects.get_mut(number)) {
        *slot = Some(object);
    }
}

/// The base of an entry, if it is a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceivedBase {
    None,
    /// The number of an entry of this pack.
    Entry(u32),
    Id(ObjectId),
}

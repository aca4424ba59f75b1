//! The blobs that the marks of this area stand for.

use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use kit::reachability::BlobId;

/// Last bytes of a [`BlobId`].
const OBJECT_TAG: u8 = 1;
const DISCUSSION_TAG: u8 = 2;
const COPY_TAG: u8 = 3;

/// The blob that a [`BlobId`] of this area identifies, unless it is a time-ordered id.
pub enum TracedBlob {
    /// An object of a repository, of which the project's id and the fingerprint are known.
    Object(u64, [u8; 3], ObjectId),
    Discussion(ObjectId),
}

/// The [`BlobId`] of an object: project, object id, the repository's fingerprint and, in the last byte, a tag. The last
/// byte of a time-ordered id is 0.
pub fn object_blob_id(repository: RepositoryId, id: ObjectId) -> BlobId {
    tagged_blob_id(repository.project, id, repository.fingerprint(), OBJECT_TAG)
}

/// The [`BlobId`] of the loose copies of an object that is in a pack. It is never marked.
pub fn copy_blob_id(repository: RepositoryId, id: ObjectId) -> BlobId {
    tagged_blob_id(repository.project, id, repository.fingerprint(), COPY_TAG)
}

/// The [`BlobId`] of a discussion, whose id has the form of an object id.
pub fn discussion_blob_id(id: ObjectId) -> BlobId {
    tagged_blob_id(0, id, [0; 3], DISCUSSION_TAG)
}

fn tagged_blob_id(project: u64, id: ObjectId, fingerprint: [u8; 3], tag: u8) -> BlobId {
    let mut bytes = [0; BlobId::LENGTH];
    let filled = project.to_be_bytes().into_iter().chain(*id.bytes()).chain(fingerprint).chain([tag]);
    bytes.iter_mut().zip(filled).for_each(|(byte, filled)| *byte = filled);
    BlobId(bytes)
}

pub fn parse_blob_id(blob: &BlobId) -> Option<TracedBlob> {
    let (project, rest) = blob.0.split_first_chunk()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (fingerprint, rest) = rest.split_first_chunk()?;
    match *rest.last()? {
        OBJECT_TAG => Some(TracedBlob::Object(u64::from_be_bytes(*project), *fingerprint, ObjectId::new(*id))),
        DISCUSSION_TAG => Some(TracedBlob::Discussion(ObjectId::new(*id))),
        _ => None,
    }
}

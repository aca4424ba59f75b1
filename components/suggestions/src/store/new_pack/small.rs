//! Objects that a request makes, as a pack of their own.

use crate::git::pack_entry::{EntryKind, write_header};
use crate::git::{Link, Object, ObjectId, ObjectKind, pack_entry, parse_links};
use crate::repository_id::RepositoryId;
use crate::store::objects;
use crate::store::packs::{self, IndexEntry, NewPack, PackWriter};
use crate::store::record::PackRecord;
use crate::store::zlib::deflate;
use ::bytes::Bytes;
use kit::Env;
use kit::store::StoreError;

/// The longest chain of deltas that is made; then an object is stored whole again. A pushed pack may add to a shorter
/// chain.
pub(super) const MAX_DEPTH: u8 = 50;

/// If a new version has at least so many bytes, its loose former version is copied into a pack, as the base of a delta.
/// So the next version is a delta, also on another branch.
const MIN_COPIED: usize = 2 << 10;

/// An object, and its former version, if there is one.
pub struct NewObject {
    pub object: Object,
    pub previous: Option<ObjectId>,
}

/// Writes new objects as one pack; the last one is the commit that all others are for.
pub fn save(env: &Env, project: RepositoryId, new: &[NewObject]) -> Result<(), StoreError> {
    write(env, project, new, true)
}

/// Writes copies of loose objects as one pack. The objects that they need may be loose.
pub fn save_copies(env: &Env, project: RepositoryId, copies: &[NewObject]) -> Result<(), StoreError> {
    write(env, project, copies, false)
}

fn write(env: &Env, project: RepositoryId, new: &[NewObject], is_whole_commit: bool) -> Result<(), StoreError> {
    let mut pack = SmallPack { env, project, writer: PackWriter::new(env), entries: Vec::new(), has_copies: false };
    let (mut tips, mut bases) = (Vec::new(), Vec::new());
    for NewObject { object, previous } in new {
        if pack.has(object.id) {
            continue;
        }
        pack.add(object, *previous)?;
        if object.kind == ObjectKind::Commit {
            tips = vec![object.id];
            let links = parse_links(object.kind, Bytes::from(object.contents.clone())).unwrap_or_default();
            bases.extend(links.into_iter().filter_map(|link| match link {
                Link::Parent(id) => Some(id),
                Link::Part(_) => None,
            }));
        }
    }
    let SmallPack { mut writer, mut entries, has_copies, .. } = pack;
    writer.finish()?;
    entries.sort_unstable_by_key(|entry| entry.id);
    packs::write_index(env, writer.id(), &entries)?;
    let record = PackRecord {
        id: writer.id().to_owned(),
        objects: u32::try_from(entries.len()).unwrap_or(u32::MAX),
        size: writer.size(),
        is_self_contained: is_whole_commit && !has_copies && !bases.is_empty(),
        has_tips_blob: false,
        has_copies: false,
        tips,
        bases: bases.clone(),
        ids: Vec::new(),
    };
    let ids = entries.iter().map(|entry| entry.id).collect();
    // If all packs are self-contained, everything that a packed commit reaches is packed too.
    packs::add(env, project, &NewPack { record, ids, self_contained_with: bases }).map(drop)
}

/// A pack that is being written.
struct SmallPack<'a> {
    env: &'a Env,
    project: RepositoryId,
    writer: PackWriter<'a>,
    entries: Vec<IndexEntry>,
    /// Whether it has copies of loose objects.
    has_copies: bool,
}

impl SmallPack<'_> {
    fn has(&self, id: ObjectId) -> bool {
        self.entries.iter().any(|entry| entry.id == id)
    }

    /// Adds an object, as a delta of its previous version if that is shorter. Bases of deltas are in packs, so a loose
    /// base is added first.
    fn add(&mut self, object: &Object, previous: Option<ObjectId>) -> Result<(), StoreError> {
        let Some(base) = previous.filter(|id| *id != object.id) else { return self.add_whole(object) };
        let packed = objects::read_packed(self.env, self.project, base)?;
        let (is_packed, depth) = (packed.is_some(), packed.as_ref().map_or(0, |(_, depth)| *depth));
        let contents = match packed {
            Some((contents, depth)) if depth < MAX_DEPTH => contents,
            None if object.contents.len() >= MIN_COPIED => {
                objects::read_any(self.env, self.project, base, objects::MAX_WHOLE)?.map(|(_, contents)| contents)
            }
            _ => None,
        };
        let Some(contents) = contents else { return self.add_whole(object) };
        let delta = pack_entry::of_edit(&contents, &object.contents);
        if delta.len() >= object.contents.len() / 2 {
            return self.add_whole(object);
        }
        if !is_packed && !self.has(base) {
            self.add_whole(&Object { id: base, kind: object.kind, contents: contents.to_vec() })?;
            self.has_copies = true;
        }
        self.append(object, EntryKind::RefDelta(base), &delta, depth + 1)
    }

    fn add_whole(&mut self, object: &Object) -> Result<(), StoreError> {
        self.append(object, EntryKind::Object(object.kind), &object.contents, 0)
    }

    fn append(&mut self, object: &Object, kind: EntryKind, bytes: &[u8], depth: u8) -> Result<(), StoreError> {
        let mut entry = Vec::new();
        write_header(&mut entry, kind, bytes.len() as u64);
        deflate(self.env, object.kind, bytes, &mut entry)?;
        let (offset, length) = (self.writer.size(), entry.len() as u64);
        self.writer.write(&entry)?;
        self.entries.push(IndexEntry { id: object.id, offset, length, base: None, depth, kind: object.kind });
        Ok(())
    }
}

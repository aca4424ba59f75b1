//! Objects that a request makes, as a pack of their own.

use crate::git::pack_entry::{EntryKind, write_header};
use crate::git::{Link, Object, ObjectId, ObjectKind, delta, parse_links};
use crate::store::objects;
use crate::store::packs::{self, IndexEntry, NewPack, PackWriter, Packs};
use crate::store::record::PackRecord;
use crate::store::zlib::deflate;
use ::bytes::Bytes;
use kit::Env;
use kit::store::StoreError;

/// The longest chain of deltas that is made; then an object is stored whole again.
const MAX_DEPTH: u8 = 50;

/// An object, and the version of it before, if there is one.
pub struct NewObject {
    pub object: Object,
    pub previous: Option<ObjectId>,
}

/// Writes new objects as one pack; the last one is the commit that all others are for.
pub fn save(env: &Env, project: u64, new: &[NewObject]) -> Result<(), StoreError> {
    write(env, project, new, true)
}

/// Writes copies of loose objects as one pack. What they need may be loose.
pub fn save_copies(env: &Env, project: u64, copies: &[NewObject]) -> Result<(), StoreError> {
    write(env, project, copies, false)
}

fn write(env: &Env, project: u64, new: &[NewObject], is_whole_commit: bool) -> Result<(), StoreError> {
    let mut writer = PackWriter::new(env);
    let mut entries: Vec<IndexEntry> = Vec::with_capacity(new.len());
    let (mut tips, mut bases) = (Vec::new(), Vec::new());
    for NewObject { object, previous } in new {
        if entries.iter().any(|entry| entry.id == object.id) {
            continue;
        }
        let offset = writer.size();
        let (bytes, depth) = encode(env, project, object, *previous)?;
        writer.write(&bytes)?;
        let length = writer.size() - offset;
        entries.push(IndexEntry { id: object.id, offset, length, base: None, depth, kind: object.kind });
        if object.kind == ObjectKind::Commit {
            tips = vec![object.id];
            let links = parse_links(object.kind, Bytes::from(object.contents.clone())).unwrap_or_default();
            bases.extend(links.into_iter().filter_map(|link| match link {
                Link::Parent(id) => Some(id),
                Link::Part(_) => None,
            }));
        }
    }
    writer.finish()?;
    // If all packs are closed, what a packed commit reaches is packed too.
    let packs = Packs::load(env, project)?;
    let mut is_closed = is_whole_commit && !tips.is_empty() && packs.list().packs.iter().all(|pack| pack.is_closed);
    for base in &bases {
        is_closed &= packs.find(*base)?.is_some();
    }
    entries.sort_unstable_by_key(|entry| entry.id);
    packs::write_index(env, writer.id(), &entries)?;
    let record = PackRecord {
        id: writer.id().to_owned(),
        objects: u32::try_from(entries.len()).unwrap_or(u32::MAX),
        size: writer.size(),
        is_closed,
        tips,
        bases,
    };
    packs::add(env, project, &NewPack { record, ids: entries.iter().map(|entry| entry.id).collect() })
}

/// The entry of an object, as a delta of its previous version if that is shorter, and the number of deltas that are to
/// be applied to read it.
fn encode(env: &Env, project: u64, object: &Object, previous: Option<ObjectId>) -> Result<(Vec<u8>, u8), StoreError> {
    if let Some(id) = previous.filter(|id| *id != object.id) {
        let depth = objects::delta_depth(env, project, id)?;
        let base = if depth < MAX_DEPTH { objects::read_packed(env, project, id)? } else { None };
        if let Some(base) = base {
            let delta = delta::of_edit(&base, &object.contents);
            if delta.len() < object.contents.len() / 2 {
                let mut bytes = Vec::new();
                write_header(&mut bytes, EntryKind::RefDelta(id), delta.len() as u64);
                deflate(env, object.kind, &delta, &mut bytes)?;
                return Ok((bytes, depth + 1));
            }
        }
    }
    let mut bytes = Vec::new();
    write_header(&mut bytes, EntryKind::Object(object.kind), object.contents.len() as u64);
    deflate(env, object.kind, &object.contents, &mut bytes)?;
    Ok((bytes, 0))
}

//! Stores a received pack again, with some of its entries whole.
//!
//! `git push` sends the root folder of a commit as a delta of the one that the repository has. If packs were stored only
//! as they arrive, each push would add to the chain of deltas that is applied to read that folder.

use super::received::{Objects, PackError, ReceivedBase, ReceivedEntry, ReceivedPack, get, invalid};
use super::resolver::Resolver;
use crate::git::pack_entry::{EntryKind, write_header};
use crate::store::packs::{PackBytes, PackWriter, header_at};
use crate::store::zlib::deflate;
use std::collections::BTreeSet;

/// A pack that replaces the received one, whose blobs become garbage.
pub struct RewrittenPack {
    pub id: String,
    pub size: u64,
    entries: Vec<ReceivedEntry>,
}

impl RewrittenPack {
    pub fn received(&self) -> ReceivedPack<'_> {
        ReceivedPack { id: &self.id, entries: &self.entries }
    }
}

/// Copies a pack, with these entries stored whole. The order of the entries stays.
pub fn store_whole(
    resolver: &Resolver,
    pack: ReceivedPack,
    objects: &Objects,
    whole: &BTreeSet<u32>,
) -> Result<RewrittenPack, PackError> {
    let stored = PackBytes::new(resolver.env, resolver.project, pack.id);
    let mut writer = PackWriter::new(resolver.env);
    let mut entries: Vec<ReceivedEntry> = Vec::with_capacity(pack.entries.len());
    for (number, entry) in (0..).zip(pack.entries) {
        let offset = writer.size();
        let (mut base, mut object) = (entry.base, entry.object);
        if whole.contains(&number) {
            let (id, kind, _) = get(objects, number).ok_or_else(|| invalid("unresolved delta"))?;
            (base, object) = (ReceivedBase::None, Some((id, kind)));
            let contents = resolver.rebuild(pack, number)?;
            let mut bytes = Vec::new();
            write_header(&mut bytes, EntryKind::Object(kind), contents.len() as u64);
            deflate(resolver.env, kind, &contents, &mut bytes)?;
            writer.write(&bytes)?;
        } else {
            let mut copied = entry.offset;
            // A base is before its delta, which names it by the distance.
            if let ReceivedBase::Entry(base) = entry.base {
                let base = usize::try_from(base).ok().and_then(|base| entries.get(base));
                let base = base.ok_or_else(|| invalid("delta base offset is out of bound"))?;
                let header = header_at(stored, entry.offset)?;
                let mut bytes = Vec::new();
                write_header(&mut bytes, EntryKind::OffsetDelta(offset - base.offset), header.size);
                writer.write(&bytes)?;
                copied += header.length as u64;
            }
            for part in stored.range(copied, entry.offset + entry.length - copied) {
                writer.write(&part?)?;
            }
        }
        entries.push(ReceivedEntry { offset, length: writer.size() - offset, base, object });
    }
    writer.finish()?;
    Ok(RewrittenPack { id: writer.id().to_owned(), size: writer.size(), entries })
}

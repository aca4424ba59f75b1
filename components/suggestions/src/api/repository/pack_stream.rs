//! A pack as it is sent. Entries are copied as they are stored. Only a delta whose base is not sent, and a loose
//! object, are compressed again.

use crate::git::pack_entry::{EntryKind, begins_whole_object, write_header};
use crate::git::{ObjectId, pktline};
use crate::repository_id::RepositoryId;
use crate::store::objects::{self, LooseStream};
use crate::store::packs::{Location, MAX_DELTIFIED, PackListRecord, Packs};
use crate::store::zlib::{Compressors, compressors, deflate, deflate_part};
use bytes::Bytes;
use flate2::FlushCompress;
use kit::Env;
use kit::body::{BodyError, Chunk};
use kit::store::StoreError;
use sha1::{Digest, Sha1};
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

/// The approximate size of a part of the stream, in bytes.
const PART: usize = 128 << 10;

/// The contents of a pack that is sent.
pub enum Contents {
    /// Every entry of every listed pack.
    WholePacks,
    Objects(Vec<ObjectId>),
}

/// The next step of the stream.
enum Step {
    Header,
    /// A range of a stored pack.
    Range {
        pack: usize,
        next: u64,
        end: u64,
        /// Whether it begins with an entry that, by the index, is a whole object and no delta.
        is_whole: bool,
    },
    /// The contents of a loose object.
    Loose(Box<LooseStream>, Rc<RefCell<Compressors>>),
    Next,
    Trailer,
    End,
}

/// Where objects are, in the order in which they are stored, so that each part of a pack is read once.
fn locate(packs: &Packs, ids: Vec<ObjectId>) -> Result<Vec<(ObjectId, Option<Location>)>, StoreError> {
    let mut located = Vec::with_capacity(ids.len());
    for id in ids {
        located.push((id, packs.find(id)?));
    }
    located.sort_by_key(|(_, location)| {
        location.map_or((usize::MAX, 0), |location| (location.pack, location.entry.offset))
    });
    Ok(located)
}

/// The bytes of a pack, in parts.
pub struct PackStream {
    env: Env,
    project: RepositoryId,
    list: Rc<PackListRecord>,
    step: Step,
    count: u32,
    whole: VecDeque<usize>,
    /// Each with its location, unless it is loose.
    objects: VecDeque<(ObjectId, Option<Location>)>,
    sent: HashSet<ObjectId>,
    checksum: Sha1,
}

impl PackStream {
    pub fn new(
        env: &Env,
        project: RepositoryId,
        list: Rc<PackListRecord>,
        contents: Contents,
    ) -> Result<Self, StoreError> {
        let (mut whole, mut objects) = (VecDeque::new(), VecDeque::new());
        let count = match contents {
            Contents::WholePacks => {
                whole.extend(0..list.packs.len());
                list.packs.iter().map(|pack| pack.objects).sum()
            }
            Contents::Objects(ids) => {
                objects.extend(locate(&Packs::over(env, project, list.clone()), ids)?);
                u32::try_from(objects.len()).unwrap_or(u32::MAX)
            }
        };
        let sent = objects.iter().map(|(id, _)| *id).collect();
        Ok(PackStream {
            env: env.clone(),
            project,
            list,
            step: Step::Header,
            count,
            whole,
            objects,
            sent,
            checksum: Sha1::new(),
        })
    }

    /// The number of objects.
    pub fn total(&self) -> u32 {
        self.count
    }

    /// The next part; empty at the end.
    fn part(&mut self) -> Result<Vec<u8>, StoreError> {
        let mut out = Vec::new();
        while out.len() < PART {
            self.step = match std::mem::replace(&mut self.step, Step::End) {
                Step::Header => {
                    out.extend_from_slice(b"PACK\0\0\0\x02");
                    out.extend_from_slice(&self.count.to_be_bytes());
                    Step::Next
                }
                Step::Range { pack, next, end, is_whole } => {
                    let packs = Packs::over(&self.env, self.project, self.list.clone());
                    let stored = packs.bytes(pack)?;
                    let bytes = match self.sent.is_empty() {
                        true => stored.read_once(next, end - next)?,
                        false => stored.at(next, end - next)?,
                    };
                    if bytes.is_empty() {
                        return Err(stored.corrupt(next, "it is too short"));
                    }
                    if is_whole && !bytes.first().is_some_and(|first| begins_whole_object(*first)) {
                        return Err(stored.corrupt(next, "it is a delta, and its index names no base"));
                    }
                    out.extend_from_slice(&bytes);
                    let next = next + bytes.len() as u64;
                    if next < end { Step::Range { pack, next, end, is_whole: false } } else { Step::Next }
                }
                Step::Loose(contents, compressors) => deflate_next(contents, compressors, &mut out)?,
                Step::Next => self.next_object(&mut out)?,
                Step::Trailer => {
                    self.checksum.update(&out);
                    out.extend_from_slice(&std::mem::take(&mut self.checksum).finalize());
                    return Ok(out);
                }
                Step::End => break,
            };
        }
        self.checksum.update(&out);
        Ok(out)
    }

    fn next_object(&mut self, out: &mut Vec<u8>) -> Result<Step, StoreError> {
        if let Some(pack) = self.whole.pop_front() {
            let end = self.list.packs.get(pack).map_or(0, |record| record.size);
            return Ok(Step::Range { pack, next: 0, end, is_whole: false });
        }
        let Some((id, location)) = self.objects.pop_front() else { return Ok(Step::Trailer) };
        let packs = Packs::over(&self.env, self.project, self.list.clone());
        let Some(location) = location else { return self.begin_loose(id, out) };
        let Location { pack, entry } = location;
        let (next, end) = (entry.offset, entry.offset + entry.length);
        if entry.depth == 0 {
            return Ok(Step::Range { pack, next, end, is_whole: true });
        }
        match packs.base(&location)?.filter(|(base, _)| self.sent.contains(base)) {
            Some((base, header)) => {
                write_header(out, EntryKind::RefDelta(base), header.size);
                Ok(Step::Range { pack, next: next + header.length as u64, end, is_whole: false })
            }
            None => {
                self.write_recompressed(id, out)?;
                Ok(Step::Next)
            }
        }
    }

    /// Begins an object that is in none of the listed packs.
    fn begin_loose(&self, id: ObjectId, out: &mut Vec<u8>) -> Result<Step, StoreError> {
        let Some(contents) = LooseStream::open(&self.env, self.project, id)? else {
            // The object was moved to a newer pack meanwhile.
            self.write_recompressed(id, out)?;
            return Ok(Step::Next);
        };
        write_header(out, EntryKind::Object(contents.kind), contents.size);
        let compressors = compressors(&self.env);
        compressors.borrow_mut().of(contents.kind).reset();
        Ok(Step::Loose(Box::new(contents), compressors))
    }

    fn write_recompressed(&self, id: ObjectId, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let object = objects::read_any(&self.env, self.project, id, MAX_DELTIFIED)?;
        let (kind, contents) = object.ok_or_else(|| objects::missing(self.project, id))?;
        write_header(out, EntryKind::Object(kind), contents.len() as u64);
        deflate(&self.env, kind, &contents, out)
    }
}

/// Writes the next part of a loose object.
fn deflate_next(
    mut contents: Box<LooseStream>,
    compressors: Rc<RefCell<Compressors>>,
    out: &mut Vec<u8>,
) -> Result<Step, StoreError> {
    let part = contents.next_part()?;
    let flush = if part.is_some() { FlushCompress::None } else { FlushCompress::Finish };
    deflate_part(compressors.borrow_mut().of(contents.kind), &part.unwrap_or_default(), flush, out)?;
    Ok(if flush == FlushCompress::None { Step::Loose(contents, compressors) } else { Step::Next })
}

impl Iterator for PackStream {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        match self.part() {
            Ok(part) if part.is_empty() => None,
            Ok(part) => Some(Ok(part.into())),
            Err(error) => {
                self.step = Step::End;
                Some(Err(BodyError::Storage(error.to_string())))
            }
        }
    }
}

/// Puts the parts of a pack into packets of side band 1.
pub fn in_side_band(parts: impl Iterator<Item = Chunk>, size: usize) -> impl Iterator<Item = Chunk> {
    parts.map(move |part| {
        part.map(|part| {
            let mut out = Vec::with_capacity(part.len() + part.len() / size * 5 + 16);
            for data in part.chunks(size) {
                write_band(&mut out, 1, data);
            }
            Bytes::from(out)
        })
    })
}

/// Appends a packet of a side band: 1 is the pack, 2 are messages, 3 is a fatal error.
pub fn write_band(out: &mut Vec<u8>, band: u8, data: &[u8]) {
    let mut packet = Vec::with_capacity(data.len() + 1);
    packet.push(band);
    packet.extend_from_slice(data);
    pktline::write(out, &packet);
}

//! A pack from a client, which is stored and parsed as it streams in. It is invisible until [`packs::add`] lists it.

use super::received::{PackError, PackOrigin, ReceivedBase, ReceivedEntry, ReceivedPack, invalid};
use super::resolve::Resolved;
use super::resolver::Resolver;
use crate::git::pack_entry::{EntryHeader, EntryKind, HeaderParse, MAX_HEADER};
use crate::git::{ObjectId, ObjectKind, id_from_hasher, pack_entry};
use crate::repository_id::RepositoryId;
use crate::store::packs::{self, MAX_DELTIFIED, NewPack, PackWriter};
use crate::store::record::PackRecord;
use crate::store::zlib;
use ::bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use kit::Env;
use sha1::{Digest, Sha1};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The most objects of one pack. Each takes about 100 bytes of memory while the pack is checked.
const MAX_OBJECTS: u32 = 1_000_000;

/// The largest object, in bytes.
const MAX_OBJECT: u64 = 4 << 30;

/// The largest commit, tree or tag, in bytes, which is checked as a whole.
const MAX_CHECKED: u64 = 32 << 20;

/// The part of a decompressed entry that is in memory at once, in bytes.
const PART: usize = 64 << 10;

enum State {
    /// The header of the pack: 12 bytes.
    Start,
    EntryHeader,
    Contents(Box<OpenEntry>),
    Trailer,
    End,
}

/// The entry whose contents are being received.
struct OpenEntry {
    offset: u64,
    header: EntryHeader,
    base: ReceivedBase,
    /// Decompressed bytes so far.
    size: u64,
    /// Unless the entry is a delta.
    hasher: Option<(ObjectKind, Sha1)>,
    /// Contents of a commit, tree or tag; the first bytes of a delta.
    buffered: Vec<u8>,
}

/// The longest sizes at the beginning of a delta, in bytes.
const DELTA_SIZES: usize = 20;

/// Receives one pack.
pub struct PackReceiver<'a> {
    env: &'a Env,
    writer: PackWriter<'a>,
    zlib: Rc<RefCell<Decompress>>,
    part: Vec<u8>,
    state: State,
    /// The beginning of the pack's header, an entry's header or the trailer.
    pending: Vec<u8>,
    /// Of everything before the trailer.
    checksum: Sha1,
    objects: u32,
    entries: Vec<ReceivedEntry>,
    resolver: Resolver<'a>,
}

impl<'a> PackReceiver<'a> {
    pub fn new(env: &'a Env, project: RepositoryId, origin: PackOrigin) -> Self {
        let zlib = zlib::decompressor(env);
        PackReceiver {
            env,
            writer: PackWriter::new(env),
            zlib,
            part: Vec::with_capacity(PART),
            state: State::Start,
            pending: Vec::new(),
            checksum: Sha1::new(),
            objects: 0,
            entries: Vec::new(),
            resolver: Resolver::new(env, project, origin),
        }
    }

    /// Takes the next bytes of the pack.
    pub fn feed(&mut self, mut input: &[u8]) -> Result<(), PackError> {
        while !input.is_empty() {
            input = match std::mem::replace(&mut self.state, State::End) {
                State::Start => self.feed_start(input)?,
                State::EntryHeader => self.feed_entry_header(input)?,
                State::Contents(open) => self.feed_contents(open, input)?,
                State::Trailer => self.feed_trailer(input)?,
                State::End => return Err(invalid("pack has junk at the end")),
            };
        }
        Ok(())
    }

    /// Moves bytes to `pending` until it has `length`; true once it has.
    fn collect(&mut self, input: &mut &[u8], length: usize) -> bool {
        let missing = length.saturating_sub(self.pending.len());
        let (part, rest) = input.split_at_checked(missing).unwrap_or((input, &[]));
        self.pending.extend_from_slice(part);
        *input = rest;
        self.pending.len() >= length
    }

    fn feed_start<'i>(&mut self, mut input: &'i [u8]) -> Result<&'i [u8], PackError> {
        if !self.collect(&mut input, 12) {
            self.state = State::Start;
            return Ok(input);
        }
        let header = std::mem::take(&mut self.pending);
        self.checksum.update(&header);
        let rest =
            header.strip_prefix(b"PACK").ok_or_else(|| invalid("protocol error (pack signature mismatch detected)"))?;
        let number = |at: usize| -> u32 {
            rest.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
        };
        if !matches!(number(0), 2 | 3) {
            return Err(invalid(format!("pack version {} unsupported", number(0))));
        }
        self.objects = number(4);
        if self.objects > MAX_OBJECTS {
            return Err(invalid(format!(
                "the pack has {} objects, and at most {MAX_OBJECTS} are accepted in one push; push an older commit first",
                self.objects
            )));
        }
        self.resolver.expect_objects(self.objects);
        self.state = self.next_entry();
        Ok(input)
    }

    fn next_entry(&self) -> State {
        let is_last = self.entries.len() as u64 == u64::from(self.objects);
        if is_last { State::Trailer } else { State::EntryHeader }
    }

    fn feed_entry_header<'i>(&mut self, input: &'i [u8]) -> Result<&'i [u8], PackError> {
        let known = self.pending.len();
        self.pending.extend_from_slice(input.get(..MAX_HEADER).unwrap_or(input));
        let header = match EntryHeader::parse(&self.pending) {
            HeaderParse::Header(header) => header,
            HeaderParse::Incomplete => {
                self.state = State::EntryHeader;
                return Ok(&[]);
            }
            HeaderParse::Invalid => return Err(invalid(format!("bad object at offset {}", self.writer.size() + 12))),
        };
        let bytes = std::mem::take(&mut self.pending);
        let bytes = bytes.get(..header.length).unwrap_or(&bytes);
        let offset = self.writer.size();
        self.checksum.update(bytes);
        self.writer.write(bytes)?;
        let (base, hasher) = match header.kind {
            EntryKind::Object(kind) => {
                let limit = if kind == ObjectKind::Blob { MAX_OBJECT } else { MAX_CHECKED };
                check_size(kind.as_str(), header.size, limit)?;
                (ReceivedBase::None, Some((kind, kind.hasher(header.size))))
            }
            EntryKind::OffsetDelta(distance) => {
                let base = offset.checked_sub(distance).filter(|_| distance > 0);
                let number = base.and_then(|base| self.entries.binary_search_by_key(&base, |entry| entry.offset).ok());
                let number = number.and_then(|number| u32::try_from(number).ok());
                (ReceivedBase::Entry(number.ok_or_else(|| invalid("delta base offset is out of bound"))?), None)
            }
            EntryKind::RefDelta(id) => (ReceivedBase::Id(id), None),
        };
        if hasher.is_none() {
            check_delta_size("delta", header.size)?;
        }
        self.zlib.borrow_mut().reset(true);
        self.state =
            State::Contents(Box::new(OpenEntry { offset, header, base, size: 0, hasher, buffered: Vec::new() }));
        Ok(input.get(header.length - known.min(header.length)..).unwrap_or_default())
    }

    fn feed_contents<'i>(&mut self, mut open: Box<OpenEntry>, input: &'i [u8]) -> Result<&'i [u8], PackError> {
        let bad = |why: &str| invalid(format!("inflate of the object at offset {}: {why}", open.offset + 12));
        self.part.clear();
        let mut zlib = self.zlib.borrow_mut();
        let before = zlib.total_in();
        let status = zlib.decompress_vec(input, &mut self.part, FlushDecompress::None);
        let status = status.map_err(|_| bad("the stream is damaged"))?;
        let consumed = usize::try_from(zlib.total_in() - before).unwrap_or(usize::MAX);
        drop(zlib);
        let (used, rest) = input.split_at_checked(consumed).unwrap_or((input, &[]));
        if consumed == 0 && self.part.is_empty() && status != Status::StreamEnd {
            return Err(bad("the stream does not go on"));
        }
        self.checksum.update(used);
        self.writer.write(used)?;
        open.size += self.part.len() as u64;
        if open.size > open.header.size {
            return Err(bad("it is larger than was said"));
        }
        match &mut open.hasher {
            Some((kind, hasher)) => {
                hasher.update(&self.part);
                if *kind != ObjectKind::Blob {
                    open.buffered.extend_from_slice(&self.part);
                }
            }
            None => {
                let missing = DELTA_SIZES.saturating_sub(open.buffered.len());
                open.buffered.extend_from_slice(self.part.get(..missing).unwrap_or(&self.part));
            }
        }
        if status == Status::StreamEnd {
            self.finish_entry(*open)?;
            self.state = self.next_entry();
        } else {
            self.state = State::Contents(open);
        }
        Ok(rest)
    }

    fn finish_entry(&mut self, open: OpenEntry) -> Result<(), PackError> {
        if open.size != open.header.size {
            return Err(invalid(format!(
                "inflate of the object at offset {}: it is smaller than was said",
                open.offset + 12
            )));
        }
        let object = match open.hasher {
            Some((kind, hasher)) => {
                let id = id_from_hasher(hasher);
                self.resolver.check(id, kind, &Bytes::from(open.buffered))?;
                Some((id, kind))
            }
            None => {
                let sizes = pack_entry::parse_sizes(&open.buffered);
                let (base, result, _) = sizes.map_err(|_| invalid("failed to apply delta: it is malformed"))?;
                check_delta_size("delta's base", base)?;
                check_delta_size("delta's result", result)?;
                None
            }
        };
        let length = self.writer.size() - open.offset;
        self.entries.push(ReceivedEntry { offset: open.offset, length, base: open.base, object });
        Ok(())
    }

    fn feed_trailer<'i>(&mut self, mut input: &'i [u8]) -> Result<&'i [u8], PackError> {
        if !self.collect(&mut input, ObjectId::LENGTH) {
            self.state = State::Trailer;
            return Ok(input);
        }
        if self.pending != self.checksum.clone().finalize().as_slice() {
            return Err(invalid("pack is corrupted (SHA1 mismatch)"));
        }
        Ok(input)
    }

    /// Checks the pack as a whole, and writes its index. `tips` are the new values of the refs of a push; an import's
    /// tips are the objects that no other object links to. `None` if the pack has no objects.
    pub fn finish(mut self, tips: &BTreeSet<ObjectId>) -> Result<Option<NewPack>, PackError> {
        if !matches!(self.state, State::End) {
            return Err(invalid("early EOF"));
        }
        self.writer.finish()?;
        let received = ReceivedPack { id: self.writer.id(), entries: &self.entries };
        let Resolved { rewritten, entries, tips, bases, is_self_contained } = self.resolver.finish(received, tips)?;
        if entries.is_empty() {
            return Ok(None);
        }
        let (id, size) = match rewritten {
            Some(rewritten) => (rewritten.id, rewritten.size),
            None => (self.writer.id().to_owned(), self.writer.size()),
        };
        packs::write_index(self.env, &id, &entries)?;
        let record = PackRecord {
            id,
            objects: u32::try_from(entries.len()).unwrap_or(u32::MAX),
            size,
            tips,
            bases,
            is_self_contained,
            has_tips_blob: false,
            has_copies: false,
            ids: Vec::new(),
        };
        let ids = entries.iter().map(|entry| entry.id).collect();
        Ok(Some(NewPack { record, ids, self_contained_with: Vec::new() }))
    }
}

/// The objects of deltas are in memory. Larger ones can be stored whole, which is for the client to do.
fn check_delta_size(name: &str, size: u64) -> Result<(), PackError> {
    check_size(name, size, MAX_DELTIFIED).map_err(|error| match error {
        PackError::Bad(why) => invalid(format!(
            "{why}; `git -c core.bigFileThreshold=64m repack -a -d -F` stores large files without deltas"
        )),
        error @ PackError::Store(_) => error,
    })
}

fn check_size(name: &str, size: u64, limit: u64) -> Result<(), PackError> {
    match size > limit {
        true => Err(invalid(format!("a {name} has {size} bytes, and at most {limit} are accepted"))),
        false => Ok(()),
    }
}

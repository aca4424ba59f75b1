//! Git objects, by id: in packs ([`super::packs`]), or loose, as imports and earlier builds have written them. A loose
//! object is header and contents in zlib; a large one is in chunks, which the record under its key lists.

mod loose;

use crate::git::pack_entry::EntryKind;
use crate::git::{Commit, Object, ObjectId, ObjectKind, Tree, id_from_hasher, parse_header};
use crate::repository_id::RepositoryId;
use crate::store::key::{Key, Semispace};
use crate::store::objects::loose::{CHUNK, ChunkList, ObjectInflater, corrupt, corrupt_chunk, look_up, read_chunk};
pub use crate::store::objects::loose::{LooseObject, missing};
use crate::store::packs::{self, Location, Packs, ReadObject};
use crate::store::semispace_roles;
use crate::store::zlib::{self, Compressors};
use bytes::Bytes;
use flate2::{Decompress, FlushCompress, FlushDecompress, Status};
use kit::Env;
use kit::store::StoreError;
use sha1::{Digest, Sha1};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The largest object that is read as a whole, in bytes.
pub const MAX_WHOLE: u64 = 16 << 20;

/// An object as git stores it; `None` if the repository lacks it. 1 read, or 2.
pub fn read_loose(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<LooseObject>, StoreError> {
    let keys = Semispace::BOTH.map(|semispace| (semispace, Key::Object(semispace, project, id).to_string()));
    // A cached object of either semispace costs no read of the other one.
    let cached = keys.iter().find_map(|(semispace, key)| Some((*semispace, key, env.blobs.peek(key)?)));
    if let Some((semispace, key, bytes)) = cached {
        return LooseObject::parse(semispace, key, bytes).map(Some);
    }
    for (semispace, key) in &keys {
        if let Some(bytes) = env.blob(key)? {
            return LooseObject::parse(*semispace, key, bytes).map(Some);
        }
    }
    Ok(None)
}

/// Whether a semispace has an object. 1 read.
pub fn exists(env: &Env, semispace: Semispace, project: RepositoryId, id: ObjectId) -> Result<bool, StoreError> {
    env.store.exists(&Key::Object(semispace, project, id).to_string())
}

/// Whether a repository has an object.
pub fn exists_anywhere(env: &Env, project: RepositoryId, id: ObjectId) -> Result<bool, StoreError> {
    let in_packs = |packs: &Packs| Ok(packs.find(id)?.map(drop));
    let loose = || Ok(is_loose(env, project, id)?.then_some(()));
    Ok(look_up(env, project, in_packs, loose)?.is_some())
}

/// Whether an object is in a pack.
pub fn is_packed(env: &Env, project: RepositoryId, id: ObjectId) -> Result<bool, StoreError> {
    Ok(Packs::with(env, project, |packs| packs.find(id))?.is_some())
}

/// Whether either semispace has an object. 1 read, or 2.
fn is_loose(env: &Env, project: RepositoryId, id: ObjectId) -> Result<bool, StoreError> {
    let [first, second] = Semispace::BOTH.map(|semispace| exists(env, semispace, project, id));
    Ok(first? || second?)
}

/// Copies a blob to the current semispace unless that has it, so that the blob is not swept before a
/// discussion names it.
pub fn copy_to_current(env: &Env, project: RepositoryId, id: ObjectId, contents: &Bytes) -> Result<(), StoreError> {
    let semispace = semispace_roles::read_current(env)?;
    if is_packed(env, project, id)? || exists(env, semispace, project, id)? {
        return Ok(());
    }
    save(env, semispace, project, &Object { id, kind: ObjectKind::Blob, contents: contents.to_vec() })
}

/// An object's contents, if it has at most `limit` bytes; `None` if the repository lacks it. A loose one takes 1 read,
/// and 1 for each chunk.
fn find(env: &Env, project: RepositoryId, id: ObjectId, limit: u64) -> Result<Option<ReadObject>, StoreError> {
    let in_packs = |packs: &Packs| read_at(packs, packs.find(id)?, limit);
    look_up(env, project, in_packs, || find_loose(env, project, id, limit))
}

fn read_at(packs: &Packs, location: Option<Location>, limit: u64) -> Result<Option<ReadObject>, StoreError> {
    location.map(|location| packs.read(&location, limit)).transpose()
}

fn find_loose(env: &Env, project: RepositoryId, id: ObjectId, limit: u64) -> Result<Option<ReadObject>, StoreError> {
    let mut inflater = ObjectInflater::new(env, limit);
    match read_loose(env, project, id)? {
        None => return Ok(None),
        Some(LooseObject::Whole(bytes)) => inflater.feed(&bytes).map_err(|why| corrupt(project, id, why))?,
        Some(LooseObject::Chunks(keys)) => {
            for key in keys {
                let bytes = loose::read_chunk(env, project, id, &key)?;
                inflater.feed(&bytes).map_err(|why| corrupt(project, id, why))?;
                if inflater.excess_size().is_some() {
                    break;
                }
            }
        }
    }
    if let Some(size) = inflater.excess_size() {
        return Ok(Some(ReadObject::TooLarge(size)));
    }
    let (kind, contents) = inflater.finish().ok_or_else(|| corrupt(project, id, "it is not a whole object"))?;
    Ok(Some(ReadObject::Object(kind, contents)))
}

/// The kind of an object; `None` if the repository lacks it.
pub fn kind(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<ObjectKind>, StoreError> {
    let in_packs = |packs: &Packs| Ok(packs.find(id)?.map(|location| location.entry.kind));
    look_up(env, project, in_packs, || loose_kind(env, project, id))
}

/// The kind of a loose object; `None` if neither semispace has it. 2 reads.
pub fn loose_kind(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<ObjectKind>, StoreError> {
    Ok(scan_loose(env, project, id, false)?.map(|scanned| scanned.kind))
}

/// How many deltas are to be applied to read an object; 0 if it is stored whole.
pub fn delta_depth(env: &Env, project: RepositoryId, id: ObjectId) -> Result<u8, StoreError> {
    let location = Packs::with(env, project, |packs| packs.find(id))?;
    Ok(location.map_or(0, |location| location.entry.depth))
}

/// The kind and contents of an object of at most `limit` bytes; `None` if the repository lacks it.
pub fn read_any(
    env: &Env,
    project: RepositoryId,
    id: ObjectId,
    limit: u64,
) -> Result<Option<(ObjectKind, Bytes)>, StoreError> {
    match find(env, project, id, limit)? {
        None => Ok(None),
        Some(ReadObject::TooLarge(size)) => {
            Err(corrupt(project, id, &format!("it has {size} bytes, more than {limit}")))
        }
        Some(ReadObject::Object(kind, contents)) => Ok(Some((kind, contents))),
    }
}

/// The contents of an object; `None` if the repository lacks it, or it has more than `limit` bytes.
pub fn read_at_most(env: &Env, project: RepositoryId, id: ObjectId, limit: u64) -> Result<Option<Bytes>, StoreError> {
    Ok(match find(env, project, id, limit)? {
        Some(ReadObject::Object(_, contents)) => Some(contents),
        None | Some(ReadObject::TooLarge(_)) => None,
    })
}

/// The contents of an object that another one names, so that its absence is damage.
fn expect_kind(
    found: Option<ReadObject>,
    project: RepositoryId,
    id: ObjectId,
    kind: ObjectKind,
) -> Result<Bytes, StoreError> {
    match found {
        Some(ReadObject::Object(found, contents)) if found == kind => Ok(contents),
        Some(ReadObject::Object(found, _)) => {
            Err(corrupt(project, id, &format!("a {} and not a {}", found.as_str(), kind.as_str())))
        }
        Some(ReadObject::TooLarge(size)) => Err(corrupt(project, id, &format!("a {} of {size} bytes", kind.as_str()))),
        None => Err(missing(project, id)),
    }
}

/// The contents of a blob; `None` if it is larger than [`MAX_WHOLE`].
pub fn read_blob(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<Bytes>, StoreError> {
    match find(env, project, id, MAX_WHOLE)? {
        Some(ReadObject::TooLarge(_)) => Ok(None),
        found => expect_kind(found, project, id, ObjectKind::Blob).map(Some),
    }
}

pub fn read_tree(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Tree, StoreError> {
    let contents = expect_kind(find(env, project, id, MAX_WHOLE)?, project, id, ObjectKind::Tree)?;
    Tree::parse(contents).ok_or_else(|| corrupt(project, id, "it is not a tree"))
}

/// A commit; `None` if there is no such object, or it is no commit.
pub fn read_commit(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<Commit>, StoreError> {
    Ok(match find(env, project, id, MAX_WHOLE)? {
        Some(ReadObject::Object(ObjectKind::Commit, contents)) => Commit::parse(&contents),
        _ => None,
    })
}

/// Writes an object.
pub fn save(env: &Env, semispace: Semispace, project: RepositoryId, object: &Object) -> Result<(), StoreError> {
    let mut writer = ObjectWriter::new(env, semispace, project);
    writer.begin(object.id, object.kind, object.contents.len() as u64)?;
    writer.write(&object.contents)?;
    writer.finish().map(drop)
}

/// An object that is in a pack: its contents, unless it has more than [`MAX_WHOLE`] bytes, and how many deltas are to be
/// applied to read it, 255 at most.
pub fn read_packed(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<(Option<Bytes>, u8)>, StoreError> {
    Packs::with(env, project, |packs| {
        let Some(location) = packs.find(id)? else { return Ok(None) };
        let contents = match packs.read(&location, MAX_WHOLE)? {
            ReadObject::Object(_, contents) => Some(contents),
            ReadObject::TooLarge(_) => None,
        };
        Ok(Some((contents, location.entry.depth)))
    })
}

/// Whether an object has at most so many bytes.
pub fn is_at_most(env: &Env, project: RepositoryId, id: ObjectId, limit: u64) -> Result<bool, StoreError> {
    Ok(!matches!(find(env, project, id, limit)?, Some(ReadObject::TooLarge(_))))
}

/// Writes objects, one after the other. An object becomes visible only after its contents were found to have its id.
pub struct ObjectWriter<'a> {
    env: &'a Env,
    semispace: Semispace,
    project: RepositoryId,
    compressors: Rc<RefCell<Compressors>>,
    open: Option<OpenObject>,
}

/// The object that is being written.
struct OpenObject {
    id: ObjectId,
    kind: ObjectKind,
    hasher: Sha1,
    /// Compressed bytes that are not in a chunk yet.
    compressed: Vec<u8>,
    /// The id of the upload, once there are chunks.
    upload: Option<String>,
    chunks: usize,
}

/// The contents have another id, or another size, than was declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdMismatch;

impl<'a> ObjectWriter<'a> {
    pub fn new(env: &'a Env, semispace: Semispace, project: RepositoryId) -> Self {
        ObjectWriter { env, semispace, project, compressors: zlib::compressors(env), open: None }
    }

    /// Begins an object of `size` bytes.
    pub fn begin(&mut self, id: ObjectId, kind: ObjectKind, size: u64) -> Result<(), StoreError> {
        let compressed = Vec::with_capacity(usize::try_from(size).unwrap_or(CHUNK).min(CHUNK) / 2 + 64);
        let hasher = kind.hasher(size);
        self.open = Some(OpenObject { id, kind, hasher, compressed, upload: None, chunks: 0 });
        self.compressors.borrow_mut().of(kind).reset();
        self.deflate(kind.header(size).as_bytes(), FlushCompress::None)
    }

    /// Appends to the contents.
    pub fn write(&mut self, contents: &[u8]) -> Result<(), StoreError> {
        if let Some(open) = &mut self.open {
            open.hasher.update(contents);
        }
        self.deflate(contents, FlushCompress::None)
    }

    fn deflate(&mut self, mut input: &[u8], flush: FlushCompress) -> Result<(), StoreError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut compressors = self.compressors.borrow_mut();
        let zlib = compressors.of(open.kind);
        loop {
            open.compressed.reserve((input.len() / 2).clamp(64, CHUNK));
            let before = zlib.total_in();
            let status = zlib.compress_vec(input, &mut open.compressed, flush);
            let status = status.map_err(|why| StoreError::Other(format!("zlib: {why}")))?;
            input = input.get(usize::try_from(zlib.total_in() - before).unwrap_or(usize::MAX)..).unwrap_or_default();
            if open.compressed.len() >= CHUNK {
                open.write_chunks(self.env, self.semispace, CHUNK)?;
            }
            let has_room = open.compressed.len() < open.compressed.capacity();
            if status == Status::StreamEnd || flush == FlushCompress::None && input.is_empty() && has_room {
                return Ok(());
            }
        }
    }

    /// Completes the object and makes it visible, if its contents have its id.
    pub fn finish(&mut self) -> Result<Result<(), IdMismatch>, StoreError> {
        self.deflate(&[], FlushCompress::Finish)?;
        let Some(mut open) = self.open.take() else { return Ok(Err(IdMismatch)) };
        if id_from_hasher(open.hasher.clone()) != open.id {
            return Ok(Err(IdMismatch));
        }
        let key = Key::Object(self.semispace, self.project, open.id).to_string();
        if open.upload.is_none() {
            self.env.store.set(&key, &open.compressed)?;
            if open.kind != ObjectKind::Blob {
                // A copy has no unused capacity, which the cache does not count.
                self.env.blobs.put(&key, Bytes::copy_from_slice(&open.compressed));
            }
            return Ok(Ok(()));
        }
        open.write_chunks(self.env, self.semispace, 1)?;
        let upload = open.upload.unwrap_or_default();
        let record = serde_json::to_vec(&ChunkList { upload, chunks: open.chunks });
        self.env.store.set(&key, &record.map_err(|why| StoreError::corrupt(&key, why))?)?;
        Ok(Ok(()))
    }
}

impl OpenObject {
    /// Writes full chunks, and the remainder if it has at least `least` bytes.
    fn write_chunks(&mut self, env: &Env, semispace: Semispace, least: usize) -> Result<(), StoreError> {
        let upload = self.upload.get_or_insert_with(|| env.id());
        let mut written = 0;
        for chunk in self.compressed.chunks(CHUNK).filter(|chunk| chunk.len() >= least.min(CHUNK)) {
            env.store.set(&Key::Chunk(semispace, upload, self.chunks).to_string(), chunk)?;
            self.chunks += 1;
            written += chunk.len();
        }
        self.compressed.drain(..written);
        Ok(())
    }
}

/// The largest tree, commit or tag whose links are read, in bytes.
const MAX_LINKING: usize = 256 << 20;

/// An object that was scanned.
pub struct ScannedObject {
    pub kind: ObjectKind,
    /// `None` for a blob, which has no links.
    pub contents: Option<Bytes>,
    /// The uploads of its chunks, in each semispace that has the object.
    pub uploads: Vec<String>,
    /// The stored bytes that were read.
    pub size: usize,
}

/// Scans an object, without the instance's cache, in each semispace that has it; with `check` to its
/// end, to verify its id. Fails if the object is missing or damaged.
pub fn scan(env: &Env, project: RepositoryId, id: ObjectId, check: bool) -> Result<ScannedObject, StoreError> {
    let in_packs = |packs: &Packs| scan_packed(env, packs, id, check);
    let scanned = look_up(env, project, in_packs, || scan_loose(env, project, id, check))?;
    scanned.ok_or_else(|| missing(project, id))
}

/// Scans a loose object; `None` if neither semispace has it.
pub fn scan_loose(
    env: &Env,
    project: RepositoryId,
    id: ObjectId,
    check: bool,
) -> Result<Option<ScannedObject>, StoreError> {
    let mut scanned: Option<ScannedObject> = None;
    for semispace in Semispace::BOTH {
        let key = Key::Object(semispace, project, id).to_string();
        let Some(bytes) = env.store.get(&key)? else { continue };
        let mut scanner = ObjectScanner::new(env, check);
        let mut next = ScannedObject { kind: ObjectKind::Blob, contents: None, uploads: Vec::new(), size: bytes.len() };
        match LooseObject::parse(semispace, &key, bytes.clone().into())? {
            LooseObject::Whole(bytes) => drop(scanner.feed(&bytes).map_err(|why| StoreError::corrupt(&key, why))?),
            LooseObject::Chunks(keys) => {
                let list: ChunkList = serde_json::from_slice(&bytes).map_err(|why| StoreError::corrupt(&key, why))?;
                next.uploads.push(list.upload);
                for chunk in keys {
                    let bytes = read_chunk(env, project, id, &chunk)?;
                    next.size += bytes.len();
                    if scanner.feed(&bytes).map_err(|why| corrupt_chunk(project, id, &chunk, why))? {
                        break;
                    }
                }
            }
        }
        (next.kind, next.contents) = scanner.finish(id).map_err(|why| StoreError::corrupt(&key, why))?;
        if let Some(other) = scanned.take() {
            next.uploads.extend(other.uploads);
            next.size += other.size;
        }
        scanned = Some(next);
    }
    Ok(scanned)
}

/// Scans an object of a pack.
fn scan_packed(env: &Env, packs: &Packs, id: ObjectId, check: bool) -> Result<Option<ScannedObject>, StoreError> {
    let Some(location) = packs.find(id)? else { return Ok(None) };
    let Location { pack, entry } = location;
    let size = usize::try_from(entry.length).unwrap_or(usize::MAX);
    let mut scanned = ScannedObject { kind: entry.kind, contents: None, uploads: Vec::new(), size };
    if entry.kind == ObjectKind::Blob && !check {
        return Ok(Some(scanned));
    }
    let bytes = packs.bytes(pack)?;
    let corrupt = |why: &str| bytes.corrupt(entry.offset, format!("{why}: object {id}"));
    // A large object is no delta.
    if entry.kind == ObjectKind::Blob && entry.depth == 0 {
        let header = packs.header(pack, entry.offset)?;
        let found = packs::bytes::id(env, bytes, entry.offset, &header, entry.kind)?;
        let is_blob = matches!(header.kind, EntryKind::Object(ObjectKind::Blob));
        return if is_blob && found == id { Ok(Some(scanned)) } else { Err(corrupt("its contents have another id")) };
    }
    let ReadObject::Object(kind, contents) = packs.read(&location, MAX_LINKING as u64)? else {
        return Err(corrupt("it is too large to be followed"));
    };
    let hashed = || id_from_hasher(kind.hasher(contents.len() as u64).chain_update(&contents));
    if kind != entry.kind || check && hashed() != id {
        return Err(corrupt("its contents have another id"));
    }
    scanned.contents = (kind != ObjectKind::Blob).then_some(contents);
    Ok(Some(scanned))
}

/// Decompresses an object, and keeps no more of it than is needed.
struct ObjectScanner {
    zlib: Rc<RefCell<Decompress>>,
    check: bool,
    /// Header and contents; for a blob only the header and the bytes that were decompressed together with it.
    bytes: Vec<u8>,
    header: Option<(ObjectKind, u64, usize)>,
    hasher: Sha1,
    /// Decompressed bytes so far.
    size: u64,
    ended: bool,
}

impl ObjectScanner {
    fn new(env: &Env, check: bool) -> Self {
        let zlib = zlib::decompressor(env);
        zlib.borrow_mut().reset(true);
        ObjectScanner { zlib, check, bytes: Vec::new(), header: None, hasher: Sha1::new(), size: 0, ended: false }
    }

    /// Returns true if no more input is needed.
    fn feed(&mut self, mut input: &[u8]) -> Result<bool, &'static str> {
        let mut zlib = self.zlib.borrow_mut();
        let mut part = Vec::with_capacity(64 << 10);
        while !self.ended {
            part.clear();
            let before = zlib.total_in();
            let status = zlib.decompress_vec(input, &mut part, FlushDecompress::None);
            self.ended = status.map_err(|_| "it is not zlib")? == Status::StreamEnd;
            let consumed = usize::try_from(zlib.total_in() - before).unwrap_or(usize::MAX);
            input = input.get(consumed..).unwrap_or_default();
            self.size += part.len() as u64;
            if self.check {
                self.hasher.update(&part);
            }
            let is_blob = self.header.is_some_and(|(kind, ..)| kind == ObjectKind::Blob);
            if !is_blob {
                self.bytes.extend_from_slice(&part);
            }
            if self.bytes.len() > MAX_LINKING {
                return Err("it is too large to be followed");
            }
            self.header = self.header.or_else(|| parse_header(&self.bytes));
            if !self.check && self.header.is_some_and(|(kind, ..)| kind == ObjectKind::Blob) {
                return Ok(true);
            }
            if part.is_empty() || input.is_empty() && part.len() < part.capacity() {
                break;
            }
        }
        Ok(self.ended)
    }

    /// The kind, and the contents unless it is a blob. Fails if the input was not a whole object, or, with
    /// `check`, has another id.
    fn finish(self, id: ObjectId) -> Result<(ObjectKind, Option<Bytes>), &'static str> {
        let (kind, size, header) = self.header.ok_or("it is not an object")?;
        if !self.check && kind == ObjectKind::Blob {
            return Ok((kind, None));
        }
        if !self.ended || self.size != size + header as u64 {
            return Err("it is not a whole object");
        }
        if self.check && id_from_hasher(self.hasher) != id {
            return Err("its contents have another id");
        }
        Ok((kind, (kind != ObjectKind::Blob).then(|| Bytes::from(self.bytes).slice(header..))))
    }
}

/// The size of a part, in bytes.
const PART: usize = 64 << 10;

/// The contents of a loose object.
pub struct LooseStream {
    env: Env,
    project: RepositoryId,
    id: ObjectId,
    zlib: Rc<RefCell<Decompress>>,
    /// Compressed bytes that were read, and the keys of the chunks that follow.
    input: Bytes,
    chunks: VecDeque<String>,
    pub kind: ObjectKind,
    pub size: u64,
    /// The part that was decompressed together with the header.
    first: Bytes,
    /// How many bytes of the contents follow, with the first part.
    left: u64,
}

impl LooseStream {
    /// `None` if the repository has no such loose object.
    pub fn open(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<Self>, StoreError> {
        let (input, chunks) = match read_loose(env, project, id)? {
            None => return Ok(None),
            Some(LooseObject::Whole(bytes)) => (bytes, VecDeque::new()),
            Some(LooseObject::Chunks(keys)) => (Bytes::new(), keys.into()),
        };
        let zlib = zlib::decompressor(env);
        zlib.borrow_mut().reset(true);
        let (env, kind, first) = (env.clone(), ObjectKind::Blob, Bytes::new());
        let mut stream = LooseStream { env, project, id, zlib, input, chunks, kind, size: 0, first, left: 0 };
        let first = stream.decompress()?;
        let (kind, size, header) = parse_header(&first).ok_or_else(|| stream.corrupt("it is not an object"))?;
        (stream.kind, stream.size, stream.left) = (kind, size, size);
        stream.first = Bytes::from(first).slice(header..);
        Ok(Some(stream))
    }

    /// The next part of the contents; `None` at their end.
    pub fn next_part(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut part = std::mem::take(&mut self.first);
        if part.is_empty() {
            part = self.decompress()?.into();
        }
        let left = self.left.checked_sub(part.len() as u64).filter(|_| !part.is_empty());
        self.left = left.ok_or_else(|| self.corrupt("it has another size"))?;
        Ok(Some(part))
    }

    /// Up to [`PART`] bytes, with those of the header; none at the end.
    fn decompress(&mut self) -> Result<Vec<u8>, StoreError> {
        let mut part = Vec::with_capacity(PART);
        while part.len() < part.capacity() {
            if self.input.is_empty()
                && let Some(key) = self.chunks.pop_front()
            {
                self.input = read_chunk(&self.env, self.project, self.id, &key)?.into();
            }
            let mut zlib = self.zlib.borrow_mut();
            let (before_in, before_out) = (zlib.total_in(), part.len());
            let status = zlib.decompress_vec(&self.input, &mut part, FlushDecompress::None);
            let consumed = usize::try_from(zlib.total_in() - before_in).unwrap_or(usize::MAX).min(self.input.len());
            drop(zlib);
            let status = status.map_err(|_| self.corrupt("it is not zlib"))?;
            let _ = self.input.split_to(consumed);
            if status == Status::StreamEnd || consumed == 0 && part.len() == before_out {
                break;
            }
        }
        Ok(part)
    }

    fn corrupt(&self, why: &str) -> StoreError {
        corrupt(self.project, self.id, why)
    }
}

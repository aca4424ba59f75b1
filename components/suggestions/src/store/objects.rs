//! Objects as git stores loose ones: header and contents in zlib. So they are compressed once and
//! handed to git as they are. A larger one lies in chunks, which a small record names.

mod scan;

pub use scan::scan;

use super::Key;
use super::semispace::{self, Space};
use crate::git::{Commit, Id, Kind, Object, Tree, finish, read_header};
use bytes::Bytes;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use kit::Env;
use kit::store::StoreError;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

/// What is stored under one key at most, in bytes.
const CHUNK: usize = 1 << 20;

/// The largest object that is read as a whole, in bytes.
pub const MAX_WHOLE: u64 = 16 << 20;

/// How hard we try: most of what can be won for a fraction of the time.
const LEVEL: Compression = Compression::new(1);

/// Ids in a folder do not get smaller.
const TREE_LEVEL: Compression = Compression::none();

/// What is under the key of an object that lies in chunks. No zlib stream begins with a brace.
#[derive(Serialize, Deserialize)]
struct InChunks {
    /// Of what wrote them.
    upload: String,
    chunks: usize,
}

/// An object as git stores it.
pub enum Loose {
    Whole(Bytes),
    /// The bytes of these keys, one after the other.
    Chunks(Vec<String>),
}

/// The object as git stores it, if it is there. 1 read, or 2.
pub fn loose(env: &Env, project: u64, id: Id) -> Result<Option<Loose>, StoreError> {
    let keys = Space::BOTH.map(|space| (space, Key::Object(space, project, id).to_string()));
    // What this instance knows is not asked for in the other space.
    let known = keys.iter().find_map(|(space, key)| Some((*space, key, env.blobs.peek(key)?)));
    if let Some((space, key, bytes)) = known {
        return read_loose(space, key, bytes).map(Some);
    }
    for (space, key) in &keys {
        if let Some(bytes) = env.blob(key)? {
            return read_loose(*space, key, bytes).map(Some);
        }
    }
    Ok(None)
}

/// The stored form that is under a key.
fn read_loose(space: Space, key: &str, bytes: Bytes) -> Result<Loose, StoreError> {
    if !bytes.starts_with(b"{") {
        return Ok(Loose::Whole(bytes));
    }
    let InChunks { upload, chunks } = serde_json::from_slice(&bytes).map_err(|why| StoreError::corrupt(key, why))?;
    Ok(Loose::Chunks((0..chunks).map(|number| Key::Chunk(space, &upload, number).to_string()).collect()))
}

/// Whether a project's repository has an object in the space that may be relied on. 1 read.
pub fn exists(env: &Env, space: Space, project: u64, id: Id) -> Result<bool, StoreError> {
    env.store.exists(&Key::Object(space, project, id).to_string())
}

/// Whether it has it at all. 1 read, or 2.
pub fn is_anywhere(env: &Env, project: u64, id: Id) -> Result<bool, StoreError> {
    let [first, second] = Space::BOTH.map(|space| exists(env, space, project, id));
    Ok(first? || second?)
}

/// Whether an object was sent so lately that all that was sent with it is there. 2 reads, rarely 3.
pub fn may_be_head(env: &Env, project: u64, id: Id) -> Result<bool, StoreError> {
    let Some(turn) = semispace::turn(env)? else { return exists(env, Space::First, project, id) };
    Ok(exists(env, turn.current, project, id)?
        || turn.is_recent(env.now) && exists(env, turn.current.other(), project, id)?)
}

/// Makes sure that a file that was found is not removed as garbage before something names it.
pub fn keep(env: &Env, project: u64, id: Id, contents: &Bytes) -> Result<(), StoreError> {
    let space = semispace::current(env)?;
    if exists(env, space, project, id)? {
        return Ok(());
    }
    save(env, space, project, &Object { id, kind: Kind::Blob, contents: contents.to_vec() })
}

/// What a look for an object's contents comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Missing,
    /// Its size; see [`MAX_WHOLE`].
    TooLarge(u64),
    Object(Kind, Bytes),
}

/// An object's contents. 1 read, and 1 for each MiB of what is stored.
pub fn find(env: &Env, project: u64, id: Id) -> Result<Found, StoreError> {
    let corrupt = |why: &str| StoreError::corrupt(&Key::Object(Space::First, project, id).to_string(), why);
    let mut inflater = Inflater::new();
    match loose(env, project, id)? {
        None => return Ok(Found::Missing),
        Some(Loose::Whole(bytes)) => inflater.feed(&bytes).map_err(corrupt)?,
        Some(Loose::Chunks(keys)) => {
            for key in keys {
                let bytes = env.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "it is missing"))?;
                inflater.feed(&bytes).map_err(corrupt)?;
                if inflater.too_large().is_some() {
                    break;
                }
            }
        }
    }
    if let Some(size) = inflater.too_large() {
        return Ok(Found::TooLarge(size));
    }
    let (kind, contents) = inflater.finish().ok_or_else(|| corrupt("it is not a whole object"))?;
    Ok(Found::Object(kind, contents))
}

/// An object that another one names, so it must be there.
fn named(env: &Env, project: u64, id: Id, kind: Kind) -> Result<Bytes, StoreError> {
    let corrupt = |why: &str| StoreError::corrupt(&Key::Object(Space::First, project, id).to_string(), why);
    match find(env, project, id)? {
        Found::Object(found, contents) if found == kind => Ok(contents),
        Found::Object(found, _) => Err(corrupt(&format!("a {} and not a {}", found.as_str(), kind.as_str()))),
        Found::TooLarge(size) => Err(corrupt(&format!("a {} of {size} bytes", kind.as_str()))),
        Found::Missing => Err(corrupt("it is missing")),
    }
}

/// The contents of a file, or its size if that is above [`MAX_WHOLE`].
pub fn blob(env: &Env, project: u64, id: Id) -> Result<Result<Bytes, u64>, StoreError> {
    match find(env, project, id)? {
        Found::TooLarge(size) => Ok(Err(size)),
        _ => named(env, project, id, Kind::Blob).map(Ok),
    }
}

pub fn tree(env: &Env, project: u64, id: Id) -> Result<Tree, StoreError> {
    let not_a_tree = || StoreError::corrupt(&Key::Object(Space::First, project, id).to_string(), "it is not a tree");
    Tree::parse(named(env, project, id, Kind::Tree)?).ok_or_else(not_a_tree)
}

/// A commit, if it is there.
pub fn commit(env: &Env, project: u64, id: Id) -> Result<Option<Commit>, StoreError> {
    Ok(match find(env, project, id)? {
        Found::Object(Kind::Commit, contents) => Commit::parse(&contents),
        _ => None,
    })
}

/// Writes a new object.
pub fn save(env: &Env, space: Space, project: u64, object: &Object) -> Result<(), StoreError> {
    let mut writer = Writer::new(env, space, project);
    writer.begin(object.id, object.kind, object.contents.len() as u64)?;
    writer.write(&object.contents)?;
    writer.end().map(drop)
}

/// Takes zlib apart.
struct Inflater {
    zlib: Decompress,
    /// What came out, header and contents.
    bytes: Vec<u8>,
    ended: bool,
}

impl Inflater {
    fn new() -> Self {
        Inflater { zlib: Decompress::new(true), bytes: Vec::new(), ended: false }
    }

    fn feed(&mut self, input: &[u8]) -> Result<(), &'static str> {
        let mut rest = input;
        while !self.ended && self.too_large().is_none() {
            // The header tells how much is to come; before it is read, a first guess.
            let wanted =
                read_header(&self.bytes).map_or(4 * input.len() as u64, |(_, size, header)| size + header as u64);
            let missing =
                usize::try_from(wanted.min(MAX_WHOLE + 32)).unwrap_or_default().saturating_sub(self.bytes.len());
            self.bytes.reserve(missing.max(64));
            let (before_in, before_out) = (self.zlib.total_in(), self.bytes.len());
            let status = self.zlib.decompress_vec(rest, &mut self.bytes, FlushDecompress::None);
            let status = status.map_err(|_| "it is not zlib")?;
            let taken = usize::try_from(self.zlib.total_in() - before_in).unwrap_or(usize::MAX);
            rest = rest.get(taken..).unwrap_or_default();
            self.ended = status == Status::StreamEnd;
            if rest.is_empty() && self.bytes.len() < self.bytes.capacity()
                || taken == 0 && self.bytes.len() == before_out
            {
                break;
            }
        }
        Ok(())
    }

    /// The size that the header gives, if it is too large to be read as a whole.
    fn too_large(&self) -> Option<u64> {
        read_header(&self.bytes).map(|(_, size, _)| size).filter(|size| *size > MAX_WHOLE)
    }

    fn finish(self) -> Option<(Kind, Bytes)> {
        let (kind, size, header) = read_header(&self.bytes)?;
        let bytes = Bytes::from(self.bytes);
        let whole = self.ended && bytes.len() as u64 == size + header as u64;
        whole.then(|| (kind, bytes.slice(header..)))
    }
}

/// Writes objects, one after the other, of any size, in bounded memory. An object is there only
/// after its contents were found to have its id.
pub struct Writer<'a> {
    env: &'a Env,
    space: Space,
    project: u64,
    zlib: [Compress; 2],
    current: Option<Current>,
}

struct Current {
    id: Id,
    kind: Kind,
    hasher: Sha1,
    /// Of what has been compressed, what is not in a chunk yet.
    compressed: Vec<u8>,
    upload: Option<String>,
    chunks: usize,
}

/// The contents have another id, or another size, than was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch;

impl<'a> Writer<'a> {
    pub fn new(env: &'a Env, space: Space, project: u64) -> Self {
        Writer {
            env,
            space,
            project,
            zlib: [Compress::new(LEVEL, true), Compress::new(TREE_LEVEL, true)],
            current: None,
        }
    }

    /// Begins an object of `size` bytes.
    pub fn begin(&mut self, id: Id, kind: Kind, size: u64) -> Result<(), StoreError> {
        let compressed = Vec::with_capacity(usize::try_from(size).unwrap_or(CHUNK).min(CHUNK) / 2 + 64);
        let hasher = kind.hasher(size);
        self.current = Some(Current { id, kind, hasher, compressed, upload: None, chunks: 0 });
        self.zlib.iter_mut().for_each(Compress::reset);
        self.deflate(kind.header(size).as_bytes(), FlushCompress::None)
    }

    /// Goes on with the contents.
    pub fn write(&mut self, contents: &[u8]) -> Result<(), StoreError> {
        if let Some(current) = &mut self.current {
            current.hasher.update(contents);
        }
        self.deflate(contents, FlushCompress::None)
    }

    fn deflate(&mut self, mut input: &[u8], flush: FlushCompress) -> Result<(), StoreError> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let [for_most, for_trees] = &mut self.zlib;
        let zlib = if current.kind == Kind::Tree { for_trees } else { for_most };
        loop {
            current.compressed.reserve((input.len() / 2).clamp(64, CHUNK));
            let before = zlib.total_in();
            let status = zlib.compress_vec(input, &mut current.compressed, flush);
            let status = status.map_err(|why| StoreError::Other(format!("zlib: {why}")))?;
            input = input.get(usize::try_from(zlib.total_in() - before).unwrap_or(usize::MAX)..).unwrap_or_default();
            if current.compressed.len() >= CHUNK {
                current.spill(self.env, self.space, CHUNK)?;
            }
            let room = current.compressed.len() < current.compressed.capacity();
            if status == Status::StreamEnd || flush == FlushCompress::None && input.is_empty() && room {
                return Ok(());
            }
        }
    }

    /// Ends the object; only now it is there, if it is what it was said to be.
    pub fn end(&mut self) -> Result<Result<(), Mismatch>, StoreError> {
        self.deflate(&[], FlushCompress::Finish)?;
        let Some(mut current) = self.current.take() else { return Ok(Err(Mismatch)) };
        if finish(current.hasher.clone()) != current.id {
            return Ok(Err(Mismatch));
        }
        let key = Key::Object(self.space, self.project, current.id).to_string();
        if current.upload.is_none() {
            self.env.store.set(&key, &current.compressed)?;
            if current.kind != Kind::Blob {
                self.env.blobs.put(&key, current.compressed.into());
            }
            return Ok(Ok(()));
        }
        current.spill(self.env, self.space, 1)?;
        let upload = current.upload.unwrap_or_default();
        let record = serde_json::to_vec(&InChunks { upload, chunks: current.chunks });
        self.env.store.set(&key, &record.map_err(|why| StoreError::corrupt(&key, why))?)?;
        Ok(Ok(()))
    }
}

impl Current {
    /// Writes full chunks, and what is left if it has at least `least` bytes.
    fn spill(&mut self, env: &Env, space: Space, least: usize) -> Result<(), StoreError> {
        let upload = self.upload.get_or_insert_with(|| env.id());
        let mut written = 0;
        for chunk in self.compressed.chunks(CHUNK).filter(|chunk| chunk.len() >= least.min(CHUNK)) {
            env.store.set(&Key::Chunk(space, upload, self.chunks).to_string(), chunk)?;
            self.chunks += 1;
            written += chunk.len();
        }
        self.compressed.drain(..written);
        Ok(())
    }
}

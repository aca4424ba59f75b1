//! Objects read for what they name, or to see whether they are sound.

use super::{InChunks, Loose, read_loose};
use crate::git::{Id, Kind, finish, read_header};
use crate::store::Key;
use crate::store::semispace::Space;
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use kit::Env;
use kit::store::StoreError;
use sha1::{Digest, Sha1};

/// What removing garbage and checks want to know of an object.
pub struct Scanned {
    pub kind: Kind,
    /// None of a file: it names nothing.
    pub contents: Option<Bytes>,
    /// Of its chunks, in each space that has the object.
    pub uploads: Vec<String>,
    /// What is stored of it, as far as it was read, in bytes.
    pub size: usize,
}

/// Reads an object past the instance's cache; to its end, to compare its id, if `check`. A fault
/// unless it is there and sound, in each space that has it.
pub fn scan(env: &Env, project: u64, id: Id, check: bool) -> Result<Scanned, StoreError> {
    let mut scanned: Option<Scanned> = None;
    for space in Space::BOTH {
        let key = Key::Object(space, project, id).to_string();
        let Some(bytes) = env.store.get(&key)? else { continue };
        let mut scan = Scan::new(check);
        let mut next = Scanned { kind: Kind::Blob, contents: None, uploads: Vec::new(), size: bytes.len() };
        match read_loose(space, &key, bytes.clone().into())? {
            Loose::Whole(bytes) => drop(scan.feed(&bytes).map_err(|why| StoreError::corrupt(&key, why))?),
            Loose::Chunks(keys) => {
                let record: InChunks = serde_json::from_slice(&bytes).map_err(|why| StoreError::corrupt(&key, why))?;
                next.uploads.push(record.upload);
                for chunk in keys {
                    let bytes = env.store.get(&chunk)?.ok_or_else(|| StoreError::corrupt(&chunk, "it is missing"))?;
                    next.size += bytes.len();
                    if scan.feed(&bytes).map_err(|why| StoreError::corrupt(&chunk, why))? {
                        break;
                    }
                }
            }
        }
        (next.kind, next.contents) = scan.finish(id).map_err(|why| StoreError::corrupt(&key, why))?;
        if let Some(other) = scanned.take() {
            next.uploads.extend(other.uploads);
            next.size += other.size;
        }
        scanned = Some(next);
    }
    let missing = || StoreError::corrupt(&Key::Object(Space::First, project, id).to_string(), "it is missing");
    scanned.ok_or_else(missing)
}

/// The largest folder, commit or tag that is followed, in bytes.
const MAX_FOLLOWED: usize = 256 << 20;

/// Takes zlib apart, and keeps no more of it than is needed.
struct Scan {
    zlib: Decompress,
    check: bool,
    /// Header and contents; of a file only the header and what came with it.
    bytes: Vec<u8>,
    header: Option<(Kind, u64, usize)>,
    hasher: Sha1,
    size: u64,
    ended: bool,
}

impl Scan {
    fn new(check: bool) -> Self {
        let (zlib, hasher) = (Decompress::new(true), Sha1::new());
        Scan { zlib, check, bytes: Vec::new(), header: None, hasher, size: 0, ended: false }
    }

    /// Whether that is enough.
    fn feed(&mut self, mut input: &[u8]) -> Result<bool, &'static str> {
        let mut part = Vec::with_capacity(64 << 10);
        while !self.ended {
            part.clear();
            let before = self.zlib.total_in();
            let status = self.zlib.decompress_vec(input, &mut part, FlushDecompress::None);
            self.ended = status.map_err(|_| "it is not zlib")? == Status::StreamEnd;
            let taken = usize::try_from(self.zlib.total_in() - before).unwrap_or(usize::MAX);
            input = input.get(taken..).unwrap_or_default();
            self.size += part.len() as u64;
            if self.check {
                self.hasher.update(&part);
            }
            let is_file = self.header.is_some_and(|(kind, ..)| kind == Kind::Blob);
            if !is_file {
                self.bytes.extend_from_slice(&part);
            }
            if self.bytes.len() > MAX_FOLLOWED {
                return Err("it is too large to be followed");
            }
            self.header = self.header.or_else(|| read_header(&self.bytes));
            if !self.check && self.header.is_some_and(|(kind, ..)| kind == Kind::Blob) {
                return Ok(true);
            }
            if part.is_empty() || input.is_empty() && part.len() < part.capacity() {
                break;
            }
        }
        Ok(self.ended)
    }

    /// The kind, and what is not a file's contents; the fault of an object with another id.
    fn finish(self, id: Id) -> Result<(Kind, Option<Bytes>), &'static str> {
        let (kind, size, header) = self.header.ok_or("it is not an object")?;
        if !self.check && kind == Kind::Blob {
            return Ok((kind, None));
        }
        if !self.ended || self.size != size + header as u64 {
            return Err("it is not a whole object");
        }
        if self.check && finish(self.hasher) != id {
            return Err("its contents have another id");
        }
        Ok((kind, (kind != Kind::Blob).then(|| Bytes::from(self.bytes).slice(header..))))
    }
}

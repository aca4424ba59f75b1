//! Import of objects.

use crate::api::access;
use crate::api::context::RequestContext;
use crate::git::{ObjectId, ObjectKind};
use crate::store::new_pack::{BadPack, PackError, PackOrigin, PackReceiver};
use crate::store::objects::{self as store, ObjectWriter};
use crate::store::packs::{self, Packs};
use crate::store::semispace_roles;
use bytes::{Buf, Bytes, BytesMut};
use kit::{Body, Error, Response};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How many objects were imported.
#[derive(Default, Serialize)]
struct ObjectImportReport {
    stored: u64,
    /// Objects that the repository had already.
    known: u64,
}

/// `POST /import/suggestions/:project/objects`. The body is the output of `git cat-file --batch`: for each object `<id>
/// <type> <size>`, LF, the contents, LF. 400 if the contents of an object have another id; the objects before it stay.
/// Memory is bounded. 1 read for each object, and 1 write for a new one (1 more for each MiB of a large one).
pub async fn objects(context: &mut RequestContext, project: &str, body: Body) -> Result<Response, Error> {
    let (env, repository) = (&context.env.clone(), access::importable_repository(context, project)?);
    let mut reader = CatFileReader::new(body);
    let semispace = semispace_roles::read_current(env)?;
    let mut writer = ObjectWriter::new(env, semispace, repository);
    let mut report = ObjectImportReport::default();
    while let Some(line) = reader.line().await? {
        let bad = |why: &str| {
            let line: String = String::from_utf8_lossy(&line).chars().take(100).collect();
            Error::bad_request(&format!("`{line}`: {why}"))
        };
        let (id, kind, size) = parse_header(&line).ok_or_else(|| bad("not a line `<id> <type> <size>`"))?;
        semispace_roles::check_import_age(env)?;
        let is_known = store::exists(env, semispace, repository, id)?;
        if !is_known {
            writer.begin(id, kind, size)?;
        }
        let mut remaining = size;
        while remaining > 0 {
            let part = reader.part(remaining).await?;
            remaining -= part.len() as u64;
            if !is_known {
                writer.write(&part)?;
            }
        }
        reader.line_feed().await?;
        if is_known {
            report.known += 1;
            continue;
        }
        // Objects that have arrived together are authorized once.
        if reader.take_arrival() {
            access::still_importable(context, project, repository)?;
        }
        writer.finish()?.map_err(|_| bad("its contents have another id"))?;
        report.stored += 1;
    }
    Ok(Response::ok(&report))
}

/// Parses a line `<id> <type> <size>`.
fn parse_header(line: &[u8]) -> Option<(ObjectId, ObjectKind, u64)> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let header = (ObjectId::parse(words.next()?)?, ObjectKind::parse(words.next()?)?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(header)
}

/// The longest line, in bytes: more than twice the length of an id, a type and a size.
const MAX_LINE: usize = 200;

/// Reads a body as it streams in.
pub struct CatFileReader {
    body: Body,
    /// The part of the last chunk that was not returned yet.
    chunk: Bytes,
    /// Whether a chunk was read since [`Self::take_arrival`].
    has_arrived: bool,
}

impl CatFileReader {
    pub fn new(body: Body) -> Self {
        CatFileReader { body, chunk: Bytes::new(), has_arrived: false }
    }

    /// Reads the next chunk; false at the end of the body.
    async fn read_chunk(&mut self) -> Result<bool, Error> {
        match self.body.next().await {
            Some(chunk) => (self.chunk, self.has_arrived) = (chunk?, true),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Whether more of the body has arrived since the last call.
    pub fn take_arrival(&mut self) -> bool {
        std::mem::take(&mut self.has_arrived)
    }

    /// The next line without its line feed; `None` at the end of the body.
    pub async fn line(&mut self) -> Result<Option<Bytes>, Error> {
        let mut line = BytesMut::new();
        loop {
            if self.chunk.is_empty() && !self.read_chunk().await? {
                return if line.is_empty() { Ok(None) } else { Err(truncated()) };
            }
            let end = self.chunk.iter().take(MAX_LINE).position(|byte| *byte == b'\n');
            let length = end.unwrap_or(self.chunk.len());
            if line.len() + length > MAX_LINE {
                return Err(Error::bad_request(
                    "a line is too long: objects are sent as `git cat-file --batch` prints them",
                ));
            }
            line.extend_from_slice(&self.chunk.split_to(length));
            if end.is_some() {
                self.chunk.advance(1);
                return Ok(Some(line.freeze()));
            }
        }
    }

    /// The next bytes: at least 1 and at most `limit`.
    pub async fn part(&mut self, limit: u64) -> Result<Bytes, Error> {
        if self.chunk.is_empty() && !self.read_chunk().await? {
            return Err(truncated());
        }
        let length = usize::try_from(limit).map_or(self.chunk.len(), |limit| limit.min(self.chunk.len()));
        Ok(self.chunk.split_to(length))
    }

    /// Consumes the line feed after an object's contents.
    pub async fn line_feed(&mut self) -> Result<(), Error> {
        match self.part(1).await?.as_ref() {
            b"\n" => Ok(()),
            _ => Err(Error::bad_request("an object is longer than it was said to be")),
        }
    }
}

fn truncated() -> Error {
    Error::bad_request("the body ends within an object")
}

/// The most ids that one request asks about.
const MAX_IDS: usize = 10_000;

/// The largest body with ids, in bytes.
const MAX_BODY: u64 = 1 << 20;

/// How many objects of a pack were imported.
#[derive(Serialize)]
struct PackImportReport {
    stored: usize,
    /// Objects that the repository had already.
    known: usize,
}

/// A request about commits, and its response.
#[derive(Serialize, Deserialize)]
struct CommitIds {
    ids: Vec<ObjectId>,
}

/// `POST /import/suggestions/:project/pack`. The body is a pack, which may be thin: the repository may have the bases
/// of its deltas. All of it becomes visible at once, or nothing if the body breaks off. 400 if it is no pack or lacks
/// an object that it needs: a client sends a history in parts, the oldest first. Unlike a push, it may have objects
/// with the faults of old programs.
pub async fn pack(context: &mut RequestContext, id: &str, mut body: Body) -> Result<Response, Error> {
    let (env, project) = (&context.env.clone(), access::importable_repository(context, id)?);
    let mut receiver = PackReceiver::new(env, project, PackOrigin::Import);
    while let Some(chunk) = body.next().await.transpose()? {
        receiver.feed(&chunk).map_err(refusal)?;
    }
    let mut report = PackImportReport { stored: 0, known: 0 };
    if let Some(pack) = receiver.finish(&BTreeSet::new()).map_err(refusal)? {
        access::still_importable(context, id, project)?;
        report.known = packs::add(env, project, &pack)?;
        report.stored = pack.ids.len() - report.known;
    }
    Ok(Response::ok(&report))
}

/// `POST /import/suggestions/:project/known`: which of the commits are in packs with everything that they reach.
pub async fn known(context: &mut RequestContext, id: &str, body: Body) -> Result<Response, Error> {
    let project = access::importable_repository(context, id)?;
    let body = body.collect(MAX_BODY).await?;
    access::still_importable(context, id, project)?;
    let asked: CommitIds =
        serde_json::from_slice(&body).map_err(|why| Error::validation(format!("the body is invalid: {why}")))?;
    if asked.ids.len() > MAX_IDS {
        return Err(Error::validation(format!("ids has more than {MAX_IDS} elements")));
    }
    let packs = Packs::load(&context.env, project)?;
    let self_contained = packs.list().packs.iter().take_while(|pack| pack.is_reachability_closed()).count();
    let mut known = CommitIds { ids: Vec::new() };
    for id in asked.ids {
        if packs.find(id)?.is_some_and(|location| location.pack < self_contained) {
            known.ids.push(id);
        }
    }
    Ok(Response::ok(&known))
}

fn refusal(error: PackError) -> Error {
    match error {
        PackError::Bad(why @ BadPack::LacksParent(_)) => Error::bad_request(&format!(
            "{why}: the history is cut off, as that of a shallow clone; `git fetch --unshallow` completes it"
        )),
        PackError::Bad(why) => Error::bad_request(&why.to_string()),
        PackError::Store(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_objects() {
        let id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let found = parse_header(format!("{id} tree 0").as_bytes());
        assert_eq!(found, Some((ObjectId::parse(id).unwrap(), ObjectKind::Tree, 0)));
        for bad in ["", "missing", &format!("{id} missing"), &format!("{id} tree -1"), &format!("{id} tree 0 x")] {
            assert_eq!(parse_header(bad.as_bytes()), None, "{bad}");
        }
    }
}

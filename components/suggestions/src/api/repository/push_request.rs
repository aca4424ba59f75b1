//! The beginning of a push (gitprotocol-pack): which refs are to be moved. The pack follows.

use super::request_body::RequestBody;
use crate::git::ObjectId;
use crate::git::pktline::parse_length;
use bytes::{Bytes, BytesMut};
use kit::Error;

/// The most refs that one push moves.
pub const MAX_COMMANDS: usize = 10_000;

/// The most options of a push, and the most bytes that they have together.
pub const MAX_OPTIONS: usize = 1_000;
pub const MAX_OPTION_BYTES: usize = 64 << 10;

/// A command of a push: the change of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefCommand {
    /// The whole name, `refs/heads/main`.
    pub name: String,
    /// The value that the client expects; `None`: the ref does not exist.
    pub old: Option<ObjectId>,
    /// The new value; `None` deletes the ref.
    pub new: Option<ObjectId>,
}

/// The commands of a push.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PushCommands {
    pub commands: Vec<RefCommand>,
    /// Whether there are more than [`MAX_COMMANDS`]; `commands` has the first of them.
    pub has_too_many: bool,
    /// Whether there are more options than [`MAX_OPTIONS`], or they are longer than [`MAX_OPTION_BYTES`].
    pub has_too_many_options: bool,
    /// Whole names that are not UTF-8, and are refused.
    pub unreadable: Vec<Vec<u8>>,
    /// Whether the client's history is shallow, so that its pack may lack parents, too.
    pub is_shallow: bool,
    pub reports_status: bool,
    pub side_band: bool,
    /// Whether all refs are to be moved, or none.
    pub is_atomic: bool,
}

/// A packet before the pack.
enum PushPacket {
    Data(Bytes),
    Flush,
}

/// Reads the body of a push as it streams in.
pub struct PushReader {
    body: RequestBody,
    /// The part of the last chunk that was not returned yet.
    rest: Bytes,
}

impl PushReader {
    pub fn new(body: RequestBody) -> Self {
        PushReader { body, rest: Bytes::new() }
    }

    /// The next bytes of the pack; `None` at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if !self.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        self.body.next().await
    }

    /// So many bytes; `None` if the body ends before them.
    async fn exactly(&mut self, length: usize) -> Result<Option<Bytes>, Error> {
        let mut bytes = BytesMut::new();
        while bytes.len() < length {
            let Some(mut chunk) = self.next().await? else { return Ok(None) };
            bytes.extend_from_slice(&chunk.split_to(chunk.len().min(length - bytes.len())));
            self.rest = chunk;
        }
        Ok(Some(bytes.freeze()))
    }

    /// The next packet; `None` if the body ends before it.
    async fn packet(&mut self) -> Result<Option<PushPacket>, Error> {
        let Some(digits) = self.exactly(4).await? else { return Ok(None) };
        let digits: &[u8; 4] = digits.as_ref().try_into().map_err(|_| broken())?;
        let length = match parse_length(digits).map_err(|_| broken())? {
            0 => return Ok(Some(PushPacket::Flush)),
            length => length.checked_sub(4).ok_or_else(broken)?,
        };
        let data = self.exactly(length).await?.ok_or_else(broken)?;
        Ok(Some(PushPacket::Data(data)))
    }

    /// Reads the commands, and the options that may follow them, each up to their flush packet.
    pub async fn commands(&mut self) -> Result<PushCommands, Error> {
        let mut push = PushCommands::default();
        let mut is_first = true;
        let mut has_options = false;
        loop {
            let line = match self.packet().await? {
                Some(PushPacket::Data(line)) => line,
                Some(PushPacket::Flush) => break,
                None if is_first && !push.is_shallow => return Ok(push),
                None => return Err(broken()),
            };
            // These lines come before the commands, and have no capabilities. The pack is checked to be complete
            // nevertheless.
            if line.starts_with(b"shallow ") {
                push.is_shallow = true;
                continue;
            }
            let (command, capabilities) = match line.iter().position(|byte| *byte == 0) {
                Some(at) => line.split_at(at),
                None => (line.as_ref(), &[][..]),
            };
            if is_first {
                let mut words = capabilities.split(|byte| matches!(byte, 0 | b' ' | b'\n'));
                push.reports_status = words.clone().any(|word| word == b"report-status");
                push.side_band = words.clone().any(|word| word == b"side-band-64k");
                push.is_atomic = words.clone().any(|word| word == b"atomic");
                has_options = words.any(|word| word == b"push-options");
            }
            is_first = false;
            let command = parse_command(command).ok_or_else(broken)?;
            // The rest is read nevertheless, because git shows a reason only if the response is a report.
            push.has_too_many = push.commands.len() + push.unreadable.len() >= MAX_COMMANDS;
            match command {
                _ if push.has_too_many => {}
                Ok(command) => push.commands.push(command),
                Err(name) => push.unreadable.push(name),
            }
        }
        if has_options {
            push.has_too_many_options = self.skip_options().await?;
        }
        Ok(push)
    }

    /// Skips the options, which mean nothing here. Returns whether they are more than a push may have. Even then they
    /// are all read, because git shows a reason only if the response is a report.
    async fn skip_options(&mut self) -> Result<bool, Error> {
        let (mut count, mut bytes) = (0_usize, 0_usize);
        while let PushPacket::Data(option) = self.packet().await?.ok_or_else(broken)? {
            count = count.saturating_add(1);
            bytes = bytes.saturating_add(option.len());
        }
        Ok(count > MAX_OPTIONS || bytes > MAX_OPTION_BYTES)
    }
}

fn broken() -> Error {
    Error::bad_request("protocol error: the list of refs is malformed or cut off")
}

/// Parses `<old id> <new id> <name>`; ids of zeros stand for none. The inner error is a name that is not UTF-8.
fn parse_command(line: &[u8]) -> Option<Result<RefCommand, Vec<u8>>> {
    let mut parts = line.strip_suffix(b"\n").unwrap_or(line).splitn(3, |byte| *byte == b' ');
    let mut id = || {
        let id = ObjectId::parse(std::str::from_utf8(parts.next()?).ok()?)?;
        Some(Some(id).filter(|id| *id.bytes() != [0; ObjectId::LENGTH]))
    };
    let (old, new) = (id()?, id()?);
    let name = String::from_utf8(parts.next()?.to_vec());
    Some(name.map(|name| RefCommand { name, old, new }).map_err(|error| error.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use http::Method;
    use kit::{Body, Request};

    const A: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    fn read(body: &[u8], step: usize) -> Result<(PushCommands, Vec<u8>), Error> {
        let chunks: Vec<_> = body.chunks(step).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let mut request = Request::new(Method::POST, "/");
        request.body = Body::pull(chunks.into_iter());
        let mut reader = PushReader::new(RequestBody::of(&mut request, 0)?);
        block_on(async {
            let commands = reader.commands().await?;
            let mut rest = Vec::new();
            while let Some(chunk) = reader.next().await? {
                rest.extend_from_slice(&chunk);
            }
            Ok((commands, rest))
        })
    }

    #[test]
    fn the_lines_of_a_shallow_client_come_before_the_capabilities() {
        let mut body = Vec::new();
        crate::git::pktline::write_text(&mut body, &format!("shallow {A}"));
        crate::git::pktline::write_text(&mut body, &format!("{A} {A} refs/heads/a\0 report-status atomic\n"));
        crate::git::pktline::write(
            &mut body,
            format!("{A} {A} refs/heads/").as_bytes().iter().chain(b"\xfc\0x").copied().collect::<Vec<u8>>().as_slice(),
        );
        crate::git::pktline::write_flush(&mut body);
        let (push, _) = read(&body, 1000).unwrap();
        assert!(push.is_shallow && push.reports_status && push.is_atomic && !push.side_band);
        assert_eq!(push.commands.iter().map(|command| command.name.as_str()).collect::<Vec<_>>(), ["refs/heads/a"]);
        assert_eq!(push.unreadable, [b"refs/heads/\xfc"]);
    }

    #[test]
    fn options_are_read_and_mean_nothing() {
        let body = |options: &[String], capabilities: &str| {
            let mut body = Vec::new();
            crate::git::pktline::write_text(&mut body, &format!("{A} {A} refs/heads/a\0 {capabilities}"));
            crate::git::pktline::write_flush(&mut body);
            options.iter().for_each(|option| crate::git::pktline::write_text(&mut body, option));
            crate::git::pktline::write_flush(&mut body);
            body.extend_from_slice(b"PACK...");
            body
        };
        for step in [1, 3, 1000] {
            let options = ["ci.skip".to_owned(), "merge_request.title=ü 0000".to_owned()];
            let (push, rest) = read(&body(&options, "report-status push-options"), step).unwrap();
            assert_eq!((push.commands.len(), push.has_too_many_options, rest.as_slice()), (1, false, &b"PACK..."[..]));
            assert_eq!(read(&body(&[], "push-options"), step).unwrap().1, b"PACK...", "none of them");
            assert_eq!(read(&body(&[], "report-status"), step).unwrap().1, b"0000PACK...", "without the capability");
        }
        for (options, expected) in [
            (vec!["x".to_owned(); MAX_OPTIONS], false),
            (vec!["x".to_owned(); MAX_OPTIONS + 1], true),
            (vec!["x".repeat(MAX_OPTION_BYTES / 2); 2], false),
            (vec!["x".repeat(MAX_OPTION_BYTES / 2 + 1); 2], true),
        ] {
            let (push, rest) = read(&body(&options, "push-options"), 70_000).unwrap();
            assert_eq!((push.has_too_many_options, rest.as_slice()), (expected, &b"PACK..."[..]));
        }
        let whole = body(&["ci.skip".to_owned()], "push-options");
        let cut = whole.len() - b"PACK...".len() - 1;
        for end in [cut, cut - 4, cut - 8] {
            assert_eq!(read(&whole[..end], 1000).unwrap_err().status, 400, "cut at {end}");
        }
    }

    #[test]
    fn commands_and_pack_are_told_apart_however_they_arrive() {
        let zeros = "0".repeat(40);
        let mut body = Vec::new();
        let first = format!("{zeros} {A} refs/heads/a b\0 report-status side-band-64k agent=x");
        crate::git::pktline::write_text(&mut body, &first);
        crate::git::pktline::write_text(&mut body, &format!("{A} {zeros} refs/tags/v1\n"));
        crate::git::pktline::write_flush(&mut body);
        body.extend_from_slice(b"PACK...");
        for step in [1, 3, 50, 1000] {
            let (push, rest) = read(&body, step).unwrap();
            assert_eq!(rest, b"PACK...");
            let id = ObjectId::parse(A);
            let command = |name: &str, old, new| RefCommand { name: name.into(), old, new };
            assert_eq!(push.commands, [command("refs/heads/a b", None, id), command("refs/tags/v1", id, None)]);
            assert!(push.reports_status && push.side_band);
        }
        assert_eq!(read(b"0000", 9).unwrap().0, PushCommands::default());
        for bad in [&body[..50], b"0001", b"zzzz", b"0006x\n"] {
            assert_eq!(read(bad, 9).unwrap_err().status, 400, "{bad:?}");
        }
    }
}

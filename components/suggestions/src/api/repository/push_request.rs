//! The beginning of a push (gitprotocol-pack): which refs are to be moved. The pack follows.

use super::request_body::RequestBody;
use crate::git::ObjectId;
use crate::git::pktline::parse_length;
use bytes::{Bytes, BytesMut};
use kit::Error;

/// The most refs that one push moves.
pub const MAX_COMMANDS: usize = 10_000;

/// A ref as the client wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefCommand {
    /// The whole name, `refs/heads/main`.
    pub name: String,
    /// Where the client believes it to stand; `None`: it is not there.
    pub old: Option<ObjectId>,
    /// `None`: it is to be deleted.
    pub new: Option<ObjectId>,
}

/// The commands of a push.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PushCommands {
    pub commands: Vec<RefCommand>,
    /// There are more than [`MAX_COMMANDS`], of which `commands` has the first ones.
    pub has_too_many: bool,
    /// Whole names that are not UTF-8, and are refused.
    pub unreadable: Vec<Vec<u8>>,
    /// The client's history ends somewhere, so its pack may, too.
    pub is_shallow: bool,
    pub reports_status: bool,
    pub side_band: bool,
    /// All refs are to be moved, or none.
    pub is_atomic: bool,
}

/// Reads the body of a push as it streams in.
pub struct PushReader {
    body: RequestBody,
    /// What of the last chunk was not returned yet.
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

    /// Reads the commands up to their flush packet.
    pub async fn commands(&mut self) -> Result<PushCommands, Error> {
        let broken = || Error::bad_request("protocol error: the list of refs is malformed or cut off");
        let mut push = PushCommands::default();
        let mut is_first = true;
        loop {
            let length = self.exactly(4).await?;
            let Some(digits) = length else {
                return if is_first && !push.is_shallow { Ok(push) } else { Err(broken()) };
            };
            let digits: &[u8; 4] = digits.as_ref().try_into().map_err(|_| broken())?;
            let length = match parse_length(digits).map_err(|_| broken())? {
                0 => return Ok(push),
                length => length.checked_sub(4).ok_or_else(broken)?,
            };
            let line = self.exactly(length).await?.ok_or_else(broken)?;
            // These lines come before the commands, and have no capabilities. What is sent is checked to be whole all the
            // same.
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
                push.is_atomic = words.any(|word| word == b"atomic");
            }
            is_first = false;
            let command = parse_command(command).ok_or_else(broken)?;
            // The rest is read all the same: git shows the reason only if it is in the report, which is the response.
            push.has_too_many = push.commands.len() + push.unreadable.len() >= MAX_COMMANDS;
            match command {
                _ if push.has_too_many => {}
                Ok(command) => push.commands.push(command),
                Err(name) => push.unreadable.push(name),
            }
        }
    }
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

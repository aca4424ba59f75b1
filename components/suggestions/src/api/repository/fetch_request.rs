//! A client's request to fetch, in protocol version 0 (gitprotocol-pack) and 2 (gitprotocol-v2).

use crate::git::ObjectId;
use crate::git::pktline::{Packet, Packets};
use std::collections::{BTreeSet, HashSet};

/// Why a request cannot be served, in words for the client.
pub type FetchRefusal = String;

/// Which objects a partial clone leaves out at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    NoBlobs,
    /// Only blobs of fewer bytes.
    SmallBlobs(u64),
    /// Only trees and blobs at most so many folders below the root.
    TreeDepth(u64),
}

/// How much of the history a client wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deepening {
    /// So many commits from each wanted one.
    pub depth: Option<u32>,
    /// The depth counts from the present end of the client's history.
    pub is_relative: bool,
    /// Commits since this moment, in seconds since 1970.
    pub since: Option<i64>,
    /// Commits that these refs do not reach.
    pub not: Vec<String>,
}

impl Deepening {
    pub fn is_asked_for(&self) -> bool {
        self.depth.is_some() || self.since.is_some() || !self.not.is_empty()
    }
}

/// How acknowledgements are sent in version 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MultiAck {
    #[default]
    None,
    Continue,
    Detailed,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct FetchRequest {
    pub wants: Vec<ObjectId>,
    /// The haves, in order; `None` is a flush between them, which asks for an acknowledgement.
    pub haves: Vec<Option<ObjectId>>,
    /// Whether the client waits for no more acknowledgements.
    pub done: bool,
    /// Commits that the client has without their parents.
    pub shallow: BTreeSet<ObjectId>,
    pub deepening: Deepening,
    pub filter: Option<Filter>,
    pub include_tag: bool,
    pub no_progress: bool,
    pub multi_ack: MultiAck,
    /// The most data of a side-band packet; `None`: the pack is sent without side bands.
    pub side_band: Option<usize>,
}

/// The most data of a packet with `side-band-64k` and with `side-band`, without the band's byte.
pub const LARGE_SIDE_BAND: usize = 65_515;
const SMALL_SIDE_BAND: usize = 995;

/// The most refs whose history a request leaves out.
const MAX_EXCLUDED: usize = 1_000;

/// The most prefixes of names. With more, all refs are listed, as by git.
const MAX_PREFIXES: usize = 65_536;

/// Arguments of `ls-refs`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    pub symrefs: bool,
    pub peel: bool,
    pub unborn: bool,
    /// The prefixes of the listed names; empty: all names are listed.
    pub prefixes: HashSet<Vec<u8>>,
}

impl ListRequest {
    pub fn is_asked_for(&self, name: &str) -> bool {
        let name = name.as_bytes();
        let mut starts = (0..=name.len()).filter_map(|end| name.get(..end));
        self.prefixes.is_empty() || starts.any(|start| self.prefixes.contains(start))
    }
}

/// A command of version 2.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    List(ListRequest),
    Fetch(Box<FetchRequest>),
}

/// Parses a request of version 2; `None` if it is only a flush.
pub fn parse_v2(body: &[u8]) -> Result<Option<Command>, FetchRefusal> {
    let mut packets = Packets::new(body).map(|packet| packet.map_err(|_| malformed()));
    let mut command = None;
    // The command and its capabilities, up to the delimiter.
    let has_arguments = loop {
        match packets.next().transpose()? {
            None | Some(Packet::Flush) => break false,
            Some(Packet::Delimiter) => break true,
            Some(packet) => {
                let line = packet.line().unwrap_or_default();
                if let Some(name) = line.strip_prefix(b"command=") {
                    command = Some(name);
                } else if let Some(format) = line.strip_prefix(b"object-format=")
                    && format != b"sha1"
                {
                    return Err(format!("mismatched object format: server sha1; client {}", text(format)));
                }
            }
        }
    };
    let arguments = std::iter::from_fn(|| match packets.next()? {
        Ok(Packet::Flush) => None,
        Ok(packet) => packet.line().map(Ok),
        Err(error) => Some(Err(error)),
    });
    let arguments = arguments.take(if has_arguments { usize::MAX } else { 0 });
    match command {
        None => Ok(None),
        Some(b"ls-refs") => parse_list(arguments).map(|list| Some(Command::List(list))),
        Some(b"fetch") => parse_fetch(arguments).map(|fetch| Some(Command::Fetch(Box::new(fetch)))),
        Some(other) => Err(format!("unknown command '{}'", text(other))),
    }
}

fn parse_list<'b>(
    arguments: impl Iterator<Item = Result<&'b [u8], FetchRefusal>>,
) -> Result<ListRequest, FetchRefusal> {
    let mut list = ListRequest::default();
    let mut prefixes = 0;
    for argument in arguments {
        match argument? {
            b"peel" => list.peel = true,
            b"symrefs" => list.symrefs = true,
            b"unborn" => list.unborn = true,
            other => {
                let Some(prefix) = other.strip_prefix(b"ref-prefix ") else { continue };
                prefixes += 1;
                if prefixes <= MAX_PREFIXES {
                    list.prefixes.insert(prefix.to_vec());
                } else {
                    list.prefixes.clear();
                }
            }
        }
    }
    Ok(list)
}

fn parse_fetch<'b>(
    arguments: impl Iterator<Item = Result<&'b [u8], FetchRefusal>>,
) -> Result<FetchRequest, FetchRefusal> {
    let mut fetch = FetchRequest { side_band: Some(LARGE_SIDE_BAND), ..FetchRequest::default() };
    for argument in arguments {
        match argument? {
            b"done" => fetch.done = true,
            b"include-tag" => fetch.include_tag = true,
            b"no-progress" => fetch.no_progress = true,
            b"deepen-relative" => fetch.deepening.is_relative = true,
            b"thin-pack" | b"ofs-delta" => {}
            line if fetch.parse_id_line(line)? => {}
            line => return Err(format!("unexpected line: '{}'", text(line))),
        }
    }
    Ok(fetch)
}

/// Parses a request of version 0; `None` if it asks for nothing.
pub fn parse_v0(body: &[u8]) -> Result<Option<FetchRequest>, FetchRefusal> {
    let mut fetch = FetchRequest::default();
    let mut packets = Packets::new(body).map(|packet| packet.map_err(|_| malformed()));
    while let Some(packet) = packets.next().transpose()? {
        let Some(line) = packet.line() else { break };
        let line = match fetch.wants.is_empty().then(|| split_capabilities(line)).flatten() {
            Some((line, capabilities)) => {
                fetch.take_capabilities(capabilities);
                line
            }
            None => line,
        };
        if !fetch.parse_id_line(line)? {
            return Err(format!("git upload-pack: protocol error, expected to get object ID, not '{}'", text(line)));
        }
    }
    if fetch.wants.is_empty() {
        return Ok(None);
    }
    while let Some(packet) = packets.next().transpose()? {
        match packet {
            Packet::Flush | Packet::Delimiter => fetch.haves.push(None),
            packet => match packet.line().unwrap_or_default() {
                b"done" => {
                    fetch.done = true;
                    break;
                }
                line if line.starts_with(b"have ") => drop(fetch.parse_id_line(line)?),
                line => return Err(format!("git upload-pack: expected SHA1 list, got '{}'", text(line))),
            },
        }
    }
    Ok(Some(fetch))
}

/// The first want of version 0 has the capabilities after its id.
fn split_capabilities(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = b"want ".len() + 2 * ObjectId::LENGTH;
    line.starts_with(b"want ").then(|| line.split_at_checked(length)).flatten()
}

impl FetchRequest {
    fn take_capabilities(&mut self, capabilities: &[u8]) {
        for word in capabilities.split(|byte| *byte == b' ') {
            match word {
                b"include-tag" => self.include_tag = true,
                b"no-progress" => self.no_progress = true,
                b"deepen-relative" => self.deepening.is_relative = true,
                b"multi_ack_detailed" => self.multi_ack = MultiAck::Detailed,
                b"multi_ack" if self.multi_ack == MultiAck::None => self.multi_ack = MultiAck::Continue,
                b"side-band-64k" => self.side_band = Some(LARGE_SIDE_BAND),
                b"side-band" => self.side_band = self.side_band.or(Some(SMALL_SIDE_BAND)),
                _ => {}
            }
        }
    }

    /// Parses a line that both protocol versions have; false if it is another line.
    fn parse_id_line(&mut self, line: &[u8]) -> Result<bool, FetchRefusal> {
        let Some((key, value)) = line.iter().position(|byte| *byte == b' ').map(|at| line.split_at(at)) else {
            return Ok(false);
        };
        let value = std::str::from_utf8(value.get(1..).unwrap_or_default()).unwrap_or_default();
        let id =
            || ObjectId::parse(value).ok_or_else(|| format!("protocol error, expected an object id, not '{value}'"));
        match key {
            b"want" => self.wants.push(id()?),
            b"have" => self.haves.push(Some(id()?)),
            b"shallow" => drop(self.shallow.insert(id()?)),
            b"deepen" => {
                let depth = value.parse::<u32>().ok().filter(|depth| *depth > 0);
                self.deepening.depth = Some(depth.ok_or_else(|| format!("Invalid deepen: {value}"))?);
            }
            b"deepen-since" => {
                let since = value.parse().ok();
                self.deepening.since = Some(since.ok_or_else(|| format!("Invalid deepen-since: {value}"))?);
            }
            b"deepen-not" if self.deepening.not.len() >= MAX_EXCLUDED => {
                return Err(format!("a request may have {MAX_EXCLUDED} lines of deepen-not at most"));
            }
            b"deepen-not" => self.deepening.not.push(value.to_owned()),
            b"filter" => self.filter = Some(parse_filter(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn parse_filter(spec: &str) -> Result<Filter, FetchRefusal> {
    let number = |text: &str| -> Option<u64> {
        let (digits, unit) = match text.to_ascii_lowercase().chars().last()? {
            'k' => (text.get(..text.len() - 1)?, 1 << 10),
            'm' => (text.get(..text.len() - 1)?, 1 << 20),
            'g' => (text.get(..text.len() - 1)?, 1 << 30),
            _ => (text, 1),
        };
        digits.parse::<u64>().ok()?.checked_mul(unit)
    };
    let filter = match spec {
        "blob:none" => Some(Filter::NoBlobs),
        _ => match (spec.strip_prefix("blob:limit="), spec.strip_prefix("tree:")) {
            (Some(limit), _) => number(limit).map(Filter::SmallBlobs),
            (_, Some(depth)) => depth.parse().ok().map(Filter::TreeDepth),
            _ => None,
        },
    };
    filter.ok_or_else(|| format!("filter '{spec}' is not supported; there are blob:none, blob:limit=<n> and tree:<n>"))
}

fn malformed() -> FetchRefusal {
    "protocol error: bad line length character".into()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::pktline;

    const A: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    fn message(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            match *line {
                "0000" => pktline::write_flush(&mut bytes),
                "0001" => pktline::write_delimiter(&mut bytes),
                line => pktline::write_text(&mut bytes, &format!("{line}\n")),
            }
        }
        bytes
    }

    #[test]
    fn requests_of_version_2() {
        let body =
            message(&["command=ls-refs", "agent=x", "0001", "peel", "symrefs", "ref-prefix refs/heads/", "0000"]);
        let list = ListRequest { symrefs: true, peel: true, unborn: false, prefixes: [b"refs/heads/".to_vec()].into() };
        assert_eq!(parse_v2(&body), Ok(Some(Command::List(list))));
        let want = format!("want {A}");
        let body = message(&[
            "command=fetch",
            "object-format=sha1",
            "0001",
            "thin-pack",
            &want,
            "deepen 3",
            "filter blob:limit=1k",
            "done",
            "0000",
        ]);
        let Ok(Some(Command::Fetch(fetch))) = parse_v2(&body) else { panic!() };
        assert_eq!((fetch.wants.len(), fetch.done, fetch.deepening.depth), (1, true, Some(3)));
        assert_eq!(fetch.filter, Some(Filter::SmallBlobs(1024)));
        assert_eq!(parse_v2(b"0000"), Ok(None));
        for bad in ["command=push", "object-format=sha256", "command=fetch\n0001want x"] {
            let lines = ["command=fetch", "0001", "want x", "0000"];
            let body = if bad.contains("want") { message(&lines) } else { message(&[bad, "0000"]) };
            assert!(parse_v2(&body).is_err(), "{bad}");
        }
        assert!(parse_v2(b"00zz").is_err());
    }

    #[test]
    fn names_are_asked_for_by_prefix_and_all_of_them_by_none_or_too_many() {
        let list = |prefixes: usize| {
            let mut lines = vec!["command=ls-refs".to_owned(), "0001".to_owned(), "ref-prefix refs/tags/v".to_owned()];
            lines.extend((1..prefixes).map(|number| format!("ref-prefix x{number}")));
            lines.push("0000".to_owned());
            match parse_v2(&message(&lines.iter().map(String::as_str).collect::<Vec<_>>())) {
                Ok(Some(Command::List(list))) => list,
                other => panic!("{other:?}"),
            }
        };
        for (prefixes, expected) in [(1, false), (65_536, false), (65_537, true), (70_000, true)] {
            let list = list(prefixes);
            assert!(list.is_asked_for("refs/tags/v1") && list.is_asked_for("refs/tags/v"));
            assert_eq!(list.is_asked_for("refs/tags/w"), expected, "{prefixes}");
        }
        assert!(ListRequest::default().is_asked_for("HEAD"));
    }

    #[test]
    fn history_is_left_out_of_a_thousand_refs_at_most() {
        let (want, not) = (format!("want {A}"), "deepen-not heads/a");
        for (count, is_accepted) in [(1_000, true), (1_001, false)] {
            let lines = [&["command=fetch", "0001", &want][..], &vec![not; count], &["done", "0000"]].concat();
            assert_eq!(parse_v2(&message(&lines)).is_ok(), is_accepted, "{count}");
            let lines = [&[&*want][..], &vec![not; count], &["0000", "done"]].concat();
            assert_eq!(parse_v0(&message(&lines)).is_ok(), is_accepted, "{count}");
        }
    }

    #[test]
    fn requests_of_version_0() {
        let (want, have) = (format!("want {A} multi_ack_detailed side-band-64k include-tag"), format!("have {A}"));
        let fetch = parse_v0(&message(&[&want, "deepen 1", "0000", &have, "0000", &have, "done"])).unwrap().unwrap();
        let id = ObjectId::parse(A);
        assert_eq!(fetch.haves, [id, None, id]);
        assert_eq!((fetch.multi_ack, fetch.side_band), (MultiAck::Detailed, Some(LARGE_SIDE_BAND)));
        assert!(fetch.done && fetch.include_tag && fetch.deepening.is_asked_for());
        assert_eq!(parse_v0(b"0000"), Ok(None));
        for bad in [&["want x", "0000"][..], &[&want, "0000", "hello"], &[&want, "deepen 0", "0000"], &["have y"]] {
            assert!(parse_v0(&message(bad)).is_err(), "{bad:?}");
        }
    }
}

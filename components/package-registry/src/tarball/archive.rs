//! Reads a tar archive that arrives in pieces of any length (POSIX.1-2017 pax §"pax Interchange Format";
//! GNU tar's long names).

use super::contents::{Contents, Totals};
use super::error::{MAX_ENTRIES, MAX_MANIFEST, TarballError, excerpt};
use memchr::memmem;
use std::io;
use tar::{EntryType, Header, PaxExtensions};

const BLOCK: usize = 512;

/// Largest extended header or long name, in bytes. npm's unpacker skips larger ones unread.
const MAX_EXTENSION: u64 = 1 << 20;

pub struct Archive {
    /// Bytes that may still be unpacked, of `limit`.
    remaining: u64,
    limit: u64,
    /// The part of a header that has arrived, up to a block.
    header: Vec<u8>,
    /// Bytes of the current entry that have not arrived, and of its padding.
    content_left: u64,
    padding: u64,
    /// The current entry's content, if it is read.
    reading: Option<(Content, Vec<u8>)>,
    /// Values of extended headers for the next entry.
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    /// A block of zeros arrived, so only zeros may follow.
    ended: bool,
    entries: u32,
    manifest: Option<Vec<u8>>,
    totals: Totals,
}

#[derive(Clone, Copy)]
enum Content {
    /// GNU's long name of the next entry, or of what it links to.
    LongName,
    LongLink,
    /// pax records about the next entry, or about all that follow.
    Records,
    GlobalRecords,
    Manifest,
}

/// The gzip decoder writes into the archive.
impl io::Write for Archive {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.feed(piece).map_err(io::Error::other)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Archive {
    /// An archive of at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Archive {
            remaining: limit,
            limit,
            header: Vec::with_capacity(BLOCK),
            content_left: 0,
            padding: 0,
            reading: None,
            path: None,
            link: None,
            size: None,
            ended: false,
            entries: 0,
            manifest: None,
            totals: Totals::default(),
        }
    }

    fn feed(&mut self, mut input: &[u8]) -> Result<(), TarballError> {
        self.remaining =
            self.remaining.checked_sub(input.len() as u64).ok_or(TarballError::UnpackedTooLarge(self.limit))?;
        while !input.is_empty() {
            let (piece, rest) = input.split_at(input.len().min(self.bytes_of_part()));
            input = rest;
            let length = piece.len() as u64;
            if self.content_left > 0 {
                if let Some((_, bytes)) = &mut self.reading {
                    bytes.extend_from_slice(piece);
                }
                self.content_left -= length;
                self.end_content()?;
            } else if self.padding > 0 {
                self.padding -= length;
            } else {
                self.header.extend_from_slice(piece);
                self.end_header()?;
            }
        }
        Ok(())
    }

    /// Bytes until the end of the current part; never 0.
    fn bytes_of_part(&self) -> usize {
        match (self.content_left, self.padding) {
            (0, 0) => BLOCK - self.header.len(),
            (0, padding) => usize::try_from(padding).unwrap_or(usize::MAX),
            (left, _) => usize::try_from(left).unwrap_or(usize::MAX),
        }
    }

    /// The end of the archive. Blocks of zeros are not required, because some packers omit them.
    pub fn finish(self) -> Result<Contents, TarballError> {
        let has_dangling_header = self.path.is_some() || self.link.is_some() || self.size.is_some();
        if self.content_left > 0 || self.padding > 0 || !self.header.is_empty() || has_dangling_header {
            return Err(TarballError::Archive("it is cut off"));
        }
        if self.entries == 0 {
            return Err(TarballError::Archive("it has no entries"));
        }
        Ok(Contents::new(self.manifest, self.totals))
    }

    fn end_header(&mut self) -> Result<(), TarballError> {
        let Ok(bytes) = <&[u8; BLOCK]>::try_from(self.header.as_slice()) else { return Ok(()) };
        if bytes.iter().all(|byte| *byte == 0) {
            self.ended = true;
            self.header.clear();
            return Ok(());
        }
        if self.ended {
            return Err(TarballError::Archive("something follows its end"));
        }
        let header = Header::from_byte_slice(bytes);
        if header.cksum().ok() != Some(checksum(bytes)) {
            return Err(TarballError::Archive("the checksum of a header is wrong"));
        }
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(TarballError::TooManyEntries);
        }
        let size = header.entry_size().map_err(|_| TarballError::Archive("the size in a header is no number"))?;
        let (kind, path) = (header.entry_type(), header.path_bytes().into_owned());
        let link = header.link_name_bytes().map(|link| link.into_owned());
        self.header.clear();
        match kind {
            EntryType::GNULongName => self.extension(Content::LongName, size),
            EntryType::GNULongLink => self.extension(Content::LongLink, size),
            EntryType::XHeader => self.extension(Content::Records, size),
            EntryType::XGlobalHeader => self.extension(Content::GlobalRecords, size),
            kind => {
                let (path, size) = (self.path.take().unwrap_or(path), self.size.take().unwrap_or(size));
                let link = self.link.take().or(link).unwrap_or_default();
                self.entry(kind, &path, &link, size)
            }
        }
    }

    fn extension(&mut self, kind: Content, size: u64) -> Result<(), TarballError> {
        if size > MAX_EXTENSION {
            return Err(TarballError::Archive("an extended header is larger than 1 MiB"));
        }
        self.reading = Some((kind, Vec::new()));
        self.begin_content(size)
    }

    fn entry(&mut self, kind: EntryType, path: &[u8], link: &[u8], size: u64) -> Result<(), TarballError> {
        let refused = |why| Err(TarballError::Entry(excerpt(path), why));
        if let Some(why) = path_problem(path) {
            return refused(why);
        }
        match kind {
            // The oldest format marks folders only by a slash.
            EntryType::Directory | EntryType::Regular if kind.is_dir() || path.ends_with(b"/") => {
                if size > 0 {
                    return refused("is a folder with contents of its own");
                }
            }
            EntryType::Link | EntryType::Symlink => {
                if size > 0 {
                    return refused("is a link with contents of its own");
                }
                if is_manifest(path) {
                    return refused("is a link");
                }
                // A link without `..` stays in the package, also through other links. One with `..`
                // may leave it through another link.
                if path_problem(link).is_some() {
                    return refused("is a link that is absolute or goes through `..`");
                }
            }
            EntryType::Regular | EntryType::Continuous => {
                self.totals.files += 1;
                self.totals.size = self.totals.size.saturating_add(size);
                if is_manifest(path) {
                    if size > MAX_MANIFEST {
                        return Err(TarballError::ManifestTooLarge(size));
                    }
                    self.reading = Some((Content::Manifest, Vec::new()));
                }
            }
            _ => return refused("is neither a file, a folder nor a link"),
        }
        self.begin_content(size)
    }

    fn begin_content(&mut self, size: u64) -> Result<(), TarballError> {
        self.content_left = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        self.end_content()
    }

    fn end_content(&mut self) -> Result<(), TarballError> {
        if self.content_left > 0 {
            return Ok(());
        }
        match self.reading.take() {
            Some((Content::Manifest, bytes)) => self.manifest = Some(bytes),
            Some((Content::LongName, name)) => set_once(&mut self.path, terminated(name))?,
            Some((Content::LongLink, name)) => set_once(&mut self.link, terminated(name))?,
            Some((Content::Records, bytes)) => self.records(&bytes)?,
            // git writes a comment, which is allowed.
            Some((Content::GlobalRecords, bytes)) => {
                let before = (self.path.take(), self.link.take(), self.size.take());
                self.records(&bytes)?;
                if self.path.is_some() || self.link.is_some() || self.size.is_some() {
                    return Err(TarballError::Archive("a global header names or measures entries"));
                }
                (self.path, self.link, self.size) = before;
            }
            None => {}
        }
        Ok(())
    }

    fn records(&mut self, bytes: &[u8]) -> Result<(), TarballError> {
        const MALFORMED: TarballError = TarballError::Archive("a record of an extended header is malformed");
        // The `tar` crate stops reading here; other programs continue.
        if bytes.starts_with(b"\n") || memmem::find(bytes, b"\n\n").is_some() {
            return Err(MALFORMED);
        }
        for record in PaxExtensions::new(bytes) {
            let record = record.map_err(|_| MALFORMED)?;
            match record.key_bytes() {
                b"path" => set_once(&mut self.path, record.value_bytes().to_owned())?,
                b"linkpath" => set_once(&mut self.link, record.value_bytes().to_owned())?,
                b"size" => {
                    let size = record.value().ok().and_then(|size| size.parse().ok());
                    set_once(&mut self.size, size.ok_or(MALFORMED)?)?;
                }
                key if key.starts_with(b"GNU.sparse.") => return Err(TarballError::Archive("it has a sparse file")),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Sets a value of an extended header. A second one is an error, because some programs use the first
/// and some the last.
fn set_once<T>(slot: &mut Option<T>, value: T) -> Result<(), TarballError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(TarballError::Archive("an entry is named or measured twice")),
    }
}

/// A name without the NUL at its end.
fn terminated(mut name: Vec<u8>) -> Vec<u8> {
    if name.last() == Some(&0) {
        name.pop();
    }
    name
}

/// The sum of a header's bytes, with spaces in place of the sum itself.
fn checksum(header: &[u8; BLOCK]) -> u32 {
    let field = 148..156;
    header.iter().enumerate().map(|(at, byte)| if field.contains(&at) { 32 } else { u32::from(*byte) }).sum()
}

/// Why an entry of this name could be unpacked outside its top-level folder on some system: Windows
/// reads a backslash as a slash, and a letter with a colon as a drive.
fn path_problem(path: &[u8]) -> Option<&'static str> {
    let whole = path.strip_suffix(b"/").unwrap_or(path);
    if path.contains(&0) {
        return Some("has a NUL in its name");
    }
    for part in whole.split(|byte| matches!(byte, b'/' | b'\\')) {
        match part {
            b".." => return Some("leads out of the package"),
            // Without its first folder, `a//b` is absolute.
            b"" => return Some("is absolute or has an empty name"),
            [letter, b':', ..] if letter.is_ascii_alphabetic() => return Some("names a drive"),
            _ => {}
        }
    }
    None
}

/// Whether this is `<folder>/package.json`.
fn is_manifest(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/');
    (parts.next().is_some(), parts.next(), parts.next()) == (true, Some(b"package.json"), None)
}

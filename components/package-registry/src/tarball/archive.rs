//! Reads a tar archive that arrives in pieces of any length (POSIX.1-2017 pax §"pax Interchange Format";
//! GNU tar's long names).

use super::contents::{Contents, Totals};
use super::error::{MAX_MANIFEST, TarballError, TarballLimits, excerpt};
use super::header::{self, BLOCK};
use super::link;
use super::name::{EntryName, MANIFEST};
use super::records::{Records, require_whole, set_once};
use super::tree::{Added, NodeKind, Tree};
use sha2::{Digest as _, Sha256};
use std::io;
use tar::{EntryType, Header};

/// Largest extended header or long name, in bytes. npm's unpacker skips larger ones unread.
const MAX_EXTENSION: u64 = 1 << 20;

/// Largest entry, in bytes. Some programs calculate its end with 32 bits.
const MAX_SIZE: u64 = (1 << 31) - 1;

pub struct Archive {
    limits: TarballLimits,
    /// Bytes that may still be unpacked.
    remaining: u64,
    /// The part of a header that has arrived, up to a block.
    header: Vec<u8>,
    /// Bytes of the current entry that have not arrived, and of its padding.
    content_left: u64,
    padding: u64,
    /// The current entry's content, if it is read.
    reading: Option<(Content, Vec<u8>)>,
    /// The current entry, if it is a file that may be repeated.
    repeatable: Option<RepeatableFile>,
    /// The first block of the current entry's content, if its own header names it like a folder.
    first_block: Option<Vec<u8>>,
    /// The values in extended headers for the next entry.
    extension: Extension,
    /// A block of zeros arrived, so only zeros may follow.
    ended: bool,
    entries: u32,
    tree: Tree,
    manifest: Option<Vec<u8>>,
    totals: Totals,
}

/// A file that may be repeated: its name has a `./`, or an earlier entry of it had.
struct RepeatableFile {
    inside: String,
    contents: Sha256,
}

/// The extended headers before an entry: GNU tar's, or one of POSIX's. If both kinds come, programs apply them in
/// different orders, and to the extended headers in between.
enum Extension {
    None,
    Gnu { path: Option<Vec<u8>>, link: Option<Vec<u8>> },
    Posix(Records),
}

#[derive(Clone, Copy)]
enum Content {
    /// GNU's long name of the next entry, or of its link's target.
    LongName,
    LongLink,
    /// pax records about the next entry, or about all following entries.
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
    pub fn new(limits: TarballLimits) -> Self {
        Archive {
            limits,
            remaining: limits.unpacked,
            header: Vec::with_capacity(BLOCK),
            content_left: 0,
            padding: 0,
            reading: None,
            repeatable: None,
            first_block: None,
            extension: Extension::None,
            ended: false,
            entries: 0,
            tree: Tree::new(limits.entries),
            manifest: None,
            totals: Totals::default(),
        }
    }

    fn feed(&mut self, mut input: &[u8]) -> Result<(), TarballError> {
        self.remaining = self
            .remaining
            .checked_sub(input.len() as u64)
            .ok_or(TarballError::UnpackedTooLarge(self.limits.unpacked))?;
        while !input.is_empty() {
            let (piece, rest) = input.split_at(input.len().min(self.bytes_of_part()));
            input = rest;
            let length = piece.len() as u64;
            if self.content_left > 0 {
                if let Some((_, bytes)) = &mut self.reading {
                    bytes.extend_from_slice(piece);
                }
                if let Some(block) = &mut self.first_block {
                    block.extend(piece.iter().take(BLOCK - block.len()));
                }
                if let Some(repeatable) = &mut self.repeatable {
                    repeatable.contents.update(piece);
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
        let has_dangling_header = !matches!(self.extension, Extension::None);
        if self.content_left > 0 || self.padding > 0 || !self.header.is_empty() || has_dangling_header {
            return Err(TarballError::Archive("it is cut off"));
        }
        if self.entries == 0 {
            return Err(TarballError::Archive("it has no entries"));
        }
        let has = |file| self.tree.contains(file);
        Ok(Contents {
            has_gyp_file: has("binding.gyp"),
            has_shrinkwrap: has("npm-shrinkwrap.json"),
            manifest: self.manifest,
            totals: self.totals,
        })
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
        if let Some(why) = header::problem(bytes) {
            return Err(TarballError::Archive(why));
        }
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(TarballError::TooManyEntries(self.limits.entries));
        }
        let header = Header::from_byte_slice(bytes);
        let size = header.entry_size().map_err(|_| TarballError::Archive("the size in a header is no octal number"))?;
        if size > MAX_SIZE {
            return Err(TarballError::Archive("an entry has 2 GiB or more"));
        }
        let (kind, path) = (header.entry_type(), header.path_bytes().into_owned());
        let link = header.link_name_bytes().map(|link| link.into_owned());
        let is_old = header.as_old().linkflag == [0];
        self.header.clear();
        match kind {
            EntryType::GNULongName => self.extension(Content::LongName, size),
            EntryType::GNULongLink => self.extension(Content::LongLink, size),
            EntryType::XHeader => self.extension(Content::Records, size),
            EntryType::XGlobalHeader => self.extension(Content::GlobalRecords, size),
            kind => {
                // The oldest format marks folders by a slash only. Some programs look for it in this header's name, and
                // some in the name from an extended header.
                let own_name = path.clone();
                let (path, link) = self.take_names(kind, path, link, size)?;
                let is_marked = kind == EntryType::Regular && own_name.ends_with(b"/");
                if is_marked || kind == EntryType::Regular && path.ends_with(b"/") {
                    // Packers cut a long name at the end of the field, which may be after a slash. A program that takes
                    // the file for an empty folder fails at the contents, unless it finds a header in them.
                    if is_old || size == 0 || !path.starts_with(&own_name) || path.ends_with(b"/") {
                        return Err(TarballError::Entry(excerpt(&path), LIKE_FOLDER));
                    }
                    self.first_block = Some(Vec::with_capacity(BLOCK));
                }
                self.entry(kind, &path, &link, size)
            }
        }
    }

    /// The names of the entry and of its link's target; extended headers take precedence. `size` is from its own
    /// header. Programs that do not read extended headers use it, so an extended header must not give another size.
    fn take_names(
        &mut self,
        kind: EntryType,
        path: Vec<u8>,
        link: Option<Vec<u8>>,
        size: u64,
    ) -> Result<(Vec<u8>, Vec<u8>), TarballError> {
        let (long_path, long_link) = match std::mem::replace(&mut self.extension, Extension::None) {
            Extension::None => (None, None),
            Extension::Gnu { path, link } => (path, link),
            Extension::Posix(records) => {
                if records.size.is_some_and(|extended| extended != size) {
                    return Err(TarballError::Archive("an entry has another size in its extended header"));
                }
                (records.path, records.link)
            }
        };
        if long_link.is_some() && !matches!(kind, EntryType::Link | EntryType::Symlink) {
            return Err(TarballError::Archive("an extended header names the target of an entry that is no link"));
        }
        Ok((long_path.unwrap_or(path), long_link.or(link).unwrap_or_default()))
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
        let name = match EntryName::read(path) {
            Ok(name) => name,
            Err(why) => return refused(why),
        };
        match kind {
            EntryType::Directory => {
                if size > 0 {
                    return refused("is a folder with contents of its own");
                }
                self.tree.add(&name, NodeKind::Folder)?;
            }
            EntryType::Link | EntryType::Symlink => {
                if size > 0 {
                    return refused("is a link with contents of its own");
                }
                if name.is_dotted {
                    return refused("is a link that has the name `.`");
                }
                if let Some(why) = link::problem(&name, kind, link) {
                    return refused(why);
                }
                self.tree.add(&name, NodeKind::Link)?;
            }
            EntryType::Regular => {
                let added = self.tree.add(&name, NodeKind::File)?;
                if name.is_dotted || added == Added::Repeated {
                    self.repeatable = Some(RepeatableFile { inside: name.inside.to_owned(), contents: Sha256::new() });
                }
                if added == Added::New {
                    self.totals.files += 1;
                    self.totals.size = self.totals.size.saturating_add(size);
                }
                if name.inside == MANIFEST {
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
        if let Some(mut block) = self.first_block.take() {
            block.resize(BLOCK, 0);
            if block.as_slice().try_into().is_ok_and(header::may_be_header) {
                return Err(TarballError::Archive("a file with the name of a folder in its header has a header in it"));
            }
        }
        if let Some(RepeatableFile { inside, contents }) = self.repeatable.take()
            && !self.tree.has_contents(&inside, contents.finalize().into())
        {
            return Err(TarballError::Entry(excerpt(inside.as_bytes()), "is there twice, with different contents"));
        }
        match self.reading.take() {
            Some((Content::Manifest, bytes)) => self.manifest = Some(bytes),
            Some((Content::LongName, name)) => {
                require_whole(&name, 0)?;
                let [path, _] = self.gnu_names()?;
                set_once(path, terminated(name))?;
            }
            Some((Content::LongLink, name)) => {
                require_whole(&name, 0)?;
                let [_, link] = self.gnu_names()?;
                set_once(link, terminated(name))?;
            }
            Some((Content::Records, bytes)) => {
                self.require_no_extension()?;
                self.extension = Extension::Posix(Records::read(&bytes)?);
            }
            Some((Content::GlobalRecords, bytes)) => {
                self.require_no_extension()?;
                // git writes a comment, which is allowed.
                if !Records::read(&bytes)?.is_empty() {
                    return Err(TarballError::Archive("a global header names or measures entries"));
                }
            }
            None => {}
        }
        Ok(())
    }

    /// The path and the link's target in GNU tar's headers before the next entry.
    fn gnu_names(&mut self) -> Result<[&mut Option<Vec<u8>>; 2], TarballError> {
        if let Extension::None = self.extension {
            self.extension = Extension::Gnu { path: None, link: None };
        }
        match &mut self.extension {
            Extension::Gnu { path, link } => Ok([path, link]),
            _ => Err(TarballError::Archive(MIXED)),
        }
    }

    fn require_no_extension(&self) -> Result<(), TarballError> {
        match self.extension {
            Extension::None => Ok(()),
            _ => Err(TarballError::Archive(MIXED)),
        }
    }
}

const LIKE_FOLDER: &str = "is a file with the name of a folder";

const MIXED: &str = "an extended header follows another one";

/// A name without the NUL at its end.
fn terminated(mut name: Vec<u8>) -> Vec<u8> {
    if name.last() == Some(&0) {
        name.pop();
    }
    name
}

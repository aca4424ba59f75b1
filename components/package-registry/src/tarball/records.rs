//! Records of extended headers (POSIX.1-2017 pax §"pax Extended Header").

use super::error::TarballError;
use super::header::BLOCK;
use tar::PaxExtensions;

const MALFORMED: TarballError = TarballError::Archive("a record of an extended header is malformed");

/// The values in the records for the entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Records {
    pub path: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    /// Bytes.
    pub size: Option<u64>,
}

impl Records {
    /// Reads the records. Unknown records are an error: some programs ignore them, and some assign any record to a
    /// field of the entry.
    pub fn read(bytes: &[u8]) -> Result<Self, TarballError> {
        // Some programs stop at an empty line, others continue. A length with a sign or leading zeros may be read, or
        // skipped by as many characters as its number has digits.
        let lines = bytes.strip_suffix(b"\n").ok_or(MALFORMED)?.split(|byte| *byte == b'\n');
        if !lines.into_iter().all(|line| matches!(line.first(), Some(b'1'..=b'9'))) {
            return Err(MALFORMED);
        }
        let (mut records, mut start) = (Records::default(), 0);
        // Each record is a line.
        for (record, line) in PaxExtensions::new(bytes).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            let record = record.map_err(|_| MALFORMED)?;
            if matches!(record.key_bytes(), b"path" | b"linkpath") {
                require_whole(line, start)?;
            }
            start += line.len();
            match record.key_bytes() {
                b"path" => set_once(&mut records.path, record.value_bytes().to_owned())?,
                b"linkpath" => set_once(&mut records.link, record.value_bytes().to_owned())?,
                b"size" => {
                    let digits = record.value().ok().filter(|size| size.bytes().all(|byte| byte.is_ascii_digit()));
                    set_once(&mut records.size, digits.and_then(|size| size.parse().ok()).ok_or(MALFORMED)?)?;
                }
                key if key.starts_with(b"GNU.sparse.") || key == b"SCHILY.realsize" || key == b"SUN.holesdata" => {
                    return Err(TarballError::Archive("it has a sparse file"));
                }
                key if is_harmless(key) => {}
                _ => return Err(TarballError::Archive("a record of an extended header is of an unknown kind")),
            }
        }
        Ok(records)
    }

    pub fn is_empty(&self) -> bool {
        *self == Records::default()
    }
}

/// Whether the record leaves the entry's name, kind and contents unchanged. It is a POSIX record, or a vendor's, whose
/// key begins with capital letters and a dot.
fn is_harmless(key: &[u8]) -> bool {
    const POSIX: &[&[u8]] =
        &[b"atime", b"ctime", b"mtime", b"charset", b"comment", b"hdrcharset", b"gid", b"gname", b"uid", b"uname"];
    let vendor = key.split(|byte| *byte == b'.').next().filter(|vendor| vendor.len() < key.len()).unwrap_or_default();
    POSIX.contains(&key) || !vendor.is_empty() && vendor != b"GNU" && vendor.iter().all(u8::is_ascii_uppercase)
}

/// npm's unpacker decodes each arriving piece of an extended header on its own. A piece that ends within a character
/// damages the record. npm ignores a damaged record, so the entry gets another name. The first piece has at least a
/// block, so the name must be ASCII after it. `start` is the name's offset.
pub fn require_whole(name: &[u8], start: usize) -> Result<(), TarballError> {
    match name.iter().skip(BLOCK.saturating_sub(start)).all(u8::is_ascii) {
        true => Ok(()),
        false => {
            Err(TarballError::Archive("an extended header has a name that is not ASCII behind its first 512 bytes"))
        }
    }
}

/// Sets a value. A second value is an error, because some programs use the first and some the last.
pub fn set_once<T>(slot: &mut Option<T>, value: T) -> Result<(), TarballError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(TarballError::Archive("an entry is named or measured twice")),
    }
}

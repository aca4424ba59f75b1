//! Entries of packs (gitformat-pack): a header with the kind, the size and, for a delta, its base; then the zlib
//! stream.

use super::id::ObjectId;
use super::object::ObjectKind;

/// The kind of an entry's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    Object(ObjectKind),
    /// A delta against the entry that begins so many bytes before this one.
    OffsetDelta(u64),
    /// A delta against an object of this id, in the same pack or, in a thin pack, elsewhere.
    RefDelta(ObjectId),
}

/// The header of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader {
    pub kind: EntryKind,
    /// Bytes of the decompressed object or delta.
    pub size: u64,
    /// Bytes of this header.
    pub length: usize,
}

/// The longest header, in bytes: a size of ten bytes and an id.
pub const MAX_HEADER: usize = 10 + ObjectId::LENGTH;

/// The outcome of parsing the beginning of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderParse {
    Header(EntryHeader),
    /// The header goes on after these bytes.
    Incomplete,
    /// The bytes cannot be a header.
    Invalid,
}

const OFFSET_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;

/// Whether the entry with this first byte is an object that is stored whole.
pub fn begins_whole_object(first: u8) -> bool {
    matches!((first >> 4) & 7, 1..=4)
}

impl EntryHeader {
    /// Parses the header at the beginning of `bytes`.
    pub fn parse(bytes: &[u8]) -> HeaderParse {
        let mut rest = bytes.iter().copied();
        let Some(first) = rest.next() else { return HeaderParse::Incomplete };
        let (mut size, mut shift, mut length, mut byte) = (u64::from(first & 15), 4, 1, first);
        while byte & 0x80 != 0 {
            let Some(next) = rest.next() else { return HeaderParse::Incomplete };
            let bits = u64::from(next & 0x7f);
            if shift > 60 || (bits << shift) >> shift != bits {
                return HeaderParse::Invalid;
            }
            size |= bits << shift;
            (shift, length, byte) = (shift + 7, length + 1, next);
        }
        let kind = match (first >> 4) & 7 {
            1 => EntryKind::Object(ObjectKind::Commit),
            2 => EntryKind::Object(ObjectKind::Tree),
            3 => EntryKind::Object(ObjectKind::Blob),
            4 => EntryKind::Object(ObjectKind::Tag),
            OFFSET_DELTA => {
                let mut distance: u64 = 0;
                loop {
                    let Some(next) = rest.next() else { return HeaderParse::Incomplete };
                    length += 1;
                    let Some(shifted) = distance.checked_mul(128) else { return HeaderParse::Invalid };
                    distance = shifted | u64::from(next & 0x7f);
                    if next & 0x80 == 0 {
                        break;
                    }
                    distance += 1;
                }
                EntryKind::OffsetDelta(distance)
            }
            REF_DELTA => {
                let mut id = [0; ObjectId::LENGTH];
                for digit in &mut id {
                    let Some(next) = rest.next() else { return HeaderParse::Incomplete };
                    *digit = next;
                }
                length += ObjectId::LENGTH;
                EntryKind::RefDelta(ObjectId::new(id))
            }
            _ => return HeaderParse::Invalid,
        };
        HeaderParse::Header(EntryHeader { kind, size, length })
    }
}

/// Appends the header of an object or delta of `size` bytes.
pub fn write_header(out: &mut Vec<u8>, kind: EntryKind, size: u64) {
    let number = match kind {
        EntryKind::Object(ObjectKind::Commit) => 1,
        EntryKind::Object(ObjectKind::Tree) => 2,
        EntryKind::Object(ObjectKind::Blob) => 3,
        EntryKind::Object(ObjectKind::Tag) => 4,
        EntryKind::OffsetDelta(_) => OFFSET_DELTA,
        EntryKind::RefDelta(_) => REF_DELTA,
    };
    let (mut byte, mut rest) = (number << 4 | low_bits(size, 15), size >> 4);
    while rest > 0 {
        out.push(byte | 0x80);
        (byte, rest) = (low_bits(rest, 0x7f), rest >> 7);
    }
    out.push(byte);
    match kind {
        EntryKind::Object(_) => {}
        EntryKind::OffsetDelta(distance) => {
            let (mut bytes, mut rest) = (vec![low_bits(distance, 0x7f)], distance >> 7);
            while rest > 0 {
                rest -= 1;
                bytes.push(low_bits(rest, 0x7f) | 0x80);
                rest >>= 7;
            }
            out.extend(bytes.iter().rev());
        }
        EntryKind::RefDelta(id) => out.extend_from_slice(id.bytes()),
    }
}

fn low_bits(number: u64, mask: u8) -> u8 {
    number.to_le_bytes().first().copied().unwrap_or_default() & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed_as_they_were_written() {
        let id = ObjectId::new([7; ObjectId::LENGTH]);
        for size in [0, 1, 15, 16, 2047, 2048, 1 << 20, u64::MAX >> 3] {
            for kind in [
                EntryKind::Object(ObjectKind::Blob),
                EntryKind::Object(ObjectKind::Tag),
                EntryKind::RefDelta(id),
                EntryKind::OffsetDelta(1),
                EntryKind::OffsetDelta(127),
                EntryKind::OffsetDelta(128),
                EntryKind::OffsetDelta(16_511),
                EntryKind::OffsetDelta(16_512),
                EntryKind::OffsetDelta(1 << 40),
            ] {
                let mut bytes = Vec::new();
                write_header(&mut bytes, kind, size);
                for end in 0..bytes.len() {
                    assert_eq!(EntryHeader::parse(&bytes[..end]), HeaderParse::Incomplete, "{kind:?} {size}");
                }
                let length = bytes.len();
                assert!(length <= MAX_HEADER);
                bytes.push(0xff);
                assert_eq!(EntryHeader::parse(&bytes), HeaderParse::Header(EntryHeader { kind, size, length }));
            }
        }
    }

    #[test]
    fn impossible_headers_are_invalid() {
        for bad in [&[0x00][..], &[0x50], &[0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]] {
            assert_eq!(EntryHeader::parse(bad), HeaderParse::Invalid, "{bad:?}");
        }
        let endless = [0x60].into_iter().chain([0xff; 12]).collect::<Vec<u8>>();
        assert_eq!(EntryHeader::parse(&endless), HeaderParse::Invalid);
    }
}

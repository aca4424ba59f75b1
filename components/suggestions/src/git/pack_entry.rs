//! Entries of packs (gitformat-pack): a header with the kind, the size and, for a delta, its base; then the zlib
//! stream.

use crate::git::id::ObjectId;
use crate::git::object::ObjectKind;

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

/// The bytes are not a delta for this base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidDelta;

/// The sizes of base and result that a delta states at its beginning, and the rest of it.
pub fn parse_sizes(delta: &[u8]) -> Result<(u64, u64, &[u8]), InvalidDelta> {
    let (base, rest) = parse_size(delta)?;
    let (result, rest) = parse_size(rest)?;
    Ok((base, result, rest))
}

fn parse_size(mut bytes: &[u8]) -> Result<(u64, &[u8]), InvalidDelta> {
    let (mut size, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first().ok_or(InvalidDelta)?;
        let bits = u64::from(byte & 0x7f);
        if shift > 60 {
            return Err(InvalidDelta);
        }
        size |= bits << shift;
        (bytes, shift) = (rest, shift + 7);
        if byte & 0x80 == 0 {
            return Ok((size, bytes));
        }
    }
}

/// The object that a delta makes of `base`. The caller has checked that the stated size of the result is acceptable.
pub fn apply(base: &[u8], delta: &[u8]) -> Result<Vec<u8>, InvalidDelta> {
    let (base_size, result_size, mut rest) = parse_sizes(delta)?;
    if base_size != base.len() as u64 {
        return Err(InvalidDelta);
    }
    let result_size = usize::try_from(result_size).map_err(|_| InvalidDelta)?;
    let mut result = Vec::with_capacity(result_size);
    while let Some((instruction, after)) = rest.split_first() {
        rest = after;
        let part = if instruction & 0x80 != 0 {
            let mut field = |bits: std::ops::Range<u8>| -> Result<usize, InvalidDelta> {
                let mut value = 0;
                for (number, bit) in bits.enumerate() {
                    if instruction & (1 << bit) != 0 {
                        let (byte, after) = rest.split_first().ok_or(InvalidDelta)?;
                        value |= usize::from(*byte) << (8 * number);
                        rest = after;
                    }
                }
                Ok(value)
            };
            let (offset, size) = (field(0..4)?, field(4..7)?);
            let size = if size == 0 { 0x10000 } else { size };
            let end = offset.checked_add(size).ok_or(InvalidDelta)?;
            base.get(offset..end).ok_or(InvalidDelta)?
        } else {
            let (part, after) = rest.split_at_checked(usize::from(*instruction)).ok_or(InvalidDelta)?;
            rest = after;
            // An instruction of length 0 is reserved.
            if part.is_empty() {
                return Err(InvalidDelta);
            }
            part
        };
        if result.len() + part.len() > result_size {
            return Err(InvalidDelta);
        }
        result.extend_from_slice(part);
    }
    if result.len() == result_size { Ok(result) } else { Err(InvalidDelta) }
}

/// The delta of an edit: the common beginning and end of both versions are copied, and the rest is new.
pub fn of_edit(base: &[u8], result: &[u8]) -> Vec<u8> {
    let common = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| pairs.take_while(|(a, b)| a == b).count();
    let prefix = common(&mut base.iter().zip(result));
    let (base_rest, result_rest) = (base.get(prefix..).unwrap_or_default(), result.get(prefix..).unwrap_or_default());
    let suffix = common(&mut base_rest.iter().rev().zip(result_rest.iter().rev()));
    let mut delta = Vec::new();
    write_size(&mut delta, base.len());
    write_size(&mut delta, result.len());
    write_copy(&mut delta, 0, prefix);
    let new = result_rest.get(..result_rest.len() - suffix).unwrap_or_default();
    for part in new.chunks(127) {
        delta.extend(u8::try_from(part.len()));
        delta.extend_from_slice(part);
    }
    write_copy(&mut delta, base.len() - suffix, suffix);
    delta
}

fn write_size(out: &mut Vec<u8>, mut size: usize) {
    loop {
        let [low, ..] = size.to_le_bytes();
        size >>= 7;
        out.push(low & 0x7f | if size > 0 { 0x80 } else { 0 });
        if size == 0 {
            return;
        }
    }
}

fn write_copy(out: &mut Vec<u8>, mut offset: usize, mut size: usize) {
    while size > 0 {
        let part = size.min(0xff_ffff);
        let fields = offset.to_le_bytes().into_iter().take(4).chain(part.to_le_bytes().into_iter().take(3));
        let (mut instruction, mut bytes) = (0x80, Vec::new());
        for (bit, byte) in fields.enumerate().filter(|(_, byte)| *byte != 0) {
            instruction |= 1 << bit;
            bytes.push(byte);
        }
        out.push(instruction);
        out.extend_from_slice(&bytes);
        (offset, size) = (offset + part, size - part);
    }
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

#[cfg(test)]
mod delta_tests {
    use super::*;

    #[test]
    fn the_delta_of_an_edit_makes_the_result() {
        let long: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[1] ^ number.to_le_bytes()[0]).collect();
        let mut edited = long.clone();
        edited.splice(100_000..100_010, [1; 500]);
        let very_long = vec![7; 17 << 20];
        let cases: [(&[u8], &[u8]); 8] = [
            (b"", b""),
            (b"", b"new"),
            (b"old", b""),
            (b"same", b"same"),
            (b"aaaa", b"aaaaaa"),
            (b"one\ntwo\nthree\n", b"one\n2\nthree\n"),
            (&long, &edited),
            (&very_long, &very_long),
        ];
        for (base, result) in cases {
            let delta = of_edit(base, result);
            assert_eq!(apply(base, &delta).as_deref(), Ok(result));
            assert!(delta.len() < 20 + (result.len().abs_diff(base.len())).max(20) * 2);
        }
    }

    #[test]
    fn deltas_that_lie_are_invalid() {
        let good = of_edit(b"one two three", b"one 2 three");
        for end in 0..good.len() {
            assert_eq!(apply(b"one two three", &good[..end]), Err(InvalidDelta), "cut at {end}");
        }
        assert_eq!(apply(b"one two", &good), Err(InvalidDelta), "another base");
        for bad in [
            &[3, 5, 0x91, 0, 4][..],
            &[3, 2, 0x90, 3],
            &[3, 3, 0],
            &[3, 4, 0x90, 3],
            &[3, 3, 0x91, 0xff, 3],
            &[0x80; 12],
        ] {
            assert_eq!(apply(b"abc", bad), Err(InvalidDelta), "{bad:?}");
        }
    }
}

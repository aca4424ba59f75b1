//! The checks of a header of 512 bytes, so that all programs read it alike.

use tar::Header;

pub const BLOCK: usize = 512;

/// Why programs may read a header differently. One program skips a header that it takes for invalid, but not the
/// contents after it, and finds other headers in them. So every field must have a form that all programs read.
pub fn problem(bytes: &[u8; BLOCK]) -> Option<&'static str> {
    let field = |start: usize, length: usize| bytes.get(start..start + length).unwrap_or_default();
    // One program reads the checksum beyond its field, up to a NUL or a space.
    if !is_terminated_octal(field(148, 8)) || Header::from_byte_slice(bytes).cksum().ok() != Some(checksum(bytes)) {
        return Some("the checksum of a header is wrong");
    }
    // One program takes such a header for the end of the archive, even if an extended header names the entry.
    if field(0, 1) == [0] {
        return Some("it has an entry without a name");
    }
    if !is_terminated_octal(field(124, 12)) {
        return Some("the size in a header is no octal number");
    }
    let is_posix = match field(257, 8) {
        b"ustar\x0000" => true,
        b"ustar  \0" | [0, 0, 0, 0, 0, 0, 0, 0] => false,
        _ => return Some("a header is of an unknown format"),
    };
    // Some programs look for another format's magic in these bytes.
    if field(500, 12).iter().any(|byte| *byte != 0) {
        return Some("a header is of an unknown format");
    }
    // Only the POSIX format has a prefix of the name here, but some programs read it in every format. One program tells
    // from one byte whether the prefix is long; after a short prefix, it reads two times.
    let has_times = is_posix && field(475, 1) == [0];
    let prefix = if has_times { field(345, 131) } else { field(345, 155) };
    if !is_posix && prefix.iter().any(|byte| *byte != 0) {
        return Some("a header has a prefix that its format has not");
    }
    let texts = [field(0, 100), field(157, 100), prefix];
    if texts.iter().any(|text| continues_after_nul(text)) {
        return Some("a name in a header continues after its end");
    }
    // Hard and symbolic links are of the types 1 and 2.
    if !matches!(field(156, 1), b"1" | b"2") && field(157, 1) != [0] {
        return Some("a header that is of no link has a link's target");
    }
    // Ids of the owner and its group; mode, time of change, and two numbers of devices; times of access and creation.
    let owners = [field(108, 8), field(116, 8)];
    let numbers = [field(100, 8), field(136, 12), field(329, 8), field(337, 8)];
    let times = if has_times { [field(476, 12), field(488, 12)] } else { [&[][..]; 2] };
    let are_octal = numbers.into_iter().chain(times).all(is_octal_or_empty);
    if !are_octal || !owners.into_iter().all(|id| is_octal_or_empty(id) || is_large_id(id)) {
        return Some("a number in a header is no octal number");
    }
    None
}

/// Whether a program could take a block for a header, however it reads the sum, or for the end of the archive.
pub fn may_be_header(block: &[u8; BLOCK]) -> bool {
    let (mut stored, mut signed_sum) = (0_i64, 0_i64);
    for (at, byte) in block.iter().enumerate() {
        let is_of_sum = (148..156).contains(&at);
        if is_of_sum && matches!(byte, b'0'..=b'7') {
            stored = stored * 8 + i64::from(byte - b'0');
        }
        signed_sum += if is_of_sum { 32 } else { i64::from(byte.cast_signed()) };
    }
    block.iter().all(|byte| *byte == 0) || stored == i64::from(checksum(block)) || stored == signed_sum
}

/// Octal digits with only spaces before them, and only spaces and NULs after them. Programs differ in reading other
/// white space, signs, base 256, and text after other characters.
fn is_octal(field: &[u8]) -> bool {
    let spaces = field.iter().take_while(|byte| **byte == b' ').count();
    let (_, digits) = field.split_at(spaces);
    let (digits, rest) = digits.split_at(digits.iter().take_while(|byte| matches!(byte, b'0'..=b'7')).count());
    !digits.is_empty() && rest.iter().all(|byte| matches!(byte, 0 | b' '))
}

fn is_terminated_octal(field: &[u8]) -> bool {
    is_octal(field) && matches!(field.last(), Some(0 | b' '))
}

/// A number that programs need not know. Some packers leave it out, and some fill the whole field with digits.
fn is_octal_or_empty(field: &[u8]) -> bool {
    is_octal(field) || field.iter().all(|byte| *byte == 0) || field.iter().all(|byte| *byte == b' ')
}

/// An id of up to 32 bits in base 256, which packers write if its digits do not fit.
fn is_large_id(field: &[u8]) -> bool {
    matches!(field, [0x80, 0, 0, 0, ..])
}

fn continues_after_nul(text: &[u8]) -> bool {
    text.iter().skip_while(|byte| **byte != 0).any(|byte| *byte != 0)
}

/// The sum of a header's bytes, with spaces in place of the sum itself.
fn checksum(header: &[u8; BLOCK]) -> u32 {
    let field = 148..156;
    header.iter().enumerate().map(|(at, byte)| if field.contains(&at) { 32 } else { u32::from(*byte) }).sum()
}

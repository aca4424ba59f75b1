//! What a header of 512 bytes may hold, so that every program reads the same from it.

use tar::Header;

pub const BLOCK: usize = 512;

/// Why programs may read a header differently.
pub fn problem(bytes: &[u8; BLOCK]) -> Option<&'static str> {
    let field = |start: usize, length: usize| bytes.get(start..start + length).unwrap_or_default();
    // Programs that parse leniently take `+7`, `7x`, `0x7`, base 256 or nothing for different numbers.
    if !is_octal(field(148, 8)) || Header::from_byte_slice(bytes).cksum().ok() != Some(checksum(bytes)) {
        return Some("the checksum of a header is wrong");
    }
    // One program takes such a header for the end of the archive, whatever names the entry elsewhere.
    if field(0, 1) == [0] {
        return Some("it has an entry without a name");
    }
    if !is_octal(field(124, 12)) {
        return Some("the size in a header is no octal number");
    }
    let is_posix = match field(257, 8) {
        b"ustar\x0000" => true,
        b"ustar  \0" | [0, 0, 0, 0, 0, 0, 0, 0] => false,
        _ => return Some("a header is of an unknown format"),
    };
    // Only the POSIX format has a prefix of the name there, which some programs read in every format. Of a
    // prefix that is short, one program takes what follows for times.
    let prefix = if is_posix { field(345, 131) } else { field(345, 155) };
    if !is_posix && prefix.iter().any(|byte| *byte != 0) {
        return Some("a header has a prefix that its format has not");
    }
    // One program looks at the last byte of the prefix to tell whether there is one.
    let texts = [field(0, 100), field(157, 100), prefix];
    if texts.iter().any(|text| continues_after_nul(text)) {
        return Some("a name in a header continues after its end");
    }
    None
}

/// Octal digits after optional spaces, and only spaces or NULs after them.
fn is_octal(field: &[u8]) -> bool {
    let digits = field.trim_ascii_start();
    let end = digits.iter().position(|byte| !(b'0'..=b'7').contains(byte)).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    !digits.is_empty() && rest.iter().all(|byte| matches!(byte, 0 | b' '))
}

fn continues_after_nul(text: &[u8]) -> bool {
    text.iter().skip_while(|byte| **byte != 0).any(|byte| *byte != 0)
}

/// The sum of a header's bytes, with spaces in place of the sum itself.
fn checksum(header: &[u8; BLOCK]) -> u32 {
    let field = 148..156;
    header.iter().enumerate().map(|(at, byte)| if field.contains(&at) { 32 } else { u32::from(*byte) }).sum()
}

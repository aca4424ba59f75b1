//! pkt-lines, the framing of git's protocols (gitprotocol-common): four hex digits of the length, which
//! count themselves, and the data.

/// The longest pkt-line, in bytes, with its length.
pub const MAX_PACKET: usize = 65_520;

/// A packet of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    Data(&'a [u8]),
    /// Ends a message or a list.
    Flush,
    /// Separates the sections of a message of protocol version 2.
    Delimiter,
}

impl<'a> Packet<'a> {
    /// The data as a line of text without its line feed; `None` for the other packets.
    pub fn line(self) -> Option<&'a [u8]> {
        match self {
            Packet::Data(data) => Some(data.strip_suffix(b"\n").unwrap_or(data)),
            Packet::Flush | Packet::Delimiter => None,
        }
    }
}

/// The packets of a message in memory. After a malformed packet, an error ends the iteration.
pub struct Packets<'a>(&'a [u8]);

/// The bytes are not a pkt-line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedPacket;

impl<'a> Packets<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Packets(bytes)
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<Packet<'a>, MalformedPacket>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let parsed = split(std::mem::take(&mut self.0));
        Some(parsed.map(|(packet, rest)| {
            self.0 = rest;
            packet
        }))
    }
}

fn split(bytes: &[u8]) -> Result<(Packet<'_>, &[u8]), MalformedPacket> {
    let (digits, rest) = bytes.split_first_chunk::<4>().ok_or(MalformedPacket)?;
    let length = parse_length(digits)?;
    match length {
        0 => Ok((Packet::Flush, rest)),
        1 => Ok((Packet::Delimiter, rest)),
        length => {
            let (data, rest) = rest.split_at_checked(length - 4).ok_or(MalformedPacket)?;
            Ok((Packet::Data(data), rest))
        }
    }
}

/// The length that the first four bytes of a packet state: 0 and 1 are a flush and a delimiter packet.
pub fn parse_length(digits: &[u8; 4]) -> Result<usize, MalformedPacket> {
    let text = std::str::from_utf8(digits).map_err(|_| MalformedPacket)?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    let length = usize::from_str_radix(text, 16).map_err(|_| MalformedPacket)?;
    let is_known = matches!(length, 0 | 1) || (4..=MAX_PACKET).contains(&length);
    if is_hex && is_known { Ok(length) } else { Err(MalformedPacket) }
}

/// Appends a packet. Data beyond [`MAX_PACKET`] is the caller's mistake and is cut off.
pub fn write(out: &mut Vec<u8>, data: &[u8]) {
    let data = data.get(..MAX_PACKET - 4).unwrap_or(data);
    out.extend_from_slice(format!("{:04x}", data.len() + 4).as_bytes());
    out.extend_from_slice(data);
}

/// Appends a packet of text.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    write(out, text.as_bytes());
}

pub fn write_flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

pub fn write_delimiter(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0001");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        write_text(&mut bytes, "hello\n");
        write_delimiter(&mut bytes);
        write(&mut bytes, b"");
        write_flush(&mut bytes);
        assert_eq!(bytes, b"000ahello\n000100040000");
        let packets: Result<Vec<_>, _> = Packets::new(&bytes).collect();
        let packets = packets.unwrap();
        assert_eq!(packets, [Packet::Data(b"hello\n"), Packet::Delimiter, Packet::Data(b""), Packet::Flush]);
        assert_eq!(packets[0].line(), Some(&b"hello"[..]));
    }

    #[test]
    fn malformed_packets_are_errors() {
        for bad in [&b"000"[..], b"0002", b"0003", b"0005", b"00zz", b"+005a", b"fff0", b"0006a"] {
            let packets: Vec<_> = Packets::new(bad).collect();
            assert_eq!(packets, [Err(MalformedPacket)], "{bad:?}");
        }
    }
}

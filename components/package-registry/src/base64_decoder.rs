//! Decodes base64 that arrives in pieces of any length.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Receives a decoded file.
pub trait Sink {
    type Error;

    /// The file begins. `before` is the document up to here.
    fn begin(&mut self, _before: &[u8]) {}

    /// The next bytes, in order.
    fn write(&mut self, piece: &[u8]) -> Result<(), Self::Error>;
}

/// Characters decoded at a time; a multiple of 4, so that only the very end can be padded.
const PIECE: usize = 64 * 1024;

/// A decoder of the standard alphabet with mandatory, canonical padding and no white space
/// (RFC 4648 §4), as every publishing client writes it.
#[derive(Debug)]
pub struct Base64Decoder {
    /// Up to 3 characters of an incomplete group of 4.
    group: Vec<u8>,
    /// The last group was padded, so nothing may follow.
    padded: bool,
    /// Decoded bytes so far, and their limit.
    length: u64,
    limit: u64,
    /// Characters that may follow before the limit is certainly exceeded.
    remaining: u64,
    buffer: Vec<u8>,
}

/// Why a text cannot be decoded, or was not received.
#[derive(Debug, PartialEq, Eq)]
pub enum DecodeError<E> {
    Malformed,
    /// More than the limit was decoded.
    TooLarge,
    Sink(E),
}

impl Base64Decoder {
    /// A decoder of at most `limit` bytes (decoded).
    pub fn new(limit: u64) -> Self {
        Base64Decoder {
            group: Vec::with_capacity(4),
            padded: false,
            length: 0,
            limit,
            remaining: limit.div_ceil(3).saturating_mul(4),
            buffer: vec![0; PIECE / 4 * 3],
        }
    }

    pub fn push<S: Sink>(&mut self, text: &[u8], sink: &mut S) -> Result<(), DecodeError<S::Error>> {
        // The text up to the limit is decoded first, so that the error does not depend on how the text
        // is cut into pieces.
        let within = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(text.len());
        self.remaining -= within as u64;
        let (within, excess) = text.split_at(within);
        self.decode_text(within, sink)?;
        if excess.is_empty() { Ok(()) } else { Err(DecodeError::TooLarge) }
    }

    fn decode_text<S: Sink>(&mut self, mut text: &[u8], sink: &mut S) -> Result<(), DecodeError<S::Error>> {
        if !self.group.is_empty() {
            let (head, rest) = text.split_at(text.len().min(4 - self.group.len()));
            self.group.extend_from_slice(head);
            text = rest;
            if self.group.len() < 4 {
                return Ok(());
            }
            let group = std::mem::take(&mut self.group);
            self.decode_groups(&group, sink)?;
        }
        let (whole, rest) = text.split_at(text.len() - text.len() % 4);
        for piece in whole.chunks(PIECE) {
            self.decode_groups(piece, sink)?;
        }
        self.group.extend_from_slice(rest);
        Ok(())
    }

    fn decode_groups<S: Sink>(&mut self, piece: &[u8], sink: &mut S) -> Result<(), DecodeError<S::Error>> {
        if self.padded {
            return Err(DecodeError::Malformed);
        }
        let decoded = STANDARD
            .decode_slice(piece, &mut self.buffer)
            .ok()
            .and_then(|length| self.buffer.get(..length))
            .ok_or(DecodeError::Malformed)?;
        self.padded = piece.ends_with(b"=");
        self.length += decoded.len() as u64;
        if self.length > self.limit {
            return Err(DecodeError::TooLarge);
        }
        sink.write(decoded).map_err(DecodeError::Sink)
    }

    /// The number of bytes that were decoded; `Malformed` if the last group is incomplete.
    pub fn finish<E>(&self) -> Result<u64, DecodeError<E>> {
        if self.group.is_empty() { Ok(self.length) } else { Err(DecodeError::Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[derive(Default)]
    struct Received(Vec<u8>);

    impl Sink for Received {
        type Error = Infallible;

        fn write(&mut self, piece: &[u8]) -> Result<(), Infallible> {
            self.0.extend_from_slice(piece);
            Ok(())
        }
    }

    /// Decodes `text` in pieces of `size`.
    fn decode(text: &[u8], size: usize, limit: u64) -> Result<Vec<u8>, DecodeError<Infallible>> {
        let (mut decoder, mut received) = (Base64Decoder::new(limit), Received::default());
        for piece in text.chunks(size) {
            decoder.push(piece, &mut received)?;
        }
        assert_eq!(decoder.finish()?, received.0.len() as u64);
        Ok(received.0)
    }

    #[test]
    fn every_way_to_cut_the_text_gives_the_same_bytes() {
        for length in 0..40 {
            let bytes: Vec<u8> = (0..length).collect();
            let text = STANDARD.encode(&bytes).into_bytes();
            for size in 1..=text.len().max(1) {
                assert_eq!(decode(&text, size, 100), Ok(bytes.clone()), "{length} in {size}s");
            }
        }
    }

    #[test]
    fn every_way_to_cut_malformed_text_is_refused() {
        for text in ["A", "AA", "AAA", "AA=", "A===", "AAAA=", "AA==AA==", "AAA=AAAA", "AB==", "AA A", "AA-_", "A\nAA"]
        {
            for size in 1..=text.len() {
                assert_eq!(decode(text.as_bytes(), size, 100), Err(DecodeError::Malformed), "{text} {size}");
            }
        }
    }

    #[test]
    fn the_limit_counts_decoded_bytes_exactly() {
        for limit in 0..20_u64 {
            for (length, fits) in [(limit, true), (limit + 1, false)] {
                let text = STANDARD.encode(vec![7; length as usize]).into_bytes();
                for size in 1..=text.len().max(1) {
                    let outcome = decode(&text, size, limit);
                    if fits {
                        assert!(outcome.is_ok(), "{length} of {limit} in {size}s");
                    } else {
                        assert_eq!(outcome, Err(DecodeError::TooLarge), "{length} of {limit} in {size}s");
                    }
                }
            }
        }
    }
}

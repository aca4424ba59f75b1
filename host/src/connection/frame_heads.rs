//! The heads of HTTP/2 frames in the bytes of one direction of a connection (RFC 9113, section 4.1).

/// Types of frames (section 6).
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const CONTINUATION: u8 = 9;

/// Bytes of a frame before its payload.
pub const HEAD_BYTES: usize = 9;
/// Bytes of an error code, which is the payload of an `RST_STREAM` (section 6.4).
const ERROR_BYTES: usize = 4;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the payload.
    pub payload: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    /// The error code of an `RST_STREAM`; 0 of other frames.
    pub error: u32,
}

/// Finds the heads wherever reads or writes begin and end. The bytes begin with a frame.
#[derive(Default)]
pub struct FrameHeads {
    /// The bytes of the current head so far, and of an error code after it.
    read: [u8; HEAD_BYTES + ERROR_BYTES],
    length: usize,
    /// Payload bytes of the current frame that have not come yet.
    payload: usize,
}

impl FrameHeads {
    /// The next frame head that ends in `bytes`, which advance past it. `None` if no head ends there.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<FrameHead> {
        let skipped = self.payload.min(bytes.len());
        self.payload -= skipped;
        *bytes = bytes.get(skipped..).unwrap_or_default();
        while let Some((byte, rest)) = bytes.split_first() {
            *bytes = rest;
            if let Some(free) = self.read.get_mut(self.length) {
                *free = *byte;
            }
            self.length += 1;
            if self.length < HEAD_BYTES {
                continue;
            }
            let [a, b, c, kind, flags, s, t, r, e, error @ ..] = self.read;
            let payload = u32::from_be_bytes([0, a, b, c]) as usize;
            let with_error = kind == RST_STREAM && payload >= ERROR_BYTES;
            let ahead = if with_error { ERROR_BYTES } else { 0 };
            if self.length == HEAD_BYTES + ahead {
                self.length = 0;
                self.payload = payload - ahead;
                let error = if with_error { u32::from_be_bytes(error) } else { 0 };
                return Some(FrameHead { payload, kind, flags, stream: u32::from_be_bytes([s, t, r, e]), error });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_found_wherever_the_bytes_are_cut() {
        let mut frames = Vec::new();
        frames.extend([0, 0, 3, DATA, 1, 0, 0, 0, 5, 7, 7, 7]);
        frames.extend([0, 0, 4, RST_STREAM, 0, 0, 0, 0, 7, 0, 0, 0, 8]);
        frames.extend([0, 0, 0, RST_STREAM, 0, 0, 0, 0, 7]);
        frames.extend([0, 0, 1, 6, 0, 0, 0, 0, 0, 1]);
        let head = |payload, kind, flags, stream, error| FrameHead { payload, kind, flags, stream, error };
        let expected =
            [head(3, DATA, 1, 5, 0), head(4, RST_STREAM, 0, 7, 8), head(0, RST_STREAM, 0, 7, 0), head(1, 6, 0, 0, 0)];
        for size in 1..=frames.len() {
            let (mut heads, mut found) = (FrameHeads::default(), Vec::new());
            for mut part in frames.chunks(size) {
                while let Some(head) = heads.next(&mut part) {
                    found.push(head);
                }
                assert!(part.is_empty());
            }
            assert_eq!(found, expected, "{size}");
        }
    }
}

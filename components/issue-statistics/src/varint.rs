//! Variable-length integers (LEB128): seven bits in each byte, the lowest first.

/// Appends `value`, in 1 to 10 bytes.
pub fn write(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Appends the length of `bytes`, then `bytes`.
pub fn write_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    write(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

/// Maps a difference to an unsigned number, which is small if the difference is near 0.
pub fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads bytes from their start. Each method returns `None` if the bytes end too early or the number is too large.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        match self.0 {
            [first, rest @ ..] if *first < 0x80 => {
                self.0 = rest;
                Some(u64::from(*first))
            }
            [first, second, rest @ ..] if *second < 0x80 => {
                self.0 = rest;
                Some(u64::from(*first & 0x7f) | u64::from(*second) << 7)
            }
            [first, second, third, rest @ ..] if *third < 0x80 => {
                self.0 = rest;
                Some(u64::from(*first & 0x7f) | u64::from(*second & 0x7f) << 7 | u64::from(*third) << 14)
            }
            _ => self.long_u64(),
        }
    }

    fn long_u64(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.u64().and_then(|value| u32::try_from(value).ok())
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u64()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_numbers_are_read() {
        let numbers = [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| write(&mut bytes, *number));
        write_bytes(&mut bytes, b"text");
        let mut reader = Reader(&bytes);
        numbers.iter().for_each(|number| assert_eq!(reader.u64(), Some(*number)));
        assert_eq!((reader.bytes(), reader.is_empty()), (Some(&b"text"[..]), true));
    }

    #[test]
    fn zigzag_keeps_the_sign() {
        for difference in [0, -1, 1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(difference)), difference);
        }
        assert_eq!((zigzag(-1), zigzag(1)), (1, 2));
    }

    #[test]
    fn damaged_bytes_give_none() {
        assert_eq!(Reader(&[]).u64(), None);
        assert_eq!(Reader(&[0x80]).u64(), None);
        assert_eq!(Reader(&[0xff; 11]).u64(), None);
        assert_eq!(Reader(&[5, b'a']).bytes(), None);
        assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff, 0x7f]).u32(), None);
    }
}

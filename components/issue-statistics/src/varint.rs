//! Unsigned numbers in as few bytes as they need, seven bits in each, the lowest first.

/// Appends `value`, in 1 to 10 bytes.
pub fn put(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Appends a text with its length before it.
pub fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    put(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

/// A difference as an unsigned number that is small if the difference is.
pub fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads what was put. Every method is `None` where the bytes end too early or say too much.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
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
            _ => self.long(),
        }
    }

    fn long(&mut self) -> Option<u64> {
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
    pub fn small(&mut self) -> Option<u32> {
        self.number().and_then(|value| u32::try_from(value).ok())
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
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
    fn what_is_put_is_read() {
        let numbers = [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| put(&mut bytes, *number));
        put_bytes(&mut bytes, b"text");
        let mut reader = Reader(&bytes);
        numbers.iter().for_each(|number| assert_eq!(reader.number(), Some(*number)));
        assert_eq!((reader.bytes(), reader.is_empty()), (Some(&b"text"[..]), true));
    }

    #[test]
    fn differences_keep_their_sign() {
        for difference in [0, -1, 1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(difference)), difference);
        }
        assert_eq!((zigzag(-1), zigzag(1)), (1, 2));
    }

    #[test]
    fn damaged_bytes_are_nothing() {
        assert_eq!(Reader(&[]).number(), None);
        assert_eq!(Reader(&[0x80]).number(), None);
        assert_eq!(Reader(&[0xff; 11]).number(), None);
        assert_eq!(Reader(&[5, b'a']).bytes(), None);
        assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff, 0x7f]).small(), None);
    }
}

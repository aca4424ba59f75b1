//! Encoded positions. The [tokens](crate::text) of a field are numbered through all documents. One unused number
//! separates two documents. So two tokens are adjacent exactly if their positions are.
//!
//! Positions are encoded ascending, each as its difference from the previous one, starting at 0.

use crate::varint::{self, Reader};

/// Appends a position. It must not be below `last`, and becomes `last`.
#[inline]
pub fn append(into: &mut Vec<u8>, position: u32, last: &mut u32) {
    varint::write(into, u64::from(position - *last));
    *last = position;
}

/// Appends encoded positions, each increased by `by`, and returns their number. `None` if they are damaged.
pub fn append_shifted(into: &mut Vec<u8>, encoded: &[u8], by: u32, last: &mut u32) -> Option<u32> {
    let mut rest = Reader(encoded);
    let first = rest.u32()?;
    varint::write(into, u64::from(first.checked_add(by)?.checked_sub(*last)?));
    into.extend_from_slice(rest.0);
    let mut highest = first + by;
    let mut count = 1;
    while !rest.is_empty() {
        highest = highest.checked_add(rest.u32()?)?;
        count += 1;
    }
    *last = highest;
    Some(count)
}

/// Calls `each` for every position. `None` if the bytes are damaged.
#[inline]
pub fn for_each(encoded: &[u8], mut each: impl FnMut(u32)) -> Option<()> {
    let mut rest = Reader(encoded);
    let mut position = 0_u32;
    while !rest.is_empty() {
        position = position.checked_add(rest.u32()?)?;
        each(position);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(encoded: &[u8]) -> Option<Vec<u32>> {
        let mut positions = Vec::new();
        for_each(encoded, |position| positions.push(position)).map(|()| positions)
    }

    fn encoded(positions: &[u32]) -> (Vec<u8>, u32) {
        let (mut encoded, mut last) = (Vec::new(), 0);
        positions.iter().for_each(|position| append(&mut encoded, *position, &mut last));
        (encoded, last)
    }

    #[test]
    fn appended_positions_are_read() {
        let positions = [0, 1, 5, 300, 70_000, u32::MAX];
        assert_eq!(read(&encoded(&positions).0), Some(positions.to_vec()));
        assert_eq!(read(&[0xff]), None);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1]), None);
    }

    #[test]
    fn shifted_positions_come_after_others() {
        let (mut all, mut last) = encoded(&[3, 9]);
        assert_eq!(append_shifted(&mut all, &encoded(&[0, 7, 1000]).0, 10, &mut last), Some(3));
        assert_eq!(append_shifted(&mut all, &encoded(&[2]).0, 2000, &mut last), Some(1));
        assert_eq!((read(&all), last), (Some(vec![3, 9, 10, 17, 1010, 2002]), 2002));
        assert_eq!(append_shifted(&mut all, &[], 3000, &mut last), None);
        assert_eq!(append_shifted(&mut all, &encoded(&[1]).0, 0, &mut last), None, "before the last one");
    }
}

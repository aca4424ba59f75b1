//! Where a word is: the places of a segment's [pieces](crate::text) are numbered on from document to
//! document, with one number between two documents that no piece has. So words follow one another
//! if their places do, and no document has to be known for that. Places are stored ascending, each as
//! its difference from the one before, the first from 0.

use crate::varint::{self, Reader};

/// Appends a place, which is `last` or comes after it; it becomes `last`.
#[inline]
pub fn put(into: &mut Vec<u8>, place: u32, last: &mut u32) {
    varint::put(into, u64::from(place - *last));
    *last = place;
}

/// Appends stored places, each `by` higher, and tells how many; `None` if they are damaged.
pub fn put_shifted(into: &mut Vec<u8>, stored: &[u8], by: u32, last: &mut u32) -> Option<u32> {
    let mut rest = Reader(stored);
    let first = rest.small()?;
    varint::put(into, u64::from(first.checked_add(by)?.checked_sub(*last)?));
    into.extend_from_slice(rest.0);
    let mut highest = first + by;
    let mut count = 1;
    while !rest.is_empty() {
        highest = highest.checked_add(rest.small()?)?;
        count += 1;
    }
    *last = highest;
    Some(count)
}

/// Calls `each` for every place; `None` if they are damaged.
#[inline]
pub fn for_each(stored: &[u8], mut each: impl FnMut(u32)) -> Option<()> {
    let mut rest = Reader(stored);
    let mut place = 0_u32;
    while !rest.is_empty() {
        place = place.checked_add(rest.small()?)?;
        each(place);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stored: &[u8]) -> Option<Vec<u32>> {
        let mut places = Vec::new();
        for_each(stored, |place| places.push(place)).map(|()| places)
    }

    fn stored(places: &[u32]) -> (Vec<u8>, u32) {
        let (mut stored, mut last) = (Vec::new(), 0);
        places.iter().for_each(|place| put(&mut stored, *place, &mut last));
        (stored, last)
    }

    #[test]
    fn what_is_put_is_read() {
        let places = [0, 1, 5, 300, 70_000, u32::MAX];
        assert_eq!(read(&stored(&places).0), Some(places.to_vec()));
        assert_eq!(read(&[0xff]), None);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1]), None);
    }

    #[test]
    fn shifted_places_come_after_others() {
        let (mut all, mut last) = stored(&[3, 9]);
        assert_eq!(put_shifted(&mut all, &stored(&[0, 7, 1000]).0, 10, &mut last), Some(3));
        assert_eq!(put_shifted(&mut all, &stored(&[2]).0, 2000, &mut last), Some(1));
        assert_eq!((read(&all), last), (Some(vec![3, 9, 10, 17, 1010, 2002]), 2002));
        assert_eq!(put_shifted(&mut all, &[], 3000, &mut last), None);
        assert_eq!(put_shifted(&mut all, &stored(&[1]).0, 0, &mut last), None, "before the last one");
    }
}

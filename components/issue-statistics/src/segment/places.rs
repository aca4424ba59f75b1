//! Where a word is in the documents that have it: for each place a variable-length number, whose
//! lowest bit tells that the place is the first one in the next document, and whose rest is the
//! difference to the place before (to 0 in a new document). Places count [pieces](crate::text).

use crate::varint::{self, Reader};

/// Appends a place. `before` is the place before in the same document.
#[inline]
pub fn put(into: &mut Vec<u8>, place: u32, before: Option<u32>) {
    let difference = u64::from(place - before.unwrap_or(0));
    varint::put(into, difference << 1 | u64::from(before.is_none()));
}

/// Calls `each` for every document and place. `documents` are those that the places belong to.
pub fn for_each(documents: &[u32], stored: &[u8], mut each: impl FnMut(u32, u32)) -> Option<()> {
    let mut rest = Reader(stored);
    let mut documents = documents.iter();
    let (mut document, mut place) = (0, 0_u32);
    while !rest.is_empty() {
        let number = rest.number()?;
        if number & 1 == 1 {
            document = *documents.next()?;
            place = 0;
        }
        place = place.checked_add(u32::try_from(number >> 1).ok()?)?;
        each(document, place);
    }
    Some(())
}

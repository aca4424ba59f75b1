//! Response bodies that the host keeps, so that they are not copied again (`wit/platform.wit`).

use bytes::Bytes;
use std::cell::RefCell;

/// The number of bodies that the host keeps.
const SLOTS: usize = 16;

/// The largest kept body, in bytes.
const MAX_SIZE: usize = 128 << 10;

/// The smallest kept body, in bytes. The copy of a smaller body is as cheap as the look-up.
const MIN_SIZE: usize = 8 << 10;

/// The bodies that the host was given with a slot number.
#[derive(Default)]
pub struct KeptBodies(RefCell<Slots>);

#[derive(Default)]
struct Slots {
    /// By slot number. The references ensure that no other bytes get the same address.
    bodies: [Bytes; SLOTS],
    /// The slot that the next body gets.
    next: usize,
}

/// The way in which a body is passed to the host.
#[derive(Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The bytes, which the host does not keep.
    Bytes,
    /// The bytes, which the host keeps in this slot.
    Keep(u8),
    /// No bytes: the host has kept them in this slot.
    Kept(u8),
}

impl KeptBodies {
    /// Decides how `body` is passed to a host that keeps the bodies in the slots `kept` (bit 0 for slot 0). Only a body
    /// with other references, such as a cache's, can be sent again, so only such a body is kept.
    pub fn transfer(&self, body: &Bytes, kept: u16) -> Transfer {
        if !(MIN_SIZE..=MAX_SIZE).contains(&body.len()) || body.is_unique() {
            return Transfer::Bytes;
        }
        let slots = &mut *self.0.borrow_mut();
        let is_body = |given: &Bytes| given.as_ptr() == body.as_ptr() && given.len() == body.len();
        let known = slots.bodies.iter().zip(0_u8..).find(|(given, _)| is_body(given));
        if let Some((_, number)) = known {
            return if kept >> number & 1 == 1 { Transfer::Kept(number) } else { Transfer::Keep(number) };
        }
        let number = slots.next;
        slots.next = (number + 1) % SLOTS;
        match (slots.bodies.get_mut(number), u8::try_from(number)) {
            (Some(slot), Ok(number)) => {
                *slot = body.clone();
                Transfer::Keep(number)
            }
            _ => Transfer::Bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(size: usize) -> (Bytes, Bytes) {
        let body = Bytes::from(vec![b'x'; size]);
        (body.clone(), body)
    }

    #[test]
    fn a_body_of_a_cache_is_given_once() {
        let (kept, (body, cached)) = (KeptBodies::default(), shared(MIN_SIZE));
        assert_eq!(kept.transfer(&body, 0), Transfer::Keep(0));
        assert_eq!(kept.transfer(&cached, 0), Transfer::Keep(0), "the host has not kept it");
        assert_eq!(kept.transfer(&cached, 1), Transfer::Kept(0));
        assert_eq!(kept.transfer(&cached.slice(..MIN_SIZE), 1), Transfer::Kept(0));
        let (other, _cached) = shared(MIN_SIZE);
        assert_eq!(kept.transfer(&other, 1), Transfer::Keep(1), "equal bytes are not compared");
    }

    #[test]
    fn unshared_small_and_large_bodies_are_not_kept() {
        let kept = KeptBodies::default();
        for size in [0, MIN_SIZE - 1, MAX_SIZE + 1] {
            assert_eq!(kept.transfer(&shared(size).0, u16::MAX), Transfer::Bytes, "{size}");
        }
        assert_eq!(kept.transfer(&Bytes::from(vec![0; MIN_SIZE]), u16::MAX), Transfer::Bytes, "no cache holds it");
    }

    #[test]
    fn the_oldest_one_makes_room() {
        let kept = KeptBodies::default();
        let bodies: Vec<_> = (0..=SLOTS).map(|_| shared(MIN_SIZE)).collect();
        for (n, (body, _)) in bodies.iter().enumerate() {
            assert_eq!(kept.transfer(body, u16::MAX), Transfer::Keep((n % SLOTS) as u8));
        }
        assert_eq!(kept.transfer(&bodies[SLOTS].0, u16::MAX), Transfer::Kept(0));
        assert_eq!(kept.transfer(&bodies[0].0, u16::MAX), Transfer::Keep(1));
    }
}

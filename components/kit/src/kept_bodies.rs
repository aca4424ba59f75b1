//! Bodies of responses that the host keeps, so that they are not copied again (`wit/platform.wit`).

use bytes::Bytes;
use std::cell::RefCell;

/// How many the host keeps.
const NUMBERS: usize = 16;

/// The largest one, in bytes.
const MAX: usize = 128 << 10;

/// The smallest one: a copy of less costs as much as the look-up.
const MIN: usize = 8 << 10;

/// The bodies that the host was given with a number.
#[derive(Default)]
pub struct KeptBodies(RefCell<Given>);

#[derive(Default)]
struct Given {
    /// By number. They are held, so that no other bytes get their address.
    bodies: [Bytes; NUMBERS],
    /// The number that is given next.
    next: usize,
}

/// How a body gets to the host.
#[derive(Debug, PartialEq, Eq)]
pub enum Passage {
    /// As it is.
    Bytes,
    /// To be kept under this number.
    Keep(u8),
    /// The host keeps it under this number.
    Kept(u8),
}

impl KeptBodies {
    /// How `body` gets to a host that keeps the bodies of `kept`, bit 0 for number 0. Only one that others hold too, as
    /// a cache does, can be asked for again.
    pub fn passage(&self, body: &Bytes, kept: u16) -> Passage {
        if !(MIN..=MAX).contains(&body.len()) || body.is_unique() {
            return Passage::Bytes;
        }
        let given = &mut *self.0.borrow_mut();
        let is_body = |given: &Bytes| given.as_ptr() == body.as_ptr() && given.len() == body.len();
        let known = given.bodies.iter().zip(0_u8..).find(|(given, _)| is_body(given));
        if let Some((_, number)) = known {
            return if kept >> number & 1 == 1 { Passage::Kept(number) } else { Passage::Keep(number) };
        }
        let number = given.next;
        given.next = (number + 1) % NUMBERS;
        match (given.bodies.get_mut(number), u8::try_from(number)) {
            (Some(place), Ok(number)) => {
                *place = body.clone();
                Passage::Keep(number)
            }
            _ => Passage::Bytes,
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
        let (kept, (body, cached)) = (KeptBodies::default(), shared(MIN));
        assert_eq!(kept.passage(&body, 0), Passage::Keep(0));
        assert_eq!(kept.passage(&cached, 0), Passage::Keep(0), "the host has not kept it");
        assert_eq!(kept.passage(&cached, 1), Passage::Kept(0));
        assert_eq!(kept.passage(&cached.slice(..MIN), 1), Passage::Kept(0));
        let (other, _cached) = shared(MIN);
        assert_eq!(kept.passage(&other, 1), Passage::Keep(1), "equal bytes are not compared");
    }

    #[test]
    fn unshared_small_and_large_bodies_are_not_kept() {
        let kept = KeptBodies::default();
        for size in [0, MIN - 1, MAX + 1] {
            assert_eq!(kept.passage(&shared(size).0, u16::MAX), Passage::Bytes, "{size}");
        }
        assert_eq!(kept.passage(&Bytes::from(vec![0; MIN]), u16::MAX), Passage::Bytes, "no cache holds it");
    }

    #[test]
    fn the_oldest_one_makes_room() {
        let kept = KeptBodies::default();
        let bodies: Vec<_> = (0..=NUMBERS).map(|_| shared(MIN)).collect();
        for (n, (body, _)) in bodies.iter().enumerate() {
            assert_eq!(kept.passage(body, u16::MAX), Passage::Keep((n % NUMBERS) as u8));
        }
        assert_eq!(kept.passage(&bodies[NUMBERS].0, u16::MAX), Passage::Kept(0));
        assert_eq!(kept.passage(&bodies[0].0, u16::MAX), Passage::Keep(1));
    }
}

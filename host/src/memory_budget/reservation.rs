//! A part of the memory budget, given back when it is dropped.

use std::sync::Arc;

use super::MemoryBudget;

/// Bytes that one owner has taken.
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reservation {
    /// A reservation without bytes.
    pub fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Takes more bytes, if need be from idle instances. False if there are too few.
    pub fn grow(&mut self, bytes: u64) -> bool {
        let is_taken = self.budget.take(bytes);
        if is_taken {
            self.bytes += bytes;
        }
        is_taken
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_reservation_gives_its_bytes_back() {
        let budget = MemoryBudget::new(100);
        let mut reservation = Reservation::new(budget.clone());
        assert!(reservation.grow(60) && !reservation.grow(41) && reservation.grow(40));
        assert_eq!(budget.used(), 100);
        drop(reservation);
        assert_eq!(budget.used(), 0);
    }
}

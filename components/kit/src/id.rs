//! Identifiers of blobs and events: 48 bits of time (milliseconds), then 80 random bits, as 32 lower-case hex digits.
//! They sort by time, and the age of a blob can be read from its key.

use crate::clock::Timestamp;

/// A source of unpredictable bytes.
pub trait Entropy {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// A new id of 32 hex digits.
pub fn new(now: Timestamp, entropy: &dyn Entropy) -> String {
    let mut random = [0; 10];
    entropy.fill(&mut random);
    format!("{:012x}{}", now.millis() & 0xffff_ffff_ffff, hex::encode(random))
}

/// Parses an id; `None` if the text has another form.
pub fn number(id: &str) -> Option<u128> {
    let is_id = id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_id.then(|| u128::from_str_radix(id, 16).ok()).flatten()
}

/// The time at which an id was made.
pub fn made_at(number: u128) -> Timestamp {
    Timestamp::from_millis(i64::try_from(number >> 80).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CountingEntropy;

    #[test]
    fn an_id_tells_its_age_and_sorts_by_it() {
        let entropy = CountingEntropy::default();
        let (early, late) = (Timestamp::from_millis(1), Timestamp::from_millis(1_790_000_000_000));
        let (a, b) = (new(early, &entropy), new(late, &entropy));
        assert!(a < b);
        assert_eq!([a, b].map(|id| number(&id).map(made_at)), [Some(early), Some(late)]);
    }

    #[test]
    fn texts_that_are_no_ids_have_no_number() {
        let zeros = "0".repeat(33);
        for text in ["", "abc", "zz000000000000000000000000000000", "+0000000000000000000000000000000", &zeros] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}

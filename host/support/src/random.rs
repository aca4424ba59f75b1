//! Random tokens.

use std::io;

/// `bytes` bytes from the system's source of randomness, in lower-case hex.
pub fn token(bytes: usize) -> io::Result<String> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(hex::encode(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_their_length_and_differ() {
        let (a, b) = (token(16).unwrap(), token(16).unwrap());
        assert_eq!(a.len(), 32);
        assert_ne!(a, b);
    }
}

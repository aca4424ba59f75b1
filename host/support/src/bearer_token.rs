//! Tokens that are sent in an `Authorization` header.

use http::HeaderValue;

/// Whether a header can carry the token. White space at its ends would get lost, and non-ASCII characters would be read
/// as other text.
pub fn is_sendable(token: &str) -> bool {
    token.trim() == token && HeaderValue::from_str(token).is_ok_and(|value| value.to_str().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_gets_lost_in_a_header_is_not_sendable() {
        for token in ["secret", "two words", "a\tb", "!\"#~"] {
            assert!(is_sendable(token), "{token:?}");
        }
        for token in ["secret\n", "a\nb", " lead", "trail ", "\ttab", "ü", "\u{7f}", "\0", " "] {
            assert!(!is_sendable(token), "{token:?}");
        }
    }
}

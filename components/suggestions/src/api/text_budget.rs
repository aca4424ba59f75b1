//! A bound on the text of files in one response.

use http::StatusCode;
use kit::Error;

/// The most text of files that one response shows, in bytes.
const LIMIT: usize = 24 << 20;

/// How much text of files a response may still show.
pub struct TextBudget {
    /// In bytes.
    remaining: usize,
}

impl TextBudget {
    pub fn new() -> Self {
        TextBudget { remaining: LIMIT }
    }

    /// 400 if the response would show more than the bound.
    pub fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        let exceeded = || {
            let text = format!("400 Bad request - the suggestions' lines have more than {LIMIT} bytes together");
            Error::message(StatusCode::BAD_REQUEST, text)
        };
        self.remaining = self.remaining.checked_sub(bytes).ok_or_else(exceeded)?;
        Ok(())
    }
}

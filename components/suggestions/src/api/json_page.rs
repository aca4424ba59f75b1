//! The items of a list's page, as JSON, with a bound on their bytes.

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use kit::{Error, Response};
use serde_json::Value;

/// The most bytes that a page of several items has. 20 items with one of the longest texts each fit
/// ([`super::text_limit`]). A single item may be larger: it has bounds of its own.
pub const MAX_BYTES: usize = 48 << 20;

/// A page that is being made. Only its text is kept, not the items.
pub struct JsonPage {
    /// The name of the items in error messages, in the plural.
    items: &'static str,
    text: Vec<u8>,
    count: usize,
}

impl JsonPage {
    pub fn new(items: &'static str) -> Self {
        JsonPage { items, text: b"[".to_vec(), count: 0 }
    }

    /// 400 if the page would have more than [`MAX_BYTES`], unless this is its only item so far.
    pub fn push(&mut self, item: &Value) -> Result<(), Error> {
        if self.count > 0 {
            self.text.push(b',');
        }
        serde_json::to_writer(&mut self.text, item).map_err(|why| Error::internal(why.to_string()))?;
        self.count += 1;
        check_size(self.items, self.count, self.text.len())
    }

    pub fn into_response(mut self) -> Response {
        self.text.push(b']');
        let response = Response { body: self.text.into(), ..Response::new(http::StatusCode::OK) };
        response.with_header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
    }
}

/// 400 if several items together have more than [`MAX_BYTES`].
pub fn check_size(items: &str, count: usize, bytes: usize) -> Result<(), Error> {
    if count < 2 || bytes <= MAX_BYTES {
        return Ok(());
    }
    let text = format!(
        "the {items} of the page have more than {MAX_BYTES} bytes together, which is the most: ask for fewer with \
         per_page"
    );
    Err(Error::bad_request(&text))
}

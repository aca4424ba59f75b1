//! Bodies that a client may compress: git compresses those of a fetch, JGit also those of a push.

use bytes::Bytes;
use flate2::write::GzDecoder;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use kit::{Body, Error, Request, Response};
use std::io::Write;

/// How many compressed bytes are decompressed at once: they become a thousand times as many at most.
const INPUT: usize = 2 << 10;

/// The body of a request, decompressed as it streams in.
pub struct RequestBody {
    body: Body,
    gzip: Option<Gunzip>,
}

struct Gunzip {
    decoder: GzDecoder<Vec<u8>>,
    /// The part of the last chunk that was not decompressed yet.
    rest: Bytes,
    /// The most decompressed bytes of the body, and how many of them are left.
    limit: u64,
    left: u64,
    is_finished: bool,
}

impl RequestBody {
    /// Takes the body out of a request. A compressed body may have `limit` decompressed bytes; the host bounds any
    /// other body. 415 if it has an encoding other than gzip.
    pub fn of(request: &mut Request, limit: u64) -> Result<Self, Error> {
        let encoding = request.headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("unknown"));
        let gzip = match encoding {
            None | Some("identity") => None,
            Some("gzip" | "x-gzip") => Some(Gunzip {
                decoder: GzDecoder::new(Vec::new()),
                rest: Bytes::new(),
                limit,
                left: limit,
                is_finished: false,
            }),
            Some(other) => {
                let text = format!("The provided content-encoding '{other}' is not supported.");
                return Err(Error::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
            }
        };
        Ok(RequestBody { body: std::mem::take(&mut request.body), gzip })
    }

    /// The next bytes; `None` at the end. 400 if they are not gzip, or cut off, and 413 beyond the limit.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(gzip) = &mut self.gzip else { return Ok(self.body.next().await.transpose()?) };
        while !gzip.is_finished {
            if gzip.rest.is_empty() {
                match self.body.next().await.transpose()? {
                    Some(chunk) => gzip.rest = chunk,
                    None => gzip.finish()?,
                }
            }
            let bytes = gzip.decompress()?;
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// The whole body; 413 if it has more than `limit` bytes.
    pub async fn collect(mut self, limit: u64) -> Result<Vec<u8>, Error> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.next().await? {
            if (whole.len() + bytes.len()) as u64 > limit {
                return Err(Error::too_large(limit));
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }
}

impl Gunzip {
    fn decompress(&mut self) -> Result<Bytes, Error> {
        let input = self.rest.split_to(self.rest.len().min(INPUT));
        self.decoder.write_all(&input).map_err(|_| not_gzip())?;
        self.take()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.is_finished = true;
        self.decoder.try_finish().map_err(|_| not_gzip())
    }

    /// The bytes that were decompressed since the last call.
    fn take(&mut self) -> Result<Bytes, Error> {
        let bytes = Bytes::from(std::mem::take(self.decoder.get_mut()));
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| Error::too_large(self.limit))?;
        Ok(bytes)
    }
}

fn not_gzip() -> Error {
    Error::bad_request("the body is not gzip, or it is cut off")
}

/// 200 with a body of this media type, which a cache may not use again.
pub fn git_response(media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(StatusCode::OK);
    response.body = body;
    response
        .with_header(CONTENT_TYPE, HeaderValue::from_static(media_type))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"))
}

/// Why a request is refused, as git prints it.
pub fn refusal_text(error: &Error) -> String {
    let body = error.to_json();
    let words = ["message", "error_description", "error"].iter().find_map(|key| body.get(key)?.as_str());
    let text = match error.status {
        StatusCode::NOT_FOUND => {
            "The project you were looking for could not be found or you don't have permission to view it."
        }
        _ => words.unwrap_or("403 Forbidden"),
    };
    text.to_owned()
}

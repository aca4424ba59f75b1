//! Receives the body: decodes, hashes, inspects and stages the file while it arrives.

use super::error::PublishError;
use crate::api::error::same_text;
use crate::api::limits;
use crate::api::request::RegistryRequest;
use crate::base64_decoder::Sink;
use crate::document::{DocumentError, DocumentReadError, DocumentReader, Envelope, Limits};
use crate::integrity::{ComputedDigests, Hasher};
use crate::store::Staging;
use crate::tarball::{Contents, TarballError, TarballInspector, TarballLimits};
use http::StatusCode;
use http::header::CONTENT_ENCODING;
use kit::Error;
use kit::body::Body;
use kit::store::StoreError;
use memchr::memmem;

/// Deepest nesting. Manifests are a few levels deep; parsers of clients recurse.
const MAX_DEPTH: u32 = 64;

/// The limits of the document. The error is 413 or 415 if the request's headers announce a body that is
/// not accepted.
pub fn limits(request: &RegistryRequest) -> Result<Limits, Error> {
    let limits =
        Limits { envelope: limits::document(&request.env), file: limits::file(&request.env), depth: MAX_DEPTH };
    let most = limits.file.div_ceil(3).saturating_mul(4).saturating_add(limits.envelope as u64);
    if request.http.content_length().is_some_and(|length| length > most) {
        return Err(Error::too_large(most));
    }
    if let Some(encoding) = request.http.header(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        let text = format!("The provided content-encoding '{encoding}' is not supported.");
        return Err(Error::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    Ok(limits)
}

/// The sink of the file.
pub struct FileReceiver {
    limits: TarballLimits,
    /// Set when the file begins.
    readers: Option<(Hasher, TarballInspector)>,
    pub staging: Staging,
}

impl FileReceiver {
    pub fn new(request: &RegistryRequest) -> Self {
        FileReceiver { limits: limits::tarball(&request.env), readers: None, staging: Staging::new(&request.env) }
    }

    /// The digests and contents of the file; `None` if no file began.
    pub fn finish(&mut self) -> Option<(ComputedDigests, Result<Contents, TarballError>)> {
        let (hasher, inspector) = self.readers.take()?;
        Some((hasher.finish(), inspector.finish()))
    }
}

impl Sink for FileReceiver {
    type Error = StoreError;

    fn begin(&mut self, before: &[u8]) {
        // Weaker hashes are needed only if the document declares nothing stronger. It may do so
        // after the file.
        let hasher = Hasher::new(memmem::find(before, b"sha512-").is_none());
        self.readers = Some((hasher, TarballInspector::new(self.limits)));
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        if let Some((hasher, inspector)) = &mut self.readers {
            hasher.update(piece);
            inspector.feed(piece);
        }
        self.staging.write(piece)
    }
}

/// Reads the whole body. The file goes to `receiver`.
pub async fn document(body: &mut Body, limits: Limits, receiver: &mut FileReceiver) -> Result<Envelope, PublishError> {
    let mut reader = DocumentReader::new(limits);
    while let Some(chunk) = body.next().await {
        reader.feed(&chunk.map_err(Error::from)?, receiver).map_err(|error| match error {
            DocumentReadError::Sink(error) => PublishError::Storage(error),
            DocumentReadError::Document(error) => PublishError::Rejected(document_error(&error)),
        })?;
    }
    Ok(reader.finish())
}

fn document_error(error: &DocumentError) -> Error {
    match error {
        DocumentError::EnvelopeTooLarge(_) => {
            let text = format!("{error}, the limit in the variable {}", limits::MAX_DOCUMENT);
            same_text(StatusCode::PAYLOAD_TOO_LARGE, text)
        }
        DocumentError::FileTooLarge(..) => same_text(StatusCode::BAD_REQUEST, "File is too large."),
        DocumentError::TooDeep(_) | DocumentError::Malformed(_) | DocumentError::SecondFile(..) => {
            same_text(StatusCode::BAD_REQUEST, error.to_string())
        }
    }
}

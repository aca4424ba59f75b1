//! Receives the body: decodes, hashes, inspects and stages the file while it arrives.

use super::error::PublishError;
use crate::api::error::same_text;
use crate::api::request::RegistryRequest;
use crate::base64_decoder::Sink;
use crate::document::{DocumentError, DocumentReadError, DocumentReader, Envelope, Limits};
use crate::integrity::{ComputedDigests, Hasher};
use crate::store::Staging;
use crate::tarball::{Contents, TarballError, TarballInspector};
use http::StatusCode;
use http::header::CONTENT_ENCODING;
use kit::Error;
use kit::body::Body;
use kit::store::StoreError;
use memchr::memmem;

/// The variable with the size of the largest file, in bytes.
pub const MAX_FILE: &str = "registry_max_tarball_bytes";

/// The reference service's default: 500 MiB.
const DEFAULT_MAX_FILE: u64 = 500 << 20;

/// The variable with the largest unpacked size of a file, in bytes.
pub const MAX_UNPACKED: &str = "registry_max_unpacked_bytes";

/// Four times the largest file: text compresses to a quarter. Unpacking it takes some seconds.
const DEFAULT_MAX_UNPACKED: u64 = 2 << 30;

/// Largest envelope, in bytes. To deprecate or unpublish a version, clients send back the metadata of a package with
/// thousands of versions. It has the stored records, at most [`crate::package::MAX_STORED`], and the address of each
/// file and the time of each version.
pub const MAX_ENVELOPE: usize = 32 << 20;

/// Deepest nesting. Manifests are a few levels deep; parsers of clients recurse.
const MAX_DEPTH: u32 = 64;

/// The limits of the document. The error is 413 or 415 if the request's headers announce a body that is
/// not accepted.
pub fn limits(request: &RegistryRequest) -> Result<Limits, Error> {
    let limits = Limits {
        envelope: MAX_ENVELOPE,
        file: request.env.variables.number(MAX_FILE, DEFAULT_MAX_FILE),
        depth: MAX_DEPTH,
    };
    let most = limits.file.div_ceil(3).saturating_mul(4).saturating_add(MAX_ENVELOPE as u64);
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
    /// Limit in bytes.
    max_unpacked: u64,
    /// Set when the file begins.
    readers: Option<(Hasher, TarballInspector)>,
    pub staging: Staging,
}

impl FileReceiver {
    pub fn new(request: &RegistryRequest) -> Self {
        let max_unpacked = request.env.variables.number(MAX_UNPACKED, DEFAULT_MAX_UNPACKED);
        FileReceiver { max_unpacked, readers: None, staging: Staging::new(&request.env) }
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
        self.readers = Some((hasher, TarballInspector::new(self.max_unpacked)));
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
        DocumentError::EnvelopeTooLarge(_) => same_text(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
        DocumentError::FileTooLarge(..) => same_text(StatusCode::BAD_REQUEST, "File is too large."),
        DocumentError::TooDeep(_) | DocumentError::Malformed(_) | DocumentError::SecondFile(..) => {
            same_text(StatusCode::BAD_REQUEST, error.to_string())
        }
    }
}

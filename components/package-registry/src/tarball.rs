//! Inspects a package's file, a gzipped tar archive, while it arrives.
//!
//! Installers unpack the archive with different programs, on different file systems. An archive that has
//! two readings is refused, and so is one that could write outside the package's folder. Some clients pack
//! links, so links that stay inside and stand for nothing that is installed are allowed.

mod archive;
mod contents;
mod error;
mod header;
mod link;
mod name;
mod package_json;
mod records;
mod tree;

pub use contents::{Contents, Totals};
pub use error::{TarballError, excerpt};
pub use package_json::PackageJson;

use archive::Archive;
use flate2::write::GzDecoder;
use std::io::{self, Write as _};

/// Inspects a file that arrives in pieces. After the first error the rest is not unpacked.
pub struct TarballInspector(Result<GzDecoder<Archive>, TarballError>);

impl TarballInspector {
    /// `limit`: bytes to which the file may unpack. Deflate expands a byte to at most 1032, so
    /// without a limit a publisher could keep a host busy for hours.
    pub fn new(limit: u64) -> Self {
        TarballInspector(Ok(GzDecoder::new(Archive::new(limit))))
    }

    pub fn feed(&mut self, piece: &[u8]) {
        if let Ok(decoder) = &mut self.0
            && let Err(why) = decoder.write_all(piece)
        {
            self.0 = Err(tarball_error(why));
        }
    }

    /// The end of the file.
    pub fn finish(self) -> Result<Contents, TarballError> {
        self.0?.finish().map_err(tarball_error)?.finish()
    }
}

/// The error of the archive, or of the gzip decoder. That one takes no byte after the first member, since
/// some programs unpack further members and some do not.
fn tarball_error(why: io::Error) -> TarballError {
    if why.kind() == io::ErrorKind::WriteZero {
        return TarballError::Gzip("something follows its first member".to_owned());
    }
    why.downcast::<TarballError>().unwrap_or_else(|why| TarballError::Gzip(why.to_string()))
}

#[cfg(test)]
pub mod tests;

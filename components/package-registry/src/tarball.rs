//! Inspects a package's file, a gzipped tar archive, while it arrives.
//!
//! Installers unpack the archive with different programs, on different file systems. An archive is refused if programs
//! could read it differently, or if it could write outside the package's folder. Some clients pack links. A link is
//! allowed if it stays inside and stands for nothing that is installed.

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
pub use error::{TarballError, TarballLimits, excerpt};
pub use package_json::PackageJson;

use archive::Archive;
use flate2::write::GzDecoder;
use std::io::{self, Write as _};

/// Inspects a file that arrives in pieces. After the first error the rest is not unpacked.
pub struct TarballInspector {
    decoder: Result<GzDecoder<Archive>, TarballError>,
    /// The first gzip member has ended.
    ended: bool,
}

impl TarballInspector {
    /// Deflate expands a byte to at most 1032, so without limits a publisher could keep a host busy for hours.
    pub fn new(limits: TarballLimits) -> Self {
        TarballInspector { decoder: Ok(GzDecoder::new(Archive::new(limits))), ended: false }
    }

    pub fn feed(&mut self, piece: &[u8]) {
        if let Err(error) = self.try_feed(piece) {
            self.decoder = Err(error);
        }
    }

    fn try_feed(&mut self, mut piece: &[u8]) -> Result<(), TarballError> {
        let Ok(decoder) = &mut self.decoder else { return Ok(()) };
        while !self.ended && !piece.is_empty() {
            let taken = decoder.write(piece).map_err(tarball_error)?;
            // The decoder takes no byte after the first member.
            self.ended = taken == 0;
            piece = piece.get(taken..).unwrap_or_default();
        }
        // Some programs unpack further members and some do not. All stop at zeros, with which bsdtar pads its output
        // to a pipe.
        match piece.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(TarballError::Gzip("something follows its first member".to_owned())),
        }
    }

    /// The end of the file.
    pub fn finish(self) -> Result<Contents, TarballError> {
        self.decoder?.finish().map_err(tarball_error)?.finish()
    }
}

/// The error of the archive, or of the gzip decoder.
fn tarball_error(why: io::Error) -> TarballError {
    why.downcast::<TarballError>().unwrap_or_else(|why| TarballError::Gzip(why.to_string()))
}

#[cfg(test)]
pub mod tests;

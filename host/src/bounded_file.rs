//! Files that others have made: what is read of one has a bound, because a device or a mistake has no end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest component that is accepted, in bytes.
pub const MAX_COMPONENT_BYTES: usize = 256 * 1024 * 1024;

/// Reads a component.
pub fn read_component(path: &Path) -> io::Result<Vec<u8>> {
    read(path, MAX_COMPONENT_BYTES)
}

/// Reads a file of at most `limit` bytes.
pub fn read(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let too_large =
        || io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes, which is the limit"));
    if length > limit as u64 {
        return Err(too_large());
    }
    let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    file.take(limit as u64 + 1).read_to_end(&mut content)?;
    if content.len() > limit { Err(too_large()) } else { Ok(content) }
}

/// Reads a text of at most `limit` bytes.
pub fn read_text(path: &Path, limit: usize) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "it has more than 1000 bytes, which is the limit");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, [1; 10]).unwrap();
        assert_eq!(read(&path, 10).unwrap(), [1; 10]);
        assert_eq!(read(&path, 9).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}

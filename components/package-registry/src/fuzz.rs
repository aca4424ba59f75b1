//! Properties that hold for any bytes: the bodies of the targets in `fuzz/`. `cargo test` runs them
//! over the corpus.

use crate::base64_decoder::Sink;
use crate::document::{DocumentReadError, DocumentReader, Envelope, Limits};
use crate::submission::Submission;
use crate::tarball::{Contents, TarballError, TarballInspector, TarballLimits, Totals};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::de::IgnoredAny;
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use tar::EntryType;

const LIMIT: usize = 1 << 20;

/// Collects the file.
#[derive(Debug, Default, PartialEq, Eq)]
struct CollectedFile(Vec<u8>);

impl Sink for CollectedFile {
    type Error = Infallible;

    fn write(&mut self, piece: &[u8]) -> Result<(), Infallible> {
        self.0.extend_from_slice(piece);
        Ok(())
    }
}

/// The result does not depend on how a document is cut into pieces, and the envelope is JSON exactly if
/// the document is.
pub fn document(bytes: &[u8]) {
    let outcome = read(bytes, bytes.len().max(1));
    assert_eq!(read(bytes, bytes.len() % 7 + 1), outcome);
    let Ok((envelope, _)) = outcome else { return };
    let is_json = |bytes| serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    assert_eq!(is_json(&envelope.bytes), is_json(bytes));
    if Submission::read(&envelope).is_ok() {
        assert!(is_json(bytes));
    }
}

fn read(bytes: &[u8], piece: usize) -> Result<(Envelope, CollectedFile), DocumentReadError<Infallible>> {
    let mut document = DocumentReader::new(Limits { envelope: LIMIT, file: LIMIT as u64, depth: 64 });
    let mut file = CollectedFile::default();
    for piece in bytes.chunks(piece) {
        document.feed(piece, &mut file)?;
    }
    Ok((document.finish(), file))
}

/// Whether a tarball is accepted does not depend on how it is cut into pieces. The first of several errors may depend
/// on it.
pub fn tarball(bytes: &[u8]) {
    assert_eq!(inspect(bytes, bytes.len() % 7 + 1).ok(), inspect(bytes, bytes.len().max(1)).ok());
}

/// The `tar` crate reads an accepted archive in the same way. Checksums and the compression are made
/// valid first, because a fuzzer does not find valid ones.
pub fn archive(bytes: &[u8]) {
    let mut tar = bytes.to_vec();
    for block in tar.chunks_mut(512) {
        write_checksum(block);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    let Ok(file) = encoder.write_all(&tar).and_then(|()| encoder.finish()) else { return };
    tarball(&file);
    if let Ok(contents) = inspect(&file, file.len()) {
        assert_eq!(read_with_tar(&tar), Some((contents.manifest, contents.totals)));
    }
}

/// Writes the checksum of a block that has the magic of a header.
fn write_checksum(block: &mut [u8]) {
    if block.get(257..262) == Some(b"ustar") {
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| if at / 4 == 37 || at / 4 == 38 { 32 } else { u32::from(*byte) })
            .sum();
        if let Some(field) = block.get_mut(148..156) {
            field.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}

fn inspect(file: &[u8], piece: usize) -> Result<Contents, TarballError> {
    let mut inspector = TarballInspector::new(TarballLimits { unpacked: LIMIT as u64, entries: 100_000 });
    file.chunks(piece).for_each(|piece| inspector.feed(piece));
    inspector.finish()
}

/// The manifest and the totals of an archive as the `tar` crate reads it; `None` if the crate refuses it.
fn read_with_tar(tar: &[u8]) -> Option<(Option<Vec<u8>>, Totals)> {
    let (mut manifest, mut totals) = (None, Totals::default());
    for entry in tar::Archive::new(tar).entries().ok()? {
        let mut entry = entry.ok()?;
        let path = entry.path_bytes().into_owned();
        let is_file = matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Continuous);
        if !is_file || path.ends_with(b"/") {
            continue;
        }
        totals.files += 1;
        totals.size += entry.size();
        if path.iter().filter(|byte| **byte == b'/').count() == 1 && path.ends_with(b"/package.json") {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).ok()?;
            manifest = Some(content);
        }
    }
    Some((manifest, totals))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::PackageName;
    use crate::version::Version;
    use std::fs;
    use std::path::PathBuf;

    fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/").to_owned() + target;
        let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        assert!(files.len() >= 3);
        files
    }

    /// Runs each target over the corpus files: whole, cut off, and with one byte changed.
    #[test]
    fn the_properties_hold_for_the_corpus() {
        for (name, target) in [("document", document as fn(&[u8])), ("tarball", tarball), ("archive", archive)] {
            for (_, mut bytes) in corpus(name) {
                target(&bytes);
                for at in (0..bytes.len()).step_by(bytes.len() / 100 + 1) {
                    target(&bytes[..at]);
                    bytes[at] ^= 1;
                    target(&bytes);
                    bytes[at] ^= 1;
                }
            }
        }
    }

    #[test]
    fn the_packages_of_all_clients_are_accepted() {
        let (name, version) = (PackageName::parse("thing").unwrap(), Version::parse("1.0.0").unwrap());
        for (path, file) in corpus("tarball") {
            let contents = inspect(&file, file.len()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let verified = contents.package_json().and_then(|file| file.verify(&name, &version));
            assert_eq!(verified, Ok(()), "{}", path.display());
        }
        for (path, document) in corpus("document") {
            let (_, CollectedFile(file)) = read(&document, 100).unwrap();
            let packed = path.to_str().unwrap().replace("document", "tarball").replace(".json", ".tgz");
            assert_eq!(file, fs::read(packed).unwrap());
        }
    }
}

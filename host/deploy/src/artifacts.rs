//! The files of deployed components, named by their digests.

use std::fs;
use std::io;
use std::path::PathBuf;

use hexad_support::bounded_file;
use hexad_support::digest::Digest;
use hexad_support::private_files::{self, UNFINISHED};

use super::policy::Signature;

const EXTENSION: &str = "wasm";

/// A folder of `<digest>.wasm` files, and `<digest>.wasm.sig` with their signatures.
pub struct Artifacts {
    folder: PathBuf,
}

impl Artifacts {
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        private_files::create_folder(&folder)?;
        Ok(Self { folder })
    }

    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(format!("{digest}.{EXTENSION}"))
    }

    /// Reads a component. An error if its bytes do not have the digest.
    pub fn read(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        let wasm = bounded_file::read_component(&self.path(digest))?;
        match Digest::of(&wasm) == *digest {
            true => Ok(wasm),
            false => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "its content does not have the digest of its name"))
            }
        }
    }

    pub fn has(&self, digest: &Digest) -> bool {
        self.path(digest).exists()
    }

    /// Writes a component. It is on disk when this returns.
    pub fn keep(&self, digest: &Digest, wasm: &[u8], signature: Option<&Signature>) -> io::Result<()> {
        let path = self.path(digest);
        if let Some(signature) = signature {
            private_files::replace(&Signature::beside(&path), &[signature.as_bytes()])?;
        }
        if self.read(digest).is_ok() {
            return Ok(());
        }
        private_files::replace(&path, &[wasm])
    }

    /// Removes the files of all digests except `wanted`, and the ones that a killed host has not completed.
    pub fn prune(&self, wanted: &[Digest]) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let digest = name.split('.').next().and_then(|first| first.parse::<Digest>().ok());
            if digest.is_some_and(|digest| !wanted.contains(&digest) || name.ends_with(UNFINISHED)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pruning_removes_unwanted_components_and_keeps_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::open(folder.path().join("components")).unwrap();
        let signature: Signature = "QUJD".repeat(21).chars().chain("QQ==".chars()).collect::<String>().parse().unwrap();
        let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
        artifacts.keep(&one, b"one", None).unwrap();
        artifacts.keep(&two, b"two", Some(&signature)).unwrap();
        assert_eq!(artifacts.read(&one).unwrap(), b"one");
        fs::write(folder.path().join("components/active.json"), "{}").unwrap();
        let unfinished = folder.path().join(format!("components/{two}.wasmAb1{UNFINISHED}"));
        fs::write(&unfinished, "t").unwrap();
        artifacts.prune(&[two]).unwrap();
        assert!(artifacts.read(&one).is_err() && !artifacts.has(&one) && !unfinished.exists());
        assert_eq!(artifacts.read(&two).unwrap(), b"two");
        assert_eq!(Signature::read(&Signature::beside(&artifacts.path(&two))).unwrap(), Some(signature));
        artifacts.prune(&[]).unwrap();
        let left: Vec<_> = fs::read_dir(folder.path().join("components")).unwrap().collect();
        assert_eq!(left.len(), 1, "the record stays: {left:?}");
    }

    #[test]
    fn damaged_bytes_are_not_served_and_can_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::open(folder.path().join("components")).unwrap();
        let digest = Digest::of(b"whole");
        artifacts.keep(&digest, b"whole", None).unwrap();
        fs::write(artifacts.path(&digest), b"holes").unwrap();
        assert!(artifacts.read(&digest).unwrap_err().to_string().contains("digest"));
        artifacts.keep(&digest, b"whole", None).unwrap();
        assert_eq!(artifacts.read(&digest).unwrap(), b"whole");
    }
}

//! The files of deployed components, named by their digests.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::policy::Signature;
use crate::digest::Digest;
use crate::{bounded_file, private_files};

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
            replace_file(&Signature::beside(&path), signature.as_bytes())?;
        }
        if self.read(digest).is_ok() {
            return Ok(());
        }
        replace_file(&path, wasm)
    }

    /// Removes the files of all digests except `wanted`.
    pub fn prune(&self, wanted: &[Digest]) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let first = name.to_str().and_then(|name| name.split('.').next());
            let digest = first.and_then(|first| first.parse::<Digest>().ok());
            if digest.is_some_and(|digest| !wanted.contains(&digest)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Atomically replaces the file at `path`: after a crash it has the old bytes or the new ones. After an error, the host
/// removes the new bytes: on a full disk, the store needs the space.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    write_whole(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path)).inspect_err(|_| {
        let _ = fs::remove_file(&unfinished);
    })?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private_files::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
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
        artifacts.prune(&[two]).unwrap();
        assert!(artifacts.read(&one).is_err() && !artifacts.has(&one));
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

    /// A failed rename simulates a full disk: after either, the host removes the unfinished file.
    #[test]
    fn a_file_that_cannot_be_replaced_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // A file cannot replace a folder that is not empty.
        fs::create_dir_all(path.join("child")).unwrap();
        assert!(replace_file(&path, b"new").is_err());
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["file"]);
    }
}

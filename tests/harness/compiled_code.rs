//! Machine code of the built components, kept in the target folder, so that a test's server starts without compiling. A
//! server that finds no code here compiles as usual.

use crate::server::{root, target};
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The folder of compiled code in a server's data folder.
const FOLDER: &str = "code";

static CACHE: LazyLock<Cache> = LazyLock::new(|| Cache::open(target().join("tmp/compiled")));

struct Cache {
    folder: PathBuf,
    /// SHA-256 of the areas' components, with which the names of their files begin.
    areas: HashSet<String>,
    /// The same of all components in `dist/`.
    digests: HashSet<String>,
}

/// Starts a server on a data folder with the cached code, and caches the code that this server compiles. While the code
/// of an area is missing, the servers of all tests start one after the other, so that it is compiled once.
pub fn reuse<T>(data: &Path, start: impl FnOnce() -> T) -> T {
    let alone = CACHE.lock_until_filled();
    let folder = data.join(FOLDER);
    CACHE.copy_to(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let started = start();
    CACHE.copy_from(&folder).unwrap_or_else(|error| panic!("{}: {error}", CACHE.folder.display()));
    drop(alone);
    started
}

impl Cache {
    fn open(folder: PathBuf) -> Self {
        let [areas, fixtures] = ["dist", "dist/fixtures"].map(|built| -> HashSet<String> {
            let components = files(&root().join(built)).into_iter().filter(|path| path.extension().is_some());
            let bytes = components.filter_map(|path| fs::read(path).ok());
            bytes.map(|wasm| hex::encode(Sha256::digest(wasm))).collect()
        });
        let digests = areas.union(&fixtures).cloned().collect();
        let cache = Cache { folder, areas, digests };
        // Removes the code of earlier builds.
        let outdated = files(&cache.folder).into_iter().filter(|path| !cache.is_current(path));
        outdated.for_each(|path| drop(fs::remove_file(path)));
        // Earlier builds made the code readable for others. A link has the mode of its file.
        files(&cache.folder).iter().for_each(|path| drop(fs::set_permissions(path, Permissions::from_mode(0o600))));
        cache
    }

    /// A lock against the starts of other tests, if the code of an area is missing.
    fn lock_until_filled(&self) -> Option<File> {
        if self.is_filled() {
            return None;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).expect("a folder");
        let lock = File::create(self.folder.with_extension("lock")).expect("a file");
        lock.lock().expect("a lock");
        // Another test may have filled it meanwhile.
        (!self.is_filled()).then_some(lock)
    }

    fn is_filled(&self) -> bool {
        let names: Vec<String> =
            files(&self.folder).iter().filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect();
        self.areas.iter().all(|digest| names.iter().any(|name| name.starts_with(digest.as_str())))
    }

    fn is_current(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.extension().is_some_and(|extension| extension == "cwasm")
            && name.split_once('-').is_some_and(|(digest, _)| self.digests.contains(digest))
    }

    fn copy_to(&self, folder: &Path) -> io::Result<()> {
        self.copy(&self.folder, folder)
    }

    fn copy_from(&self, folder: &Path) -> io::Result<()> {
        self.copy(folder, &self.folder)
    }

    /// Links files: the host replaces a file of code by another and never writes into it.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        // The host uses no code folder that others can write.
        DirBuilder::new().recursive(true).mode(0o700).create(to)?;
        for path in files(from).into_iter().filter(|path| self.is_current(path)) {
            let copy = to.join(path.file_name().unwrap_or_default());
            if copy.exists() {
                continue;
            }
            match fs::hard_link(&path, &copy) {
                // Another test has linked the file first.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // On another file system. The host checks a file's digest, so a torn copy does no harm.
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => drop(fs::copy(&path, &copy)?),
                result => result?,
            }
        }
        Ok(())
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

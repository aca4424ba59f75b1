//! Machine code of the built components, kept in the target folder, so that a test's server starts
//! without compiling. A server that finds nothing here compiles as usual.

use crate::server::{root, target};
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The folder of compiled code in a server's data folder.
const FOLDER: &str = "code";

static CACHE: LazyLock<Cache> = LazyLock::new(|| Cache::open(target().join("tmp/compiled")));

/// Whether a server of this test program has started, so that the cache is filled.
static IS_FILLED: Mutex<bool> = Mutex::new(false);

struct Cache {
    folder: PathBuf,
    /// SHA-256 of the components in `dist/`, with which the names of their files begin.
    digests: HashSet<String>,
}

/// Starts a server on a data folder that has the cached code, and caches the code that this server compiled.
/// The first start of this test program goes alone, so that each component is compiled once.
pub fn reuse<T>(data: &Path, start: impl FnOnce() -> T) -> T {
    let mut is_filled = IS_FILLED.lock().unwrap_or_else(PoisonError::into_inner);
    let alone = (!*is_filled).then(|| {
        *is_filled = true;
        is_filled
    });
    let folder = data.join(FOLDER);
    CACHE.copy_to(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let started = start();
    CACHE.copy_from(&folder).unwrap_or_else(|error| panic!("{}: {error}", CACHE.folder.display()));
    drop(alone);
    started
}

impl Cache {
    fn open(folder: PathBuf) -> Self {
        let built = [root().join("dist"), root().join("dist/fixtures")];
        let components = built.iter().flat_map(|folder| files(folder)).filter(|path| path.extension().is_some());
        let digests = components.filter_map(|path| fs::read(path).ok()).map(|wasm| hex::encode(Sha256::digest(wasm)));
        let cache = Cache { folder, digests: digests.collect() };
        // The code of earlier builds.
        let outdated = files(&cache.folder).into_iter().filter(|path| !cache.is_current(path));
        outdated.for_each(|path| drop(fs::remove_file(path)));
        // Earlier builds let others read the code; a link has the mode of the file.
        files(&cache.folder).iter().for_each(|path| drop(fs::set_permissions(path, Permissions::from_mode(0o600))));
        cache
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
        // The host uses no folder of code that others can write.
        DirBuilder::new().recursive(true).mode(0o700).create(to)?;
        for path in files(from).into_iter().filter(|path| self.is_current(path)) {
            let copy = to.join(path.file_name().unwrap_or_default());
            if copy.exists() {
                continue;
            }
            match fs::hard_link(&path, &copy) {
                // Another test was faster.
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

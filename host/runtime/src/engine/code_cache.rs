//! Compiled code on disk, so that a restart does not compile.
//!
//! The host executes the code in these files, so it uses only files that it has written itself. The folder and each
//! file belong to this user, and others cannot write to them. The folder alone does not prove it: a user who can write
//! to the parent folder can replace it while the host runs. Each file contains the digest of its code. The host checks
//! it on the same bytes in memory that it then uses. It replaces a file that is damaged or made for another engine.

use std::collections::HashSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hexad_support::digest::Digest;
use hexad_support::private_files::{self, UNFINISHED};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::compilations::Compilations;

/// The first bytes of a cache file. The number is the version of this layout.
const MAGIC: &[u8; 8] = b"hexadc\0\x01";

const EXTENSION: &str = "cwasm";

/// How long the cache keeps code that no host has used, and how many such files at most.
const MAX_UNUSED_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const MAX_UNUSED_FILES: usize = 16;

/// Why the host cannot use the cache folder.
#[derive(Debug, thiserror::Error)]
pub enum CodeCacheError {
    #[error("cannot use the folder {path} for compiled code: {source}; choose another folder with --data")]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "the folder {path} holds compiled code and must be yours alone, but {finding}; \
         remove it, and the host makes a new one"
    )]
    NotPrivate { path: PathBuf, finding: String },
}

pub struct CodeCache {
    folder: PathBuf,
    /// Distinguishes wasmtime versions, engine settings and processors.
    compatibility: u64,
}

impl CodeCache {
    pub fn open(folder: PathBuf, engine: &Engine) -> Result<Self, CodeCacheError> {
        let refuse = |source| CodeCacheError::Io { path: folder.clone(), source };
        private_files::create_folder(&folder).map_err(refuse)?;
        let metadata = fs::symlink_metadata(&folder).map_err(refuse)?;
        let finding = if !metadata.is_dir() {
            Some("it is not a folder".to_owned())
        } else if metadata.uid() != rustix::process::geteuid().as_raw() {
            Some(format!("it belongs to user {}", metadata.uid()))
        } else if metadata.mode() & 0o022 != 0 {
            Some(format!("its mode {:o} lets others write", metadata.mode() & 0o777))
        } else {
            None
        };
        if let Some(finding) = finding {
            return Err(CodeCacheError::NotPrivate { path: folder, finding });
        }
        restrict_files(&folder).map_err(refuse)?;
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { folder, compatibility: hasher.finish() })
    }

    pub fn load_or_compile(
        &self,
        engine: &Engine,
        digest: &Digest,
        (id, wasm): (&str, &[u8]),
        compilations: &Compilations,
    ) -> wasmtime::Result<Component> {
        let path = self.folder.join(self.file_name(digest));
        if let Some(component) = load(engine, &path) {
            // The file's time says when it was last used.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(component);
        }
        // Declared first, so that it is dropped after the code.
        let _compilation = compilations.begin(id, wasm.len());
        let code = engine.precompile_component(wasm)?;
        save(&path, &code);
        // SAFETY: the same engine has just made `code` from the component.
        unsafe { Component::deserialize(engine, &code) }
    }

    /// Saves code of another engine's, unless there is code for this component already. [`load`] checks that this
    /// engine can run it.
    pub fn adopt(&self, digest: &Digest, code: &[u8]) {
        let path = self.folder.join(self.file_name(digest));
        if !path.exists() {
            save(&path, code);
        }
    }

    fn file_name(&self, digest: &Digest) -> String {
        format!("{digest}-{:016x}.{EXTENSION}", self.compatibility)
    }

    /// Removes code that is not `wanted`: files unused for [`MAX_UNUSED_AGE`], and the oldest above
    /// [`MAX_UNUSED_FILES`]. The rest saves a compilation if a component or an older host comes back.
    pub fn prune(&self, wanted: &[Digest], now: SystemTime) -> io::Result<()> {
        let wanted: HashSet<String> = wanted.iter().map(|digest| self.file_name(digest)).collect();
        let mut unused = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            // A killed host has left an unfinished file, or another one is writing it.
            if (name.ends_with(EXTENSION) || name.ends_with(UNFINISHED)) && !wanted.contains(name) {
                unused.push((entry.metadata()?.modified()?, entry.path()));
            }
        }
        unused.sort();
        let surplus = unused.len().saturating_sub(MAX_UNUSED_FILES);
        for (index, (used_at, path)) in unused.into_iter().enumerate() {
            let age = now.duration_since(used_at).unwrap_or_default();
            if index < surplus || age > MAX_UNUSED_AGE {
                private_files::remove(&path)?;
                tracing::debug!(path = %path.display(), "compiled code that was not used was removed");
            }
        }
        Ok(())
    }
}

/// Makes files private that an earlier version has made readable.
fn restrict_files(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            private_files::make_private(&path)?;
        }
    }
    Ok(())
}

fn save(path: &Path, code: &[u8]) {
    if let Err(error) = private_files::replace(path, &[MAGIC, Digest::of(code).as_bytes(), code]) {
        tracing::warn!(path = %path.display(), %error, "cannot save the compiled code; the next start compiles again");
    }
}

fn load(engine: &Engine, path: &Path) -> Option<Component> {
    let bytes = match private_files::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read compiled code; compiling again");
            return None;
        }
    };
    let code = verified_code(&bytes).or_else(|| {
        tracing::warn!(path = %path.display(), "compiled code is damaged; compiling again");
        None
    })?;
    // SAFETY: only this user can write the file, and this program wrote it for this engine configuration. These very
    // bytes have the digest that was written with them.
    match unsafe { Component::deserialize(engine, code) } {
        Ok(component) => Some(component),
        Err(error) => {
            tracing::warn!(path = %path.display(), error = %format!("{error:#}"), "the compiled code cannot be used; compiling again");
            None
        }
    }
}

/// The code in a cache file. `None` if it differs from the code that was written.
fn verified_code(file: &[u8]) -> Option<&[u8]> {
    let rest = file.strip_prefix(MAGIC)?;
    let (digest, code) = rest.split_first_chunk::<32>()?;
    (Digest::of(code).as_bytes() == digest).then_some(code)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    fn load_or_compile(cache: &CodeCache, engine: &Engine, digest: &Digest) -> wasmtime::Result<Component> {
        cache.load_or_compile(engine, digest, ("probe", COMPONENT), &Compilations::new(1 << 30))
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn code_is_cached_and_damaged_code_is_replaced() {
        let engine = Engine::default();
        let folder = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(folder.path().join("code"), &engine).unwrap();
        let digest = Digest::of(COMPONENT);
        load_or_compile(&cache, &engine, &digest).unwrap();
        let [path] = &*files(&cache.folder) else { panic!("one file expected") };
        let whole = fs::read(path).unwrap();
        assert!(load(&engine, path).is_some());

        for at in [0, 20, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(path, damaged).unwrap();
            assert!(load(&engine, path).is_none(), "byte {at} was changed");
        }
        load_or_compile(&cache, &engine, &digest).unwrap();
        assert!(load(&engine, path).is_some());
    }

    #[test]
    fn code_that_another_user_may_have_written_is_not_used() {
        let engine = Engine::default();
        let folder = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(folder.path().join("code"), &engine).unwrap();
        let digest = Digest::of(COMPONENT);
        load_or_compile(&cache, &engine, &digest).unwrap();
        let path = cache.folder.join(cache.file_name(&digest));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(load(&engine, &path).is_none(), "the group can write to it");
        load_or_compile(&cache, &engine, &digest).unwrap();
        assert!(load(&engine, &path).is_some(), "it was replaced");
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(load(&engine, &path).is_none(), "it is a link");
        // Only root can give a file away.
        fs::rename(&elsewhere, &path).unwrap();
        if std::os::unix::fs::chown(&path, Some(65534), None).is_ok() {
            assert!(load(&engine, &path).is_none(), "it belongs to another user");
        }
    }

    #[test]
    fn code_that_is_not_used_is_removed_and_code_that_serves_is_not() {
        let engine = Engine::default();
        let folder = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(folder.path().join("code"), &engine).unwrap();
        let serving = Digest::of(COMPONENT);
        load_or_compile(&cache, &engine, &serving).unwrap();
        let now = SystemTime::now();
        let other = |number: usize| cache.folder.join(format!("{number:02}-0000000000000000.{EXTENSION}"));
        for number in 0..MAX_UNUSED_FILES + 3 {
            let file = File::create(other(number)).unwrap();
            file.set_modified(now - Duration::from_secs(1000 - number as u64)).unwrap();
        }
        fs::write(cache.folder.join("notes"), "of the operator").unwrap();
        cache.prune(&[serving], now).unwrap();
        let left: Vec<usize> = (0..MAX_UNUSED_FILES + 3).filter(|number| other(*number).exists()).collect();
        assert_eq!(left, (3..MAX_UNUSED_FILES + 3).collect::<Vec<_>>(), "the oldest are gone");
        cache.prune(&[serving], now + MAX_UNUSED_AGE + Duration::from_secs(1)).unwrap();
        let mut left: Vec<_> = fs::read_dir(&cache.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let mut expected = [cache.file_name(&serving), "notes".to_owned()].map(std::ffi::OsString::from);
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn code_that_others_can_read_is_made_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("x.{EXTENSION}"));
        fs::write(&path, "code").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        CodeCache::open(folder.path().to_owned(), &Engine::default()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let opened = CodeCache::open(folder.path().to_owned(), &Engine::default());
        let Err(error) = opened else { panic!("accepted") };
        assert!(error.to_string().contains("777"), "{error}");
    }
}

//! Secrets that the host draws: the values of the variables that the manifest names in `generate` and gives no value.
//!
//! A secret is a list of keys, separated by commas. A component seals with the first and opens with all of them. The
//! last key is drawn ahead, and a rotation makes it the first. So each host of a store can open what another one has
//! sealed with it, before it has read the new list.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hexad_manifest::Component;
use hexad_store::StoreError;
use hexad_store_postgres::FleetStore;
use hexad_support::private_files;
use hexad_support::random;

/// The folder with a file for each secret, in the data folder.
pub const FOLDER: &str = "secrets";

const KEY_BYTES: usize = 32;

/// Where the host keeps secrets: in private files, or in the store that several hosts share.
#[derive(Clone)]
pub enum Secrets {
    Folder(PathBuf),
    Store(FleetStore),
}

/// Why a variable gets no secret: a sentence for the operator.
#[derive(Debug, thiserror::Error)]
#[error("component `{component}`: the secret of its variable {variable} cannot be kept in {place}: {source}")]
pub struct SecretError {
    component: String,
    variable: String,
    place: String,
    source: Failure,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("what is there is no list of keys; remove it, and the host draws others")]
    NoKeys,
}

impl Secrets {
    pub fn new(data: &Path, store: Option<FleetStore>) -> Self {
        store.map_or_else(|| Self::Folder(data.join(FOLDER)), Self::Store)
    }

    /// Gives each component the secrets that its manifest asks for. It blocks. With `rotates`, the next key of each
    /// secret becomes the first.
    pub fn fill_in(&self, components: &mut [Component], rotates: bool) -> Result<(), SecretError> {
        for component in components {
            let variables = Arc::make_mut(&mut component.variables);
            for variable in &component.generated {
                let Some(value) = variables.get_mut(variable).filter(|value| value.is_empty()) else { continue };
                let name = format!("{}.{variable}", component.id);
                *value = self.keys(&name, rotates).map_err(|source| SecretError {
                    component: component.id.clone(),
                    variable: variable.clone(),
                    place: match self {
                        Self::Folder(folder) => folder.join(&name).display().to_string(),
                        Self::Store(_) => "the store".to_owned(),
                    },
                    source,
                })?;
            }
        }
        Ok(())
    }

    fn keys(&self, name: &str, rotates: bool) -> Result<String, Failure> {
        let present = self.read(name)?;
        if let Some(present) = present.as_ref().filter(|_| !rotates) {
            return checked(present);
        }
        let next = match &present {
            None => format!("{},{}", new_key()?, new_key()?),
            Some(present) => {
                let present = checked(present)?;
                let first = present.split(',').next().unwrap_or_default();
                let next = present.rsplit_once(',').map(|(_, last)| last.to_owned());
                format!("{},{first},{}", next.map_or_else(new_key, Ok)?, new_key()?)
            }
        };
        match self {
            Self::Folder(folder) => {
                private_files::create_folder(folder)?;
                private_files::replace(&folder.join(name), &[next.as_bytes()])?;
                Ok(next)
            }
            Self::Store(store) => {
                store.swap_secret(name, present, next)?;
                // Another host may have been faster.
                checked(&store.secret(name)?.unwrap_or_default())
            }
        }
    }

    fn read(&self, name: &str) -> Result<Option<String>, Failure> {
        match self {
            Self::Store(store) => Ok(store.secret(name)?),
            Self::Folder(folder) => match read_private(&folder.join(name)) {
                Ok(text) => Ok(Some(String::from_utf8(text).unwrap_or_default())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.into()),
            },
        }
    }
}

/// Reads a file and makes it private first, because a copy of a data folder may have lost its mode.
fn read_private(path: &Path) -> io::Result<Vec<u8>> {
    private_files::open(OpenOptions::new().read(true), path).map(drop)?;
    private_files::read(path)
}

fn new_key() -> io::Result<String> {
    random::token(KEY_BYTES)
}

fn checked(keys: &str) -> Result<String, Failure> {
    let is_key = |key: &str| key.len() == 2 * KEY_BYTES && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    let keys = keys.trim();
    if keys.split(',').all(is_key) { Ok(keys.to_owned()) } else { Err(Failure::NoKeys) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet_hosts::{Host, start};

    #[test]
    fn a_key_is_drawn_once_and_rotated_with_overlap() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = Secrets::new(folder.path(), None);
        let keys = |rotates| secrets.keys("console.key", rotates).unwrap();
        let drawn = keys(false);
        assert_eq!(keys(false), drawn);
        let [first, next] = *drawn.split(',').collect::<Vec<_>>() else { panic!("{drawn}") };
        assert!(first != next && first.len() == 64);
        let rotated = keys(true);
        assert!(rotated.starts_with(&format!("{next},{first},")), "{drawn} {rotated}");
        assert_eq!(keys(false), rotated);
        let again = keys(true);
        let last = rotated.rsplit(',').next().unwrap();
        assert!(again.starts_with(&format!("{last},{next},")) && again.split(',').count() == 3, "{rotated} {again}");
        let path = folder.path().join("secrets/console.key");
        let mode = |path: &Path| std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).unwrap()) & 0o777;
        assert_eq!((mode(&path), mode(&folder.path().join("secrets"))), (0o600, 0o700));
        // Keys written by hand, with a line break.
        std::fs::write(&path, format!("{first}\n")).unwrap();
        assert_eq!(keys(false), first);
        assert!(keys(true).ends_with(|c: char| c.is_ascii_hexdigit()));
        for damaged in ["", "abc", "\n", &format!("{first},")] {
            std::fs::write(&path, damaged).unwrap();
            let error = secrets.keys("console.key", false).unwrap_err().to_string();
            assert!(error.contains("no list of keys"), "{error}");
        }
    }

    #[test]
    fn the_hosts_of_a_store_have_the_same_keys() {
        let Some(server) = start() else { return };
        let url = server.new_database("secrets");
        let hosts = [Host::open(&url), Host::open(&url)];
        let keys = |host: &Host, rotates| {
            Secrets::new(Path::new("/nowhere"), Some(host.store.fleet())).keys("console.key", rotates).unwrap()
        };
        let drawn = std::thread::scope(|scope| {
            let threads = hosts.each_ref().map(|host| scope.spawn(|| keys(host, false)));
            threads.map(|thread| thread.join().unwrap())
        });
        let [first, second] = &drawn;
        assert_eq!(first, second);
        let rotated = keys(&hosts[0], true);
        assert!(rotated.starts_with(first.rsplit(',').next().unwrap()));
        assert_eq!(keys(&hosts[1], false), rotated);
    }
}

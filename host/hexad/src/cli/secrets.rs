//! Values of variables, from the environment and from files of secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hexad_support::private_files;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::admin::TOKEN_VARIABLE;

/// The folder of systemd's `LoadCredential=`.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// The prefix of the environment variables with values for the manifest.
const PREFIX: &str = "SPIN_VARIABLE_";

/// The largest secret, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Where secrets are.
#[derive(Args)]
pub struct SecretArgs {
    /// A folder with a file for each secret: it is named like the variable of the manifest (bootstrap_admin_token), or
    /// HEXAD_ADMIN_TOKEN. Other users must not be able to read it [default: systemd's CREDENTIALS_DIRECTORY].
    #[arg(long, value_name = "FOLDER")]
    secrets_from: Option<PathBuf>,
}

/// Values of variables by the names that they have in the environment.
#[derive(Default)]
pub struct SecretValues {
    values: BTreeMap<String, String>,
    /// Files whose value no variable has used yet.
    unread: Mutex<BTreeMap<String, PathBuf>>,
}

impl SecretArgs {
    /// Reads all files. A variable that has a value in the environment, too, is refused.
    pub fn read(&self) -> Result<SecretValues> {
        self.read_with(&|name| env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn read_with(&self, environment: &dyn Fn(&str) -> Option<OsString>) -> Result<SecretValues> {
        let credentials = environment(CREDENTIALS).map(PathBuf::from);
        let folder = match (&self.secrets_from, &credentials) {
            (Some(given), Some(credentials)) if given != credentials => {
                bail!("--secrets-from and {CREDENTIALS} name two folders; give one")
            }
            (given, credentials) => given.as_ref().or(credentials.as_ref()),
        };
        let mut secrets = SecretValues { values: BTreeMap::new(), unread: Mutex::default() };
        let Some(folder) = folder else { return Ok(secrets) };
        let unreadable = || format!("cannot read the secrets in {}", folder.display());
        let mut unread = BTreeMap::new();
        for entry in fs::read_dir(folder).with_context(unreadable)? {
            let path = entry.with_context(unreadable)?.path();
            let Some(name) = variable(&path) else { continue };
            let shown = path.display();
            let secret = private_files::read_secret(&path, MAX_BYTES);
            let secret = secret.with_context(|| format!("cannot use the secret in {shown}"))?;
            ensure!(environment(&name).is_none(), "{name} is in the environment and in {shown}; remove one of them");
            let is_new = secrets.values.insert(name.clone(), secret).is_none();
            ensure!(is_new, "{shown} is a second file for {name}; remove one of them");
            // Only a host that serves reads this one.
            if name != TOKEN_VARIABLE {
                unread.insert(name, path);
            }
        }
        // A service manager's folder may have files for other programs.
        if self.secrets_from.is_some() {
            secrets.unread = Mutex::new(unread);
        }
        Ok(secrets)
    }
}

impl SecretValues {
    /// The value of an environment variable, or of the file in its place.
    pub fn get(&self, name: &str) -> Option<String> {
        if let Ok(mut unread) = self.unread.lock() {
            unread.remove(name);
        }
        // A value that is not UTF-8 is wrong, not absent.
        let given = || env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        self.values.get(name).cloned().or_else(given)
    }

    /// The same with another value for a variable.
    pub fn with(mut self, name: &str, value: String) -> Self {
        self.get(name);
        self.values.insert(name.to_owned(), value);
        self
    }

    /// An error if no variable has used a file: its name may be misspelt.
    pub fn check_all_read(&self) -> Result<()> {
        let unread = self.unread.lock().map(|unread| unread.values().cloned().collect::<BTreeSet<_>>());
        match unread.unwrap_or_default().first() {
            None => Ok(()),
            Some(path) => bail!("{}: the manifest has no variable of this name; rename the file", path.display()),
        }
    }
}

/// Keeps secrets out of core dumps: the system writes no core dump of this process.
pub fn forbid_core_dumps() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "core dumps cannot be turned off");
    }
}

/// The environment variable that a file stands for. `None` for hidden files, as Kubernetes makes them.
fn variable(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match name {
        _ if !is_word => None,
        name if name == TOKEN_VARIABLE || name.starts_with(PREFIX) => Some(name.to_owned()),
        name => Some(format!("{PREFIX}{}", name.to_uppercase())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn write(folder: &Path, name: &str, text: &str, mode: u32) {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn read(folder: &Path, environment: &dyn Fn(&str) -> Option<OsString>) -> Result<SecretValues> {
        SecretArgs { secrets_from: Some(folder.to_owned()) }.read_with(environment)
    }

    #[test]
    fn files_are_named_like_variables() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "settings_encryption_key", "key \n", 0o600);
        write(folder.path(), "HEXAD_ADMIN_TOKEN", "token\r\n", 0o400);
        write(folder.path(), "SPIN_VARIABLE_OTHER", "", 0o440);
        fs::create_dir(folder.path().join("..data")).unwrap();
        write(&folder.path().join("..data"), "linked", "by a link", 0o400);
        symlink("..data/linked", folder.path().join("linked")).unwrap();
        let secrets = read(folder.path(), &|_| None).unwrap();
        assert!(secrets.check_all_read().is_err());
        let get = |name| secrets.get(name);
        assert_eq!(get("SPIN_VARIABLE_SETTINGS_ENCRYPTION_KEY").as_deref(), Some("key "));
        assert_eq!(get("HEXAD_ADMIN_TOKEN").as_deref(), Some("token"));
        assert_eq!(get("SPIN_VARIABLE_LINKED").as_deref(), Some("by a link"));
        let error = secrets.check_all_read().unwrap_err().to_string();
        assert!(error.contains("SPIN_VARIABLE_OTHER: the manifest has no variable"), "{error}");
        assert_eq!(get("SPIN_VARIABLE_OTHER").as_deref(), Some(""));
        secrets.check_all_read().unwrap();
        assert_eq!(get("SPIN_VARIABLE_NONE"), None);
        assert_eq!(secrets.with("SPIN_VARIABLE_NONE", "x".to_owned()).get("SPIN_VARIABLE_NONE").as_deref(), Some("x"));
    }

    #[test]
    fn a_secret_that_others_can_read_or_change_is_refused() {
        for mode in [0o644, 0o604, 0o660, 0o606, 0o602] {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), "key", "x", mode);
            let error = format!("{:#}", read(folder.path(), &|_| None).err().unwrap());
            assert!(error.contains("/key: ") && error.contains("`chmod 600`"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("key")).unwrap();
        assert!(read(folder.path(), &|_| None).is_err());
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "key", &"x".repeat(MAX_BYTES + 1), 0o600);
        assert!(read(folder.path(), &|_| None).is_err());
        assert!(read(&folder.path().join("none"), &|_| None).is_err());
    }

    #[test]
    fn a_secret_in_two_places_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "key", "x", 0o600);
        let error = read(folder.path(), &|name| (name == "SPIN_VARIABLE_KEY").then(|| "y".into())).err().unwrap();
        assert!(error.to_string().contains("SPIN_VARIABLE_KEY is in the environment and in "), "{error}");
        let credentials = |name: &str| (name == CREDENTIALS).then(|| folder.path().into());
        let error = read(Path::new("/other"), &credentials).err().unwrap().to_string();
        assert_eq!(error, "--secrets-from and CREDENTIALS_DIRECTORY name two folders; give one");
        assert!(read(folder.path(), &credentials).is_ok());
        write(folder.path(), "SPIN_VARIABLE_KEY", "z", 0o600);
        assert!(read(folder.path(), &|_| None).err().unwrap().to_string().contains("a second file"));
    }

    #[test]
    fn credentials_of_a_service_are_read_and_may_be_for_others() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "bootstrap_admin_token", "x", 0o440);
        write(folder.path(), "tls.key", "y", 0o440);
        write(folder.path(), "another", "z", 0o440);
        let credentials = |name: &str| (name == CREDENTIALS).then(|| folder.path().into());
        let secrets = SecretArgs { secrets_from: None }.read_with(&credentials).unwrap();
        assert_eq!(secrets.get("SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN").as_deref(), Some("x"));
        secrets.check_all_read().unwrap();
        assert!(SecretArgs { secrets_from: None }.read_with(&|_| None).unwrap().values.is_empty());
    }
}

//! The settings of the whole service.

use crate::model::membership::Role;
use crate::save_error::{InvalidRecord, SaveError};
use crate::seal;
use crate::store::{self, Key};
use kit::Env;
use kit::store::StoreError;
use serde_json::{Map, Value};
use std::rc::Rc;

/// The most bytes of JSON of all settings together. Many requests read them.
const MAX_BYTES: usize = 64 * 1024;

/// The least `access_level` in a project for queries of its product analytics. If unset, every reader of the project
/// may query.
pub const ANALYTICS_LEVEL: &str = "product_analytics_min_access_level";

/// The least `access_level` for the engine's token (`include_token`).
pub const ANALYTICS_TOKEN_LEVEL: &str = "product_analytics_token_min_access_level";

/// The days until a new personal token expires, unless its request has an expiry; 0: never.
pub const TOKEN_LIFETIME: &str = "default_personal_access_token_lifetime";

/// The default of [`TOKEN_LIFETIME`].
const DEFAULT_TOKEN_LIFETIME: u64 = 365;

/// The settings that have a value. The methods apply the defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings(Map<String, Value>);

/// The licence of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum License {
    Free,
    Premium,
    Ultimate,
}

impl License {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "free" => Some(License::Free),
            "premium" => Some(License::Premium),
            "ultimate" => Some(License::Ultimate),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            License::Free => "free",
            License::Premium => "premium",
            License::Ultimate => "ultimate",
        }
    }
}

impl Settings {
    /// `license`: decides the licensed parameters and fields. Ultimate by default.
    pub fn license(&self) -> License {
        self.text("license").and_then(License::parse).unwrap_or(License::Ultimate)
    }

    /// `hosted`: whether this is the operator's public site. True by default.
    pub fn hosted(&self) -> bool {
        self.flag("hosted", true)
    }

    /// `operator_group`: full path of the top-level group of the operator's team.
    pub fn operator_group(&self) -> Option<&str> {
        self.text("operator_group")
    }

    /// A text that is set and not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// A secret that is set and not empty. An error if it was sealed with a key that is not configured.
    pub fn secret(&self, env: &Env, name: &str) -> Result<Option<String>, StoreError> {
        self.text(name).map(|stored| seal::open(env, &context(name), stored)).transpose()
    }

    pub fn flag(&self, name: &str, default: bool) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    /// The least role in a setting. A value that is no role requires the highest one.
    pub fn least_role(&self, name: &str) -> Option<Role> {
        self.0.get(name).map(|level| level.as_u64().and_then(Role::from_level).unwrap_or(Role::Owner))
    }

    /// [`TOKEN_LIFETIME`].
    pub fn token_lifetime(&self) -> u64 {
        self.0.get(TOKEN_LIFETIME).and_then(Value::as_u64).unwrap_or(DEFAULT_TOKEN_LIFETIME)
    }

    /// Every setting with a value, including secrets.
    pub fn all(&self) -> &Map<String, Value> {
        &self.0
    }
}

/// Whether a setting is write-only for clients and sealed in the store.
pub fn is_secret(name: &str) -> bool {
    let last = name.rsplit('_').next().unwrap_or(name);
    matches!(last, "key" | "token" | "secret" | "password" | "passphrase" | "credentials" | "pem")
        || name.ends_with("connection_string")
}

fn context(name: &str) -> String {
    format!("settings/{name}")
}

/// The settings. 1 read; an instance decodes them once.
pub fn read(env: &Env) -> Result<Rc<Settings>, StoreError> {
    Ok(store::read_cached(env, &Key::Settings, Settings)?.unwrap_or_default())
}

/// Applies `changes` and returns the new settings; `null` restores the default.
pub fn save(env: &Env, changes: &Map<String, Value>) -> Result<Settings, SaveError> {
    let mut changes = changes.clone();
    for (name, value) in changes.iter_mut().filter(|(name, _)| is_secret(name)) {
        if let Value::String(secret) = value
            && !secret.is_empty()
        {
            *secret = seal::seal(env, &context(name), secret)?;
        }
    }
    let mut saved = Settings::default();
    store::try_update(env, &Key::Settings, |current: Option<Map<String, Value>>| {
        let mut settings = current.unwrap_or_default();
        for (name, value) in &changes {
            match value {
                Value::Null => settings.remove(name),
                value => settings.insert(name.clone(), value.clone()),
            };
        }
        if serde_json::to_string(&settings).map_or(0, |text| text.len()) > MAX_BYTES {
            return Err(SaveError::from(InvalidRecord::TooLarge { records: "settings", limit: MAX_BYTES }));
        }
        saved = Settings(settings.clone());
        Ok(settings)
    })?;
    Ok(saved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::testing::{MemoryStore, env};
    use serde_json::json;

    fn change(env: &Env, changes: Value) -> Result<Settings, SaveError> {
        save(env, changes.as_object().unwrap())
    }

    #[test]
    fn a_setting_without_a_value_has_its_default() {
        let settings = read(&env(MemoryStore::default(), &[])).unwrap();
        assert_eq!((settings.license(), settings.hosted(), settings.operator_group()), (License::Ultimate, true, None));
    }

    #[test]
    fn changes_are_merged_and_null_restores_the_default() {
        let env = env(MemoryStore::default(), &[]);
        change(&env, json!({"license": "free", "hosted": false, "color": "red"})).unwrap();
        let settings = change(&env, json!({"hosted": null, "operator_group": "acme"})).unwrap();
        assert_eq!(settings, *read(&env).unwrap());
        assert_eq!((settings.license(), settings.hosted()), (License::Free, true));
        assert_eq!(settings.text("color"), Some("red"), "unknown ones are kept");
    }

    #[test]
    fn secrets_are_sealed_if_there_is_a_key() {
        let store = MemoryStore::default();
        let (plain, keyed) = (env(store.clone(), &[]), env(store.clone(), &[(seal::KEY, "k")]));
        let key = |env: &Env| read(env).unwrap().secret(env, "x_api_key").unwrap();
        change(&plain, json!({"x_api_key": "hush", "color": "red"})).unwrap();
        assert_eq!((key(&plain), key(&keyed)), (Some("hush".into()), Some("hush".into())));
        change(&keyed, json!({"x_api_key": "hush"})).unwrap();
        let stored = kit::store::Store::get(&store, "directory/v1/settings").unwrap().unwrap();
        let stored = String::from_utf8_lossy(&stored).into_owned();
        assert!(!stored.contains("hush") && stored.contains("red"), "{stored}");
        assert_eq!(key(&keyed), Some("hush".into()));
        assert!(read(&plain).unwrap().secret(&plain, "x_api_key").is_err());
        change(&keyed, json!({"x_api_key": null})).unwrap();
        assert_eq!(key(&keyed), None);
    }

    #[test]
    fn names_of_keys_tokens_and_passwords_are_secret() {
        for name in ["analytics_api_key", "runners_registration_token", "smtp_password", "x_connection_string", "key"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["license", "rsa_key_restriction", "analytics_api_base_url"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn settings_together_have_a_bound() {
        let env = env(MemoryStore::default(), &[]);
        let refused = change(&env, json!({"x": "y".repeat(MAX_BYTES)})).unwrap_err();
        assert_eq!(refused, InvalidRecord::TooLarge { records: "settings", limit: MAX_BYTES }.into());
        assert!(read(&env).unwrap().all().is_empty());
    }
}

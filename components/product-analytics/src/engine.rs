//! The analytics engine of a project: its address and key.
//!
//! The token that authenticates a request to the engine and names the project: a JSON Web Token
//! (RFC 7519), signed with HMAC-SHA-256 (RFC 7515, `HS256`).

use crate::route::Endpoint;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use directory::project::Project;
use directory::service_url;
use directory::setting::{License, Settings};
use fluent_uri::UriRef;
use hmac_sha256::HMAC;
use kit::lru::ByteLru;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::Serialize;
use std::fmt;
use std::rc::Rc;

/// The path of the engine's API below its base URL.
const API: &str = "cubejs-api/v1/";

/// An engine and the key that signs requests to it.
#[derive(PartialEq, Eq)]
pub struct Engine {
    pub base_url: String,
    pub key: String,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

/// The engine of a project, if analytics is available for it. The licence includes analytics, and the settings do not
/// disable it. The project is in a group, and an address and a key are configured.
pub fn of(env: &Env, settings: &Settings, project: &Project) -> Result<Option<Engine>, StoreError> {
    let available = settings.license() == License::Ultimate && settings.flag("product_analytics_enabled", true);
    if !available || !project.namespace.is_group() {
        return Ok(None);
    }
    let (own, base_url) = (project.analytics_key(env)?, settings.text("analytics_api_base_url"));
    // Requests to a project's own engine are signed with the project's own key: its operator must
    // not see a signature of the shared key.
    let (base_url, key) = match (project.analytics.base_url.as_deref(), own) {
        (Some(url), own) => (Some(url), own),
        (None, Some(own)) => (base_url, Some(own)),
        (None, None) => (base_url, settings.secret(env, "analytics_api_key")?),
    };
    Ok(base_url.zip(key).map(|(base_url, key)| Engine { base_url: base_url.to_owned(), key }))
}

impl Engine {
    /// The URL of an endpoint, resolved as a relative reference to the base URL (RFC 3986, section 5). A base path
    /// without a trailing slash loses its last segment. `None` if the base URL is invalid ([`service_url::parse`]); an
    /// earlier build may have stored one.
    pub fn address(&self, endpoint: Endpoint) -> Option<http::Uri> {
        let base = service_url::parse(&self.base_url)?;
        let reference = format!("{API}{}", endpoint.name());
        let address = UriRef::parse(reference.as_str()).ok()?.resolve_against(&base.strip_fragment()).ok()?;
        address.as_str().parse().ok()
    }
}

/// Seconds from `iat` to `exp`.
const LIFETIME: i64 = 180;

/// The step of `iat`, in seconds. Within a step the tokens of a project are equal byte for byte, so that
/// the host can coalesce equal requests.
const STEP: i64 = 5;

/// Upper bound of the tokens that an instance caches, in bytes.
const CAPACITY: usize = 64 << 10;

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// The claims. The engine selects a project's database by `appId`.
#[derive(Serialize)]
struct Claims<'a> {
    iat: i64,
    exp: i64,
    #[serde(rename = "appId")]
    app_id: String,
    /// A token for requests from the engine to this service; always null.
    #[serde(rename = "gitlabToken")]
    gitlab_token: Option<&'a str>,
    /// The host name of this service.
    iss: &'a str,
}

/// A token, and the inputs from which it was minted.
struct Minted {
    key: String,
    issuer: String,
    iat: i64,
    token: String,
}

/// The latest token of each project that an instance has served.
struct Tokens(ByteLru<u64, Rc<Minted>>);

/// The token for a project at the time of the request. Within a step it is minted once.
pub fn current(env: &Env, key: &str, project_id: u64, issuer: &str) -> Result<String, serde_json::Error> {
    let tokens = env.instance_cache.get_or_insert_with(|| Tokens(ByteLru::new(CAPACITY)));
    let iat = issued_at(env.now);
    let is_of_this = |minted: &Rc<Minted>| minted.key == key && minted.issuer == issuer && minted.iat == iat;
    if let Some(minted) = tokens.0.get(&project_id).filter(is_of_this) {
        return Ok(minted.token.clone());
    }
    let token = mint(key, project_id, issuer, iat)?;
    let minted = Minted { key: key.to_owned(), issuer: issuer.to_owned(), iat, token: token.clone() };
    let size = size_of::<Minted>() + key.len() + issuer.len() + token.len();
    tokens.0.put(project_id, size, Rc::new(minted));
    Ok(token)
}

/// The beginning of the step of `now`, in seconds.
fn issued_at(now: Timestamp) -> i64 {
    let seconds = now.millis().div_euclid(1000);
    seconds - seconds.rem_euclid(STEP)
}

/// A token for a project, issued at `iat`.
fn mint(key: &str, project_id: u64, issuer: &str, iat: i64) -> Result<String, serde_json::Error> {
    let app_id = format!("gitlab_project_{project_id}");
    let claims = Claims { iat, exp: iat + LIFETIME, app_id, gitlab_token: None, iss: issuer };
    Ok(sign(key.as_bytes(), HEADER, &serde_json::to_string(&claims)?))
}

/// The compact form of a signed header and payload.
fn sign(key: &[u8], header: &str, payload: &str) -> String {
    let mut token = URL_SAFE_NO_PAD.encode(header);
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(payload, &mut token);
    let signature = HMAC::mac(token.as_bytes(), key);
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(base_url: &str) -> String {
        let engine = Engine { base_url: base_url.into(), key: "k".into() };
        engine.address(Endpoint::DryRun).map_or("none".into(), |address| address.to_string())
    }

    #[test]
    fn the_address_is_a_relative_reference_to_the_base() {
        for (base, expected) in [
            ("http://h", "http://h/cubejs-api/v1/dry-run"),
            ("http://h/", "http://h/cubejs-api/v1/dry-run"),
            ("https://h:8443/x/", "https://h:8443/x/cubejs-api/v1/dry-run"),
            ("http://h/x", "http://h/cubejs-api/v1/dry-run"),
            ("http://h/x/y?z=1#f", "http://h/x/cubejs-api/v1/dry-run"),
            ("http://h/a/../b/./", "http://h/b/cubejs-api/v1/dry-run"),
            (" http://[::1]:4000/ ", "http://[::1]:4000/cubejs-api/v1/dry-run"),
        ] {
            assert_eq!(address(base), expected, "{base}");
        }
    }

    #[test]
    fn an_invalid_base_has_no_address() {
        for base in
            ["", "h", "/x", "ftp://h/", "http:h", "http://", "http:///x", "http://a b/", "http://u:p@h/", "file:///x"]
        {
            assert_eq!(address(base), "none", "{base}");
        }
    }
}

#[cfg(test)]
mod token_tests {
    use super::*;
    use kit::testing::{self, MemoryStore};
    use serde_json::{Value, json};

    /// The example of RFC 7515, appendix A.1.
    #[test]
    fn signs_as_the_standard_does() {
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let header = "{\"typ\":\"JWT\",\r\n \"alg\":\"HS256\"}";
        let payload = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";
        assert_eq!(
            sign(&URL_SAFE_NO_PAD.decode(key).unwrap(), header, payload),
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
             eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
             dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        );
    }

    #[test]
    fn says_for_which_project_and_for_how_long() {
        let iat = issued_at(Timestamp::from_millis(1_790_000_003_999));
        let token = mint("k", 7, "forge.test", iat).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let decode = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
        assert_eq!(decode(parts[0]), json!({"alg": "HS256", "typ": "JWT"}));
        assert_eq!(
            decode(parts[1]),
            json!({"iat": 1_790_000_000, "exp": 1_790_000_180, "appId": "gitlab_project_7", "gitlabToken": null, "iss": "forge.test"})
        );
        assert_eq!(parts.len(), 3);
    }

    #[test]
    fn is_the_same_for_a_few_seconds_and_differs_by_project_key_and_issuer() {
        let mut env = testing::env(MemoryStore::default(), &[]);
        let mut at = |millis, key, project, issuer| {
            env.now = Timestamp::from_millis(millis);
            let token = current(&env, key, project, issuer).unwrap();
            assert_eq!(token, mint(key, project, issuer, issued_at(env.now)).unwrap());
            token
        };
        let first = at(1_790_000_000_000, "k", 7, "h");
        assert_eq!(first, at(1_790_000_004_999, "k", 7, "h"));
        let others = [
            (1_790_000_005_000, "k", 7, "h"),
            (1_790_000_000_000, "k", 8, "h"),
            (1_790_000_000_000, "l", 7, "h"),
            (1_790_000_000_000, "k", 7, "i"),
        ];
        for (millis, key, project, issuer) in others {
            assert_ne!(first, at(millis, key, project, issuer));
        }
    }
}

//! The token that authenticates a request to the engine and names the project: a JSON Web Token
//! (RFC 7519), signed with HMAC-SHA-256 (RFC 7515, `HS256`).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac_sha256::HMAC;
use kit::lru::ByteLru;
use kit::{Env, Timestamp};
use serde::Serialize;
use std::rc::Rc;

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
    let tokens = env.instance_cache.get::<Tokens>().unwrap_or_else(|| {
        let tokens = Rc::new(Tokens(ByteLru::new(CAPACITY)));
        env.instance_cache.put(tokens.clone());
        tokens
    });
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
    use kit::testing::{self, MemoryStore};
    use serde_json::{Value, json};

    /// The example of RFC 7515, appendix A.1.
    #[test]
    fn signs_as_the_standard_does() {
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let header = "{\"typ\":\"JWT\",\r\n \"alg\":\"HS256\"}";
        let payload = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";
        let expected = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
         eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
         dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(sign(&URL_SAFE_NO_PAD.decode(key).unwrap(), header, payload), expected);
    }

    #[test]
    fn says_for_which_project_and_for_how_long() {
        let iat = issued_at(Timestamp::from_millis(1_790_000_003_999));
        let token = mint("k", 7, "forge.test", iat).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let decode = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
        assert_eq!(decode(parts[0]), json!({"alg": "HS256", "typ": "JWT"}));
        let expected = json!({"iat": 1_790_000_000, "exp": 1_790_000_180, "appId": "gitlab_project_7", "gitlabToken": null, "iss": "forge.test"});
        assert_eq!(decode(parts[1]), expected);
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

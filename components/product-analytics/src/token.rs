//! The token that authenticates a request to the engine and names the project: a JSON Web Token
//! (RFC 7519), signed with HMAC-SHA-256 (RFC 7515, `HS256`).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac_sha256::HMAC;
use kit::Timestamp;
use serde::Serialize;

/// Seconds from `iat` to `exp`.
const LIFETIME: i64 = 180;

/// The step of `iat`, in seconds. Within a step the tokens of a project are equal byte for byte, so that
/// the host can coalesce equal requests.
const STEP: i64 = 5;

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

/// A token for a project.
pub fn mint(key: &str, project_id: u64, issuer: &str, now: Timestamp) -> Result<String, serde_json::Error> {
    let seconds = now.millis().div_euclid(1000);
    let iat = seconds - seconds.rem_euclid(STEP);
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
        let token = mint("k", 7, "forge.test", Timestamp::from_millis(1_790_000_003_999)).unwrap();
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
    fn is_the_same_for_a_few_seconds_and_differs_by_project_and_key() {
        let at = |millis, key, project| mint(key, project, "h", Timestamp::from_millis(millis)).unwrap();
        assert_eq!(at(1_790_000_000_000, "k", 7), at(1_790_000_004_999, "k", 7));
        assert_ne!(at(1_790_000_000_000, "k", 7), at(1_790_000_005_000, "k", 7));
        assert_ne!(at(1_790_000_000_000, "k", 7), at(1_790_000_000_000, "k", 8));
        assert_ne!(at(1_790_000_000_000, "k", 7), at(1_790_000_000_000, "l", 7));
    }
}

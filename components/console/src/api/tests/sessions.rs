//! Sessions and sign-in: the cookie, and the texts of refusals.

use super::fake_api::{self, Forge, Shown};
use http::StatusCode;
use kit::outbound::OutboundResponse;
use serde_json::{Value, json};

const OTHER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHi8=";

fn sign_in(forge: &Forge, token: &str) -> Shown {
    let page = forge.get("/-/sign-in", None);
    let form = format!("form_token={}&token={token}", page.form_token());
    forge.post("/-/sign-in", &page.cookie().unwrap(), &form, &[])
}

/// A forge that answers every request for the user with this error.
fn refusing(status: u16, body: Value) -> Forge {
    Forge::with(&[], move |request| match request.url.path() {
        "/api/v4/user" => {
            let mut response: OutboundResponse = fake_api::reply(status, &body)?;
            if status == 429 {
                response.headers.insert("retry-after", "41".parse().unwrap());
            }
            Ok(response)
        }
        _ => fake_api::answer(request, "plain"),
    })
}

#[test]
fn a_cookie_with_a_bare_token_is_no_session() {
    let forge = Forge::new("plain");
    for cookie in ["hexad-session=admin-token", "hexad-session=AAAA", "hexad-session=anonymous-admin-token"] {
        forge.take_calls();
        let page = forge.get_with_cookie("/", cookie);
        assert!(page.status == 200 && page.text.contains("Sign in") && !page.text.contains("Sign out"), "{cookie}");
        assert!(forge.take_calls().iter().all(|call| !call.contains("/user ")), "{cookie}: no token is tried");
        assert_eq!(page.headers.contains_key("set-cookie"), !cookie.contains("anonymous"), "{cookie}");
        let form = "form_token=00&action=switch&feature=f&value=true";
        assert_eq!(forge.post("/admin", cookie, form, &[]).status, 403, "{cookie}");
    }
}

#[test]
fn a_form_of_a_cookie_that_does_not_open_does_nothing() {
    let forge = Forge::new("plain");
    let cookie = forge.cookie("admin-token");
    let token = forge.get_with_cookie("/", &cookie).form_token();
    let other = Forge::with(&[("console_session_key", OTHER_KEY)], |request| fake_api::answer(request, "plain"));
    let form = format!("form_token={token}&action=switch&feature=f&value=true");
    assert_eq!(other.post("/admin", &cookie, &form, &[]).status, 403);
    assert_eq!(other.take_calls(), Vec::<String>::new());
}

#[test]
fn without_a_key_everything_works_but_sign_in() {
    for key in ["", "sesame"] {
        let forge = Forge::with(&[("console_session_key", key)], |request| fake_api::answer(request, "plain"));
        assert_eq!(forge.get("/packages/@acme/lib", None).status, 200);
        let refused = sign_in(&forge, "developer-token");
        assert_eq!(refused.status, 503, "{}", refused.text);
        for page in [forge.get("/-/sign-in", None).text, refused.text] {
            assert!(page.contains("Nobody can sign in here until") && page.contains("console_session_key"), "{page}");
        }
        assert!(!refused.headers.contains_key("location"));
    }
}

#[test]
fn a_new_key_in_front_of_the_old_one_keeps_sessions() {
    let cookie = Forge::new("plain").cookie("developer-token");
    let both = format!("{OTHER_KEY},{}", fake_api::KEY);
    let forge =
        |keys: &str| Forge::with(&[("console_session_key", keys)], |request| fake_api::answer(request, "plain"));
    assert!(forge(&both).get_with_cookie("/", &cookie).text.contains("Sign out"));
    assert!(!forge(OTHER_KEY).get_with_cookie("/", &cookie).text.contains("Sign out"));
}

#[test]
fn a_refusal_to_sign_in_says_what_the_api_says() {
    let scope = json!({"error": "insufficient_scope", "scope": "read_user"});
    for (status, body, expected) in [
        (401, json!({"message": "401 Unauthorized"}), "unknown, revoked or expired"),
        (403, json!({"message": "403 Forbidden - Your account has been blocked."}), "Your account has been blocked."),
        (429, json!({"message": "429 Too Many Requests"}), "The token was not checked. That was too often"),
        (503, json!({"message": "503 Service Unavailable"}), "The service cannot do this now"),
    ] {
        let forge = refusing(status, body);
        let page = sign_in(&forge, "developer-token");
        assert_eq!(page.status.as_u16(), status, "{}", page.text);
        assert!(page.text.contains(expected) && page.text.contains("name=\"token\""), "{}", page.text);
        assert_eq!(page.text.contains("unknown, revoked"), status == 401, "{}", page.text);
        let challenge = page.headers.get("www-authenticate").map(|value| value.to_str().unwrap());
        assert_eq!(challenge, (status == 401).then_some("Bearer realm=\"hexad\""));
        assert_eq!(page.headers.get("retry-after").map(|value| value == "41"), (status == 429).then_some(true));
        assert!(page.cookie().is_none_or(|cookie| cookie.starts_with("hexad-session=anonymous")), "{status}");
        // A visitor with a session gets the same explanation.
        let page = forge.get("/", Some("developer-token"));
        assert_eq!(page.status.as_u16(), status, "{}", page.text);
    }
    let narrow = refusing(403, scope);
    assert_eq!(sign_in(&narrow, "developer-token").status, StatusCode::SEE_OTHER);
    assert_eq!(narrow.get("/", Some("developer-token")).status, 200);
}

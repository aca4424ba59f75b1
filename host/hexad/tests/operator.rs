//! The operator's pages: sessions, and the content of pages.

use crate::visitor::{FORM, Visitor};
use crate::*;

#[test]
fn without_a_session_there_is_only_the_form_to_sign_in() {
    let visitor = Visitor::new();
    for path in ["/operator", "/operator/components/probe", "/operator/components/probe/rollback", "/operator/x"] {
        let page = visitor.get(path);
        page.expect(401, "hexad status --web");
        assert!(!page.text.contains("incoming"), "{path}: {}", page.text);
        assert_eq!(visitor.send("POST", path, &FORM, b"form_token=x").status, 401, "{path}");
    }
    let found = visitor.upload("/operator/components/incoming", &[("form_token", "")], &variant("incoming", 1)).status;
    assert_eq!(found, 401);
    assert_eq!(visitor.send("POST", "/sign-in-codes", &[], b"").status, 401);
    assert_eq!((visitor.get("/operator/style.css").status, visitor.get("/operator/icon.svg").status), (200, 200));
    assert!(audit(&visitor.server.folder).is_empty());
}

#[test]
fn a_code_begins_one_session() {
    let mut visitor = Visitor::new();
    let address = format!("/operator/sign-in?code={}", visitor.code("mia"));
    visitor.get("/operator/sign-in?code=wrong").expect(401, "used already");
    let page = visitor.get(&address);
    let cookie = page.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.ends_with("; Path=/operator; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(&visitor.access.token));
    visitor.cookie = page.cookie();
    visitor.get("/operator").expect(200, "mia");
    assert_eq!(visitor.get("/status").status, 401, "a session is for the pages only");
    let signed_out = visitor.send("POST", "/operator/sign-out", &FORM, b"form_token=x");
    signed_out.expect(403, "not sent by a page of this session");
    let token = visitor.get("/operator").form_token();
    let signed_out = visitor.send("POST", "/operator/sign-out", &FORM, format!("form_token={token}").as_bytes());
    assert_eq!(signed_out.status, 303);
    visitor.get("/operator").expect(401, "Sign in");
}

#[test]
fn a_second_use_of_a_code_ends_the_session_of_the_first() {
    let mut visitor = Visitor::new();
    let address = format!("/operator/sign-in?code={}", visitor.code("mia"));
    let cookie = visitor.get(&address).cookie();
    for _ in 0..2 {
        let again = visitor.get(&address);
        again.expect(401, "This address was used already; the session it began was ended.");
        assert!(!again.headers.contains_key("set-cookie"));
        visitor.cookie.clone_from(&cookie);
        visitor.get("/operator").expect(401, "Sign in");
    }
}

#[test]
fn a_browser_that_loads_its_address_again_stays_signed_in() {
    let mut visitor = Visitor::new();
    let address = format!("/operator/sign-in?code={}", visitor.code("mia"));
    visitor.cookie = visitor.get(&address).cookie();
    let again = visitor.get(&address);
    again.expect(200, "You are signed in.");
    assert!(!again.headers.contains_key("set-cookie"));
    visitor.get("/operator").expect(200, "mia");
}

#[test]
fn a_form_without_a_session_says_that_it_has_ended() {
    let mut visitor = Visitor::signed_in("mia");
    let page = visitor.get("/operator/components/incoming/rollback");
    visitor.cookie.clear();
    let ended = "The session has ended. Nothing was changed.";
    visitor.submit_of("/operator/components/incoming/rollback", &page).expect(401, ended);
    assert!(!visitor.get("/operator").text.contains(ended));
}

#[test]
fn the_listeners_token_begins_a_session_too() {
    let mut visitor = Visitor::new();
    visitor.send("POST", "/operator/sign-in", &FORM, b"token=wrong").expect(401, "not the token");
    let form = format!("token={}", visitor.access.token);
    let foreign = [FORM[0], ("sec-fetch-site", "cross-site")];
    assert_eq!(visitor.send("POST", "/operator/sign-in", &foreign, form.as_bytes()).status, 403);
    let page = visitor.send("POST", "/operator/sign-in", &FORM, form.as_bytes());
    assert_eq!(page.status, 303);
    visitor.cookie = page.cookie();
    visitor.get("/operator/").expect(200, "incoming");
}

#[test]
fn a_form_needs_the_token_of_its_session_and_this_site() {
    let visitor = Visitor::signed_in("mia");
    let before = digest(&visitor.server, "incoming");
    let token = visitor.get("/operator/components/incoming").form_token();
    let path = "/operator/components/incoming";
    let wasm = variant("incoming", 1);
    for fields in [&[][..], &[("form_token", "x")], &[("confirmed", "yes"), ("form_token", &token)]] {
        visitor.upload(path, fields, &wasm).expect(403, "not sent by a page of this session");
    }
    visitor.upload(path, &[("form_token", &token)], &wasm).expect(400, "not confirmed");
    for site in ["cross-site", "same-site", "none"] {
        let body = format!("form_token={token}");
        let headers = [FORM[0], ("sec-fetch-site", site)];
        visitor.send("POST", &format!("{path}/rollback"), &headers, body.as_bytes()).expect(403, "another site");
    }
    let headers = [FORM[0], ("origin", "http://evil.test")];
    let body = format!("form_token={token}");
    visitor.send("POST", &format!("{path}/rollback"), &headers, body.as_bytes()).expect(403, "another site");
    visitor.send("POST", &format!("{path}/rollback"), &FORM, b"form_token=x").expect(403, "of this session");
    assert_eq!(digest(&visitor.server, "incoming"), before);
    assert!(audit(&visitor.server.folder).is_empty());
}

#[test]
fn pages_are_protected_and_texts_escaped() {
    let hostile = "\"><script>alert(1)</script><img src=x onerror=alert(1)>";
    let visitor = Visitor::signed_in(hostile);
    visitor.swap("incoming", &[], &variant("incoming", 1));
    let percent = visitor.swap("incoming", &[("percent", "<script>alert(2)</script>")], b"x");
    for page in [visitor.get("/operator"), visitor.get("/operator/components/incoming"), percent] {
        assert!(!page.text.contains("<script") && !page.text.contains("<img"), "{}", page.text);
        assert!(page.text.contains("&lt;script&gt;") && !page.text.contains("style="));
    }
    for path in ["/operator", "/operator/components/x", "/operator/sign-in", "/operator/style.css"] {
        let headers = visitor.get(path).headers;
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{path}: {policy}");
        assert!(!policy.contains("script-src"), "nothing runs");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(headers[name], value, "{path}");
        }
    }
}

#[tokio::test]
async fn the_last_minutes_are_charts_with_their_numbers() {
    let visitor = Visitor::signed_in("mia");
    for _ in 0..7 {
        visitor.server.ok("hello").await;
    }
    let probe = visitor.get("/operator/components/probe");
    for chart in ["Traffic", "Latency"] {
        probe.expect(200, &format!("aria-label=\"{chart}, as a table\""));
    }
    let overview = visitor.get("/operator");
    overview.expect(200, "aria-label=\"Memory, as a table\"");
    let (_, row) = overview.text.split_once("/operator/components/probe\"").unwrap();
    let row = row.split("</tr>").next().unwrap();
    assert!(row.contains("<td class=\"number\">7</td>"), "{row}");
}

#[test]
fn no_component_sees_or_sets_the_operators_cookie() {
    let visitor = Visitor::signed_in("mia");
    let mut server = visitor.server;
    let address = server.listen();
    let url = format!("http://{address}/probe/headers");
    let sent = visitor.agent.get(&url).header("cookie", format!("a=1; {}", visitor.cookie)).call();
    let headers = sent.unwrap().body_mut().read_to_string().unwrap();
    assert!(headers.contains("a=1") && !headers.contains("hexad-operator"), "{headers}");
    // The component sets a cookie of that name, too.
    let response = visitor.agent.get(&format!("http://{address}/probe/recall?key=a&act=cookie")).call().unwrap();
    assert_eq!(response.headers().get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=b"]);
}

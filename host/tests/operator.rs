//! The operator's pages.

use hexad::Digest;
use hexad::admin::Access;
use ureq::{Agent, Body};

use crate::fixture::Server;
use crate::versions::{audit, digest, variant};

const BOUNDARY: &str = "boundary-of-the-tests";

/// A browser without scripts: it keeps a cookie and follows no redirect.
struct Visitor {
    server: Server,
    access: Access,
    agent: Agent,
    cookie: String,
}

struct Page {
    status: u16,
    headers: ureq::http::HeaderMap,
    text: String,
}

impl Visitor {
    fn new() -> Self {
        let mut server = Server::with("");
        let access = server.host.administer("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let agent = Agent::config_builder().http_status_as_error(false).max_redirects(0).build().into();
        Self { server, access, agent, cookie: String::new() }
    }

    /// With the session of `actor`.
    fn signed_in(actor: &str) -> Self {
        let mut visitor = Self::new();
        let code = visitor.code(actor);
        let page = visitor.get(&format!("/operator/sign-in?code={code}"));
        assert_eq!((page.status, page.headers["location"].to_str().unwrap()), (303, "/operator"));
        visitor.cookie = page.cookie();
        visitor
    }

    fn code(&self, actor: &str) -> String {
        let authorization = format!("Bearer {}", self.access.token);
        let headers = [("authorization", authorization.as_str()), ("x-hexad-actor", actor)];
        let page = self.send("POST", "/sign-in-codes", &headers, b"");
        assert_eq!(page.status, 200, "{}", page.text);
        serde_json::from_str::<serde_json::Value>(&page.text).unwrap()["code"].as_str().unwrap().to_owned()
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Page {
        let request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.access.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.header("cookie", &self.cookie).body(body.to_vec()).unwrap();
        let mut response: ureq::http::Response<Body> = self.agent.run(request).unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Page { status, headers, text: response.body_mut().read_to_string().unwrap() }
    }

    fn get(&self, path: &str) -> Page {
        self.send("GET", path, &[], b"")
    }

    /// Sends the form of a page that was shown, with its token.
    fn submit(&self, path: &str) -> Page {
        let token = self.get(path).form_token();
        self.send("POST", path, &FORM, format!("form_token={token}").as_bytes())
    }

    /// Sends the form with a file.
    fn swap(&self, component: &str, fields: &[(&str, &str)], file: &[u8]) -> Page {
        let path = format!("/operator/components/{component}");
        let token = self.get(&path).form_token();
        let fields = [&[("form_token", token.as_str()), ("confirmed", "yes")], fields].concat();
        self.upload(&path, &fields, file)
    }

    fn upload(&self, path: &str, fields: &[(&str, &str)], file: &[u8]) -> Page {
        let mut body = Vec::new();
        let part = |name: &str| format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"");
        for (name, value) in fields {
            body.extend(format!("{}\r\n\r\n{value}\r\n", part(name)).bytes());
        }
        body.extend(format!("{}; filename=\"a.wasm\"\r\n\r\n", part("file")).bytes());
        body.extend(file);
        body.extend(format!("\r\n--{BOUNDARY}--\r\n").bytes());
        let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
        self.send("POST", path, &[("content-type", &content_type), ("sec-fetch-site", "same-origin")], &body)
    }
}

const FORM: [(&str, &str); 2] =
    [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];

impl Page {
    /// The cookie that the response sets, as a request sends it.
    fn cookie(&self) -> String {
        let value = self.headers["set-cookie"].to_str().unwrap();
        value.split(';').next().unwrap().to_owned()
    }

    #[track_caller]
    fn form_token(&self) -> String {
        let (_, rest) = self.text.split_once("name=\"form_token\" value=\"").unwrap_or_else(|| panic!("{}", self.text));
        rest.split('"').next().unwrap().to_owned()
    }

    #[track_caller]
    fn expect(&self, status: u16, text: &str) {
        assert!(self.status == status && self.text.contains(text), "{status} {text}: {} {}", self.status, self.text);
    }
}

#[test]
fn without_a_session_there_is_only_the_form_to_sign_in() {
    let visitor = Visitor::new();
    for path in ["/operator", "/operator/components/probe", "/operator/components/probe/rollback", "/operator/x"] {
        let page = visitor.get(path);
        page.expect(401, "hexad status --web");
        assert!(!page.text.contains("incoming"), "{path}: {}", page.text);
        assert_eq!(visitor.send("POST", path, &FORM, b"form_token=x").status, 401, "{path}");
    }
    assert_eq!(
        visitor.upload("/operator/components/incoming", &[("form_token", "")], &variant("incoming", 1)).status,
        401
    );
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
    visitor.get(&address).expect(401, "used already");
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
fn a_component_is_swapped_promoted_and_rolled_back() {
    let visitor = Visitor::signed_in("mia");
    let path = "/operator/components/incoming";
    let original = digest(&visitor.server, "incoming");
    let (first, second) = (variant("incoming", 1), variant("incoming", 2));
    visitor.swap("incoming", &[], &first).expect(200, "is serving: generation 2");
    assert_eq!(digest(&visitor.server, "incoming"), Digest::of(&first));

    visitor.swap("incoming", &[("percent", "10"), ("window", "1h")], &second).expect(200, "is on trial");
    assert_eq!(digest(&visitor.server, "incoming"), Digest::of(&first));
    visitor.get(&format!("{path}/promote")).expect(200, "The trial ends, and all callers get");
    visitor.submit(&format!("{path}/promote")).expect(200, "is serving");
    assert_eq!(digest(&visitor.server, "incoming"), Digest::of(&second));

    let restored = Digest::of(&first).to_string();
    visitor
        .get(&format!("{path}/rollback"))
        .expect(200, &format!("All callers get {} again", restored.get(..12).unwrap()));
    visitor.submit(&format!("{path}/rollback")).expect(200, &restored);
    assert_eq!(digest(&visitor.server, "incoming"), Digest::of(&first));
    assert_ne!(digest(&visitor.server, "incoming"), original);

    let lines = audit(&visitor.server.folder);
    assert!(lines.len() == 4 && lines.iter().all(|line| line["by"] == "mia"), "{lines:?}");
    let overview = visitor.get("/operator");
    for action in ["swap", "canary", "promote", "rollback"] {
        overview.expect(200, &format!("<td>{action}</td>"));
    }
}

#[test]
fn what_is_refused_is_shown_with_its_reason() {
    let visitor = Visitor::signed_in("mia");
    visitor.swap("incoming", &[], b"text").expect(422, "Nothing was changed: ");
    visitor.swap("incoming", &[], b"").expect(400, "no file");
    visitor.swap("incoming", &[("percent", "0")], b"x").expect(400, "percent=0 is not a percentage");
    visitor.swap("incoming", &[("window", "5m")], b"x").expect(400, "needs a percentage");
    visitor.swap("incoming", &[("signature", "x")], b"x").expect(400, "not the base64");
    visitor.submit("/operator/components/incoming/promote").expect(409, "has no canary");
    visitor.submit("/operator/components/probe/rollback").expect(409, "nothing to go back to");
    visitor.get("/operator/components/x").expect(404, "no such component");
    visitor.get("/operator/x").expect(404, "no such page");
    let page = visitor.send("PUT", "/operator/components/probe", &[], b"");
    page.expect(405, "GET, POST");
    assert_eq!(page.headers["allow"], "GET, POST");
    visitor.get("/operator").expect(200, "not a usable component");
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
fn no_component_sees_the_operators_cookie() {
    let visitor = Visitor::signed_in("mia");
    let mut server = visitor.server;
    let address = server.listen();
    let url = format!("http://{address}/probe/headers");
    let sent = visitor.agent.get(&url).header("cookie", format!("a=1; {}", visitor.cookie)).call();
    let headers = sent.unwrap().body_mut().read_to_string().unwrap();
    assert!(headers.contains("a=1") && !headers.contains("hexad-operator"), "{headers}");
}

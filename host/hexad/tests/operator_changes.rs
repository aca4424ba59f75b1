//! Changes from the operator's pages.

use crate::visitor::{FORM, Visitor};
use crate::*;

#[test]
fn a_component_is_swapped_promoted_and_rolled_back() {
    let visitor = Visitor::signed_in("mia");
    let path = "/operator/components/incoming";
    let original = digest(&visitor.server, "incoming");
    let (first, second) = (variant("incoming", 1), variant("incoming", 2));
    visitor.swap("incoming", &[], &first).expect(200, "is serving: revision 2");
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
fn refusals_are_shown_with_their_reason() {
    let visitor = Visitor::signed_in("mia");
    visitor.swap("incoming", &[], b"text").expect(422, "Nothing was changed: ");
    visitor.swap("incoming", &[], b"").expect(400, "no file");
    visitor.swap("incoming", &[("percent", "0")], b"x").expect(400, "percent=0 is not a percentage");
    visitor.swap("incoming", &[("window", "5m")], b"x").expect(400, "needs a percentage");
    visitor.swap("incoming", &[("signature", "x")], b"x").expect(400, "not the base64");
    let path = "/operator/components/incoming/promote";
    let shown = visitor.get("/operator/components/incoming");
    visitor.submit_of(path, &shown).expect(409, "Nothing was changed: component `incoming` has no canary");
    let useless = visitor.get(path);
    useless.expect(200, "There is no canary to be promoted.");
    assert!(!useless.text.contains("<button>Promote"), "{}", useless.text);
    let form = format!("form_token={}", shown.form_token());
    visitor.send("POST", path, &FORM, form.as_bytes()).expect(400, "does not say what it changes");
    visitor.submit("/operator/components/probe/rollback").expect(409, "no previous revision to roll back to");
    visitor.get("/operator/components/x").expect(404, "no such component");
    visitor.get("/operator/x").expect(404, "no such page");
    let page = visitor.send("PUT", "/operator/components/probe", &[], b"");
    page.expect(405, "GET, HEAD, POST");
    assert_eq!(page.headers["allow"], "GET, HEAD, POST");
    visitor.get("/operator").expect(200, "not a usable component");
}

#[test]
fn a_form_changes_only_the_version_that_its_page_showed() {
    let visitor = Visitor::signed_in("mia");
    let path = |end: &str| format!("/operator/components/incoming{end}");
    let versions = [1, 2, 3].map(|mark| variant("incoming", mark));
    let [first, second, third] = versions.each_ref().map(|wasm| Digest::of(wasm));
    let changed = "Nothing was changed: the active revision or the canary of `incoming` has changed since you looked; \
                   run `hexad status` and try again";
    let serving = || digest(&visitor.server, "incoming");
    let before_any = visitor.get(&path(""));
    visitor.swap("incoming", &[], &versions[0]).expect(200, "is serving");
    visitor.swap_of("incoming", &before_any, &[], &versions[1]).expect(409, changed);
    assert_eq!(serving(), first);

    // A second click, or one in another tab.
    visitor.swap("incoming", &[], &versions[1]).expect(200, "is serving");
    let page = visitor.get(&path("/rollback"));
    visitor.submit_of(&path("/rollback"), &page).expect(200, "is serving");
    assert_eq!(serving(), first);
    visitor.submit_of(&path("/rollback"), &page).expect(409, changed);
    assert_eq!(serving(), first);

    // A trial that ended since the page was shown.
    let trial = [("percent", "10"), ("window", "1h")];
    visitor.swap("incoming", &trial, &versions[1]).expect(200, "is on trial");
    let pages = ["/rollback", "/promote"].map(|end| (end, visitor.get(&path(end))));
    pages[0].1.expect(200, "The trial of");
    visitor.server.host.deployer().roll_back("incoming", "the tests", None).unwrap();
    for (end, page) in &pages {
        visitor.submit_of(&path(end), page).expect(409, changed);
        assert_eq!(serving(), first);
    }

    // Another canary than the page showed.
    visitor.swap("incoming", &trial, &versions[2]).expect(200, "is on trial");
    for (end, page) in &pages {
        visitor.submit_of(&path(end), page).expect(409, changed);
    }
    assert_eq!(serving(), first);
    visitor.submit(&path("/promote")).expect(200, "is serving");
    assert_eq!(serving(), third);
    assert_ne!(third, second);
    let done = audit(&visitor.server.folder).into_iter().filter(|line| line["outcome"] == "done");
    let done: Vec<_> = done.map(|line| line["action"].as_str().unwrap().to_owned()).collect();
    assert_eq!(done, ["swap", "swap", "rollback", "canary", "rollback", "canary", "promote"]);
}

#[test]
fn a_trial_ends_by_itself_after_the_time_that_its_form_shows() {
    let visitor = Visitor::signed_in("mia");
    let page = visitor.get("/operator/components/incoming");
    page.expect(200, "name=\"window\" placeholder=\"60s\"");
    page.expect(200, "When the time of a trial is over, the host promotes a canary that does well.");
    page.expect(200, "There is no previous revision.");
}

/// Sends the head of a request, and returns the bytes that come before the connection ends.
fn exchange(visitor: &Visitor, head: &str) -> String {
    let mut stream = wait::connect(visitor.access.url.strip_prefix("http://").unwrap());
    stream.write_all(head.as_bytes()).unwrap();
    read_text(stream)
}

#[test]
fn a_body_that_is_not_used_is_not_asked_for() {
    let visitor = Visitor::signed_in("mia");
    let cookie = visitor.cookie.as_str();
    let component = "/operator/components/incoming";
    for (method, path, cookie, site, status) in [
        ("POST", component, "", "same-origin", 401),
        ("POST", component, cookie, "cross-site", 403),
        // The body is not a multipart form.
        ("POST", component, cookie, "same-origin", 400),
        ("POST", "/operator", cookie, "same-origin", 405),
        ("PUT", component, cookie, "same-origin", 405),
        ("POST", "/operator/x", cookie, "same-origin", 404),
    ] {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: h\r\ncookie: {cookie}\r\nsec-fetch-site: {site}\r\n\
             content-length: 1000000\r\nexpect: 100-continue\r\n\r\n"
        );
        let answer = exchange(&visitor, &head);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {path}: {answer}");
    }
}

#[test]
fn a_client_that_sends_a_body_that_is_not_used_reads_the_response() {
    let visitor = Visitor::signed_in("mia");
    let large = vec![b'a'; 8 << 20];
    let component = "/operator/components/incoming";
    for (method, path, status) in
        [("POST", "/operator", 405), ("POST", "/operator/x", 404), ("PUT", component, 405), ("POST", component, 400)]
    {
        assert_eq!(visitor.send(method, path, &FORM, &large).status, status, "{method} {path}");
    }
    for path in ["/operator/sign-out", "/operator/components/incoming/rollback", "/operator/sign-in"] {
        visitor.send("POST", path, &FORM, &large).expect(400, "the form cannot be read");
    }
}

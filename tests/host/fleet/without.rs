//! `hexad swap --exclude-host`, and the same on the operator's pages.

use super::*;

#[test]
fn a_host_that_cannot_serve_a_component_can_be_left_out_and_is_not_ready_until_it_can() {
    let Some(fleet) = Fleet::start() else { return };
    let free = fleet.host(&[]);
    let (list, strict) = fleet.strict_host(&[0]);
    let refused = free.operator().swap("hello", &version(1));
    assert!(refused.status == 409 && refused.text().contains("--exclude-host"), "{}", refused.text());
    let unknown = free.operator().swap("hello?without=web7", &version(1));
    assert!(unknown.status == 409 && unknown.text().contains("web7"), "{}", unknown.text());

    let status = free.operator().get("/status").json();
    let folder = strict.server.data.canonicalize().expect("a folder").display().to_string();
    let hosts = status["host"]["hosts"].as_array().expect("hosts").clone();
    let mut names = hosts.iter().map(|host| host["name"].as_str().expect("text").to_owned());
    let name = names.find(|name| name.ends_with(&folder)).expect("the host");
    free.operator().swap(&format!("hello?without={name}"), &version(1)).expect(200);
    assert_eq!(free.serves(), 1);
    let reason = "select entry::json->>'reason' from hexad.audit order by id desc limit 1;";
    assert_eq!(fleet.database.sql_in("fleet", reason).trim(), format!("without {name}"));

    let ready = |expected: &str| {
        let text = strict.operator().get("/readyz").text();
        if text == expected { Ok(()) } else { Err(text + &strict.operator().get("/status").text()) }
    };
    wait_for_ok(SOON, "a host that cannot serve the component", || ready("components differ\n"));
    let answer = strict.answer(&http::agent());
    assert!(is_try_again(&answer), "{}: {}", answer.status, answer.text());
    list.set(&[0, 1]);
    assert_eq!(strict.serves(), 1);
    wait_for_ok(SOON, "a host that is ready", || ready("ready\n"));
}

#[test]
fn on_the_operators_page_a_host_is_left_out_by_its_name() {
    let Some(fleet) = Fleet::start() else { return };
    let free = fleet.host(&[]);
    let (_list, strict) = fleet.strict_host(&[0]);
    let mut visitor = Visitor::signed_in(&free);
    let (page, name) = wait_for_ok(SOON, "the other host on the page", || {
        let page = visitor.get("/operator/components/hello").text();
        let name = page.split_once("name=\"without\" value=\"").and_then(|(_, rest)| rest.split('"').next());
        match name.map(str::to_owned) {
            Some(name) => Ok((page, name)),
            None => Err(page),
        }
    });
    let folder = strict.server.data.canonicalize().expect("a folder").display().to_string();
    assert!(name.ends_with(&folder) && page.matches("name=\"without\"").count() == 1, "{page}");
    let refused = visitor.swap("hello", &page, &[], &version(1));
    assert!(refused.status == 409 && refused.text().contains(&folder), "{}", refused.text());
    let swapped = visitor.swap("hello", &page, &[("without", &name)], &version(1));
    assert!(swapped.status == 200 && swapped.text().contains("is serving"), "{}", swapped.text());
    assert_eq!(free.serves(), 1);
    assert!(is_try_again(&strict.answer(&http::agent())));
}

/// A browser without scripts on the pages of a host.
struct Visitor {
    url: String,
    cookie: String,
    agent: ureq::Agent,
}

impl Visitor {
    fn signed_in(host: &Member) -> Self {
        let code = host.operator().post("/sign-in-codes").json()["code"].as_str().expect("a code").to_owned();
        let mut visitor = Self { url: host.operator().url().to_owned(), cookie: String::new(), agent: http::agent() };
        let signed_in = visitor.get(&format!("/operator/sign-in?code={code}"));
        visitor.cookie = signed_in.header("set-cookie").split(';').next().expect("a cookie").to_owned();
        visitor
    }

    fn get(&mut self, path: &str) -> http::Answer {
        let request = self.agent.get(format!("{}{path}", self.url)).header("cookie", &self.cookie);
        request.call().and_then(http::read).expect("an answer")
    }

    /// Sends the form of a page, with a file.
    fn swap(&mut self, component: &str, page: &str, fields: &[(&str, &str)], file: &[u8]) -> http::Answer {
        let hidden = page.split("<input type=\"hidden\" name=\"").skip(1).map(|rest| {
            let (name, rest) = rest.split_once("\" value=\"").expect("a value");
            (name, rest.split('"').next().expect("a value"))
        });
        let mut body = Vec::new();
        for (name, value) in hidden.chain([("confirmed", "yes")]).chain(fields.iter().copied()) {
            let part = format!("--limit\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            body.extend(part.bytes());
        }
        body.extend(b"--limit\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wasm\"\r\n\r\n");
        body.extend(file);
        body.extend(b"\r\n--limit--\r\n");
        let request = self.agent.post(format!("{}/operator/components/{component}", self.url));
        let request = request.header("cookie", &self.cookie).header("sec-fetch-site", "same-origin");
        let request = request.header("content-type", "multipart/form-data; boundary=limit");
        request.send(body).and_then(http::read).expect("an answer")
    }
}

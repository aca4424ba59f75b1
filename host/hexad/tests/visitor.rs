//! A visitor of the operator's pages.

use crate::*;
use ureq::{Agent, Body};

const BOUNDARY: &str = "boundary-of-the-tests";

/// A browser without scripts: it keeps a cookie and follows no redirect.
pub struct Visitor {
    pub server: Server,
    pub access: AdminAccess,
    pub agent: Agent,
    pub cookie: String,
}

pub struct Page {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub text: String,
}

impl Visitor {
    pub fn new() -> Self {
        let mut server = Server::with("");
        let access = server.administer();
        Self { server, access, agent: agent(), cookie: String::new() }
    }

    /// With the session of `actor`.
    pub fn signed_in(actor: &str) -> Self {
        let mut visitor = Self::new();
        let code = visitor.code(actor);
        let page = visitor.get(&format!("/operator/sign-in?code={code}"));
        page.expect(200, "http-equiv=\"refresh\" content=\"0;url=/operator\"");
        visitor.cookie = page.cookie();
        visitor
    }

    pub fn code(&self, actor: &str) -> String {
        let authorization = format!("Bearer {}", self.access.token);
        let headers = [("authorization", authorization.as_str()), ("x-hexad-actor", actor)];
        let page = self.send("POST", "/sign-in-codes", &headers, b"");
        assert_eq!(page.status, 200, "{}", page.text);
        serde_json::from_str::<serde_json::Value>(&page.text).unwrap()["code"].as_str().unwrap().to_owned()
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Page {
        let request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.access.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.header("cookie", &self.cookie).body(body.to_vec()).unwrap();
        let mut response: ureq::http::Response<Body> = self.agent.run(request).unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Page { status, headers, text: response.body_mut().read_to_string().unwrap() }
    }

    pub fn get(&self, path: &str) -> Page {
        self.send("GET", path, &[], b"")
    }

    /// Sends the form of a page that was shown.
    pub fn submit(&self, path: &str) -> Page {
        self.submit_of(path, &self.get(path))
    }

    /// Sends the form of a page that was shown before.
    pub fn submit_of(&self, path: &str, page: &Page) -> Page {
        let fields: Vec<_> = page.hidden().iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.send("POST", path, &FORM, fields.join("&").as_bytes())
    }

    /// Sends the form with a file.
    pub fn swap(&self, component: &str, fields: &[(&str, &str)], file: &[u8]) -> Page {
        let page = self.get(&format!("/operator/components/{component}"));
        self.swap_of(component, &page, fields, file)
    }

    /// Sends the form of a page that was shown before, with a file.
    pub fn swap_of(&self, component: &str, page: &Page, fields: &[(&str, &str)], file: &[u8]) -> Page {
        let hidden = page.hidden();
        let hidden = hidden.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<_> = hidden.chain([("confirmed", "yes")]).chain(fields.iter().copied()).collect();
        self.upload(&format!("/operator/components/{component}"), &fields, file)
    }

    pub fn upload(&self, path: &str, fields: &[(&str, &str)], file: &[u8]) -> Page {
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

pub const FORM: [(&str, &str); 2] =
    [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];

impl Page {
    /// The cookie that the response sets, as a request sends it.
    pub fn cookie(&self) -> String {
        let value = self.headers["set-cookie"].to_str().unwrap();
        value.split(';').next().unwrap().to_owned()
    }

    #[track_caller]
    pub fn form_token(&self) -> String {
        let token = self.hidden().into_iter().find(|(name, _)| name == "form_token");
        token.unwrap_or_else(|| panic!("{}", self.text)).1
    }

    /// The hidden fields of the page's forms, in their order.
    pub fn hidden(&self) -> Vec<(String, String)> {
        let inputs = self.text.split("<input type=\"hidden\" name=\"").skip(1);
        let fields = inputs.map(|rest| {
            let (name, rest) = rest.split_once("\" value=\"").unwrap();
            (name.to_owned(), rest.split('"').next().unwrap().to_owned())
        });
        fields.collect()
    }

    #[track_caller]
    pub fn expect(&self, status: u16, text: &str) {
        assert!(self.status == status && self.text.contains(text), "{status} {text}: {} {}", self.status, self.text);
    }
}

//! The common part of all HTTP clients of the tests.

use crate::wait::{OF_CONNECTIONS, OF_LONG_REQUESTS, SOON};
use std::io::Read as _;
use ureq::config::ConfigBuilder;
use ureq::http::{HeaderMap, Request, Response};
use ureq::typestate::AgentScope;

/// A whole response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    /// This response, which has to have a status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's text; empty if the header is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A client for which every status is an answer, also a redirect. It uses no proxy of the environment, and each wait
/// has a deadline.
pub fn agent() -> ureq::Agent {
    let config = config().timeout_connect(Some(SOON));
    config.timeout_recv_response(Some(OF_CONNECTIONS)).timeout_recv_body(Some(OF_CONNECTIONS)).build().into()
}

/// Sends a request to the API. The answer to an import or to a maintenance task may take long: it comes after the last
/// record.
pub fn send(agent: &ureq::Agent, request: Request<impl ureq::AsSendBody>) -> Result<Answer, ureq::Error> {
    let is_long = ["/import/", "/maintenance/"].iter().any(|part| request.uri().path().contains(part));
    let deadline = if is_long { OF_LONG_REQUESTS } else { OF_CONNECTIONS };
    let request = agent.configure_request(request).timeout_recv_response(Some(deadline)).build();
    agent.run(request).and_then(read)
}

/// As [`agent`], for a benchmark, whose answers may take any time.
pub fn patient_agent() -> ureq::Agent {
    config().build().into()
}

fn config() -> ConfigBuilder<AgentScope> {
    ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None)
}

/// The cookie of a session of the console, which its sign-in form sets for this token. `host` is the service's.
pub fn console_session(url: &str, host: &str, token: &str) -> String {
    let sign_in = format!("{url}/-/sign-in");
    let cookie = |answer: &Answer| answer.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    let page = agent().get(&sign_in).header("host", host).call().and_then(read).expect("the form");
    let text = page.text();
    let (_, rest) = text.split_once("name=\"form_token\" value=\"").unwrap_or_else(|| panic!("no form: {text}"));
    let form_token = rest.split('"').next().unwrap_or_default();
    let form = agent().post(&sign_in).header("host", host).header("cookie", cookie(&page));
    let answer = form.send_form([("form_token", form_token), ("token", token)]).and_then(read).expect("an answer");
    assert_eq!(answer.status, 303, "{}", answer.text());
    cookie(&answer)
}

/// Reads a response to its end. An error means that the connection broke.
pub fn read(response: Response<ureq::Body>) -> Result<Answer, ureq::Error> {
    let (head, body) = response.into_parts();
    let mut bytes = Vec::new();
    body.into_reader().read_to_end(&mut bytes)?;
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: bytes })
}

//! The context of a request, for every endpoint of the REST API.

use directory::caller::{self, AcceptedTokens, Caller};
use directory::project::Project;
use directory::redirect::Redirect;
use directory::user::User;
use directory::{record_cache, request_limits};
use http::StatusCode;
use kit::params::Params;
use kit::{Body, Env, Error, Request};

/// A request, and its authenticated caller.
pub struct RequestContext {
    pub env: Env,
    pub caller: Caller,
    /// Without its body.
    pub head: Request,
    /// The service's address.
    pub url: String,
}

impl RequestContext {
    /// Authenticates the caller of a request whose body was taken out.
    pub fn new(env: Env, head: Request) -> Result<Self, Error> {
        let caller = authenticate(&env, &head)?;
        Ok(RequestContext { url: env.external_url(&head), env, caller, head })
    }

    /// Authenticates the caller again, at the present time. A client may send a body for as long as the host lets it,
    /// and its token can be revoked meanwhile. So decisions from before the body was read do not count afterwards.
    pub fn renew(&mut self) -> Result<(), Error> {
        self.env = record_cache::renew(&self.env)?;
        self.caller = authenticate(&self.env, &self.head)?;
        Ok(())
    }

    /// Counts the records that an anonymous request is about to read; 429 beyond the limit.
    pub fn check_records(&self, records: usize) -> Result<(), Error> {
        request_limits::check_anonymous_records(&self.env, &self.head, &self.caller, records)
    }

    /// As [`Self::check_records`], for rows of the catalog.
    pub fn check_rows(&self, rows: usize) -> Result<(), Error> {
        request_limits::check_anonymous_rows(&self.env, &self.head, &self.caller, rows)
    }

    /// The parameters of the query.
    pub fn params(&self) -> Params {
        self.head.params()
    }

    /// The requested address, without its query.
    pub fn own_url(&self) -> String {
        format!("{}{}", self.url, self.head.path)
    }

    /// The response to a request that named this project by an old path: 301, or 405 unless it is a GET.
    pub fn moved(&self, project: &Project) -> Error {
        Redirect::to_project(project.id, &self.url, &self.head.path, &self.head.query).into_error(&self.head.method)
    }

    /// The e-mail address of a user in commits: the address that they chose, or an address that receives no mail.
    pub fn commit_email(&self, user: &User) -> String {
        let host = kit::url::host(&self.url);
        let no_reply = || format!("{}-{}@users.noreply.{host}", user.id, user.username);
        user.commit_email.clone().unwrap_or_else(no_reply)
    }
}

fn authenticate(env: &Env, head: &Request) -> Result<Caller, Error> {
    let caller = caller::authenticate(env, head, AcceptedTokens::Api)?;
    caller.require_scope(caller::api_scopes(&head.method))?;
    Ok(caller)
}

/// The largest body of parameters, in bytes: a comment of the longest text, escaped.
const MAX_BODY: u64 = 8 << 20;

/// The parameters of a query and a body; the body takes precedence. 401 for an anonymous caller, before the body is
/// read. If the body was still arriving, the caller is authenticated again after it.
pub async fn read(context: &mut RequestContext, body: Body) -> Result<Params, Error> {
    context.caller.user_or_401()?;
    let mut request = Request::new(context.head.method.clone(), "");
    request.query.clone_from(&context.head.query);
    request.headers.clone_from(&context.head.headers);
    let was_there = body.is_there();
    request.body = body;
    let params = kit::input::read_params(request, MAX_BODY).await?;
    if !was_there {
        context.renew()?;
    }
    Ok(params)
}

/// A suggestion's id in a path; 400 if it is not an integer.
pub fn suggestion_id(text: &str) -> Result<u64, Error> {
    integer(text).ok_or_else(|| Error::validation("id is invalid"))
}

/// Checks a merge request's iid in a path; 400 if it is not an integer.
pub fn check_iid(text: &str) -> Result<(), Error> {
    integer(text).map(drop).ok_or_else(|| Error::validation("noteable_id is invalid"))
}

/// An integer in a path. A negative number, or one that does not fit, becomes 0, which is the id of nothing.
pub fn integer(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer.then(|| text.parse().unwrap_or(0))
}

/// The longest title and text, in characters, as in the reference service.
const MAX_TITLE: usize = 255;
const MAX_CHARACTERS: usize = 1_000_000;

/// The most bytes of a text in an answer. A page of a list has many texts ([`crate::api::json_page`]).
const MAX_BYTES: usize = 2 << 20;

/// Why a title is too long.
pub fn find_excess_of_title(title: &str) -> Option<String> {
    let is_too_long = title.chars().count() > MAX_TITLE;
    is_too_long.then(|| format!("is too long (maximum is {MAX_TITLE} characters)"))
}

/// Why a text is too long.
pub fn find_excess(text: &str) -> Option<String> {
    if text.chars().count() > MAX_CHARACTERS {
        return Some(format!("is too long (maximum is {MAX_CHARACTERS} characters)"));
    }
    let is_too_large = json_length(text) > MAX_BYTES;
    is_too_large.then(|| format!("is too long (maximum is {MAX_BYTES} bytes in JSON)"))
}

/// The bytes of a JSON string without its quotation marks.
fn json_length(text: &str) -> usize {
    let length = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

/// The most text of files that one response shows, in bytes.
const LIMIT: usize = 24 << 20;

/// How much text of files a response may still show.
pub struct TextBudget {
    /// In bytes.
    remaining: usize,
}

impl TextBudget {
    pub fn new() -> Self {
        TextBudget { remaining: LIMIT }
    }

    /// 400 if the response would show more than the bound.
    pub fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        let exceeded = || {
            let text = format!("400 Bad request - the suggestions' lines have more than {LIMIT} bytes together");
            Error::message(StatusCode::BAD_REQUEST, text)
        };
        self.remaining = self.remaining.checked_sub(bytes).ok_or_else(exceeded)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_that_of_the_json() {
        let all: String = (0..0x180).filter_map(char::from_u32).collect();
        for text in ["", "a\"b\\c/\n", &all] {
            assert_eq!(json_length(text) + 2, serde_json::to_string(text).unwrap().len());
        }
    }

    #[test]
    fn texts_are_bounded_in_characters_and_in_bytes() {
        assert_eq!(find_excess(&"x".repeat(1_000_000)), None);
        assert_eq!(find_excess(&"\n".repeat(1_000_000)), None);
        assert!(find_excess(&"x".repeat(1_000_001)).unwrap().contains("1000000 characters"));
        assert_eq!(find_excess(&"字".repeat(699_050)), None);
        assert!(find_excess(&"字".repeat(699_051)).unwrap().contains("2097152 bytes"));
    }
}

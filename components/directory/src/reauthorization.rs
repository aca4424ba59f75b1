//! Authorization of requests whose bodies arrive slowly, over hours if an import is large or a client slow.
//!
//! A caller may lose rights between the beginning of a request and the end of its body. So a request is refused at its
//! beginning if possible, and authorized again right before it is carried out. The response is as if the request began
//! at that moment.

use crate::caller::{self, AcceptedTokens};
use crate::record_cache;
use kit::{Env, Error, Request};

/// Reads the body of a request into memory, and calls `authorize` before and after. Returns the environment and the
/// result of the last call. A body that arrived with the request needs no second call. 413 if the body has more than
/// `limit` bytes.
pub async fn with_body<T>(
    env: &Env,
    request: &mut Request,
    limit: u64,
    authorize: impl Fn(&Env, &Request) -> Result<T, Error>,
) -> Result<(Env, T), Error> {
    let early = authorize(env, request)?;
    let was_there = request.body.is_there();
    request.body = std::mem::take(&mut request.body).collect(limit).await?.into();
    if was_there {
        return Ok((env.clone(), early));
    }
    let env = record_cache::renew(env)?;
    let authorized = authorize(&env, request)?;
    Ok((env, authorized))
}

/// An administrator's request without its body, which is applied in parts as it arrives.
pub struct AdminRequest(Request);

impl AdminRequest {
    /// Keeps a request without its body. The caller is not authorized yet.
    pub fn new(request: Request) -> Self {
        AdminRequest(request)
    }

    /// Checks that the caller is an administrator now, for the next part of the body; 401 or 403 otherwise. Reads as
    /// [`caller::authenticate`].
    pub fn authorize(&self, env: &Env) -> Result<(), Error> {
        let AdminRequest(request) = self;
        let env = record_cache::renew(env)?;
        let caller = caller::authenticate(&env, request, AcceptedTokens::Api)?;
        caller.user_or_401()?;
        caller.require_scope(caller::api_scopes(&request.method))?;
        if caller.is_admin() { Ok(()) } else { Err(Error::forbidden()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fill, issue, issue_to, new_token};
    use crate::token::{self, Fingerprint, Subject};
    use bytes::Bytes;
    use http::Method;
    use kit::Body;
    use kit::testing::{MemoryStore, env};
    use std::cell::Cell;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// The result of a future that waits for nothing.
    fn ready<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("it waits"),
        }
    }

    fn forge() -> Env {
        let env = env(MemoryStore::default(), &[]);
        fill(&env);
        issue_to(&env, "t", 1, &["api"]);
        env
    }

    fn request(body: Body) -> Request {
        let mut request = Request::new(Method::PUT, "/");
        request.headers.insert("authorization", "Bearer t".parse().unwrap());
        request.body = body;
        request
    }

    fn stream(parts: &'static [&'static str]) -> Body {
        Body::pull(parts.iter().map(|part| Ok(Bytes::from_static(part.as_bytes()))))
    }

    #[test]
    fn a_body_that_arrives_later_is_authorized_before_and_after() {
        for (body, calls) in [(Body::Empty, 1), (Body::from("ab"), 1), (stream(&["a", "b"]), 2)] {
            let count = Cell::new(0);
            let authorize = |_: &Env, _: &Request| {
                count.set(count.get() + 1);
                Ok(count.get())
            };
            let is_empty = matches!(body, Body::Empty);
            let mut request = request(body);
            let outcome = ready(with_body(&forge(), &mut request, 2, authorize));
            assert_eq!((outcome.ok().unwrap().1, count.get()), (calls, calls));
            let read = ready(request.body.collect(2)).unwrap();
            assert_eq!(read, if is_empty { &b""[..] } else { b"ab" });
        }
    }

    #[test]
    fn a_body_that_is_too_large_is_refused_whenever_it_arrives() {
        for body in [Body::from("abc"), stream(&["a", "bc"])] {
            let outcome = ready(with_body(&forge(), &mut request(body), 2, |_, _| Ok(())));
            assert_eq!(outcome.err().map(|error| error.status.as_u16()), Some(413));
        }
    }

    #[test]
    fn a_request_that_is_refused_at_its_beginning_is_not_read() {
        let refuse = |_: &Env, _: &Request| Err::<(), _>(Error::forbidden());
        let mut request = request(stream(&["a", "b"]));
        let outcome = ready(with_body(&forge(), &mut request, 1, refuse));
        assert_eq!(outcome.err(), Some(Error::forbidden()));
        assert_eq!(ready(request.body.collect(2)).unwrap(), b"ab");
    }

    #[test]
    fn an_administrator_is_one_as_long_as_the_records_say_so() {
        let env = forge();
        let sent = AdminRequest::new(request(Body::Empty));
        assert_eq!(sent.authorize(&env), Ok(()));
        token::revoke(&env, &Fingerprint::of(b"t")).unwrap();
        assert_eq!(sent.authorize(&env).unwrap_err().status, 401);
        for (subject, scopes, status) in [
            (Subject::User(1), &["read_api"], 403),
            (Subject::User(2), &["api"], 403),
            (Subject::User(9), &["api"], 401),
        ] {
            issue(&env, "t", new_token(subject, scopes));
            assert_eq!(sent.authorize(&env).unwrap_err().status, status);
        }
    }
}

//! Sessions of the pages: how they begin, and the session of a request.

use std::io;
use std::time::Instant;

use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::route::{OVERVIEW, OperatorRoute};
use super::{OperatorPages, error, form, form_status, frame, redirect};
use crate::response::{AdminResponse, body};
use crate::sessions::{CodeUse, Session};
use crate::upload::UploadBody;

/// The actor in the audit log for an operator who has signed in with the listener's token.
const TOKEN_HOLDER: &str = "browser";

/// An operator with a session.
pub struct SignedIn {
    pub session: Session,
    pub cookie_value: String,
}

impl OperatorPages {
    /// The session that a request belongs to.
    pub fn signed_in(&self, headers: &HeaderMap) -> Option<SignedIn> {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find_map(|(name, value)| {
            let session = (name == self.cookie_name).then(|| self.context.sessions.find(value, Instant::now()))??;
            Some(SignedIn { session, cookie_value: value.to_owned() })
        })
    }

    /// Handles a request that needs no session.
    pub async fn public(
        &self,
        route: OperatorRoute,
        headers: &HeaderMap,
        request_body: impl UploadBody,
    ) -> AdminResponse {
        match route {
            OperatorRoute::Style => body(StatusCode::OK, "text/css; charset=utf-8", widgets::STYLE),
            OperatorRoute::Icon => body(StatusCode::OK, "image/svg+xml", widgets::ICON),
            OperatorRoute::SignInForm(Some(code)) => self.sign_in_by_code(&code, headers),
            OperatorRoute::SignIn => match form::read(request_body).await {
                Ok(form) if form.text("token").is_some_and(|token| self.context.verifier.accepts_token(token)) => {
                    self.sign_in_by_token(headers)
                }
                Ok(_) => frame::sign_in_page(StatusCode::UNAUTHORIZED, Some(&error("This is not the token."))),
                Err(failure) => frame::sign_in_page(form_status(&failure), Some(&error(&failure.to_string()))),
            },
            _ => frame::sign_in_page(StatusCode::OK, None),
        }
    }

    fn sign_in_by_code(&self, code: &str, headers: &HeaderMap) -> AdminResponse {
        let own_cookie = self.signed_in(headers).map(|signed_in| signed_in.cookie_value);
        let reason = match self.context.sessions.redeem(code, own_cookie.as_deref(), Instant::now()) {
            Ok(CodeUse::Begun { actor, cookie }) => {
                // No redirect: when another site or a file has led a browser here, the browser sends a
                // `SameSite=Strict` cookie with requests of this page, but not with the next request of a redirect.
                return self.begin_session(&actor, &cookie, headers, frame::signed_in_page());
            }
            Ok(CodeUse::Repeated) => return frame::signed_in_page(),
            Ok(CodeUse::UsedTwice { actor }) => {
                tracing::warn!(actor, "an operator's address was used twice; the session that it began was ended");
                "This address was used already; the session it began was ended. Ask for another one."
            }
            Ok(CodeUse::Unknown) => {
                "This address was used already, or is older than five minutes. Ask for another one."
            }
            Err(failure) => return no_randomness(&failure),
        };
        frame::sign_in_page(StatusCode::UNAUTHORIZED, Some(&error(reason)))
    }

    fn sign_in_by_token(&self, headers: &HeaderMap) -> AdminResponse {
        match self.context.sessions.begin(TOKEN_HOLDER.to_owned(), Instant::now()) {
            Ok(cookie) => self.begin_session(TOKEN_HOLDER, &cookie, headers, redirect(OVERVIEW)),
            Err(failure) => no_randomness(&failure),
        }
    }

    fn begin_session(&self, actor: &str, cookie: &str, headers: &HeaderMap, page: AdminResponse) -> AdminResponse {
        tracing::info!(actor, "an operator signed in");
        self.with_cookie(page, cookie, headers, "")
    }

    /// The page, with a header that removes the cookie.
    pub fn signed_out(&self, headers: &HeaderMap, page: AdminResponse) -> AdminResponse {
        self.with_cookie(page, "", headers, "; Max-Age=0")
    }

    /// The listener itself speaks no TLS. A proxy with TLS in front of it says so in `X-Forwarded-Proto`.
    fn with_cookie(&self, mut page: AdminResponse, value: &str, headers: &HeaderMap, end: &str) -> AdminResponse {
        let is_secure = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
        let secure = if is_secure { "; Secure" } else { "" };
        let cookie = format!("{}={value}; Path={OVERVIEW}; HttpOnly; SameSite=Strict{secure}{end}", self.cookie_name);
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            page.headers_mut().insert(SET_COOKIE, cookie);
        }
        page
    }
}

fn no_randomness(failure: &io::Error) -> AdminResponse {
    let text = format!("There is no source of randomness: {failure}");
    frame::sign_in_page(StatusCode::INTERNAL_SERVER_ERROR, Some(&error(&text)))
}

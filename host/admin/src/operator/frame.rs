//! The frame of the operator's pages, and the headers that protect them.

use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, HeaderValue, StatusCode};
use maud::{DOCTYPE, Markup, html};

use super::form;
use super::route;
use crate::response::{AdminResponse, body};
use crate::sessions::Session;

/// No script runs, only the stylesheet and the icon are loaded, and forms are sent to this listener only.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

const PROTECTION: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The outcome of a form.
pub struct Notice {
    pub text: String,
    pub is_error: bool,
}

/// A page. `session` is the operator's, if there is one.
pub fn page(
    status: StatusCode,
    title: &str,
    session: Option<&Session>,
    notice: Option<&Notice>,
    content: &Markup,
) -> AdminResponse {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · hexad operator" }
                link rel="stylesheet" href=(route::STYLE);
                link rel="icon" type="image/svg+xml" href=(route::ICON);
            }
            body {
                a.skip href="#main" { "Skip to the contents" }
                header.top {
                    div.inner {
                        a.brand href=(route::OVERVIEW) { span { "hexad operator" } }
                        nav aria-label="Sections" {
                            @if session.is_some() { a href=(route::OVERVIEW) { "Components" } }
                        }
                        @if let Some(session) = session {
                            div.account {
                                span.user { bdi { (session.actor) } }
                                form method="post" action=(route::SIGN_OUT) {
                                    (form_token(session))
                                    button.quiet { "Sign out" }
                                }
                            }
                        }
                    }
                }
                main #main tabindex="-1" {
                    @if let Some(notice) = notice {
                        div.alert.error[notice.is_error] role=(if notice.is_error { "alert" } else { "status" }) {
                            p { (notice.text) }
                        }
                    }
                    (content)
                }
                footer { div.inner { p { "Times are in UTC." } } }
            }
        }
    };
    body(status, "text/html; charset=utf-8", document.into_string())
}

/// The page without a session.
pub fn sign_in_page(status: StatusCode, notice: Option<&Notice>) -> AdminResponse {
    let content = html! {
        div.card.narrow {
            h1 { "Sign in" }
            p { "On the machine of the host, as its user:" }
            pre.line { code { "hexad status --web" } }
            p { "It prints an address that signs you in, once and within five minutes. Or paste the token of the admin listener:" }
            form method="post" action=(route::SIGN_IN) {
                // Password managers file the token under this name.
                input type="text" name="username" autocomplete="username" value="operator" hidden;
                p { label { "Admin token" input type="password" name="token" required autocomplete="current-password"; } }
                button { "Sign in" }
            }
        }
    };
    page(status, "Sign in", None, notice, &content)
}

/// The first page of a session, which leads to the others.
pub fn signed_in_page() -> AdminResponse {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="refresh" content={ "0;url=" (route::OVERVIEW) };
                title { "Signed in · hexad operator" }
                link rel="stylesheet" href=(route::STYLE);
                link rel="icon" type="image/svg+xml" href=(route::ICON);
            }
            body { main { p { "You are signed in. " a href=(route::OVERVIEW) { "To the components" } } } }
        }
    };
    body(StatusCode::OK, "text/html; charset=utf-8", document.into_string())
}

/// The page in place of one that failed, with `text` as the reason.
pub fn failure_page(status: StatusCode, text: &str, session: &Session) -> AdminResponse {
    let content = html! {
        div.empty {
            h1 { "This did not work" }
            p { (text) }
            p { a.button.quiet href=(route::OVERVIEW) { "To the components" } }
        }
    };
    page(status, "This did not work", Some(session), None, &content)
}

/// The hidden field that every form of a session begins with.
pub fn form_token(session: &Session) -> Markup {
    html! { input type="hidden" name=(form::TOKEN) value=(session.form_token); }
}

/// Adds the headers that protect a response.
pub fn protect(mut response: AdminResponse) -> AdminResponse {
    for (name, value) in PROTECTION {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

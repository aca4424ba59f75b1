//! Requests and their responses. Only this module knows a status.

use crate::forge::{Forge, ForgeError};
use crate::layout::{self, Content, Section};
use crate::page_context::{Alert, PageContext, PageError, User, Visitor};
use crate::route::{self, Asset, Page, Route, RouteError};
use crate::session::Session;
use crate::{pages, session};
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, REFRESH, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, StatusCode};
use kit::env::EXTERNAL_URL;
use kit::error::BEARER;
use kit::params::Params;
use kit::{Env, Error, Request, Response};

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[EXTERNAL_URL, session::KEYS];

/// The largest form, in bytes.
const MAX_FORM: u64 = 256 << 10;

/// The explanation on the sign-in page if the console has no key.
const NO_KEY: &str = "Nobody can sign in here until the operator gives the variable console_session_key 32 random \
                      bytes in base64 or hex, as `openssl rand -base64 32` makes them.";

/// Answers one request.
pub async fn handle(env: Env, request: Request) -> Response {
    let mut response = match route::parse(&request.method, &request.path) {
        Ok(Route::Asset(asset)) => file(asset),
        Ok(Route::Show(page)) => SessionRequest::new(&env, &request).show(page, &request.params()).await,
        Ok(Route::Submit(page)) => submit(&env, request, page).await,
        Err(RouteError::NotFound) => SessionRequest::new(&env, &request).show_unknown(&request).await,
        Err(RouteError::Method(allow)) => {
            let mut response = Response::new(StatusCode::METHOD_NOT_ALLOWED);
            response.headers.insert(ALLOW, HeaderValue::from_static(allow));
            response
        }
    };
    protect(&mut response.headers);
    response
}

fn is_secure(base: &str) -> bool {
    base.starts_with("https:")
}

/// Whether the client can show a page. Other programs request unknown addresses, too.
fn accepts_html(request: &Request) -> bool {
    request.header(ACCEPT.as_str()).is_some_and(|types| types.contains("text/html"))
}

async fn submit(env: &Env, mut request: Request, page: Page) -> Response {
    let body = std::mem::replace(&mut request.body, kit::Body::Empty);
    let session_request = SessionRequest::new(env, &request);
    let form = match body.collect(MAX_FORM).await {
        Ok(form) => Params::parse(&String::from_utf8_lossy(&form)),
        Err(error) => {
            let visitor = session_request.visitor(None);
            let error = kit::Error::from(error);
            let text = match error.status {
                StatusCode::PAYLOAD_TOO_LARGE => format!("A form has at most {} KiB.", MAX_FORM >> 10),
                _ => "The form did not arrive as a whole. Send it again.".to_owned(),
            };
            return session_request.refusal(error.status, &text, &visitor);
        }
    };
    if !session_request.session.is_own_form(&request, form.text("form_token")) {
        let visitor = session_request.visitor(None);
        let text = "This form was not sent by a page of this session. Go back, load the page again, and repeat.";
        return session_request.refusal(StatusCode::FORBIDDEN, text, &visitor);
    }
    match page {
        Page::SignIn => session_request.sign_in(&form).await,
        Page::SignOut => session_request.sign_out(),
        page => session_request.submit(page, &request.params(), &form).await,
    }
}

/// A request and its session.
struct SessionRequest<'a> {
    env: &'a Env,
    session: Session,
    base: String,
    /// The page's address, without the host.
    here: String,
    /// The value of the flash message's cookie.
    flash: Option<String>,
}

impl<'a> SessionRequest<'a> {
    fn new(env: &'a Env, request: &Request) -> Self {
        let base = env.external_url(request);
        let here = match request.query.as_str() {
            "" => request.path.clone(),
            query => format!("{}?{query}", request.path),
        };
        let flash = session::sent(request, is_secure(&base));
        SessionRequest { env, session: Session::of(env, request), base, here, flash }
    }

    fn visitor(&self, user: Option<User>) -> Visitor {
        let is_signed_in = self.session.token().is_some();
        // Without a token, only the sign-in page has a form. It makes its own visitor.
        let form_token = if is_signed_in { self.session.form_token() } else { String::new() };
        Visitor { is_signed_in, user, form_token, root: self.root() }
    }

    /// A visitor without a token, whatever the session has.
    fn anonymous_visitor(&self) -> Visitor {
        Visitor { root: self.root(), ..Visitor::default() }
    }

    /// The path of the base URL, without a slash at its end.
    fn root(&self) -> String {
        let below = self.base.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        below.map(|(_, path)| format!("/{path}")).unwrap_or_default()
    }

    fn forge(&self) -> Forge<'_> {
        Forge::new(self.env, self.session.token())
    }

    /// The visitor of this request. The error is the response to a visitor whose token is refused.
    async fn identify(&self) -> Result<Visitor, Response> {
        if self.session.token().is_none() {
            return Ok(self.visitor(None));
        }
        match self.forge().get::<User>("user").await {
            Ok(user) => Ok(self.visitor(Some(user))),
            Err(error) if error.status() == StatusCode::UNAUTHORIZED => Err(self.session_ended()),
            Err(error) if error.is_missing_scope() => Ok(self.visitor(None)),
            Err(error) => Err(self.failure(&error.into(), &self.visitor(None))),
        }
    }

    async fn show(&self, page: Page, params: &Params) -> Response {
        match page {
            // A visitor with any session can sign in with another token.
            Page::SignIn => return self.sign_in_page(StatusCode::OK, params.text("next"), None),
            Page::SignOut => return self.redirect(route::HOME),
            _ => {}
        }
        let visitor = match self.identify().await {
            Ok(visitor) => visitor,
            Err(response) => return response,
        };
        match &self.flash {
            Some(cookie) => self.show_with(cookie, &page, params, &visitor).await,
            None => match pages::show(&page, &self.page_context(&visitor, params)).await {
                Ok(content) => self.document(StatusCode::OK, &content, &visitor, None),
                Err(error) => self.failure(&error, &visitor),
            },
        }
    }

    /// Redirects an address of the reference service to its page here, or answers that there is no page.
    async fn show_unknown(&self, request: &Request) -> Response {
        let is_read = matches!(request.method, Method::GET | Method::HEAD);
        let address = route::reference_address(&request.path).filter(|_| is_read);
        let found = match &address {
            Some((path, is_group)) => pages::find_namespace(&self.forge(), path, *is_group).await,
            None => Ok(false),
        };
        match (found, address) {
            (Ok(true), Some((path, _))) => Response::new(StatusCode::FOUND)
                .with_text(LOCATION, &format!("{}{}", self.root(), route::namespace(&path))),
            (Ok(_), _) if !accepts_html(request) => Error::route_not_found().into(),
            (Err(error), _) if !accepts_html(request) => {
                let error = PageError::from(error);
                explained(Error::error(error.status(), explanation(&error)).into(), &error)
            }
            (found, _) => match self.identify().await {
                Ok(visitor) => self.failure(&found.err().map_or(PageError::NotFound, PageError::from), &visitor),
                Err(response) => response,
            },
        }
    }

    /// Shows a page after a form, with the form's outcome.
    async fn show_with(&self, cookie: &str, page: &Page, params: &Params, visitor: &Visitor) -> Response {
        let alert = session::read(cookie, &self.session.form_token()).map(Alert::success);
        let response = match pages::show(page, &self.page_context(visitor, params)).await {
            Ok(content) => self.document(StatusCode::OK, &content, visitor, alert.as_ref()),
            // The subject of the page may be gone now.
            Err(error) if error.status() == StatusCode::NOT_FOUND && alert.is_some() => {
                let content = Content::new("Done", Section::Other, pages::done(visitor));
                self.document(StatusCode::OK, &content, visitor, alert.as_ref())
            }
            Err(error) => self.failure(&error, visitor),
        };
        response.with_text(SET_COOKIE, &session::clear(is_secure(&self.base)))
    }

    /// Carries out the action of a form, and redirects the browser to the form's page, so that a reload repeats
    /// nothing. If the API refuses, the answer is the page.
    async fn submit(&self, page: Page, params: &Params, form: &Params) -> Response {
        let visitor = match self.identify().await {
            Ok(visitor) => visitor,
            Err(response) => return response,
        };
        let submitted = pages::submit(&page, form, &self.page_context(&visitor, params)).await;
        let (status, alert) = match submitted {
            Ok(Alert { is_error: false, text, secret: None }) => {
                let cookie = session::set(&text, &self.session.form_token(), is_secure(&self.base));
                return self.redirect(&self.here).with_text(SET_COOKIE, &cookie);
            }
            // Only this answer has the secret, so it must not be a redirect.
            Ok(alert) => (StatusCode::OK, alert),
            Err(PageError::Forge(error @ (ForgeError::Unanswered(_) | ForgeError::TooLong))) => {
                return self.failure(&error.into(), &visitor);
            }
            Err(error) => (error.status(), Alert::error(explanation(&error))),
        };
        match pages::show(&page, &self.page_context(&visitor, params)).await {
            Ok(content) => self.document(status, &content, &visitor, Some(&alert)),
            Err(_) if !alert.is_error => {
                let content = Content::new("Done", Section::Other, pages::done(&visitor));
                self.document(status, &content, &visitor, Some(&alert))
            }
            Err(error) => self.failure(&error, &visitor),
        }
    }

    fn page_context<'v>(&'v self, visitor: &'v Visitor, params: &'v Params) -> PageContext<'v> {
        PageContext { forge: self.forge(), visitor, params, base: &self.base, now: self.env.now }
    }

    fn document(&self, status: StatusCode, content: &Content, visitor: &Visitor, alert: Option<&Alert>) -> Response {
        let mut response = Response::new(status);
        response.body = layout::render(content, visitor, &self.here, alert).into_bytes().into();
        response.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        response.headers.insert(CACHE_CONTROL, cache_control(visitor, alert));
        if status == StatusCode::UNAUTHORIZED {
            // If it named `Basic`, browsers would ask for a password and not show the page.
            response.headers.insert(WWW_AUTHENTICATE, BEARER);
        }
        if let Some(seconds) = content.refresh {
            response.headers.insert(REFRESH, seconds.into());
        }
        // Only a visitor who may send a form needs a cookie. If a cookie were drawn, the host could not cache the page.
        let has_form = !visitor.form_token.is_empty();
        match has_form.then(|| self.session.set_cookie()).flatten().or_else(|| self.session.clean_up()) {
            Some(cookie) => response.with_text(SET_COOKIE, &cookie),
            None => response,
        }
    }

    fn redirect(&self, target: &str) -> Response {
        let response = Response::new(StatusCode::SEE_OTHER).with_text(LOCATION, &format!("{}{target}", self.root()));
        response.with_header(CACHE_CONTROL, HeaderValue::from_static("private, no-store"))
    }

    /// The page of an error.
    fn failure(&self, error: &PageError, visitor: &Visitor) -> Response {
        explained(self.refusal(error.status(), &explanation(error), visitor), error)
    }

    fn refusal(&self, status: StatusCode, text: &str, visitor: &Visitor) -> Response {
        let content = pages::failure(status, text, visitor, &self.here);
        self.document(status, &content, visitor, None)
    }

    fn sign_in_page(&self, status: StatusCode, next: Option<&str>, alert: Option<&Alert>) -> Response {
        let visitor = Visitor { form_token: self.session.form_token(), ..self.anonymous_visitor() };
        let keyless = (!self.session.can_sign_in()).then(|| Alert::error(NO_KEY));
        let alert = alert.or(keyless.as_ref());
        self.document(status, &pages::sign_in(&visitor, next), &visitor, alert)
    }

    async fn sign_in(&self, form: &Params) -> Response {
        let next = form.text("next").filter(|next| route::is_own(next));
        let token = form.text("token").map(str::trim).unwrap_or_default();
        let refused = |status, text: &str| self.sign_in_page(status, next, Some(&Alert::error(text)));
        if !self.session.can_sign_in() {
            return self.sign_in_page(StatusCode::SERVICE_UNAVAILABLE, next, None);
        }
        let Some(cookie) = self.session.sign_in(token) else {
            return refused(StatusCode::UNAUTHORIZED, "This is not a token. Paste the whole token, without spaces.");
        };
        match Forge::new(self.env, Some(token)).get::<User>("user").await {
            Ok(_) => {}
            Err(error) if error.is_missing_scope() => {}
            Err(error) => {
                let error = PageError::Forge(error);
                let text = match error.status() {
                    StatusCode::UNAUTHORIZED => {
                        "The token is unknown, revoked or expired. Make a new one, or ask an administrator for it."
                            .into()
                    }
                    StatusCode::FORBIDDEN => explanation(&error),
                    _ => format!("The token was not checked. {}", explanation(&error)),
                };
                return explained(refused(error.status(), &text), &error);
            }
        }
        self.redirect(next.unwrap_or(route::HOME)).with_text(SET_COOKIE, &cookie)
    }

    fn sign_out(&self) -> Response {
        self.redirect(route::HOME).with_text(SET_COOKIE, &self.session.sign_out())
    }

    /// The response to a visitor whose token is refused: the session is over.
    fn session_ended(&self) -> Response {
        let alert =
            Alert::error("Your session has ended, because its token is revoked or expired. Sign in with another one.");
        let visitor = self.anonymous_visitor();
        let content = pages::failure(StatusCode::UNAUTHORIZED, "Sign in to go on.", &visitor, &self.here);
        let response = self.document(StatusCode::UNAUTHORIZED, &content, &visitor, Some(&alert));
        response.with_text(SET_COOKIE, &self.session.sign_out())
    }
}

/// The `cache-control` of a page. A page without a user, a form and a message is equal for all visitors. The host
/// caches it while its read set is unchanged. Browsers revalidate it each time.
fn cache_control(visitor: &Visitor, alert: Option<&Alert>) -> HeaderValue {
    let is_shared = !visitor.is_signed_in && visitor.form_token.is_empty() && alert.is_none();
    HeaderValue::from_static(if is_shared { "private, no-cache" } else { "private, no-store" })
}

/// The response to an error, with its cause for the log and its `Retry-After`.
fn explained(mut response: Response, error: &PageError) -> Response {
    if let PageError::Forge(error) = error {
        response.cause = error.cause();
        if let ForgeError::Refused { retry_after: Some(seconds), .. } = error {
            response.headers.insert(RETRY_AFTER, seconds.clone());
        }
    }
    response
}

/// The error, explained to the visitor.
fn explanation(error: &PageError) -> String {
    match error {
        PageError::NotFound => "There is no such page, or you may not see it.".to_owned(),
        PageError::Missing(text) | PageError::Invalid(text) | PageError::Forbidden(text) => text.clone(),
        PageError::Forge(error) if error.is_missing_scope() => {
            "Your token has no scope for this. Sign in with one that has read_api to look, or api to change something."
                .to_owned()
        }
        PageError::Forge(ForgeError::Refused { status, reason, .. }) => match *status {
            StatusCode::NOT_FOUND => format!("It does not exist, or you may not see it ({reason})."),
            StatusCode::UNAUTHORIZED => format!("This needs a user ({reason})."),
            StatusCode::FORBIDDEN => format!("You may not do this ({reason})."),
            StatusCode::TOO_MANY_REQUESTS => format!("That was too often ({reason}). Wait a minute and try again."),
            status if status.is_server_error() => {
                format!("The service cannot do this now ({reason}). Try again in a while.")
            }
            _ => reason.clone(),
        },
        PageError::Forge(ForgeError::TooLong) => {
            "There is more here than a page can show. The API has it, in smaller parts.".to_owned()
        }
        PageError::Forge(ForgeError::Unanswered(_)) => {
            "A part of the service did not answer. Try again in a while.".to_owned()
        }
    }
}

fn file(asset: Asset) -> Response {
    let (media_type, text) = match asset {
        Asset::Style => ("text/css; charset=utf-8", widgets::STYLE),
        Asset::Script => ("text/javascript; charset=utf-8", include_str!("assets/console.js")),
        Asset::Icon => ("image/svg+xml", widgets::ICON),
    };
    let mut response = Response::new(StatusCode::OK);
    response.body = text.as_bytes().to_vec().into();
    response.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response.headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=600"));
    response
}

/// Only this console's own files are loaded, only they run, and forms lead nowhere else.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const PROTECTION: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub fn protect(headers: &mut HeaderMap) {
    for (name, value) in PROTECTION {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests;

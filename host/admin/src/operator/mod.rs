//! The operator's pages: the components, their state, and the forms that change them.
//!
//! The host makes them, and they need no scripts. A session begins with a one-time code of `hexad status --web`, or
//! with the listener's token. Its cookie and the tokens of its forms are random ([`sessions`](super::sessions)).
//!
//! | method and path | what |
//! |---|---|
//! | GET `/operator` | components, traffic, latency, memory, store, hosts, audit log |
//! | GET, POST `/operator/components/<id>` | a component; swap in the file of the form, as a canary if it has a percentage |
//! | GET, POST `/operator/components/<id>/promote`, `/rollback` | what the change will do; make it |
//! | GET, POST `/operator/sign-in` | the form, and with `?code=` a session; a session by the listener's token |
//! | POST `/operator/sign-out` | end the session |
//! | GET `/operator/style.css`, `/operator/icon.svg` | static files |

mod charts;
mod component;
mod form;
mod frame;
mod overview;
mod route;
mod sign_in;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hexad_deploy::{DeployReport, Signature, SwapRequest};
use hexad_runtime::ingress::OPERATOR_COOKIE;
use http::header::{ALLOW, HOST, LOCATION, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use self::component::ComponentPage;
use self::form::{Form, FormError, TOKEN};
use self::frame::Notice;
pub use self::frame::protect;
use self::overview::Overview;
pub use self::route::OperatorRoute;
use self::route::{PromoteOrRollBack, SIGN_IN};
use super::component_status::ComponentStatus;
use super::connections::AdminConnection;
use super::context::AdminContext;
use super::deployment::DeploymentFailure;
use super::response::{AdminResponse, body};
use super::route::{AdminRouteError, canary_policy};
use super::sessions::Session;
use super::upload::{self, UploadBody};

/// Lines of the audit log that are shown.
const AUDIT_LINES: usize = 30;

/// The pages of one listener.
pub struct OperatorPages {
    context: Arc<AdminContext>,
    /// The name ends in the port, because all ports of a host share their cookies.
    cookie_name: String,
}

impl OperatorPages {
    pub fn new(context: Arc<AdminContext>, port: u16) -> Self {
        Self { context, cookie_name: format!("{OPERATOR_COOKIE}{port}") }
    }

    /// Handles a request whose path is one of the pages. Except for signing in, no part of a body is used without a
    /// session. The caller must [protect](protect) the response.
    pub async fn handle(
        &self,
        connection: &AdminConnection,
        route: Result<OperatorRoute, AdminRouteError>,
        parts: &Parts,
        request_body: impl UploadBody,
    ) -> AdminResponse {
        let (headers, is_form) = (&parts.headers, parts.method == Method::POST);
        if is_form && !is_same_origin(headers) {
            upload::discard(headers, request_body).await;
            return frame::sign_in_page(StatusCode::FORBIDDEN, Some(&error("This form was sent by another site.")));
        }
        let route = match route {
            Ok(route) if route.is_public() => return self.public(route, headers, request_body).await,
            route => route,
        };
        let Some(signed_in) = self.signed_in(headers) else {
            upload::discard(headers, request_body).await;
            let notice = is_form.then(|| error("The session has ended. Nothing was changed."));
            return frame::sign_in_page(StatusCode::UNAUTHORIZED, notice.as_ref());
        };
        let session = &signed_in.session;
        if connection.authenticate().is_err() {
            upload::discard(headers, request_body).await;
            let text = "Too many operators are connected. Close a connection.";
            return frame::failure_page(StatusCode::SERVICE_UNAVAILABLE, text, session);
        }
        match route {
            Ok(OperatorRoute::Overview) => self.overview(session).await,
            Ok(OperatorRoute::Component(id)) => self.component(&id, StatusCode::OK, session, None),
            Ok(OperatorRoute::Confirm(change, id)) => {
                self.with_component(&id, session, |page| page.confirmation(change, session))
            }
            Ok(OperatorRoute::Swap(id)) => self.swap(id, session, headers, request_body).await,
            Ok(OperatorRoute::Perform(change, id)) => match own_form(session, request_body).await {
                Ok(form) => self.perform(change, id, &form, session).await,
                Err(failure) => form_failure(&failure, session),
            },
            Ok(OperatorRoute::SignOut) => match own_form(session, request_body).await {
                Ok(_) => {
                    self.context.sessions.end(&signed_in.cookie_value, Instant::now());
                    self.signed_out(headers, redirect(SIGN_IN))
                }
                Err(failure) => form_failure(&failure, session),
            },
            Ok(_) => self.no_page(&AdminRouteError::NotFound, session, headers, request_body).await,
            Err(cause) => self.no_page(&cause, session, headers, request_body).await,
        }
    }

    async fn no_page(
        &self,
        cause: &AdminRouteError,
        session: &Session,
        headers: &HeaderMap,
        request_body: impl UploadBody,
    ) -> AdminResponse {
        upload::discard(headers, request_body).await;
        match cause {
            AdminRouteError::NotFound => frame::failure_page(StatusCode::NOT_FOUND, "There is no such page.", session),
            AdminRouteError::Parameter(reason) => frame::failure_page(StatusCode::BAD_REQUEST, reason, session),
            AdminRouteError::MethodNotAllowed(allowed) => {
                let text = format!("The page takes {allowed}.");
                let mut response = frame::failure_page(StatusCode::METHOD_NOT_ALLOWED, &text, session);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
                response
            }
        }
    }

    async fn overview(&self, session: &Session) -> AdminResponse {
        let context = &self.context;
        let deployer = context.deployer().clone();
        let audit = tokio::task::spawn_blocking(move || deployer.recent_changes(AUDIT_LINES)).await;
        let audit = match audit {
            Ok(lines) => lines.map_err(|failure| failure.to_string()),
            Err(_) => Err("an unexpected error; see the host's log".to_owned()),
        };
        let intervals = context.history.intervals(&context.sample());
        let components: Vec<_> =
            context.deployer().application().services().iter().map(ComponentStatus::from).collect();
        Overview { host: &context.host.read(), components: &components, intervals: &intervals, audit }
            .page(session, None)
    }

    fn component(&self, id: &str, status: StatusCode, session: &Session, notice: Option<&Notice>) -> AdminResponse {
        self.with_component(id, session, |page| page.page(status, session, notice))
    }

    fn with_component(
        &self,
        id: &str,
        session: &Session,
        show: impl FnOnce(&ComponentPage<'_>) -> AdminResponse,
    ) -> AdminResponse {
        let context = &self.context;
        let mut services = context.deployer().application().services().iter().enumerate();
        let Some((index, service)) = services.find(|(_, service)| service.id() == id) else {
            return frame::failure_page(StatusCode::NOT_FOUND, "There is no such component in the manifest.", session);
        };
        let intervals = context.history.intervals(&context.sample());
        let others = context.deployer().other_live_hosts();
        show(&ComponentPage {
            component: &ComponentStatus::from(service),
            index,
            intervals: &intervals,
            others: &others,
        })
    }

    async fn swap(
        &self,
        component: String,
        session: &Session,
        headers: &HeaderMap,
        request_body: impl UploadBody,
    ) -> AdminResponse {
        let form = match form::read_with_file(headers, request_body, &self.context.host.memory, |token| {
            session.owns_form(token)
        })
        .await
        {
            Ok(form) => form,
            Err(failure) => return form_failure(&failure, session),
        };
        let request = match swap_request(&component, form, session) {
            Ok(request) => request,
            Err(reason) => {
                return self.component(&component, StatusCode::BAD_REQUEST, session, Some(&error(&reason)));
            }
        };
        let outcome = self.context.deploy(move |deployer| deployer.swap(&request)).await;
        self.outcome(&component, session, outcome)
    }

    async fn perform(
        &self,
        change: PromoteOrRollBack,
        component: String,
        form: &Form,
        session: &Session,
    ) -> AdminResponse {
        let expected = match form.expected() {
            Ok(expected) => expected,
            Err(reason) => return frame::failure_page(StatusCode::BAD_REQUEST, &reason, session),
        };
        let (id, by) = (component.clone(), session.actor.clone());
        let outcome = self.context.deploy(move |deployer| match change {
            PromoteOrRollBack::Promote => deployer.promote(&id, &by, Some(&expected)),
            PromoteOrRollBack::RollBack => deployer.roll_back(&id, &by, Some(&expected)),
        });
        let outcome = outcome.await;
        self.outcome(&component, session, outcome)
    }

    /// The component's page, with the outcome of a change.
    fn outcome(
        &self,
        component: &str,
        session: &Session,
        outcome: Result<DeployReport, DeploymentFailure>,
    ) -> AdminResponse {
        match outcome {
            Ok(report) => {
                let notice = Notice { text: describe(&report), is_error: false };
                self.component(component, StatusCode::OK, session, Some(&notice))
            }
            Err(failure) => {
                let effect = if failure.changed_nothing() { "Nothing was changed: " } else { "" };
                let notice = error(&format!("{effect}{failure}"));
                self.component(component, failure.status(), session, Some(&notice))
            }
        }
    }
}

/// The fields of the form. The error is a sentence for the operator.
fn swap_request(component: &str, form: Form, session: &Session) -> Result<SwapRequest, String> {
    let given = ["percent", "window"].into_iter().filter_map(|name| Some((name, form.text(name)?)));
    let canary = canary_policy(given).map_err(|failure| match failure {
        AdminRouteError::Parameter(reason) => reason,
        other => format!("{other:?}"),
    })?;
    if form.text("confirmed") != Some("yes") {
        return Err("The swap was not confirmed.".to_owned());
    }
    if form.file.is_empty() {
        return Err("The form has no file, or an empty one.".to_owned());
    }
    let signature = form.text("signature").map(str::parse::<Signature>).transpose();
    let signature = signature.map_err(|_| "The signature is not the base64 of an Ed25519 signature.".to_owned())?;
    let expected = Some(form.expected()?);
    let (component, by, without) = (component.to_owned(), session.actor.clone(), form.texts(form::WITHOUT));
    Ok(SwapRequest { component, wasm: form.file, signature, by, canary, without, expected })
}

fn describe(report: &DeployReport) -> String {
    let DeployReport { component, digest, version, revision, canary, milliseconds, .. } = report;
    let version = version.as_deref().unwrap_or_default();
    let role = if *canary { "is on trial" } else { "is serving" };
    format!("{component} {version} {role}: revision {revision}, sha256 {digest} ({milliseconds} ms)")
}

/// The fields of a form of this session.
async fn own_form(session: &Session, request_body: impl UploadBody) -> Result<Form, FormError> {
    let form = form::read(request_body).await?;
    match form.text(TOKEN).is_some_and(|token| session.owns_form(token)) {
        true => Ok(form),
        false => Err(FormError::Foreign),
    }
}

fn form_failure(failure: &FormError, session: &Session) -> AdminResponse {
    frame::failure_page(form_status(failure), &failure.to_string(), session)
}

fn form_status(failure: &FormError) -> StatusCode {
    match failure {
        FormError::Invalid(_) => StatusCode::BAD_REQUEST,
        FormError::Foreign => StatusCode::FORBIDDEN,
        FormError::Upload(failure) => failure.status(),
    }
}

/// Whether a page of this listener sent a form. Without `Sec-Fetch-Site` the origin decides. It is `null` if the
/// browser sends no referrer.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => text(ORIGIN.as_str()).is_none_or(|origin| {
            let host = origin.split_once("://").map(|(_, host)| host);
            origin == "null" || (host.is_some() && host == text(HOST.as_str()))
        }),
    }
}

fn error(text: &str) -> Notice {
    Notice { text: text.to_owned(), is_error: true }
}

fn redirect(target: &'static str) -> AdminResponse {
    let mut response = body(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", Bytes::new());
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(target));
    response
}

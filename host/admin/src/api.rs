//! The responses of the admin listener.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hexad_deploy::{self as deploy, DeployError, DeployReport, Deployer, Signature, SwapRequest};
use http::header::{ALLOW, AUTHORIZATION, HeaderName, WWW_AUTHENTICATE};
use http::{HeaderValue, Request, StatusCode};
use serde::Serialize;
use serde_json::json;

use super::component_status::ComponentStatus;
use super::connections::AdminConnection;
use super::context::AdminContext;
use super::deployment::DeploymentFailure;
use super::exposition;
use super::operator::{self, OperatorPages, OperatorRoute};
use super::response::{AdminResponse, body};
use super::route::{AdminRoute, AdminRouteError};
use super::upload::{self, UploadBody};

/// The actor, for the audit log. It is not verified.
const ACTOR: HeaderName = HeaderName::from_static("x-hexad-actor");

/// The component's signature, in base64.
const SIGNATURE: HeaderName = HeaderName::from_static("x-hexad-signature");

/// Characters of the actor that are logged.
const MAX_ACTOR: usize = 200;

/// The handler of all requests.
pub struct AdminApi {
    pub context: Arc<AdminContext>,
    pub pages: OperatorPages,
}

impl AdminApi {
    /// Handles a request of `connection`. The token is checked before any part of a body is used.
    pub async fn handle(
        self: Arc<Self>,
        connection: &AdminConnection,
        request: Request<impl UploadBody>,
    ) -> AdminResponse {
        let (parts, request_body) = request.into_parts();
        if let Some(route) = OperatorRoute::parse(&parts.method, parts.uri.path(), parts.uri.query()) {
            return operator::protect(self.pages.handle(connection, route, &parts, request_body).await);
        }
        let context = &self.context;
        let route = match AdminRoute::parse(&parts.method, parts.uri.path(), parts.uri.query()) {
            Ok(route) if route.is_public() => Ok(route),
            // Without the token, a path that exists and one that does not get the same response.
            _ if !context.verifier.accepts(parts.headers.get(AUTHORIZATION)) => Err(unauthorized()),
            _ if connection.authenticate().is_err() => Err(too_many_connections()),
            route => route.map_err(|error| route_error_response(&error)),
        };
        let route = match route {
            Ok(route) => route,
            Err(response) => {
                upload::discard(&parts.headers, request_body).await;
                return response;
            }
        };
        let by = actor(parts.headers.get(ACTOR));
        match route {
            AdminRoute::Health => text(StatusCode::OK, "ok\n"),
            AdminRoute::Ready => self.readiness(),
            AdminRoute::Metrics => {
                match exposition::openmetrics(context.deployer().application().clone(), context.host.read()) {
                    Ok(text) => {
                        let text = if context.old_metric_names { exposition::with_old_names(text) } else { text };
                        body(StatusCode::OK, exposition::MEDIA_TYPE, text)
                    }
                    Err(_) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"),
                }
            }
            AdminRoute::Status => {
                json_body(StatusCode::OK, &json!({ "host": context.host.read(), "components": self.components() }))
            }
            AdminRoute::Components => json_body(StatusCode::OK, &self.components()),
            AdminRoute::Component(id) => match deploy::service_of(context.deployer().application(), &id) {
                Ok(service) => json_body(StatusCode::OK, &ComponentStatus::from(service)),
                Err(unknown) => failure_response(&DeployError::from(unknown).into()),
            },
            AdminRoute::Swap { component, canary, without } => match signature(parts.headers.get(SIGNATURE)) {
                Ok(signature) => {
                    let (wasm, expected) = (Bytes::new(), None);
                    let swap = SwapRequest { component, wasm, signature, by, canary, without, expected };
                    self.swap(swap, request_body).await
                }
                Err(reason) => {
                    upload::discard(&parts.headers, request_body).await;
                    error_response(StatusCode::BAD_REQUEST, &reason)
                }
            },
            AdminRoute::SignInCode => match context.sessions.new_code(&by, Instant::now()) {
                Ok(code) => json_body(StatusCode::OK, &json!({ "code": code })),
                Err(error) => error_response(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            },
            AdminRoute::Promote(id) => self.deploy(move |deployer| deployer.promote(&id, &by, None)).await,
            AdminRoute::RollBack(id) => self.deploy(move |deployer| deployer.roll_back(&id, &by, None)).await,
        }
    }

    fn readiness(&self) -> AdminResponse {
        let (host, deployer) = (&self.context.host, self.context.deployer());
        let not_ready = |reason: String| text(StatusCode::SERVICE_UNAVAILABLE, reason);
        match host.store_health.failure() {
            _ if !deployer.is_open() => not_ready("stopping\n".to_owned()),
            Some(failure) => not_ready(format!("store {}\n", failure.problem.name())),
            None if !host.threads.ended().is_empty() => not_ready("threads ended\n".to_owned()),
            None if deployer.is_behind_fleet() => not_ready("components differ\n".to_owned()),
            None => text(StatusCode::OK, "ready\n"),
        }
    }

    fn components(&self) -> Vec<ComponentStatus> {
        self.context.deployer().application().services().iter().map(ComponentStatus::from).collect()
    }

    /// Swaps in the component that is the request's body.
    async fn swap(&self, request: SwapRequest, body: impl UploadBody) -> AdminResponse {
        let wasm = match upload::receive(body, &self.context.host.memory).await {
            Ok(wasm) => wasm,
            Err(error) => return error_response(error.status(), &error.to_string()),
        };
        let request = SwapRequest { wasm, ..request };
        self.deploy(move |deployer| deployer.swap(&request)).await
    }

    async fn deploy(
        &self,
        deployment: impl FnOnce(&Deployer) -> Result<DeployReport, DeployError> + Send + 'static,
    ) -> AdminResponse {
        match self.context.deploy(deployment).await {
            Ok(report) => json_body(StatusCode::OK, &report),
            Err(failure) => failure_response(&failure),
        }
    }
}

fn route_error_response(cause: &AdminRouteError) -> AdminResponse {
    match cause {
        AdminRouteError::NotFound => error_response(StatusCode::NOT_FOUND, "there is nothing at this path"),
        AdminRouteError::Parameter(reason) => error_response(StatusCode::BAD_REQUEST, reason),
        AdminRouteError::MethodNotAllowed(allowed) => {
            let mut response = error_response(StatusCode::METHOD_NOT_ALLOWED, &format!("the path takes {allowed}"));
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            response
        }
    }
}

fn actor(header: Option<&HeaderValue>) -> String {
    let claim = header.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default();
    let claim: String = claim.chars().filter(|c| !c.is_control()).take(MAX_ACTOR).collect();
    if claim.is_empty() { "unknown".to_owned() } else { claim }
}

fn signature(header: Option<&HeaderValue>) -> Result<Option<Signature>, String> {
    let Some(header) = header else { return Ok(None) };
    let text = header.to_str().unwrap_or_default();
    text.parse().map(Some).map_err(|_| format!("the header {SIGNATURE} is not the base64 of an Ed25519 signature"))
}

fn failure_response(failure: &DeploymentFailure) -> AdminResponse {
    error_response(failure.status(), &failure.to_string())
}

fn unauthorized() -> AdminResponse {
    let mut response = error_response(StatusCode::UNAUTHORIZED, "the admin token is missing or wrong");
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn too_many_connections() -> AdminResponse {
    error_response(StatusCode::SERVICE_UNAVAILABLE, "too many operators are connected; close a connection")
}

fn error_response(status: StatusCode, reason: &str) -> AdminResponse {
    json_body(status, &json!({ "error": reason }))
}

fn json_body(status: StatusCode, value: &impl Serialize) -> AdminResponse {
    // Serialization fails only for maps whose keys are not strings, and no value has one.
    let mut text = serde_json::to_vec(value).unwrap_or_default();
    text.push(b'\n');
    body(status, "application/json", text)
}

fn text(status: StatusCode, content: impl Into<Bytes>) -> AdminResponse {
    body(status, "text/plain; charset=utf-8", content)
}

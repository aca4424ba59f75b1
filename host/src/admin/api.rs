//! What the admin listener answers.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, WWW_AUTHENTICATE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use serde::Serialize;
use serde_json::json;

use super::access::Guard;
use super::exposition;
use super::figures;
use super::host_state::HostState;
use super::route::{Route, RouteError};
use super::view;
use crate::deploy::{DeployError, DeployReport, Deployer, Signature, SwapRequest};

/// The largest component that is accepted, in bytes.
const MAX_COMPONENT: usize = 256 * 1024 * 1024;

/// How much of a body that nobody wants is read and thrown away: a client that is still sending
/// when the connection closes may never see the answer.
const DRAIN: usize = 16 * 1024 * 1024;

/// Says who asks, for the audit log. It is a claim: whoever has the token may write anything.
const ACTOR: HeaderName = HeaderName::from_static("x-hexad-actor");

/// The component's signature, in base64.
const SIGNATURE: HeaderName = HeaderName::from_static("x-hexad-signature");

/// What is noted of it, in bytes.
const MAX_ACTOR: usize = 200;

/// What is known of the host as a whole, at this moment.
pub type Figures = Box<dyn Fn() -> HostState + Send + Sync>;

pub type Answer = Response<Full<Bytes>>;

/// What the answers are made from.
pub struct Api {
    pub guard: Guard,
    pub deployer: Arc<Deployer>,
    pub figures: Figures,
}

impl Api {
    pub async fn answer<B>(self: Arc<Self>, request: Request<B>) -> Answer
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, content) = request.into_parts();
        let route = match Route::of(&parts.method, parts.uri.path(), parts.uri.query()) {
            Ok(route) if route.is_public() => Ok(route),
            // Strangers are not told what there is.
            _ if !self.guard.admits(parts.headers.get(AUTHORIZATION)) => Err(unauthorized()),
            route => route.map_err(|error| astray(&error)),
        };
        let route = match route {
            Ok(route) => route,
            Err(answer) => {
                drain(content).await;
                return answer;
            }
        };
        let by = actor(parts.headers.get(ACTOR));
        match route {
            Route::Health => text(StatusCode::OK, "ok\n"),
            Route::Ready => match self.deployer.is_open() {
                true => text(StatusCode::OK, "ready\n"),
                false => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
            },
            Route::Metrics => match exposition::exposition(self.deployer.application().clone(), (self.figures)()) {
                Ok(text) => {
                    let (media_type, text) = exposition::negotiated(text, &parts.headers);
                    body(StatusCode::OK, media_type, text)
                }
                Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"),
            },
            Route::Status => {
                let host = figures::Host::new(self.deployer.application(), &(self.figures)());
                json_body(StatusCode::OK, &json!({ "host": host, "components": self.components() }))
            }
            Route::Components => json_body(StatusCode::OK, &self.components()),
            Route::Component(id) => {
                let mut slots = self.deployer.application().slots().iter();
                match slots.find(|slot| slot.component().id == id) {
                    Some(slot) => json_body(StatusCode::OK, &view::Component::from(slot)),
                    None => refused(&DeployError::Unknown(id)),
                }
            }
            Route::Swap { component, canary } => match signature(parts.headers.get(SIGNATURE)) {
                Ok(signature) => {
                    let order = SwapRequest { component, wasm: Bytes::new(), signature, by, canary };
                    self.swap(order, content).await
                }
                Err(reason) => {
                    drain(content).await;
                    error(StatusCode::BAD_REQUEST, &reason)
                }
            },
            Route::Promote(id) => self.act(move |deployer| deployer.promote(&id, &by)).await,
            Route::RollBack(id) => self.act(move |deployer| deployer.roll_back(&id, &by)).await,
        }
    }

    fn components(&self) -> Vec<view::Component> {
        self.deployer.application().slots().iter().map(view::Component::from).collect()
    }

    /// `body` is the component.
    async fn swap<B>(&self, order: SwapRequest, body: B) -> Answer
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let wasm = match Limited::new(body, MAX_COMPONENT).collect().await {
            Ok(body) => body.to_bytes(),
            Err(cause) if cause.is::<LengthLimitError>() => {
                let reason = format!("a component has at most {MAX_COMPONENT} bytes");
                return error(StatusCode::PAYLOAD_TOO_LARGE, &reason);
            }
            Err(cause) => return error(StatusCode::BAD_REQUEST, &format!("the component broke off: {cause}")),
        };
        let order = SwapRequest { wasm, ..order };
        self.act(move |deployer| deployer.swap(&order)).await
    }

    /// What blocks must not hold up the listener.
    async fn act(&self, act: impl FnOnce(&Deployer) -> Result<DeployReport, DeployError> + Send + 'static) -> Answer {
        let deployer = self.deployer.clone();
        match tokio::task::spawn_blocking(move || act(&deployer)).await {
            Ok(Ok(report)) => json_body(StatusCode::OK, &report),
            Ok(Err(refusal)) => refused(&refusal),
            Err(panic) => {
                tracing::error!(%panic, "a change of what is served panicked");
                error(StatusCode::INTERNAL_SERVER_ERROR, "the host failed; its log says why")
            }
        }
    }
}

async fn drain<B: http_body::Body<Data = Bytes>>(body: B) {
    let mut body = std::pin::pin!(body);
    let mut room = DRAIN;
    while let Some(Ok(frame)) = body.frame().await {
        match room.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(rest) => room = rest,
            None => return,
        }
    }
}

fn astray(cause: &RouteError) -> Answer {
    match cause {
        RouteError::NotFound => error(StatusCode::NOT_FOUND, "there is nothing at this path"),
        RouteError::Parameter(reason) => error(StatusCode::BAD_REQUEST, reason),
        RouteError::Method(allowed) => {
            let mut answer = error(StatusCode::METHOD_NOT_ALLOWED, &format!("the path takes {allowed}"));
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            answer
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

fn refused(refusal: &DeployError) -> Answer {
    let status = match refusal {
        DeployError::Unknown(_) => StatusCode::NOT_FOUND,
        DeployError::CanaryUnderWay(_) | DeployError::NoCanary(_) | DeployError::NoPrevious(_) => StatusCode::CONFLICT,
        DeployError::Untrusted { .. } => StatusCode::FORBIDDEN,
        DeployError::Load(_) => StatusCode::UNPROCESSABLE_ENTITY,
        DeployError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        DeployError::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    };
    error(status, &refusal.to_string())
}

fn unauthorized() -> Answer {
    let mut answer = error(StatusCode::UNAUTHORIZED, "the admin token is missing or wrong");
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

fn error(status: StatusCode, reason: &str) -> Answer {
    json_body(status, &json!({ "error": reason }))
}

fn json_body(status: StatusCode, value: &impl Serialize) -> Answer {
    // Values of our own; none has a map with keys that are no strings.
    let mut text = serde_json::to_vec(value).unwrap_or_default();
    text.push(b'\n');
    body(status, "application/json", text)
}

fn text(status: StatusCode, content: &'static str) -> Answer {
    body(status, "text/plain; charset=utf-8", content)
}

fn body(status: StatusCode, media_type: &'static str, content: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(content.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

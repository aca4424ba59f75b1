//! Requests of guests to their own application. They do not leave the process.

use std::sync::Arc;

use async_trait::async_trait;
use hexad_http::body::{BodyError, ResponseBody};
use hexad_http::nested_request::{ParentRequest, TooDeep};
use hexad_http::reply;
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use wasmtime_wasi_http::{Error as WasiError, WasiBody};

/// Handles requests as if they had come from a client.
#[async_trait]
pub trait LocalService: Send + Sync {
    async fn handle(self: Arc<Self>, shard: usize, request: Request<WasiBody>) -> Response<ResponseBody>;
}

/// Sends a request to the application, or to the named component. Returns once the response's head is there. Without
/// `service`, the host is starting or stopping.
pub async fn send(
    service: Option<Arc<dyn LocalService>>,
    shard: usize,
    request: Request<WasiBody>,
    component: Option<&str>,
    parent: Option<&ParentRequest>,
    head_deadline: Instant,
) -> Result<Response<WasiBody>, WasiError> {
    let parent = parent.ok_or(WasiError::HttpRequestDenied)?;
    let service = service.ok_or(WasiError::ConnectionRefused)?;
    let response = match parent.adopt(request, component) {
        Err(TooDeep) => reply::loop_detected(),
        Ok(request) => {
            // A task of its own: the guest's call polls this future, and the host measures the call's processor time.
            // Dropping this future aborts the task, as for a connection.
            let task = AbortOnDropHandle::new(tokio::spawn(service.handle(shard, request)));
            let response = tokio::time::timeout_at(head_deadline, task).await;
            response.map_err(|_| WasiError::HttpResponseTimeout)?.map_err(|_| WasiError::ConnectionTerminated)?
        }
    };
    Ok(response.map(|body| body.map_err(code).boxed_unsync()))
}

fn code(error: BodyError) -> WasiError {
    match error {
        BodyError::TooLarge { limit } => WasiError::HttpResponseBodySize(Some(limit)),
        BodyError::Timeout => WasiError::HttpResponseTimeout,
        BodyError::Broken | BodyError::Short { .. } | BodyError::SlowClient | BodyError::Guest(_) => {
            WasiError::HttpResponseIncomplete
        }
    }
}

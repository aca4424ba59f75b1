//! Outbound HTTP as guests of both generations call it.

use std::sync::Arc;

use http::Request;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::imports::outbound::Outbound;
use crate::trace::Trace;

/// An instance's way out. The default denies every request.
#[derive(Clone, Default)]
pub struct OutboundHooks {
    /// The component's own, and the shard that the instance is on.
    outbound: Option<(Arc<Outbound>, usize)>,
    trace: Option<Arc<Trace>>,
}

impl OutboundHooks {
    /// The component's own, from the given shard.
    pub fn new(outbound: Arc<Outbound>, shard: usize) -> Self {
        Self { outbound: Some((outbound, shard)), trace: None }
    }

    /// What is sent from now on belongs to another request.
    pub fn enter(&mut self, trace: Option<Arc<Trace>>) {
        self.trace = trace;
    }
}

type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Sent = Result<(http::Response<WasiBody>, Io), Error>;

impl WasiHttpHooks for OutboundHooks {
    fn set_host_header(&mut self) -> bool {
        // The client does, from the URI that was checked.
        false
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _response_error: Io,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        let Self { outbound, trace } = self.clone();
        Box::new(async move {
            let Some((outbound, shard)) = outbound else {
                return Err(Error::HttpRequestDenied);
            };
            let response = outbound.send(shard, request, options.unwrap_or_default(), trace.as_deref()).await?;
            // The pool drives the connection; what fails later fails in the body.
            let io: Io = Box::new(std::future::ready(Ok(())));
            Ok((response, io))
        })
    }
}

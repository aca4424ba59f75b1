//! Connects `wasi:http` of both versions to outbound HTTP.

use std::sync::Arc;

use hexad_http::nested_request::ParentRequest;
use hexad_imports::outbound::{Outbound, Sender};
use hexad_limits::concurrency_limit::{ClientKeys, HOST};
use hexad_limits::instance_permit::InstancePermit;
use hexad_trace::Trace;
use http::Request;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

/// Sends the outbound requests of an instance. The default denies every request.
#[derive(Clone, Default)]
pub struct OutboundHooks {
    /// The component's outbound HTTP, and the shard of the instance.
    outbound: Option<(Arc<Outbound>, usize)>,
    trace: Option<Arc<Trace>>,
    client: ClientKeys,
    parent: Option<Arc<ParentRequest>>,
    permit: Option<Arc<InstancePermit>>,
}

impl OutboundHooks {
    pub fn new(outbound: Arc<Outbound>, shard: usize) -> Self {
        Self { outbound: Some((outbound, shard)), trace: None, client: HOST, parent: None, permit: None }
    }

    /// Begins a request: from now on, outbound requests belong to its trace and to its client. Requests to the
    /// application itself belong to `parent`.
    pub fn enter(
        &mut self,
        trace: Option<Arc<Trace>>,
        client: ClientKeys,
        parent: Option<Arc<ParentRequest>>,
        permit: &Arc<InstancePermit>,
    ) {
        self.trace = trace;
        self.client = client;
        self.parent = parent;
        self.permit = self.outbound.is_some().then(|| permit.clone());
    }
}

type ConnectionFuture = Box<dyn Future<Output = Result<(), Error>> + Send>;
type SendResult = Result<(http::Response<WasiBody>, ConnectionFuture), Error>;

impl WasiHttpHooks for OutboundHooks {
    fn set_host_header(&mut self) -> bool {
        // The HTTP client sets it from the checked URI.
        false
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _response_error: ConnectionFuture,
    ) -> Box<dyn Future<Output = SendResult> + Send> {
        let Self { outbound, trace, client, parent, permit } = self.clone();
        Box::new(async move {
            let Some((outbound, shard)) = outbound else {
                return Err(Error::HttpRequestDenied);
            };
            let (trace, parent, permit) = (trace.as_deref(), parent.as_deref(), permit.as_ref());
            let sender = Sender { shard, client, trace, parent, permit };
            let response = outbound.send(sender, request, options.unwrap_or_default()).await?;
            // The pool drives the connection. Later errors are the body's.
            let connection: ConnectionFuture = Box::new(std::future::ready(Ok(())));
            Ok((response, connection))
        })
    }
}

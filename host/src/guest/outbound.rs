//! Outbound HTTP: denied. The manifest refuses components that ask for hosts.

use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

/// Denies every outbound request.
pub struct NoOutbound;

type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Sent = Result<(http::Response<WasiBody>, Io), Error>;

impl WasiHttpHooks for NoOutbound {
    fn send_request(
        &mut self,
        _request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _response_error: Io,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        Box::new(std::future::ready(Err(Error::HttpRequestDenied)))
    }
}

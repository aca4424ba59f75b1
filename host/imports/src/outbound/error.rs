//! Errors of outbound requests, and their codes for guests.

use std::error::Error;
use std::io::{self, ErrorKind};

use hexad_limits::read_bounds::TooMuchOverhead;
use hyper_util::client::legacy::connect::HttpConnector;
use tower_service::Service;
use wasmtime_wasi_http::Error as WasiError;

/// The error of [`HttpConnector`], whose type has no public name.
type HttpConnectError = <HttpConnector as Service<http::Uri>>::Error;

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no entry of allowed_outbound_hosts covers the host")]
    Denied,
    #[error("the host has no address that may be reached")]
    Prohibited,
    #[error("too many connections are open")]
    Saturated,
    #[error("the connection took too long")]
    ConnectTimeout,
    #[error("the name cannot be resolved")]
    Resolve(#[source] io::Error),
    #[error("cannot connect")]
    Connect(#[source] HttpConnectError),
    #[error("the host is not a valid name for TLS")]
    InvalidServerName,
    #[error("cannot agree on TLS")]
    Tls(#[source] io::Error),
}

/// The code of the first error in the chain that has one.
pub fn code(error: &(dyn Error + 'static)) -> WasiError {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(code) = code_of(cause) {
            return code;
        }
        next = match cause.downcast_ref::<io::Error>() {
            // `source` of an `io::Error` skips the error that it wraps.
            Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => cause.source(),
        };
    }
    WasiError::InternalError(None)
}

fn code_of(cause: &(dyn Error + 'static)) -> Option<WasiError> {
    if let Some(error) = cause.downcast_ref::<ConnectError>() {
        return match error {
            ConnectError::Denied => Some(WasiError::HttpRequestDenied),
            ConnectError::Prohibited => Some(WasiError::DestinationIpProhibited),
            ConnectError::Saturated => Some(WasiError::ConnectionLimitReached),
            ConnectError::ConnectTimeout => Some(WasiError::ConnectionTimeout),
            ConnectError::Resolve(_) => {
                Some(WasiError::DnsError { rcode: Some("address not available".to_owned()), info_code: None })
            }
            ConnectError::InvalidServerName => Some(WasiError::TlsCertificateError),
            // The error's source has a more specific code.
            ConnectError::Connect(_) | ConnectError::Tls(_) => None,
        };
    }
    if cause.is::<TooMuchOverhead>() {
        return Some(WasiError::HttpProtocolError);
    }
    if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
        return Some(match tls {
            rustls::Error::InvalidCertificate(_) => WasiError::TlsCertificateError,
            rustls::Error::AlertReceived(alert) => WasiError::TlsAlertReceived {
                alert_id: Some(u8::from(*alert)),
                alert_message: Some(format!("{alert:?}")),
            },
            _ => WasiError::TlsProtocolError,
        });
    }
    if let Some(io) = cause.downcast_ref::<io::Error>() {
        return match io.kind() {
            ErrorKind::ConnectionRefused => Some(WasiError::ConnectionRefused),
            ErrorKind::TimedOut => Some(WasiError::ConnectionTimeout),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Some(WasiError::DestinationIpUnroutable),
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
            | ErrorKind::UnexpectedEof => Some(WasiError::ConnectionTerminated),
            _ => None,
        };
    }
    if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
        return if hyper.is_parse_too_large() {
            Some(WasiError::HttpResponseHeaderSectionSize(None))
        } else if hyper.is_parse() {
            Some(WasiError::HttpProtocolError)
        } else if hyper.is_incomplete_message() {
            Some(WasiError::HttpResponseIncomplete)
        } else if hyper.is_closed() || hyper.is_canceled() {
            Some(WasiError::ConnectionTerminated)
        } else {
            None
        };
    }
    if let Some(h2) = cause.downcast_ref::<h2::Error>() {
        return match h2.is_io() {
            true => None,
            false => Some(WasiError::HttpProtocolError),
        };
    }
    // An error of the guest's request body.
    match cause.downcast_ref::<WasiError>() {
        Some(WasiError::HttpRequestBodySize(size)) => Some(WasiError::HttpRequestBodySize(*size)),
        Some(_) => Some(WasiError::InternalError(Some("the request's body failed".to_owned()))),
        None => None,
    }
}

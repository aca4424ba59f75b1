//! TLS of connections to PostgreSQL.
//!
//! PostgreSQL's manual creates a self-signed certificate that is also an authority. TLS libraries of the web refuse a
//! server with such a certificate. If the operator names this very certificate with `sslrootcert`, the host accepts it,
//! as libpq does.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hexad_support::tls;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;

use super::open_error::PostgresOpenError;
use super::url::TlsMode;

/// Makes TLS connections that check the server's certificate and name.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    pub fn new(mode: &TlsMode) -> Result<Self, PostgresOpenError> {
        let config = client_config(mode).map_err(|error| PostgresOpenError::Tls(error.to_string()))?;
        Ok(Self(Arc::new(config)))
    }
}

fn client_config(mode: &TlsMode) -> anyhow::Result<ClientConfig> {
    let (mut roots, mut named) = (RootCertStore::empty(), Vec::new());
    match mode {
        TlsMode::Disabled => {}
        TlsMode::VerifyFull { authority: Some(path) } => {
            named = tls::read_authorities(path, "sslrootcert names a file of certificates in PEM", &mut roots)?;
        }
        TlsMode::VerifyFull { authority: None } => roots = tls::system_authorities(),
    }
    let mut config = tls::client(roots.clone())?;
    if !named.is_empty() {
        let by_authority = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls::provider()).build()?;
        config.dangerous().set_certificate_verifier(Arc::new(Verifier { by_authority, named }));
    }
    Ok(config)
}

/// Checks a certificate by its authority, unless the operator has named the certificate itself.
#[derive(Debug)]
struct Verifier {
    by_authority: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.by_authority.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // This error comes after the check of the time and before the check of the name.
            Err(error) if is_authority(&error) && self.named.iter().any(|named| named == certificate) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Whether a certificate is refused because it is an authority's.
fn is_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = Infallible;

    /// The library calls this for each connection, also for one without TLS, and with an empty name for a Unix socket.
    /// So the handshake checks the name.
    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Infallible> {
        Ok(Handshake { connector: TlsConnector::from(self.0.clone()), host: host.to_owned() })
    }
}

/// A handshake that has not begun.
pub struct Handshake {
    connector: TlsConnector,
    host: String,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.host);
            let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            Ok(Stream(self.connector.connect(name, stream).await?))
        })
    }
}

/// An encrypted connection.
pub struct Stream<S>(RustlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    /// No channel binding: the server's certificate has proved its name.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

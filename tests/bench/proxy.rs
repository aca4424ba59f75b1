//! The cost of forwarding alone: a native hyper server in its own process, which forwards requests and streams the
//! answers back unread.

use crate::hello::Child;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// The argument that turns this program into the proxy; the address of the server follows.
pub const FLAG: &str = "--serve-proxy";

pub fn start(server: &str) -> Child {
    Child::start(&[FLAG, server.trim_start_matches("http://")])
}

/// Serves until killed, on as many threads as there are cores.
pub fn serve(server: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("an address"));
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.set_nodelay(true);
            let onward = TcpStream::connect(server).await.expect("the server accepts");
            let _ = onward.set_nodelay(true);
            tokio::spawn(async move {
                let (sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(onward)).await.expect("HTTP/1.1");
                tokio::spawn(connection);
                let sender = tokio::sync::Mutex::new(sender);
                let pass_on = service_fn(async |request: hyper::Request<Incoming>| {
                    let (head, body) = request.into_parts();
                    let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
                    let mut sender = sender.lock().await;
                    sender.ready().await?;
                    sender.send_request(hyper::Request::from_parts(head, Full::<Bytes>::new(body))).await
                });
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), pass_on).await;
            });
        }
    });
}

//! The reference: a native hyper server with a fixed answer, in a process of its own. Below `/small/`
//! and `/large/` it answers as an analytics engine.

use crate::*;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io::{BufRead, BufReader};

/// The argument that turns this program into the reference server.
pub const FLAG: &str = "--serve-hello";

/// This program in another process, as a server.
pub struct Child {
    child: std::process::Child,
    pub url: String,
}

impl Child {
    /// Starts it and waits until it listens.
    pub fn start(arguments: &[&str]) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("its address");
        Child { child, url: format!("http://{}", line.trim()) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn start() -> Child {
    Child::start(&[FLAG])
}

/// Serves until killed, on as many threads as there are cores.
pub fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let [small, large] = [2_000, 5_000_000].map(|size| Bytes::from(crate::analytics::answer(size)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("an address"));
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.set_nodelay(true);
            let (small, large) = (small.clone(), large.clone());
            tokio::spawn(async move {
                let answer = service_fn(async |request: hyper::Request<Incoming>| {
                    let (head, body) = request.into_parts();
                    // hyper closes a connection whose request was not read.
                    let _ = body.collect().await;
                    let body = match head.uri.path().split('/').nth(1) {
                        Some("small") => small.clone(),
                        Some("large") => large.clone(),
                        _ => Bytes::from_static(b"hello\n"),
                    };
                    Ok::<_, Infallible>(hyper::Response::new(Full::new(body)))
                });
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
}

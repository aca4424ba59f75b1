//! A proxy in front of a server on this machine. A test can cut and stall its connections.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

struct State {
    target: u16,
    is_stalled: Mutex<bool>,
    resumed: Condvar,
    connections: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

impl Proxy {
    /// Accepts connections on a free port, for a server on another port.
    pub fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (is_stalled, resumed, connections) = (Mutex::new(false), Condvar::new(), Mutex::new(Vec::new()));
        let state = Arc::new(State { target, is_stalled, resumed, connections, is_over: AtomicBool::new(false) });
        let accepting = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.is_over.load(Ordering::SeqCst) {
                    return;
                }
                accepting.connect(client);
            }
        });
        Self { port, state }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends all connections at once.
    pub fn cut(&self) {
        for connection in self.state.connections.lock().expect("a list").drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Starts or stops holding back all bytes in both directions.
    pub fn stall(&self, is_stalled: bool) {
        *self.state.is_stalled.lock().expect("a flag") = is_stalled;
        self.state.resumed.notify_all();
    }
}

impl State {
    fn connect(self: &Arc<Self>, client: TcpStream) {
        // Without a server, the client's connection ends.
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.target)) else { return };
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("an option");
            self.connections.lock().expect("a list").push(stream.try_clone().expect("a descriptor"));
        }
        let (back, forth) = (server.try_clone().expect("a descriptor"), client.try_clone().expect("a descriptor"));
        for (from, to) in [(client, server), (back, forth)] {
            let state = self.clone();
            std::thread::spawn(move || state.pump(from, to));
        }
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let flag = self.is_stalled.lock().expect("a flag");
            drop(self.resumed.wait_while(flag, |is_stalled| *is_stalled).expect("a flag"));
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        self.stall(false);
        self.cut();
        // Wakes the listener, so that it ends.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

//! Messages to the service manager that started this process: sd_notify(3), systemd's `Type=notify`.

use std::ffi::OsStr;
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
#[cfg(target_os = "linux")]
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The environment variable that names the service manager's socket.
const SOCKET: &str = "NOTIFY_SOCKET";

/// A state of the process, for the service manager.
#[derive(Clone, Copy, Debug)]
pub enum ServiceState {
    Ready,
    Stopping,
}

impl ServiceState {
    fn message(self) -> &'static str {
        match self {
            Self::Ready => "READY=1",
            Self::Stopping => "STOPPING=1",
        }
    }
}

/// Sends the state to the service manager, if there is one. It does not block when the service manager does not read.
pub fn notify(state: ServiceState) {
    let Some(socket) = std::env::var_os(SOCKET).filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(state.message(), &socket) {
        tracing::warn!(?state, %error, "cannot send a state to the service manager at {SOCKET}");
    }
}

/// The address of a socket: an absolute path, or on Linux `@` and an abstract name.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let [b'@', name @ ..] = socket.as_bytes() {
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(socket)
}

fn send(message: &str, socket: &OsStr) -> io::Result<()> {
    let address = address(socket)?;
    let datagrams = UnixDatagram::unbound()?;
    // If the service manager does not read, its queue is full.
    datagrams.set_nonblocking(true)?;
    datagrams.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hexad_testing::wait::SOON;

    #[test]
    fn a_service_manager_that_does_not_read_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let filler = UnixDatagram::unbound().unwrap();
        filler.set_nonblocking(true).unwrap();
        while filler.send_to(b"x", &path).is_ok() {}
        assert_eq!(send("READY=1", path.as_os_str()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(manager);
        assert_eq!(send("READY=1", path.as_os_str()).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn its_socket_can_have_an_abstract_name() {
        let name = format!("hexad-test-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send("READY=1", OsStr::new(&format!("@{name}"))).unwrap();
        manager.set_read_timeout(Some(SOON)).unwrap();
        let mut message = [0; 100];
        let length = manager.recv(&mut message).unwrap();
        assert_eq!(&message[..length], b"READY=1");
    }
}

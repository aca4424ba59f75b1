//! Responses that the host writes to the kernel at once. The kernel buffers little of them, and the minimum rate
//! applies to them, too.

use crate::slow_readers::begin;
use crate::*;
use hexad::access_log::{AccessLog, AccessLogFormat};

/// Bytes of the body of each response.
const SIZE: usize = 50_000;
const REQUEST: &[u8] = b"GET /probe/kv/get?key=probe/v1/small HTTP/1.1\r\nhost: a\r\n\r\n";

fn store_body(address: SocketAddr) {
    let stored = rest(begin(address, &format!("kv/set-big?key=probe/v1/small&value={SIZE}"))).unwrap();
    assert!(String::from_utf8_lossy(&stored).contains("\r\nset"), "{}", String::from_utf8_lossy(&stored));
}

/// A client whose kernel buffers little that the client has not read.
fn client(address: SocketAddr, receive_buffer: usize) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(receive_buffer).unwrap();
    socket.connect(&address.into()).unwrap();
    wait::with_deadlines(socket.into())
}

#[test]
fn the_host_makes_few_responses_for_a_client_that_does_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLog::open(path.clone(), AccessLogFormat::Json).unwrap();
    let drain = DrainPolicy { min_rate: 8 * 1024, period: Duration::from_secs(1) };
    let options = IngressOptions {
        drain,
        keep_alive: Duration::from_secs(3600),
        access_log: Some(log.clone()),
        ..IngressOptions::default()
    };
    let (server, address, ingress) = listen("", options);
    store_body(address);
    let mut unread = client(address, 4096);
    // The host reads no more requests than it can answer, and closes the connection by a reset.
    wait::write_to_close(&mut unread, REQUEST);
    let Server { host, folder: _folder } = server;
    host.stop(Duration::ZERO);
    drop((ingress, log));
    let requests = std::fs::read_to_string(path).unwrap().lines().count();
    assert!((3..30).contains(&requests), "{requests} responses of {SIZE} bytes");
}

#[test]
fn a_client_that_takes_too_little_of_small_responses_loses_its_connection() {
    // No client reads this fast.
    let drain = DrainPolicy { min_rate: 1 << 40, period: Duration::from_millis(20) };
    let keep_alive = Duration::from_secs(3600);
    let (_server, address, _) = listen("", IngressOptions { drain, keep_alive, ..IngressOptions::default() });
    store_body(address);
    let mut slow = client(address, 64 * 1024);
    slow.write_all(&REQUEST.repeat(100)).unwrap();
    let (mut taken, mut chunk) = (0, [0; 16 * 1024]);
    // The client asks for another response for each that it has read, so the speed of the machine does not matter.
    wait_until(SOON, "the slow client to lose its connection", || match slow.read(&mut chunk) {
        Ok(0) => true,
        Err(error) => {
            wait::assert_in_time(&error);
            true
        }
        Ok(length) => {
            taken += length;
            if taken >= SIZE {
                taken -= SIZE;
                // If the connection is lost by now, the next read shows it.
                let _ = slow.write_all(REQUEST);
            }
            // Meanwhile the host can send bytes into the space that the client's read has freed.
            hello(address);
            false
        }
    });
    // A client that has read its response may stay.
    let mut quick = client(address, 64 * 1024);
    quick.write_all(b"GET /probe/hello HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    quick.read_exact(&mut [0; 12]).unwrap();
    quick.write_all(b"GET /probe/hello HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    assert_hello(&rest(quick).unwrap());
}

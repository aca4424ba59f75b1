//! A client that does not read its response holds no instance, and loses the response.

use crate::*;

pub const NO_MINIMUM: DrainPolicy = DrainPolicy { min_rate: 0, period: Duration::from_secs(10) };

/// The probe with `tool`, on a listener with these options.
pub fn listen(tool: &str, options: IngressOptions) -> (Server, SocketAddr, Arc<Ingress>) {
    listen_on(Server::with(tool), options)
}

/// The same on a host that was started already.
pub fn listen_on(mut server: Server, options: IngressOptions) -> (Server, SocketAddr, Arc<Ingress>) {
    let ingress = Arc::new(Ingress::new(options).unwrap());
    let address = server.host.serve(TcpListener::bind("127.0.0.1:0").unwrap(), ingress.clone()).unwrap();
    (server, address, ingress)
}

/// Sends a GET of the probe, and reads as much of the response as its status.
pub fn begin(address: SocketAddr, path: &str) -> TcpStream {
    begin_on(wait::connect(address), path)
}

/// The same on a connection that is open.
pub fn begin_on<S: Read + Write>(mut client: S, path: &str) -> S {
    write!(client, "GET /probe/{path} HTTP/1.1\r\nhost: forge.test\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(status_line(&mut client), "HTTP/1.1 200", "{path}");
    client
}

/// The beginning of a response, with its status.
#[track_caller]
pub fn status_line(client: &mut impl Read) -> String {
    let mut start = [0; 12];
    client.read_exact(&mut start).unwrap();
    String::from_utf8_lossy(&start).into_owned()
}

/// The text that comes until the host closes the connection.
#[track_caller]
pub fn read_text(mut client: impl Read) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    text
}

/// Reads the rest of a connection. An error if the host has reset it.
pub fn rest(mut client: impl Read) -> std::io::Result<Vec<u8>> {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).inspect_err(wait::assert_in_time).map(|_| rest)
}

/// Checks the end of the probe's `hello`.
#[track_caller]
pub fn assert_hello(answer: &[u8]) {
    assert_body(answer, "hello");
}

/// Checks the last body in the bytes of a connection. The body is one chunk if the guest wrote it after the head was
/// sent.
#[track_caller]
pub fn assert_body(answer: &[u8], body: &str) {
    let answer = String::from_utf8_lossy(answer);
    let chunked = format!("\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    assert!(answer.ends_with(&format!("\r\n\r\n{body}")) || answer.ends_with(&chunked), "{answer}");
}

/// Waits until this many requests of the probe are being served.
#[track_caller]
pub fn wait_for_busy(server: &Server, expected: usize) {
    let is_expected =
        || server.host.services().iter().map(|service| ComponentService::load(service).0).sum::<usize>() == expected;
    wait_until(SOON, &format!("{expected} requests that are served"), is_expected);
}

/// Whether the body after the head is the whole one, in chunks.
fn is_whole(answer: &[u8], mib: usize) -> bool {
    answer.len() > mib << 20 && answer.ends_with(b"\r\n0\r\n\r\n")
}

#[test]
fn responses_within_the_budgets_hold_no_instance() {
    let send = SendLimits { per_connection: 64 << 20, per_address: 1 << 30, total: 1 << 30 };
    let options = IngressOptions { send, drain: NO_MINIMUM, ..IngressOptions::default() };
    let (server, address, ingress) = listen("instances = 2\nqueue_timeout = \"1h\"", options);
    let unread: Vec<_> = (0..8).map(|_| begin(address, "flood?mib=8")).collect();
    assert!(begin(address, "hello").read(&mut [0; 100]).unwrap() > 0);
    wait_for_busy(&server, 0);
    // No response has lost a byte.
    for client in unread {
        assert!(is_whole(&rest(client).unwrap(), 8));
    }
    wait_until(SOON, "an empty send budget", || ingress.send_budgets.used() == 0);
}

#[test]
fn a_budget_bounds_the_unsent_bytes_of_an_address() {
    let send = SendLimits { per_connection: 4 << 20, per_address: 8 << 20, total: 1 << 30 };
    let options = IngressOptions { send, drain: NO_MINIMUM, ..IngressOptions::default() };
    let (server, address, ingress) = listen("instances = 16", options);
    let unread: Vec<_> = (0..6).map(|_| begin(address, "flood?mib=32")).collect();
    let used = || ingress.send_budgets.used_by("127.0.0.1".parse().unwrap());
    wait_until(SOON, "a full send budget of the address", || used() >= 8 << 20);
    // Each response may hold one more frame of at most 1 MiB, which the host's budget does not count.
    assert!(used() <= 14 << 20, "{}", used());
    assert_eq!(ingress.send_budgets.used(), 8 << 20);
    wait_for_busy(&server, 6);
    for client in unread {
        assert!(is_whole(&rest(client).unwrap(), 32));
    }
    wait_for_busy(&server, 0);
}

#[test]
fn a_client_that_takes_too_little_loses_its_response() {
    let send = SendLimits { per_connection: 1 << 20, ..SendLimits::default() };
    let drain = DrainPolicy { min_rate: 8 * 1024, period: Duration::from_secs(1) };
    let (server, address, ingress) = listen("", IngressOptions { send, drain, ..IngressOptions::default() });
    // One response waits in the buffer. The other one also holds its instance.
    let unread = [begin(address, "flood?mib=64"), begin(address, "flood?mib=64")];
    wait_for_busy(&server, 0);
    wait_until(SOON, "an empty send budget", || ingress.send_budgets.used() == 0);
    for client in unread {
        assert!(!rest(client).is_ok_and(|answer| is_whole(&answer, 64)));
    }
    // A client that reads gets the whole response, however long it takes.
    let mut slow = begin(address, "flood?mib=8");
    let mut answer = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        match slow.read(&mut chunk).unwrap() {
            0 => break,
            length => answer.extend_from_slice(&chunk[..length]),
        }
    }
    assert!(is_whole(&answer, 8));
}

#[test]
fn a_request_that_waits_gets_the_instance_of_a_client_that_does_not_read() {
    let send = SendLimits { per_connection: 1 << 20, ..SendLimits::default() };
    // The period is longer than this test: the host ends the responses because other requests wait.
    let drain = DrainPolicy { min_rate: 8 * 1024, period: Duration::from_secs(30) };
    let server = Server::with_stalled("instances = 4\nqueue_timeout = \"1h\"", 1);
    let (server, address, _) = listen_on(server, IngressOptions { send, drain, ..IngressOptions::default() });
    // An address's share is two of four, and one instance may be stalled.
    let unread: Vec<_> = (0..3).map(|_| begin(address, "flood?mib=64")).collect();
    wait_for_busy(&server, 3);
    for _ in 0..3 {
        assert_hello(&rest(begin(address, "hello")).unwrap());
    }
    drop(unread);
}

#[test]
fn instances_that_wait_for_their_clients_make_way() {
    let send = SendLimits { per_connection: 1 << 20, ..SendLimits::default() };
    let options = IngressOptions { send, drain: NO_MINIMUM, ..IngressOptions::default() };
    let (server, address, _) = listen("instances = 4\nqueue_timeout = \"10s\"", options);
    let unread: Vec<_> = (0..8).map(|_| begin(address, "flood?mib=8")).collect();
    assert_hello(&rest(begin(address, "hello")).unwrap());
    // No response has lost a byte.
    for client in unread {
        assert!(is_whole(&rest(client).unwrap(), 8));
    }
    wait_for_busy(&server, 0);

    // The path `echo` answers before it has received the body.
    for (path, received) in [("count", "100000"), ("echo", "aaaaaaaaaa")] {
        let body = vec![b'a'; 100_000];
        let mut unsent: Vec<_> = (0..8).map(|_| wait::connect(address)).collect();
        for client in &mut unsent {
            let head = "HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 100000\r\n\r\n";
            write!(client, "POST /probe/{path} {head}").unwrap();
            client.write_all(&body[..10]).unwrap();
        }
        for _ in 0..3 {
            assert_hello(&rest(begin(address, "hello")).unwrap());
        }
        for mut client in unsent {
            client.write_all(&body[10..]).unwrap();
            let answer = String::from_utf8(rest(client).unwrap()).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(received), "{path}: {answer}");
        }
    }
    wait_for_busy(&server, 0);
}

#[test]
fn clients_that_do_not_read_over_tls_keep_no_other_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let root = certificate(folder.path());
    let send = SendLimits { per_connection: 1 << 20, ..SendLimits::default() };
    let options = IngressOptions { send, drain: NO_MINIMUM, ..with_tls(&folder) };
    let (server, address, _) = listen("instances = 4\nqueue_timeout = \"10s\"", options);
    let begin = |path| begin_on(connect_tls(address, &root, "http/1.1").unwrap(), path);
    let unread: Vec<_> = (0..8).map(|_| begin("flood?mib=8")).collect();
    assert_hello(&rest(begin("hello")).unwrap());
    // No response has lost a byte.
    for client in unread {
        assert!(is_whole(&rest(client).unwrap(), 8));
    }
    wait_for_busy(&server, 0);
}

#[test]
fn a_request_that_waits_gets_the_instance_of_a_client_that_does_not_send() {
    let server = Server::with_stalled("instances = 4\nqueue_timeout = \"1h\"", 0);
    let (server, address, _) = listen_on(server, IngressOptions::default());
    let mut unsent: Vec<_> = (0..2).map(|_| wait::connect(address)).collect();
    for client in &mut unsent {
        client.write_all(b"POST /probe/count HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nhalf").unwrap();
    }
    wait_for_busy(&server, 2);
    assert_hello(&rest(begin(address, "hello")).unwrap());
    // The host ended only the upload that had waited for longest.
    assert_eq!(status_line(&mut unsent[0]), "HTTP/1.1 408");
}

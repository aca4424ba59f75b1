//! Clients that send while they receive a response, for example window updates.

use crate::http2::DATA;
use crate::*;

const ACK: u8 = 1;
const INITIAL_WINDOW_SIZE: u8 = 4;

/// The largest window (RFC 9113, section 6.9.1).
const MAX_WINDOW: u32 = (1 << 31) - 1;

fn window_update(stream: u32, bytes: usize) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &u32::try_from(bytes).unwrap().to_be_bytes())
}

/// A client whose kernel buffers little, so that the rest of a response stays in the host's kernel.
fn connect_with_small_buffer(address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&address.into()).unwrap();
    wait::with_deadlines(socket.into())
}

#[test]
fn the_end_of_a_connection_cuts_no_response_off() {
    let options = IngressOptions { max_connection_age: Duration::from_millis(100), ..IngressOptions::default() };
    let (_server, address, _) = listen("", options);
    let mut client = connect_with_small_buffer(address);
    client.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
    client.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("flood?mib=1"))).unwrap();
    // Reads the first window and the connection's two GOAWAYs. The host names the last stream after the answer to its
    // ping.
    let (mut received, mut goaways) = (0, 0);
    while goaways < 2 {
        match next_frame(&mut client).expect("a frame") {
            (GOAWAY, ..) => goaways += 1,
            (DATA, _, data) => received += data.len(),
            (PING, _, payload) => client.write_all(&frame(PING, ACK, 0, &payload)).unwrap(),
            _ => {}
        }
    }
    client.write_all(&[window_update(0, 1 << 20), window_update(1, 1 << 20)].concat()).unwrap();
    while let Some((kind, _, data)) = next_frame(&mut client) {
        if kind == DATA && !data.is_empty() {
            received += data.len();
            client.write_all(&[window_update(0, data.len()), window_update(1, data.len())].concat()).unwrap();
        }
    }
    assert_eq!(received, 1 << 20);
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "the host ends the connection in good order");
}

/// The same over HTTP/1, where a client may send what the host does not read.
#[test]
fn the_end_of_an_http1_connection_cuts_no_response_off() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let mut client = connect_with_small_buffer(address);
    let head = "HTTP/1.1\r\nhost: forge.test\r\nconnection: close\r\n\r\n";
    client.write_all(format!("GET /probe/flood?mib=1 {head}").as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 16 * 1024];
    loop {
        match client.read(&mut part).unwrap() {
            0 => break,
            bytes => answer.extend_from_slice(&part[..bytes]),
        }
        client.write_all(b"GET /probe/hello HTTP/1.1\r\nhost: forge.test\r\n\r\n").unwrap();
    }
    assert!(answer.len() > 1 << 20 && answer.ends_with(b"\r\n0\r\n\r\n"), "{}", answer.len());
}

/// A whole response may be in the kernels' buffers before the client reads any of it.
#[test]
fn updates_of_windows_are_no_flood_however_late_they_come() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let mut client = wait::connect(address);
    let window = [&[0, INITIAL_WINDOW_SIZE][..], &MAX_WINDOW.to_be_bytes()].concat();
    let more = window_update(0, 1 << 30);
    client.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &window), &more].concat()).unwrap();
    client.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("flood?mib=16"))).unwrap();
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < 16 << 20 {
        let (kind, _, data) = next_frame(&mut client).expect("a frame");
        if kind == DATA && !data.is_empty() {
            sizes.push(data.len());
        }
    }
    assert!(sizes.len() > 1000, "as many as a client may send that is served nothing: {}", sizes.len());
    for size in sizes {
        client.write_all(&window_update(0, size)).unwrap();
    }
    client.write_all(&frame(PING, 0, 0, &[1; 8])).unwrap();
    let answers = |kind| kind == PING || kind == GOAWAY;
    let answer = std::iter::from_fn(|| next_frame(&mut client)).find(|(kind, ..)| answers(*kind));
    assert_eq!(answer, Some((PING, 0, vec![1; 8])));
}

//! A client that has gone holds no instance, whatever it has sent before.

use crate::*;
use socket2::SockRef;
use std::net::Shutdown;

/// Ways in which a client leaves. A returned stream stays open.
const ENDS: [fn(TcpStream) -> Option<TcpStream>; 3] = [
    |client| {
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        None
    },
    |_closed| None,
    |client| {
        client.shutdown(Shutdown::Write).unwrap();
        Some(client)
    },
];

#[test]
fn a_client_that_has_gone_ends_its_request() {
    let (server, address, _) = listen("request_timeout = \"1h\"", IngressOptions::default());
    let get = "GET /probe/never HTTP/1.1\r\nhost: a\r\n\r\n";
    let post = "POST /probe/never HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n";
    for sent in [get.to_owned(), format!("{get}G"), get.repeat(2), format!("{post}{}", "a".repeat(50_000))] {
        for end in ENDS {
            let mut client = wait::connect(address);
            client.write_all(sent.as_bytes()).unwrap();
            wait_for_busy(&server, 1);
            let _open = end(client);
            wait_for_busy(&server, 0);
        }
    }
}

#[test]
fn a_client_that_has_sent_its_next_request_is_still_there() {
    let (_server, address, _) = listen("", IngressOptions::default());
    let mut client = wait::connect(address);
    // Longer than the interval in which the host checks the client.
    let requests = "GET /probe/sleep?ms=2500 HTTP/1.1\r\nhost: a\r\n\r\n\
                    GET /probe/hello HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    client.write_all(requests.as_bytes()).unwrap();
    let answer = read_text(&mut client);
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
}

/// When a client has vanished silently, the kernel's probes notice it, and the connection fails for hyper.
#[cfg(target_os = "linux")]
#[test]
fn the_kernel_asks_a_silent_client_whether_it_is_there() {
    let (server, address, _) = listen("request_timeout = \"1h\"", IngressOptions::default());
    let mut client = wait::connect(address);
    client.write_all(b"GET /probe/never HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    wait_for_busy(&server, 1);
    let ends = [address, client.local_addr().unwrap()].map(|end| format!("0100007F:{:04X}", end.port()));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let mut sockets = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let socket = sockets.find(|fields| fields[1..3] == ends).unwrap();
    // The active timer (2 is the keep-alive timer), and its remaining hundredths of a second (proc_pid_net(5)).
    let (timer, left) = socket[5].split_once(':').unwrap();
    assert_eq!(timer, "02");
    assert!(u32::from_str_radix(left, 16).unwrap() <= 3000, "{left}");
}

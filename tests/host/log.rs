//! The lines of the log about clients behind a trusted proxy.

use super::*;

/// The line of the log with these words. Before, a client sends `start`, and then `more` until it cannot.
#[track_caller]
fn line_about(words: &str, start: &[u8], more: &[u8]) -> String {
    let arguments = ["--threads", "1", "--trusted-proxy", "127.0.0.1", "--min-send-rate-period", "200ms"];
    let mut server = serve(|command| command.args(arguments).env("RUST_LOG", "warn").stderr(Stdio::piped()));
    let mut client = wait::connect(server.address());
    client.write_all(start).expect("the server reads");
    if !more.is_empty() {
        wait::write_to_close(&mut client, more);
    }
    let lines = BufReader::new(server.take_log().expect("piped")).lines();
    wait::line_with(SOON, words, lines).0.expect("the log has a line about it")
}

/// A request over HTTP/2 without TLS, whose response is larger than the windows of its client. Lengths are below 127.
fn http2_request(path: &str, client: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).expect("a short text")][..], text.as_bytes()].concat();
    // `GET` and `http` of the static table, and literals that are not indexed: RFC 7541, section 6.2.2 and appendix A.
    let fields =
        [vec![0x82, 0x86, 0x04], text(path), vec![0x01], text("a"), vec![0x00], text("x-forwarded-for"), text(client)];
    let fields = fields.concat();
    let length = u8::try_from(fields.len()).expect("a short head");
    let (settings, headers) = ([0, 0, 0, 4, 0, 0, 0, 0, 0], [0, 0, length, 1, 5, 0, 0, 0, 1]);
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &headers, &fields[..]].concat()
}

#[test]
fn a_slow_reader_is_named_and_not_only_its_proxy() {
    let words = "a response was ended before its client had taken it";
    let http1 = b"GET /probe/flood?mib=32 HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.7\r\n\r\n";
    let line = line_about(words, http1, b"");
    assert!(line.contains(" client=192.0.2.7 proxy=127.0.0.1 "), "{line}");
    // The log names a client's network, as its limits apply to the network.
    let line = line_about(words, &http2_request("/probe/flood?mib=32", "2001:db8::7"), b"");
    assert!(line.contains(" client=2001:db8:: proxy=127.0.0.1 "), "{line}");
}

#[test]
fn a_client_that_floods_is_named_and_not_only_its_proxy() {
    let head =
        "POST /probe/count HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.7\r\ntransfer-encoding: chunked\r\n\r\n1";
    let line = line_about("its client floods it", head.as_bytes(), &[b' '; 64 << 10]);
    assert!(line.contains(" client=192.0.2.7 proxy=127.0.0.1 "), "{line}");
}

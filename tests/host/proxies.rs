//! Proxies that the environment names. A proxy would read the tokens of the requests that pass it.

use super::probe::exchange;
use super::*;
use hexad_tests::wait::accept;
use std::io::ErrorKind;

/// Environment variables that name a proxy for all requests.
fn environment(proxy: &str) -> Vec<(&'static str, &str)> {
    let lower = ["http_proxy", "https_proxy", "all_proxy"];
    let upper = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    let proxies = lower.into_iter().chain(upper).map(|name| (name, proxy));
    proxies.chain([("NO_PROXY", ""), ("no_proxy", "")]).collect()
}

#[test]
fn commands_ask_the_host_itself() {
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", proxy.local_addr().expect("an address"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("copy");
    let server = serve_in(folder.path(), |command| command);
    let (data, copy) = (server.data.to_str().expect("text"), copy.to_str().expect("text"));
    let url = server.url.as_str();
    for (arguments, words) in [
        (&["status", "--data", data][..], "probe"),
        (&["rollback", "--data", data, "probe"], "no previous revision to roll back to"),
        (&["fsck", "--url", url, "--token", "t"], "no area of this server"),
        // The success of the backup depends on the store.
        (&["backup", "--data", data, copy], ""),
    ] {
        let output = run(arguments, &environment(&address));
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8(printed).expect("UTF-8");
        assert!(printed.contains(words), "{arguments:?}: {printed}");
    }
    proxy.set_nonblocking(true).expect("a socket");
    let accepted = proxy.accept().expect_err("a command used the proxy");
    assert_eq!(accepted.kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_host_sends_its_traces_to_the_collector_itself() {
    // The same address is the collector and the proxy. The request's first line shows which one the host addresses.
    let collector = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", collector.local_addr().expect("an address"));
    let collected = [("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "1")];
    let server = serve(|command| command.envs(environment(&address)).envs(collected));
    exchange(server.address(), "hello").expect("an answer");
    let request = accept(&collector, "a request");
    let line = BufReader::new(request).lines().next().expect("a line").expect("text");
    assert_eq!(line, "POST /v1/traces HTTP/1.1");
}

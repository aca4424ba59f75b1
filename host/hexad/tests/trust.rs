//! Limits of a component that protect its visitors and other components: sessions, protocols, long calls, endless
//! starts, and anonymous work.

use crate::fixture::{granting, start_with};
use crate::*;
use hexad::anonymous_work::WorkLimits;
use hexad::ingress::RequestOrigin;
use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE, DATE, RETRY_AFTER, SET_COOKIE};
use std::net::IpAddr;

const COOKIES: &str = "a=1; hexad-session=glpat-x; __Host-hexad-session=glpat-y; b=2";
const GRANTED: &str = "credentials = { headers = [\"cookie\"] }";

fn with_cookies(path: &str) -> Request<Full<Bytes>> {
    let mut request = get(path);
    request.headers_mut().insert(COOKIE, COOKIES.parse().unwrap());
    request
}

fn lines(headers: &HeaderMap) -> Vec<&[u8]> {
    headers.get_all(SET_COOKIE).iter().map(|line| line.as_bytes()).collect()
}

#[tokio::test]
async fn only_a_component_with_the_grant_gets_and_sets_sessions() {
    let set = "head?status=200&header=set-cookie:hexad-session=evil&header=set-cookie:__Host-hexad-session=evil\
               &header=set-cookie:c=3";
    for tool in [
        "",
        "credentials = { headers = [\"authorization\"] }",
        "response_cache = \"60s\"\nresponse_cache_headers = [\"cookie\"]",
    ] {
        let server = Server::with(tool);
        let (_, seen) = text(server.send(with_cookies("headers")).await).await;
        assert!(seen.contains("cookie: a=1; b=2\n"), "{tool}: {seen}");
        assert_eq!(lines(server.send(get(set)).await.headers()), [b"c=3"], "{tool}");
    }
    let server = Server::with(GRANTED);
    let (_, seen) = text(server.send(with_cookies("headers")).await).await;
    assert!(seen.contains(&format!("cookie: {COOKIES}\n")), "{seen}");
    assert_eq!(lines(server.send(get(set)).await.headers()).len(), 3);
}

#[tokio::test]
async fn requests_of_components_carry_no_session_either() {
    let nested = "outbound?url=http://self.alt/probe/headers&header=cookie:hexad-session=glpat-x";
    for (tool, is_seen) in [("", false), (GRANTED, true)] {
        let server = Server::reaching(&["http://self"], tool, Default::default());
        let seen = server.ok(nested).await;
        assert_eq!(seen.contains("glpat-x"), is_seen, "{tool}: {seen}");
    }
}

#[tokio::test]
async fn a_response_depends_on_no_session_that_its_component_does_not_get() {
    let server = Server::with("response_cache = \"60s\"\nresponse_cache_headers = [\"cookie\"]");
    let recall = |cookie: &str| {
        let mut request = get("recall?key=probe/v1/a");
        request.headers_mut().insert(COOKIE, cookie.parse().unwrap());
        server.send(request)
    };
    let first = text(recall("a=1; hexad-session=x").await).await;
    assert_eq!(first, text(recall("a=1; hexad-session=y").await).await, "from the cache");
    assert_ne!(first, text(recall("a=2; hexad-session=x").await).await);
}

#[tokio::test]
async fn a_component_switches_no_protocol_and_writes_no_date() {
    let server = Server::with("");
    for status in [101, 103] {
        assert_eq!(server.get(&format!("head?status={status}&header=upgrade:websocket")).await.0, 500, "{status}");
    }
    let response = server.send(get("head?status=204&header=date:x")).await;
    assert_eq!((response.status().as_u16(), response.headers().get(DATE)), (204, None));
}

#[tokio::test]
async fn one_call_draws_a_bounded_number_of_random_bytes() {
    let server = Server::with("");
    assert_eq!(server.ok("random?bytes=65536").await, "65536");
    let most: usize = server.ok("random?bytes=1000000000000").await.parse().unwrap();
    assert!(most <= 1 << 20, "{most}");
}

/// A guest of WASI 0.2 whose start function does not end.
const ENDLESS: &str = r#"(component
    (import "wasi:http/types@0.2.0" (instance $types
        (export "incoming-request" (type (sub resource)))
        (export "response-outparam" (type (sub resource)))))
    (alias export $types "incoming-request" (type $request))
    (alias export $types "response-outparam" (type $out))
    (core module $guest
        (func $compute (loop (br 0)))
        (start $compute)
        (func (export "handle") (param i32 i32)))
    (core instance $guest (instantiate $guest))
    (func $handle (param "request" (own $request)) (param "response-out" (own $out))
        (canon lift (core func $guest "handle")))
    (instance $handler (export "handle" (func $handle)))
    (export "wasi:http/incoming-handler@0.2.0" (instance $handler)))"#;

#[test]
fn a_component_whose_start_does_not_end_is_not_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("guest.wasm");
    std::fs::write(&source, wat::parse_str(ENDLESS).unwrap()).unwrap();
    let manifest = format!(
        "{}\n[[trigger.http]]\nroute = \"/probe/endless\"\ncomponent = \"endless\"\n[component.endless]\n\
         source = {source:?}\n[component.endless.tool.hexad]\ncpu_time = \"100ms\"\nrequest_timeout = \"1h\"",
        manifest("")
    );
    let refusal = fixture::start(&folder, &manifest, &[], store()).err().unwrap().to_string();
    assert!(refusal.contains("endless"), "{refusal}");
}

/// The probe on a host with limits of anonymous work.
fn limited(tool: &str, anonymous_work: WorkLimits) -> Server {
    Server::of(&granting(&["http://self"], tool), |options| HostOptions { anonymous_work, ..options })
}

const CREDENTIALS: &str = "credentials = { headers = [\"authorization\"], parameters = [\"access\"] }";
const CPU_TIME: WorkLimits = WorkLimits { cpu_time: Duration::from_millis(100), store_bytes: 0 };

/// Sends a request of a client at `address`, with a credential unless that is empty.
async fn ask(server: &Server, address: &str, credential: &str, path: &str) -> Response<ResponseBody> {
    let mut request = get(path);
    let client: IpAddr = address.parse().unwrap();
    request.extensions_mut().insert(RequestOrigin { client, scheme: http::uri::Scheme::HTTP, authority: None });
    if !credential.is_empty() {
        request.headers_mut().insert(AUTHORIZATION, credential.parse().unwrap());
    }
    server.send(request).await
}

async fn status(server: &Server, address: &str, credential: &str, path: &str) -> u16 {
    ask(server, address, credential, path).await.status().as_u16()
}

#[tokio::test]
async fn anonymous_work_of_a_network_is_limited() {
    let server = limited(CREDENTIALS, CPU_TIME);
    assert_eq!(status(&server, "2001:db8::1", "", "spin?ms=300").await, 200);
    let refused = ask(&server, "2001:db8::2", "", "hello").await;
    let wait: u64 = refused.headers()[RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((1..=120).contains(&wait), "{wait}");
    let (status_code, body) = text(refused).await;
    assert!(status_code == 429 && body.contains("anonymous_cpu_time"), "{status_code} {body}");
    assert_eq!(status(&server, "2001:db8:0:1::1", "", "hello").await, 200, "another network");
    assert_eq!(status(&server, "2001:db8::1", "known", "hello").await, 200, "it has a credential");
    // The host's own requests, and requests to components without credentials, are not limited.
    assert_eq!(server.ok("hello").await, "hello");
    let server = limited("", CPU_TIME);
    for _ in 0..2 {
        assert_eq!(status(&server, "192.0.2.1", "", "spin?ms=300").await, 200);
    }
    let off = limited(CREDENTIALS, WorkLimits { cpu_time: Duration::ZERO, store_bytes: 0 });
    for _ in 0..2 {
        assert_eq!(status(&off, "192.0.2.1", "", "spin?ms=300").await, 200);
    }
}

#[tokio::test]
async fn a_refused_credential_is_no_way_around() {
    for refused in ["head?status=401", "head?status=200&header=hexad-caller:anonymous"] {
        let server = limited(CREDENTIALS, CPU_TIME);
        let address = "192.0.2.1";
        assert_eq!(status(&server, address, "known", "head?status=200&header=hexad-caller:known").await, 200);
        for attempt in 0..2 {
            let spun = status(&server, address, "", "spin?ms=300").await;
            assert_eq!(spun, if attempt == 0 { 200 } else { 429 });
        }
        // Requests with the accepted credential do not count.
        for _ in 0..2 {
            assert_eq!(status(&server, address, "known", "spin?ms=300").await, 200);
        }
        // All forged credentials together have one account of their own.
        assert_ne!(status(&server, address, "forged", &format!("{refused}&ms=300")).await, 429);
        assert_eq!(status(&server, address, "another", "hello").await, 429);
        assert_eq!(status(&server, address, "known", "hello").await, 200);
    }
}

#[tokio::test]
async fn bytes_of_the_store_and_nested_requests_count() {
    let server = limited(CREDENTIALS, WorkLimits { cpu_time: Duration::ZERO, store_bytes: 1000 });
    let value = "x".repeat(600);
    assert_eq!(status(&server, "192.0.2.1", "", &format!("kv/set?key=probe/v1/a&value={value}")).await, 200);
    let nested = "outbound?url=http://self.alt/probe/kv/get?key=probe/v1/a";
    assert_eq!(status(&server, "192.0.2.1", "", nested).await, 200);
    let (code, body) = text(ask(&server, "192.0.2.1", "", "hello").await).await;
    assert!(code == 429 && body.contains("anonymous_store_bytes"), "{code} {body}");
}

#[tokio::test]
async fn a_client_does_not_get_the_header_about_its_caller() {
    let server = limited(CREDENTIALS, CPU_TIME);
    let response = ask(&server, "192.0.2.1", "x", "head?status=200&header=hexad-caller:known").await;
    assert!(response.headers().get("hexad-caller").is_none());
}

#[tokio::test]
async fn a_secret_is_drawn_once_and_only_for_its_component() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = manifest("generate = [\"check\"]");
    let secret = async |options: &HostOptions, environment: &[(&str, &str)]| {
        let host = start_with(&folder, &manifest, environment, options).unwrap();
        let keys = text(host.handle(get("variable?name=check")).await).await.1;
        let reloader = host.reloader();
        let loaded = fixture::load(&folder, &manifest, environment, None);
        let reloaded = tokio::task::spawn_blocking(move || reloader.reload(loaded).unwrap()).await.unwrap();
        assert_eq!(reloaded.to_string(), "none");
        host.stop(Duration::from_secs(5));
        keys
    };
    let options = options(&folder, store());
    let drawn = secret(&options, &[]).await;
    let [first, next] = *drawn.split(',').collect::<Vec<_>>() else { panic!("{drawn}") };
    assert_eq!((first.len(), secret(&options, &[]).await), (64, drawn.clone()));
    let rotated = secret(&HostOptions { rotate_secrets: true, ..options.clone() }, &[]).await;
    assert!(rotated.starts_with(&format!("{next},{first},")), "{drawn} {rotated}");
    assert_eq!(secret(&options, &[("SPIN_VARIABLE_CHECK", "mine")]).await, "mine");
    let unknown = fixture::load(&folder, &manifest.replace("[\"check\"]", "[\"chek\"]"), &[], None);
    assert!(unknown.err().unwrap().to_string().contains("generate has \"chek\""));
}

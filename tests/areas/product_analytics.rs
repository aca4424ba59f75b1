//! Product analytics: the requests that the component sends to an engine, and how it answers when the
//! engine misbehaves.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hexad_tests::upstream::{self, Upstream};
use hexad_tests::wait::{SOON, pause, wait_until};
use std::collections::HashSet;
use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const KEY: &str = "very-secret-key";
const QUERY: &str = r#"{"query":{"measures":["TrackedEvents.count"],"limit":1.50}}"#;

/// Loopback engines are allowed, and timeouts are short.
const VARIABLES: [(&str, &str); 4] = [
    ("analytics_upstream", "http://127.0.0.1:*"),
    ("analytics_connect_seconds", "1"),
    ("analytics_read_seconds", "1"),
    ("analytics_total_seconds", "2"),
];

/// A forge whose analytics engine is at `base_url`.
fn forge_at(base_url: &str, variables: &[(&str, &str)]) -> Forge {
    let forge = Forge::seeded_with(variables);
    let settings = json!({"analytics_api_base_url": base_url, "analytics_api_key": KEY}).to_string();
    assert_eq!(forge.send_json("PUT", "/api/v4/application/settings", ADMIN, settings).status, 200);
    let on = forge.send_json("POST", "/api/v4/features/product_analytics_features", ADMIN, r#"{"value":true}"#);
    assert_eq!(on.status, 201);
    forge
}

fn forge(upstream: &Upstream) -> Forge {
    forge_at(&upstream.url, &VARIABLES)
}

fn path(project: u64, endpoint: &str) -> String {
    format!("/api/v4/projects/{project}/product_analytics/request/{endpoint}")
}

fn load(forge: &Forge) -> Answer {
    forge.send_json("POST", &path(PUBLIC, "load"), DEVELOPER, QUERY)
}

#[track_caller]
fn is_bad_gateway(answer: &Answer) {
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert!(answer.json()["message"].as_str().is_some_and(|text| text.starts_with("the analytics engine")));
    assert_eq!(answer.json()["error"], answer.json()["message"], "the engine's client shows this one");
    assert!(!answer.text().contains(KEY) && !answer.text().contains("127.0.0.1") && !answer.text().contains("eyJ"));
}

#[test]
fn the_engine_gets_the_query_with_a_token_and_the_caller_gets_its_answer() {
    let upstream = Upstream::with_json(r#"{"results":[{"data":[{"x":1.50}]}],"n":1e2}"#);
    let forge = forge(&upstream);
    let answer = load(&forge);
    assert_eq!((answer.status, answer.text().as_str()), (200, r#"{"results":[{"data":[{"x":1.50}]}],"n":1e2}"#));
    forge.get(&path(PRIVATE, "meta"), DEVELOPER).expect(200);
    let requests = upstream.requests();
    assert!(requests[0].head.starts_with("POST /cubejs-api/v1/load HTTP/1.1\r\n"), "{}", requests[0].head);
    assert_eq!(requests[0].body, r#"{"query":{"measures":["TrackedEvents.count"],"limit":1.50},"queryType":"multi"}"#);
    assert!(requests[1].head.starts_with("GET /cubejs-api/v1/meta HTTP/1.1\r\n"), "{}", requests[1].head);
    for request in &requests {
        let mut names: Vec<String> =
            request.head.lines().skip(1).filter_map(|line| Some(line.split_once(':')?.0.to_lowercase())).collect();
        names.retain(|name| name != "content-length");
        names.sort();
        assert_eq!(names, ["authorization", "content-type", "host"], "{}", request.head);
        assert_eq!(request.header("authorization").split('.').count(), 3);
    }
    assert_eq!(forge.get(&path(PRIVATE, "meta"), OUTSIDER).status, 404);
    assert_eq!(forge.get(&path(PUBLIC, "meta"), "").status, 401);
    assert_eq!(upstream.requests().len(), 2);
}

/// The engine's client sends a short query in the query string. A request can name the project by its path.
#[test]
fn a_query_comes_by_get_too_and_a_moved_project_is_redirected() {
    let upstream = Upstream::with_json(r#"{"results":[]}"#);
    let forge = forge(&upstream);
    let query = "query=%5B%7B%22limit%22%3A1%7D%2C%7B%7D%5D&queryType=multi";
    let by_path = |path: &str| format!("/api/v4/projects/{path}/product_analytics/request/load?{query}");
    assert_eq!(forge.get(&by_path("acme%2Fopen"), DEVELOPER).status, 200);
    let requests = upstream.requests();
    assert!(requests[0].head.starts_with("POST /cubejs-api/v1/load HTTP/1.1\r\n"), "{}", requests[0].head);
    assert_eq!(requests[0].body, r#"{"query":[{"limit":1},{}],"queryType":"multi"}"#);
    for name in ["sql", "subscribe"] {
        let refused = forge.get(&format!("{}?{query}", path(PUBLIC, name)), DEVELOPER);
        assert!(refused.status == 404 && refused.json()["error"].as_str().is_some_and(|text| text.contains(name)));
    }
    let moved = json!({"kind": "project", "id": PUBLIC, "path_with_namespace": "acme/opened", "visibility": "public"});
    forge.send("POST", "/api/v4/import/directory", ADMIN, moved.to_string());
    let redirected = forge.get(&by_path("acme%2Fopen"), DEVELOPER);
    let location = format!("https://forge.test/api/v4/projects/{PUBLIC}/product_analytics/request/load?{query}");
    assert_eq!((redirected.status, redirected.header("location")), (301, location.as_str()));
}

#[test]
fn a_large_answer_is_streamed_whole() {
    let row = r#"{"TrackedEvents.count":"335"}"#;
    let body = format!(r#"{{"results":[{{"data":[{}]}}]}}"#, vec![row; 5_000_000 / row.len()].join(","));
    let upstream = Upstream::with_json(body.clone());
    let answer = load(&forge(&upstream));
    assert!(answer.status == 200 && answer.body == body.as_bytes());
    assert_eq!(answer.header("content-length"), body.len().to_string());
}

/// Engines that misbehave before the head of the component's answer is sent.
#[test]
fn a_misbehaving_engine_is_a_bad_gateway() {
    type Misbehaviour = fn(&mut TcpStream) -> io::Result<()>;
    let cases: [(&str, Misbehaviour); 12] = [
        ("hangs before the head", |_| wait()),
        ("hangs in the head", |stream| stream.write_all(b"HTTP/1.1 200 OK\r\nx").and_then(|()| wait())),
        ("hangs in the body", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"results\":[").and_then(|()| wait())
        }),
        ("drips", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{\"x\":\"")?;
            loop {
                stream.write_all(b"x")?;
                pause(Duration::from_millis(100));
            }
        }),
        ("hangs up", |stream| stream.shutdown(std::net::Shutdown::Both)),
        ("hangs up in the body", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"results\":[]}")?;
            stream.shutdown(std::net::Shutdown::Both)
        }),
        ("speaks another protocol", |stream| stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n")),
        ("has an endless head", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            loop {
                stream.write_all(b"x-more: more and more and more\r\n")?;
            }
        }),
        ("promises too much", |stream| stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{")),
        ("answers with HTML", |stream| stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\n\r\n<html>")),
        ("answers with what is no gzip", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x08\x00")
        }),
        ("answers with nothing", |stream| stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")),
    ];
    for (name, misbehave) in cases {
        let upstream = Upstream::start(move |_, stream| misbehave(stream));
        eprintln!("{name}");
        is_bad_gateway(&load(&forge(&upstream)));
    }
}

/// Keeps the connection open longer than the timeouts.
fn wait() -> io::Result<()> {
    std::thread::park_timeout(Duration::from_secs(60));
    Ok(())
}

#[test]
fn an_engine_that_is_not_there_is_a_bad_gateway() {
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    is_bad_gateway(&load(&forge_at(&format!("http://{gone}"), &VARIABLES)));
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Upstream::with_json(r#"{"results":[]}"#);
    let location = elsewhere.url.clone();
    let upstream = Upstream::start(move |_, stream| {
        write!(stream, "HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}/x\r\ncontent-length: 0\r\n\r\n")
    });
    is_bad_gateway(&load(&forge(&upstream)));
    assert_eq!((upstream.requests().len(), elsewhere.requests().len()), (1, 0));
}

#[test]
fn private_addresses_are_refused_in_every_spelling() {
    let upstream = Upstream::with_json("{}");
    let port = upstream.url.rsplit(':').next().expect("a port").to_owned();
    for granted in ["https://*:443", "*://*:*"] {
        let forge = forge_at(&upstream.url, &[("analytics_upstream", granted), VARIABLES[1]]);
        is_bad_gateway(&load(&forge));
        let hosts = "169.254.169.254 2852039166 0xa9fea9fe 0251.0376.0251.0376 [::ffff:169.254.169.254] \
            [64:ff9b::a9fe:a9fe] [fd00:ec2::254] localhost 0 127.1 [::1] [::]";
        for host in hosts.split(' ') {
            let settings = json!({"analytics_api_base_url": format!("http://{host}:{port}/")}).to_string();
            assert_eq!(forge.send_json("PUT", "/api/v4/application/settings", ADMIN, settings).status, 200);
            is_bad_gateway(&load(&forge));
        }
    }
    assert!(upstream.requests().is_empty());
}

#[test]
fn while_one_request_waits_others_are_served() {
    let upstream = Upstream::start(|request, stream| match request.body.contains("slow") {
        true => wait(),
        false => upstream::json(stream, r#"{"results":[]}"#),
    });
    let forge = forge(&upstream);
    std::thread::scope(|scope| {
        let slow = scope
            .spawn(|| forge.send_json("POST", &path(PUBLIC, "load"), DEVELOPER, r#"{"query":{"measures":["slow"]}}"#));
        wait_until(SOON, "the slow request", || !upstream.requests().is_empty());
        assert_eq!(load(&forge).status, 200);
        assert_eq!(forge.get("/api/v4/application/settings", ADMIN).status, 200);
        assert!(!slow.is_finished(), "the slow request has ended");
        is_bad_gateway(&slow.join().expect("an answer"));
    });
}

/// The project in the engine's token, which is in the answer's field `token`.
fn project_of(answer: &Answer) -> String {
    let token = answer.json()["token"].as_str().expect("a token").to_owned();
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).expect("a payload")).expect("base64");
    let claims: Value = serde_json::from_slice(&claims).expect("JSON");
    claims["appId"].as_str().expect("a text").to_owned()
}

#[test]
fn equal_requests_at_the_same_moment_are_sent_once() {
    for (method, endpoint, body) in [("POST", "load", QUERY), ("GET", "meta", "")] {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let closed = gate.clone();
        let upstream = Upstream::start(move |request, stream| {
            let (open, opened) = &*closed;
            drop(opened.wait_while(open.lock().expect("no panic"), |open| !*open));
            let body = json!({"results": "x".repeat(200_000), "token": request.header("authorization")});
            upstream::json(stream, &body.to_string())
        });
        let forge = forge_at(&upstream.url, &[("analytics_upstream", "http://127.0.0.1:*")]);
        // Several users ask about one project, and one of them about another.
        let send = |project, token| forge.send_json(method, &path(project, endpoint), token, body);
        let callers: Vec<(u64, &str)> =
            [ADMIN, DEVELOPER, OUTSIDER].repeat(4).into_iter().map(|token| (PUBLIC, token)).collect();
        let callers = [callers, vec![(PRIVATE, DEVELOPER)]].concat();
        std::thread::scope(|scope| {
            let answers: Vec<_> =
                callers.iter().map(|&(project, token)| (project, scope.spawn(move || send(project, token)))).collect();
            let waiting = || upstream.requests().len() as u64 + forge.coalesced("product-analytics");
            wait_until(SOON, "all callers to wait", || waiting() >= callers.len() as u64);
            *gate.0.lock().expect("no panic") = true;
            gate.1.notify_all();
            for (project, answer) in answers {
                let answer = answer.join().expect("an answer").expect(200);
                assert_eq!(project_of(&answer), format!("gitlab_project_{project}"));
            }
        });
        // The token, and with it the request, changes every few seconds.
        let requests = upstream.requests();
        let different: HashSet<String> =
            requests.iter().map(|request| format!("{} {}", request.head, request.body)).collect();
        assert_eq!(different.len(), requests.len(), "the same request was sent twice");
        assert!((2..callers.len()).contains(&requests.len()), "{}", requests.len());
    }
}

#[test]
fn a_projects_own_engine_comes_with_an_import() {
    let upstream = Upstream::with_json(r#"{"cubes":[]}"#);
    let forge = forge_at("http://127.0.0.1:1/", &VARIABLES);
    let record = json!({"kind": "project", "id": PUBLIC, "path_with_namespace": "acme/open", "visibility": "public",
        "cube_api_base_url": upstream.url, "cube_api_key": "own-key"});
    forge.import(record.to_string());
    assert_eq!(forge.get(&path(PUBLIC, "meta"), DEVELOPER).json(), json!({"cubes": []}));
    is_bad_gateway(&forge.get(&path(PRIVATE, "meta"), DEVELOPER));
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn the_key_can_be_set_and_is_never_shown() {
    let forge = forge_at("http://127.0.0.1:1/", &[]);
    let shown: Value = forge.get("/api/v4/application/settings", ADMIN).json();
    assert_eq!(shown["cube_api_base_url"], "http://127.0.0.1:1/");
    assert!(shown.get("analytics_api_key").is_none() && shown.get("cube_api_key").is_none());
}

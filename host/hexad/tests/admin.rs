//! The admin listener.

use crate::versions::trapping;
use crate::*;
use ureq::{Agent, Body};

struct Operator {
    server: Server,
    access: AdminAccess,
    agent: Agent,
}

impl Operator {
    fn new() -> Self {
        Self::with("")
    }

    fn with(tool: &str) -> Self {
        let mut server = Server::with(tool);
        let access = server.administer();
        Self { server, access, agent: agent() }
    }

    fn send(&self, method: &str, path: &str, body: Vec<u8>) -> (u16, String) {
        self.send_as(&self.access.token, method, path, body)
    }

    fn send_as(&self, token: &str, method: &str, path: &str, body: Vec<u8>) -> (u16, String) {
        let request = self.request(token, method, path).body(body);
        let mut response: ureq::http::Response<Body> = self.agent.run(request.unwrap()).unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    }

    fn request(&self, token: &str, method: &str, path: &str) -> ureq::http::request::Builder {
        ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.access.url))
            .header("authorization", format!("Bearer {token}"))
            .header("x-hexad-actor", "mia")
    }

    /// The media type and the text of the metrics, for this `Accept` header.
    fn metrics(&self, accept: &str) -> (String, String) {
        let request = self.request(&self.access.token, "GET", "/metrics").header("accept", accept).body(());
        let mut response: ureq::http::Response<Body> = self.agent.run(request.unwrap()).unwrap();
        let media_type = response.headers()["content-type"].to_str().unwrap().to_owned();
        (media_type, response.body_mut().read_to_string().unwrap())
    }

    fn json(&self, method: &str, path: &str, body: Vec<u8>) -> Value {
        let (status, text) = self.send(method, path, body);
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

#[test]
fn requests_without_the_token_are_refused() {
    let operator = Operator::new();
    for path in ["/components", "/status", "/metrics", "/components/probe", "/nothing", "/"] {
        let (status, text) = operator.send_as("wrong", "GET", path, Vec::new());
        assert_eq!((status, text.as_str()), (401, "{\"error\":\"the admin token is missing or wrong\"}\n"), "{path}");
    }
    assert_eq!(operator.send_as("", "PUT", "/components/probe", variant("probe", 1)).0, 401);
    assert_eq!(operator.send_as("", "GET", "/healthz", Vec::new()), (200, "ok\n".into()));
    assert_eq!(operator.send_as("", "GET", "/readyz", Vec::new()), (200, "ready\n".into()));
    for path in ["/healthz", "/readyz"] {
        assert_eq!(operator.send_as("", "HEAD", path, Vec::new()), (200, String::new()), "{path}");
    }
    assert_eq!(operator.send_as("", "HEAD", "/status", Vec::new()).0, 401);
}

#[test]
fn uploads_without_the_token_that_stall_do_not_keep_an_operator_out() {
    let operator = Operator::new();
    let address = operator.access.url.strip_prefix("http://").unwrap();
    let head = |token: &str, length: u64| {
        format!(
            "PUT /components/probe HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let connect = |request: &str| {
        let mut stream = wait::connect(address);
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    // Some uploads stall in the body, some in the head, and some before it.
    let mut stalled: Vec<TcpStream> = (0..100).map(|_| connect(&head("wrong", 1 << 20))).collect();
    stalled.extend((0..100).map(|_| connect("PUT /components/probe HTTP/1.1\r\nhost:")));
    stalled.extend((0..100).map(|_| connect("")));
    assert_eq!(operator.send("GET", "/status", Vec::new()).0, 200);
    // The host answers after the head, without waiting for the body.
    let mut answer = String::new();
    let mut refused = connect(&head("wrong", 1 << 20));
    refused.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

#[test]
fn silent_connections_of_some_addresses_do_not_keep_an_operator_out() {
    let operator = Operator::new();
    let address: SocketAddr = operator.access.url.strip_prefix("http://").unwrap().parse().unwrap();
    let connect = |n: u16| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let last = 2 + u8::try_from(n % 10).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into()).unwrap();
        socket.connect(&address.into()).unwrap();
        socket
    };
    // More than the listener keeps of silent connections.
    let _silent: Vec<Socket> = (0..300).map(connect).collect();
    assert_eq!(operator.send("GET", "/status", Vec::new()).0, 200);
}

#[test]
fn the_running_host_is_found_through_its_data_folder() {
    let Operator { server, access, .. } = Operator::new();
    let data = server.folder.path().join("data");
    let found = AdminAccess::find(&data).unwrap();
    assert_eq!((found.url, found.token), (access.url, access.token));
    drop(server.host);
    assert!(AdminAccess::find(&data).is_err());
}

#[test]
fn components_are_listed_with_their_grants_and_limits() {
    let operator = Operator::new();
    let all = operator.json("GET", "/components", Vec::new());
    assert_eq!(all.as_array().unwrap().len(), 2);
    let probe = operator.json("GET", "/components/probe", Vec::new());
    let digest = Digest::of(&std::fs::read(guest("probe")).unwrap()).to_string();
    for (field, value) in [
        ("id", Value::from("probe")),
        ("area", "probe".into()),
        ("version", "0.1.0".into()),
        ("digest", digest.into()),
        ("generation", 1.into()),
        ("state", "serving".into()),
        ("canary", Value::Null),
    ] {
        assert_eq!(probe[field], value, "{field}");
    }
    assert_eq!(probe["grants"]["key_value_stores"][0], "default");
    assert_eq!(probe["limits"]["instances"], 64);
    assert_eq!(operator.send("GET", "/components/x", Vec::new()).0, 404);
}

#[test]
fn a_component_is_swapped_and_rolled_back() {
    let operator = Operator::new();
    let wasm = variant("incoming", 1);
    let report = operator.json("PUT", "/components/incoming", wasm.clone());
    assert_eq!((&report["generation"], &report["digest"]), (&2.into(), &Digest::of(&wasm).to_string().into()));
    let report = operator.json("POST", "/components/incoming/rollback", Vec::new());
    assert_eq!(report["generation"], 1);
    let text = std::fs::read_to_string(operator.server.folder.path().join("data/audit.ndjson")).unwrap();
    assert!(text.lines().all(|line| line.contains("\"by\":\"mia\"")), "{text}");

    for (method, path, body, status, words) in [
        ("PUT", "/components/incoming", b"text".to_vec(), 422, "not a usable component"),
        ("PUT", "/components/x", wasm.clone(), 404, "no component `x`"),
        ("PUT", "/components/incoming?percent=0", wasm.clone(), 400, "percent=0"),
        ("PUT", "/components/incoming?percent=5&percent=6", wasm.clone(), 400, "more than once"),
        ("PUT", "/components/incoming?window=10m", wasm.clone(), 400, "needs a percentage"),
        ("PUT", "/components/incoming?max_errors=1", wasm.clone(), 400, "needs a percentage"),
        ("POST", "/components/incoming/promote", Vec::new(), 409, "has no canary"),
        ("POST", "/components/probe/rollback", Vec::new(), 409, "no previous revision to roll back to"),
        ("DELETE", "/components/probe", Vec::new(), 405, "GET, HEAD, PUT"),
    ] {
        let (actual, text) = operator.send(method, path, body);
        assert!(actual == status && text.contains(words), "{method} {path}: {actual} {text}");
    }
}

#[test]
fn the_status_has_the_canary() {
    let operator = Operator::new();
    let report = operator.json("PUT", "/components/incoming?percent=10&window=1h", variant("incoming", 1));
    assert_eq!(report["canary"], true);
    let shown = operator.json("GET", "/components/incoming", Vec::new());
    assert_eq!((&shown["state"], &shown["generation"]), (&"canary".into(), &1.into()));
    assert_eq!((&shown["canary"]["generation"], &shown["canary"]["percent"]), (&2.into(), &10.0.into()));
}

/// The samples of an OpenMetrics text. Checks that every sample belongs to a declared family, and that each series is
/// there once.
fn parse_openmetrics(text: &str) -> std::collections::BTreeMap<String, f64> {
    let (mut kinds, mut samples) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            assert!(kinds.insert(name, kind).is_none(), "{name} is declared twice");
        } else if line == "# EOF" {
            assert_eq!(lines.peek(), None, "nothing follows the end mark");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            let name = series.split('{').next().unwrap();
            let is_of_family = |(family, kind): (&&str, &&str)| match *kind {
                "counter" => name == format!("{family}_total"),
                "histogram" => ["_bucket", "_sum", "_count"].iter().any(|end| name == format!("{family}{end}")),
                _ => name == *family,
            };
            assert!(kinds.iter().any(is_of_family), "{name} is not declared");
            let labels = series.strip_prefix(name).unwrap();
            assert!(labels.is_empty() || (labels.starts_with('{') && labels.ends_with("\"}")), "{line}");
            let value = value.parse::<f64>().unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(samples.insert(series.to_owned(), value).is_none(), "{series} is there twice");
        }
    }
    assert!(text.ends_with("# EOF\n"));
    samples
}

#[tokio::test]
async fn the_metrics_count_requests_failures_and_operations() {
    let operator = Operator::with("memory = \"64MiB\"");
    let server = &operator.server;
    for path in ["hello", "kv/set?key=probe/v1/a&value=1", "kv/get?key=probe/v1/a", "kv/get?key=probe/v1/b", "hog"] {
        server.ok(path).await;
    }
    assert_eq!(server.get("trap").await.0, 500);
    let unrouted = http::Request::get("/nowhere")
        .header("host", "forge.test")
        .body(http_body_util::Full::<bytes::Bytes>::default())
        .unwrap();
    assert_eq!(server.send(unrouted).await.status(), 404);
    operator.json("PUT", "/components/incoming", trapping());
    for expected in [vec![500; 20], vec![503]].concat() {
        assert_eq!(incoming(server).await.0, expected);
    }
    assert_eq!(operator.json("GET", "/components/incoming", Vec::new())["state"], "failing");
    let (status, text) = operator.send("GET", "/metrics", Vec::new());
    assert_eq!(status, 200);
    let samples = parse_openmetrics(&text);
    let sample = |series: &str| *samples.get(series).unwrap_or_else(|| panic!("{series} is not in\n{text}"));
    for (series, value) in [
        ("hexad_requests_total{component=\"probe\",status=\"200\"}", 5.0),
        ("hexad_requests_total{component=\"probe\",status=\"500\"}", 1.0),
        ("hexad_request_duration_seconds_count{component=\"probe\"}", 6.0),
        ("hexad_request_duration_seconds_bucket{le=\"+Inf\",component=\"probe\"}", 6.0),
        ("hexad_key_value_operations_total{component=\"probe\",operation=\"get\"}", 2.0),
        ("hexad_key_value_operations_total{component=\"probe\",operation=\"set\"}", 1.0),
        ("hexad_instance_failures_total{component=\"probe\",reason=\"unreachable\"}", 1.0),
        // One instance used up its memory, and another one trapped.
        ("hexad_instantiations_total{component=\"probe\"}", 2.0),
        ("hexad_instances_closed_total{component=\"probe\",reason=\"memory\"}", 1.0),
        ("hexad_revision{component=\"incoming\"}", 2.0),
        ("hexad_revision{component=\"probe\"}", 1.0),
        ("hexad_breaker_open{component=\"probe\"}", 0.0),
        ("hexad_breaker_tripped_total{component=\"incoming\"}", 1.0),
        ("hexad_request_refusals_total{component=\"incoming\",reason=\"failing\"}", 1.0),
        ("hexad_breaker_open{component=\"incoming\"}", 1.0),
        ("hexad_requests_in_flight{component=\"probe\"}", 0.0),
    ] {
        assert_eq!(sample(series), value, "{series}");
    }
    let peak = sample("hexad_instance_memory_peak_bytes{component=\"probe\"}");
    assert!((32.0..=64.0).contains(&(peak / 1048576.0)), "{peak}");
    assert!(sample("hexad_memory_denied_total{component=\"probe\"}") > 0.0);
    assert!(sample("hexad_guest_cpu_seconds_total{component=\"probe\"}") > 0.0);
    for (series, value) in [
        ("hexad_key_value_duration_seconds_count{component=\"probe\",operation=\"commit\"}", 1.0),
        ("hexad_key_value_swaps_lost_total{component=\"probe\"}", 0.0),
        ("hexad_request_refusals_total{component=\"probe\",reason=\"failed\"}", 1.0),
        ("hexad_request_refusals_total{component=\"probe\",reason=\"busy\"}", 0.0),
        ("hexad_instance_failures_total{component=\"probe\",reason=\"host_panicked\"}", 0.0),
        ("hexad_outbound_connections_total{component=\"probe\"}", 0.0),
        ("hexad_response_cache_misses_total", 0.0),
        ("hexad_unrouted_requests_total", 1.0),
        ("hexad_build_info{version=\"0.1.0\"}", 1.0),
    ] {
        assert_eq!(sample(series), value, "{series}");
    }
    assert!(samples.keys().any(|series| series.starts_with("hexad_component_info{component=\"probe\",area=\"probe\"")));
    assert!(!text.contains("operation=\"swap\",le"), "operations without a call have no buckets");
    assert!(sample("hexad_store_bytes") > 0.0);
    assert!(sample("hexad_open_descriptors") > 3.0);
    assert!(sample("hexad_store_commits_total") >= 1.0);
    assert!(sample("hexad_resident_memory_bytes") > 1e6);
}

#[tokio::test]
async fn the_metrics_are_openmetrics_for_every_reader() {
    let operator = Operator::new();
    operator.server.ok("hello").await;
    for accept in ["*/*", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "text/plain;version=0.0.4"] {
        let (media_type, text) = operator.metrics(accept);
        assert_eq!(media_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        assert!(parse_openmetrics(&text).contains_key("hexad_unrouted_requests_total"), "{text}");
    }
}

#[tokio::test]
async fn the_status_has_the_same_statistics() {
    let operator = Operator::new();
    operator.server.ok("kv/set?key=a&value=1").await;
    assert_eq!(operator.server.get("trap").await.0, 500);
    let status = operator.json("GET", "/status", Vec::new());
    let components = status["components"].as_array().unwrap();
    let probe = components.iter().find(|component| component["id"] == "probe").unwrap();
    assert_eq!(probe["digest"], operator.json("GET", "/components/probe", Vec::new())["digest"]);
    let statistics = &probe["figures"];
    for (field, value) in
        [("requests", 2), ("failed", 1), ("instance_failures", 1), ("instantiations", 1), ("key_value_operations", 2)]
    {
        assert_eq!(statistics[field], value, "{field} of {statistics}");
    }
    assert!(
        statistics["p50"].as_f64().unwrap() > 0.0 && statistics["p99"].as_f64() >= statistics["p50"].as_f64(),
        "{statistics}"
    );
    let host = &status["host"];
    assert_eq!((&host["version"], &host["store_commits"]), (&"0.1.0".into(), &1.into()));
    assert_eq!(host["spans"], Value::Null);
}

//! A real analytics engine as the upstream of product analytics, and the engine's own client.

use super::*;
use hexad_tests::forge::ADMIN;
use hexad_tests::http::agent;
use hexad_tests::wait::{OF_CONNECTIONS, line_with};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

/// The key that server and engine share.
const KEY: &str = "an-analytics-key-of-the-tests-0001";

/// Projects of the engine's data: 12 events, 1 event, none at all.
const MANY: u64 = 1;
const ONE: u64 = 2;
const NONE: u64 = 3;

/// The engine's folder, which `make clients` has built.
fn folder() -> PathBuf {
    root().join("tests/cache/engine")
}

/// A `node` in the engine's folder.
fn node() -> Command {
    assert!(folder().join("installed").is_file(), "{} is not complete; `make clients` makes it so", folder().display());
    let mut command = Command::new("node");
    command
        .current_dir(folder())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("NODE_ENV", "production")
        .stdin(Stdio::null());
    command
}

/// A running engine. Dropping it kills the process.
struct Engine {
    child: Child,
    url: String,
}

impl Engine {
    fn start(machine: &Machine) -> Self {
        let mut child = node()
            .arg("server.js")
            .arg(machine.folder("engine"))
            .env("CUBEJS_API_SECRET", KEY)
            .env("CUBEJS_DB_TYPE", "libsql")
            .env("CUBEJS_CACHE_AND_QUEUE_DRIVER", "memory")
            .env("CUBEJS_TELEMETRY", "false")
            .env("CUBEJS_LOG_LEVEL", "error")
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut engine = Engine { child, url: String::new() };
        let (line, lines) = line_with(OF_CONNECTIONS, "listening on ", lines);
        let line = line.expect("the engine ended before it listened; its log is above");
        std::thread::spawn(move || lines.for_each(drop));
        engine.url = format!("http://127.0.0.1:{}", line.trim_start_matches("listening on "));
        engine
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A host whose projects use the engine.
struct Forge {
    server: Server,
    engine: Engine,
    agent: ureq::Agent,
    _machine: Machine,
}

impl Forge {
    fn start() -> Option<Self> {
        if !are_enabled() {
            return None;
        }
        let machine = Machine::new();
        let engine = Engine::start(&machine);
        let server = forge::server(&[("analytics_upstream", &engine.url)]);
        let forge = Forge { server, engine, agent: agent(), _machine: machine };
        for id in [MANY, ONE, NONE] {
            let project = json!({"kind": "project", "id": id, "path_with_namespace": format!("acme/p{id}")});
            forge.admin("import/directory", "POST", project);
        }
        let settings = json!({"analytics_api_base_url": forge.engine.url, "analytics_api_key": KEY});
        forge.admin("application/settings", "PUT", settings);
        forge.admin("features/product_analytics_features", "POST", json!({"value": true}));
        Some(forge)
    }

    fn admin(&self, path: &str, method: &str, body: Value) {
        let url = format!("{}/api/v4/{path}", self.server.url);
        let (status, answer) = self.send(method, &url, ("private-token", ADMIN), &body.to_string());
        assert!(status < 300, "{path}: {status} {answer}");
    }

    /// Sends a request for a project to the server.
    fn request(&self, project: u64, endpoint: &str, body: &str) -> (u16, Value) {
        let url = format!("{}/{endpoint}", self.address(project));
        let (status, answer) = self.send("POST", &url, ("private-token", DEVELOPER), body);
        (status, serde_json::from_str(&answer).unwrap_or_else(|why| panic!("{why}: {answer}")))
    }

    /// Sends a request to the engine itself, with a token of [`Forge::token`].
    fn request_engine(&self, endpoint: &str, token: &str, body: &str) -> Value {
        let url = format!("{}/cubejs-api/v1/{endpoint}", self.engine.url);
        let method = if body.is_empty() { "GET" } else { "POST" };
        let (_, answer) = self.send(method, &url, ("authorization", token), body);
        serde_json::from_str(&answer).unwrap_or_else(|why| panic!("{why}: {answer}"))
    }

    fn address(&self, project: u64) -> String {
        format!("{}/api/v4/projects/{project}/product_analytics/request", self.server.url)
    }

    fn send(&self, method: &str, url: &str, (name, value): (&str, &str), body: &str) -> (u16, String) {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(url)
            .header(name, value)
            .header("content-type", "application/json")
            .body(body.to_owned())
            .expect("a valid request");
        let mut response = self.agent.run(request).unwrap_or_else(|why| panic!("{url}: {why}"));
        (response.status().as_u16(), response.body_mut().read_to_string().expect("text"))
    }

    /// The engine's token for a project.
    fn token(&self, project: u64) -> String {
        let query = json!({"query": {"measures": ["TrackedEvents.count"]}, "include_token": true}).to_string();
        self.request(project, "dry-run", &query).1["token"].as_str().expect("a token").to_owned()
    }
}

/// A query of `tests/programs/engine/queries`.
fn query(name: &str) -> String {
    let path = folder().join("queries").join(format!("{name}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The body of an error.
fn refusal(text: &str) -> Value {
    json!({"message": text, "error": text})
}

/// An answer without the fields that differ each time.
fn comparable(mut answer: Value) -> Value {
    fn remove(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for name in ["lastRefreshTime", "requestId", "refreshKeyValues", "slowQuery"] {
                    fields.remove(name);
                }
                fields.values_mut().for_each(remove);
            }
            Value::Array(items) => items.iter_mut().for_each(remove),
            _ => {}
        }
    }
    remove(&mut answer);
    answer
}

#[test]
fn every_query_gets_the_engines_own_answer() {
    let Some(forge) = Forge::start() else { return };
    let token = forge.token(MANY);
    let names = "sessions-multi tracked-events-multi tracked-events-dated-multi compare-date-range-multi \
        blending-multi";
    for name in names.split(' ') {
        for endpoint in ["load", "dry-run"] {
            let (status, mut answer) = forge.request(MANY, endpoint, &query(name));
            let engines = forge.request_engine(endpoint, &token, &query(name));
            if endpoint == "dry-run" {
                assert_eq!(answer.as_object_mut().expect("an object").remove("results"), Some(Value::Null), "{name}");
            }
            assert_eq!((status, comparable(answer)), (200, comparable(engines)), "{endpoint} {name}");
        }
    }
    let (status, sessions) = forge.request(MANY, "load", &query("sessions-multi"));
    assert_eq!((status, sessions["results"][0]["data"].as_array().map(Vec::len)), (200, Some(4)), "{sessions}");
    assert_eq!(comparable(forge.request(MANY, "meta", "").1), comparable(forge.request_engine("meta", &token, "")));

    // The type is `multi` by default, and the engine ignores an unknown one.
    assert!(forge.request(MANY, "load", &query("regular-no-querytype")).1["results"].is_array());
    let (status, single) = forge.request(MANY, "load", &query("err-bad-querytype"));
    assert_eq!((status, &single["results"]), (200, &Value::Null));
    assert_eq!(single["data"][0]["TrackedEvents.count"], 12);
}

#[test]
fn gaps_that_the_engine_leaves_are_filled() {
    let Some(forge) = Forge::start() else { return };
    let engines = forge.request_engine("load", &forge.token(MANY), &query("gap-fill-multi"));
    let (status, filled) = forge.request(MANY, "load", &query("gap-fill-multi"));
    let rows = |answer: &Value| answer["results"][0]["data"].as_array().expect("rows").clone();
    let (engines, filled) = (rows(&engines), rows(&filled));
    assert_eq!((status, engines.len(), filled.len()), (200, 3, 5));
    assert_eq!(filled[..3], engines[..]);
    let zero = |day: &str| {
        let moment = format!("{day}T00:00:00.000");
        json!({"Sessions.startAt.day": moment, "Sessions.startAt": moment, "Sessions.count": "0"})
    };
    assert_eq!(filled[3..], [zero("2024-05-02"), zero("2024-05-04")]);
}

#[test]
fn an_error_of_the_engine_is_passed_on_without_its_stack() {
    let Some(forge) = Forge::start() else { return };
    let token = forge.token(MANY);
    let names = "bad-date-range bad-member-name empty-query limit-too-big mixed-cubes unknown-key unknown-measure";
    for name in names.split(' ') {
        let query = query(&format!("err-{name}"));
        let engines = forge.request_engine("load", &token, &query);
        let message = engines["error"].as_str().expect("an error");
        assert_eq!(forge.request(MANY, "load", &query), (400, refusal(message)), "{name}");
    }
    let limit = forge.request(MANY, "load", &query("err-limit-too-big"));
    assert_eq!(limit.1["message"], "Error: The query limit has been exceeded.");
    let missing = forge.request(MANY, "load", &query("err-no-query"));
    assert_eq!(missing, (400, json!({"error": "query is missing"})));
    // The engine itself refuses a list without a granularity.
    let (status, refused) = forge.request(MANY, "load", &query("err-regular-array"));
    assert!(status == 400 && refused["error"].as_str().is_some_and(|text| text.contains("granularity")), "{refused}");
    let none = forge.request(NONE, "load", &query("sessions-multi"));
    assert_eq!(none, (404, refusal("404 Clickhouse Database Not Found")));
    let one = forge.request(ONE, "load", &query("sessions-multi")).1;
    assert_eq!(one["results"][0]["data"].as_array().map(Vec::len), Some(1), "a project sees its own data");
    forge.admin("application/settings", "PUT", json!({"analytics_api_key": "another-key"}));
    assert_eq!(forge.request(MANY, "load", &query("sessions-multi")), (400, refusal("Invalid token")));
}

#[test]
fn the_engines_own_client_works_through_the_server() {
    let Some(forge) = Forge::start() else { return };
    let by_path = format!("{}/api/v4/projects/acme%2Fp{MANY}/product_analytics/request", forge.server.url);
    // By default, the client sends a short query in the URL.
    let runs = [(forge.address(MANY), ""), (forge.address(MANY), "POST"), (by_path, "")];
    for (run, (address, method)) in runs.into_iter().enumerate() {
        let output = output(node().arg("client.js").args([&address, DEVELOPER, method]));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let got: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(got["cubes"], json!(["Sessions", "SlowReport", "TrackedEvents"]));
        assert_eq!(got["sessions"].as_array().map(Vec::len), Some(5), "{got}");
        assert_eq!(got["slow"], json!([{"SlowReport.total": 20_000_000}]));
        assert_eq!(got["analyzed"], "blendingQuery", "{got}");
        assert_eq!(got["blended"], json!(["Sessions.count", "TrackedEvents.count"]), "{got}");
        assert!(got["refused"].as_str().is_some_and(|text| text.contains("'nope' not found")), "{got}");
        assert!(got["sql"].as_str().is_some_and(|text| text.contains("`sql` is not supported")), "{got}");
        assert!(got["subscribed"].as_str().is_some_and(|text| text.contains("`subscribe` is not supported")), "{got}");
        assert!(got["denied"].as_str().is_some_and(|text| text.contains("401")), "{got}");
        // Later runs get the engine's stored result.
        assert!(run > 0 || got["polls"].as_u64().is_some_and(|polls| polls > 0), "it had to ask again: {got}");
    }
}

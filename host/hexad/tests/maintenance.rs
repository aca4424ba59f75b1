//! The maintenance requests of the host, which only a manifest can ask for.

use crate::*;
use hexad_testing::wait_async::wait_for_async;
use http_body_util::Empty;

/// Maintenance of the probe, in its `tool.hexad` table.
const MAINTENANCE: &str = r#"maintenance = { path = "/probe/maintain", every = "1ms", token = "check" }"#;

/// A server with the probe. `every` overrides the period of its maintenance.
fn maintained_probe(tool: &str, environment: &[(&str, &str)], every: Option<Duration>) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let manifest = fixture::load(&folder, &fixture::manifest(tool), environment, every).unwrap();
    let host = fixture::maintained(&folder, manifest);
    Server { host, folder }
}

/// The maintenance requests that the probe has recorded, once there are `count`.
async fn recorded_requests(server: &Server, count: usize) -> Vec<String> {
    let recorded = async || {
        let record = server.ok("kv/get?key=probe/v1/maintenance").await;
        let lines: Vec<_> = record.strip_prefix("some ")?.lines().map(str::to_owned).collect();
        Some(lines).filter(|lines| lines.len() >= count)
    };
    wait_for_async(SOON, &format!("{count} maintenance requests"), recorded).await
}

/// The number of requests of each component, and of those without a route.
fn request_counts(server: &mut Server) -> (Vec<u64>, u64) {
    let access = server.administer();
    let authorization = format!("Bearer {}", access.token);
    let request = agent().get(format!("{}/status", access.url)).header("authorization", authorization);
    let status: Value = serde_json::from_str(&request.call().unwrap().body_mut().read_to_string().unwrap()).unwrap();
    let components = status["components"].as_array().unwrap();
    let requests = components.iter().map(|component| component["figures"]["requests"].as_u64().unwrap()).collect();
    (requests, status["host"]["unrouted"].as_u64().unwrap())
}

#[tokio::test]
async fn only_components_that_ask_for_maintenance_get_it() {
    let mut server = maintained_probe(MAINTENANCE, &[("SPIN_VARIABLE_CHECK", "secret")], None);
    let lines = recorded_requests(&server, 6).await;
    let task =
        ["{}", r#"{"cursor":"one"}"#, r#"{"cursor":"two"}"#].map(|body| format!("Method::Post Bearer secret {body}"));
    assert_eq!(lines[..3], task);
    assert_eq!(lines[3..6], task, "the task starts again after its period");
    let (requests, unrouted) = request_counts(&mut server);
    // In the order of their ids: `incoming` asks for nothing.
    assert_eq!((requests[0], unrouted), (0, 0));
}

#[tokio::test]
async fn a_manifest_without_maintenance_gets_no_request_of_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let hello = guest("hello");
    let manifest = format!(
        r#"
        spin_manifest_version = 2
        application = {{ name = "test" }}
        [[trigger.http]]
        route = "/..."
        component = "hello"
        [component.hello]
        source = {hello:?}
        "#
    );
    let every = Some(Duration::from_millis(1));
    let manifest = fixture::load(&folder, &manifest, &[], every).unwrap();
    let host = fixture::maintained(&folder, manifest);
    let mut server = Server { host, folder };
    // On a fast machine this takes a tenth of a second, which is many periods.
    for _ in 0..1000 {
        let request = http::Request::get("/").header("host", "app.test").body(Empty::new()).unwrap();
        assert_eq!(fixture::text(server.host.handle(request).await).await, (200, "hello\n".to_owned()));
    }
    assert_eq!(request_counts(&mut server), (vec![1000], 0));
}

#[tokio::test]
async fn the_operator_overrides_the_period() {
    let rare = MAINTENANCE.replace("1ms", "1h");
    let often = maintained_probe(&rare, &[("SPIN_VARIABLE_CHECK", "secret")], Some(Duration::from_millis(1)));
    recorded_requests(&often, 3).await;
    let never = maintained_probe(MAINTENANCE, &[], Some(Duration::ZERO));
    assert_eq!(never.ok("variable?name=check").await, "", "no token is generated");
    assert_eq!(never.ok("kv/get?key=probe/v1/maintenance").await, "none");
}

#[tokio::test]
async fn without_a_token_the_host_generates_one_for_each_process() {
    let server = maintained_probe(MAINTENANCE, &[("SPIN_VARIABLE_CHECK", "")], None);
    let lines = recorded_requests(&server, 1).await;
    let token = server.ok("variable?name=check").await;
    assert_eq!(token.len(), 32);
    assert_eq!(lines[0], format!("Method::Post Bearer {token} {{}}"));
    let other = maintained_probe(MAINTENANCE, &[], None);
    assert_ne!(other.ok("variable?name=check").await, token);
}

#[test]
fn maintenance_of_another_component_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["/incoming", "/nowhere"] {
        let tool = MAINTENANCE.replace("/probe/maintain", path);
        let error = fixture::load(&folder, &fixture::manifest(&tool), &[], None).err().unwrap().to_string();
        assert!(error.contains("[component.probe.tool.hexad]") && error.contains(path), "{error}");
    }
}

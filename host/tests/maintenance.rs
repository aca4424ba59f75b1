//! Requests that the host sends by itself: those that a manifest asks for, and no others.

use std::time::Duration;

use http_body_util::Empty;
use serde_json::Value;
use ureq::Agent;

use crate::fixture::{self, Server, guest};

/// A task of the probe, in its `tool.hexad` table.
const MAINTENANCE: &str = r#"maintenance = { path = "/probe/maintain", every = "1ms", token = "check" }"#;

/// The probe, maintained as `tool` and `every` say.
fn probe(tool: &str, environment: &[(&str, &str)], every: Option<Duration>) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let manifest = fixture::load(&folder, &fixture::manifest(tool), environment, every).unwrap();
    let host = fixture::maintained(&folder, manifest).unwrap();
    Server { host, folder }
}

/// The requests that the probe has recorded, once there are `count`.
async fn recorded(server: &Server, count: usize) -> Vec<String> {
    loop {
        let record = server.ok("kv/get?key=probe/v1/maintenance").await;
        let lines: Vec<_> = record.trim_start_matches("some ").lines().map(str::to_owned).collect();
        if record.starts_with("some ") && lines.len() >= count {
            return lines;
        }
    }
}

/// How many requests each component has answered, and how many had no route.
fn answered(server: &mut Server) -> (Vec<u64>, u64) {
    let access = server.host.administer("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let authorization = format!("Bearer {}", access.token);
    let request =
        Agent::new_with_defaults().get(format!("{}/status", access.url)).header("authorization", authorization);
    let status: Value = serde_json::from_str(&request.call().unwrap().body_mut().read_to_string().unwrap()).unwrap();
    let components = status["components"].as_array().unwrap();
    let requests = components.iter().map(|component| component["figures"]["requests"].as_u64().unwrap()).collect();
    (requests, status["host"]["unrouted"].as_u64().unwrap())
}

#[tokio::test]
async fn a_component_gets_the_maintenance_that_its_manifest_asks_for_and_others_get_none() {
    let mut server = probe(MAINTENANCE, &[("SPIN_VARIABLE_CHECK", "secret")], None);
    let lines = recorded(&server, 6).await;
    let task =
        ["{}", r#"{"cursor":"one"}"#, r#"{"cursor":"two"}"#].map(|body| format!("Method::Post Bearer secret {body}"));
    assert_eq!(lines[..3], task);
    assert_eq!(lines[3..6], task, "it begins anew after its period");
    let (requests, unrouted) = answered(&mut server);
    // In the order of their ids: `incoming` asks for nothing.
    assert_eq!((requests[0], unrouted), (0, 0));
}

#[tokio::test]
async fn an_application_that_asks_for_no_maintenance_gets_no_request_of_the_host() {
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
    let host = fixture::maintained(&folder, manifest).unwrap();
    let mut server = Server { host, folder };
    // A tenth of a second on the fastest machine, in which a host would maintain it many times.
    for _ in 0..1000 {
        let request = http::Request::get("/").header("host", "app.test").body(Empty::new()).unwrap();
        assert_eq!(fixture::text(server.host.handle(request).await).await, (200, "hello\n".to_owned()));
    }
    assert_eq!(answered(&mut server), (vec![1000], 0));
}

#[tokio::test]
async fn the_operator_can_have_maintenance_more_often_or_never() {
    let rare = MAINTENANCE.replace("1ms", "1h");
    let often = probe(&rare, &[("SPIN_VARIABLE_CHECK", "secret")], Some(Duration::from_millis(1)));
    recorded(&often, 3).await;
    let never = probe(MAINTENANCE, &[], Some(Duration::ZERO));
    assert_eq!(never.ok("variable?name=check").await, "", "no token is made that is not used");
    assert_eq!(never.ok("kv/get?key=probe/v1/maintenance").await, "none");
}

#[tokio::test]
async fn without_a_token_the_host_makes_one_that_only_the_component_knows() {
    let server = probe(MAINTENANCE, &[("SPIN_VARIABLE_CHECK", "")], None);
    let lines = recorded(&server, 1).await;
    let token = server.ok("variable?name=check").await;
    assert_eq!(token.len(), 32);
    assert_eq!(lines[0], format!("Method::Post Bearer {token} {{}}"));
    let other = probe(MAINTENANCE, &[], None);
    assert_ne!(other.ok("variable?name=check").await, token);
}

#[test]
fn maintenance_of_another_component_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["/incoming", "/nowhere"] {
        let tool = MAINTENANCE.replace("/probe/maintain", path);
        let manifest = fixture::load(&folder, &fixture::manifest(&tool), &[], None).unwrap();
        let error = fixture::maintained(&folder, manifest).err().unwrap().to_string();
        assert!(error.contains("[component.probe.tool.hexad]") && error.contains(path), "{error}");
    }
}

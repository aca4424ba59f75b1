//! Guests built for other hosts: other key-value and variables interfaces on the same store and
//! variables.

use crate::key_value::{GRANTS, fill};
use crate::*;

fn manifest(stores: &str) -> String {
    let foreign = guest("foreign");
    format!(
        r#"
        spin_manifest_version = 2
        application = {{ name = "test" }}
        [[trigger.http]]
        route = "/foreign/..."
        component = "foreign"
        [component.foreign]
        source = {foreign:?}
        key_value_stores = [{stores}]
        variables = {{ colour = "green" }}
        [[trigger.http]]
        route = "/incoming"
        component = "incoming"
        [component.incoming]
        source = {:?}
        key_value_stores = ["elsewhere"]
        allowed_outbound_hosts = []
        "#,
        guest("incoming")
    )
}

#[tokio::test]
async fn older_interfaces_reach_the_same_store_and_variables() {
    let folder = tempfile::tempdir().unwrap();
    let host = fixture::start(&folder, &manifest("\"default\""), &[], store()).unwrap();
    for (path, expected) in [
        ("spin2", r#"1 false ["a"]"#),
        ("variables", r#"Ok("green") Err(Error::Undefined("the component has no variable `nothing`"))"#),
        ("config", r#"Ok(Some("green")) Ok(None) Ok([("colour", "green")])"#),
        ("denied", "Err(Error::AccessDenied)"),
        ("unknown", "Err(Error::NoSuchStore)"),
    ] {
        let request = http::Request::get(format!("/foreign/{path}")).header("host", "forge.test");
        let response = host.handle(request.body(http_body_util::Empty::new()).unwrap()).await;
        assert_eq!(fixture::text(response).await, (200, expected.to_owned()), "{path}");
    }
}

/// Some toolchains import more than a component calls.
#[tokio::test]
async fn a_component_that_imports_a_store_without_a_grant_is_served_and_its_calls_are_denied() {
    let folder = tempfile::tempdir().unwrap();
    let host = fixture::start(&folder, &manifest(""), &[], store()).unwrap();
    let request = http::Request::get("/foreign/denied").header("host", "forge.test");
    let response = host.handle(request.body(http_body_util::Empty::new()).unwrap()).await;
    assert_eq!(fixture::text(response).await, (200, "Err(Error::AccessDenied)".to_owned()));
}

#[tokio::test]
async fn asynchronous_calls_reach_the_same_store() {
    let server = Server::with(GRANTS);
    let act =
        async |act: &str, key: &str, value: &str| server.ok(&format!("spin3?act={act}&key={key}&value={value}")).await;
    assert_eq!(act("get", "probe/v1/a", "").await, "none");
    assert_eq!(act("set", "probe/v1/a", "own").await, "some own", "a guest reads its own write");
    assert_eq!(server.ok("kv/get?key=probe/v1/a").await, "some own", "it is the same store");
    assert_eq!(act("exists", "probe/v1/a", "").await, "true");
    assert_eq!(act("delete", "probe/v1/a", "").await, "false");
    // More keys than a page has, just written by the same guest.
    assert_eq!(act("many", "probe/v1/n", "2500").await, "set");
    let names: Vec<_> = (0..2500).map(|n| format!("probe/v1/n{n:05}")).collect();
    assert_eq!(act("list", "", "").await, names.join(","));
    assert_eq!(act("overlap", "probe/v1/n", "3000").await, "2500");
    assert_eq!(act("list-some", "probe/v1/x", "1").await, format!("true {} true", names[..2].join(",")));
}

/// A value is lifted out of the guest's memory when its call begins.
#[tokio::test]
async fn calls_that_are_not_awaited_hold_a_bounded_number_of_bytes() {
    let server = Server::with(GRANTS);
    assert_eq!(server.ok("spin3?act=flood&key=probe/v1/a&value=48").await, "48 written, then none refused");
    let flooded = server.ok("spin3?act=flood&key=probe/v1/b&value=200").await;
    let (written, refused) = flooded.split_once(" written, then ").unwrap();
    assert!((60..100).contains(&written.parse::<usize>().unwrap()), "{flooded}");
    assert!(refused.contains("hold at most 67108864 bytes"), "{flooded}");
    assert_eq!(server.ok("spin3?act=set&key=probe/v1/c&value=after").await, "some after");
}

#[tokio::test]
async fn asynchronous_calls_are_within_the_grants() {
    let folder = tempfile::tempdir().unwrap();
    fill(&folder, &["other/v1/a", "shared/a"]).await;
    let server = Server::over(folder, GRANTS, store());
    for (path, expected) in [
        ("spin3?act=open&value=nowhere", "Error::NoSuchStore"),
        ("spin3?act=open&value=elsewhere", "Error::AccessDenied"),
        ("spin3?act=get&key=other/v1/a", "Error::AccessDenied"),
        ("spin3?act=set&key=shared/a&value=1", "Error::AccessDenied"),
        ("spin3?act=delete&key=shared/a", "Error::AccessDenied"),
    ] {
        assert_eq!(server.get(path).await, (500, expected.to_owned()), "{path}");
    }
    assert_eq!(server.ok("spin3?act=exists&key=shared/a").await, "true");
    assert_eq!(server.ok("spin3?act=list").await, "shared/a", "only readable keys are listed");
    let (status, text) = server.get("spin3?act=exists&key=").await;
    assert!(status == 500 && text.contains("1 to"), "{text}");
}

#[tokio::test]
async fn asynchronous_writes_of_a_request_need_one_flush() {
    let server = Server::with("");
    let before = server.host.commits();
    server.ok("spin3?act=many&key=probe/v1/n&value=100").await;
    assert_eq!(server.host.commits() - before, 1, "one commit for all writes of the request");
}

#[test]
fn an_area_that_imports_outbound_http_without_a_grant_is_refused() {
    let start = |id: &str| {
        let folder = tempfile::tempdir().unwrap();
        let text = fixture::manifest("");
        let (head, tail) = text.split_once(&format!("[component.{id}]")).unwrap();
        let text = format!("{head}[component.{id}]{}", tail.replacen("allowed_outbound_hosts = []", "", 1));
        fixture::start(&folder, &text, &[], store()).err().map(|error| error.to_string())
    };
    let error = start("probe").unwrap();
    for words in ["`probe`", "wasi:http/client@0.3.0", "`allowed_outbound_hosts`"] {
        assert!(error.contains(words), "{words} is not in: {error}");
    }
    assert_eq!(start("incoming"), None, "its requests are denied");
}

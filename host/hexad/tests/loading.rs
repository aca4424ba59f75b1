//! Components and manifests that cannot be served: the host does not start, and says why.

use crate::key_value::fill;
use crate::*;

/// The error of a start with the probe's manifest, in which `from` is replaced by `to`.
fn refused(folder: &TempDir, from: &str, to: &str) -> String {
    let text = manifest("");
    assert!(text.contains(from), "{from} is not in the manifest");
    let text = text.replace(from, to);
    if let Err(error) = fixture::load(folder, &text, &[], None) {
        return error.to_string();
    }
    match fixture::start(folder, &text, &[], store()) {
        Ok(_) => panic!("accepted {to}"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(from: &str, to: &str, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let error = refused(&folder, from, to);
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
}

fn write(folder: &TempDir, bytes: &[u8]) -> String {
    let path = folder.path().join("guest.wasm");
    std::fs::write(&path, bytes).unwrap();
    format!("{path:?}")
}

#[tokio::test]
async fn a_guest_of_the_0_2_interface_that_is_no_area_is_served() {
    let server = Server::with("");
    let request = http::Request::get("/incoming?x").header("host", "forge.test");
    let response = server.host.handle(request.body(http_body_util::Empty::new()).unwrap()).await;
    assert_eq!(fixture::text(response).await, (200, "hello from 0.2 at /incoming?x".to_owned()));
}

#[test]
fn the_component_of_another_area_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = manifest("").replace("component.probe", "component.registry").replace("\"probe\"", "\"registry\"");
    let error = match fixture::start(&folder, &text, &[], store()) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("`registry`") && error.contains("area `probe`"), "{error}");
}

#[test]
fn a_component_whose_check_fails_is_refused() {
    for (value, words) in [("fails", "says that it fails"), ("writes", "access-denied")] {
        let folder = tempfile::tempdir().unwrap();
        let environment = [("SPIN_VARIABLE_CHECK", value)];
        let error = match fixture::start(&folder, &manifest(""), &environment, store()) {
            Ok(_) => panic!("accepted"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("`probe`") && error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_store_that_the_area_cannot_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fill(&folder, &["probe/v1/a", "probe/v2/a"]).await;
    let error = refused(&folder, "name = \"test\"", "name = \"test\"");
    for word in ["`probe`", "format 2", "`probe/`", "[1]"] {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
}

#[test]
fn files_that_are_not_components_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let probe = format!("{:?}", guest("probe"));
    check(&probe, "\"missing.wasm\"", &["`probe`", "missing.wasm", "build it"]);
    check(&probe, &write(&folder, b"text"), &["`probe`", "guest.wasm"]);
    check(&probe, &write(&folder, b"\0asm\x01\0\0\0"), &["`probe`", "guest.wasm"]);
    let empty = wat::parse_str("(component)").unwrap();
    check(&probe, &write(&folder, &empty), &["`probe`", "wasi:http/handler@0.3.0"]);
    let half = &std::fs::read(guest("probe")).unwrap()[..100_000];
    check(&probe, &write(&folder, half), &["`probe`", "guest.wasm"]);
}

#[test]
fn an_import_that_the_host_does_not_supply_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let probe = format!("{:?}", guest("probe"));
    // The two drafts are not those that Spin serves.
    for import in ["acme:rocket/engine@1.0.0", "wasi:keyvalue/store@0.2.0-draft", "wasi:config/store@0.2.0-rc.1"] {
        let wasm = wat::parse_str(format!(r#"(component (import "{import}" (instance (export "start" (func)))))"#));
        check(&probe, &write(&folder, &wasm.unwrap()), &["`probe`", import]);
    }
}

#[test]
fn all_imports_that_the_host_does_not_supply_are_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let wasm = wat::parse_str(
        r#"(component
            (import "acme:rocket/engine@1.0.0" (instance (export "start" (func))))
            (import "spin:sqlite/sqlite@3.0.0" (instance (export "open" (func))))
            (import "spin:sqlite/sqlite@9.0.0" (instance (export "open" (func))))
            (import "hexad:store/admin@0.1.0" (instance (export "all" (func)))))"#,
    );
    let sentence = "component `probe`: this host has no `acme:rocket/engine@1.0.0`, `spin:sqlite/sqlite@9.0.0` and \
                    `hexad:store/admin@0.1.0`; build it without these imports";
    check(&format!("{:?}", guest("probe")), &write(&folder, &wasm.unwrap()), &[sentence]);
    let middleware = r#"(component (import "wasi:http/handler@0.3.0" (instance (export "handle" (func)))))"#;
    let middleware = write(&folder, &wat::parse_str(middleware).unwrap());
    check(&format!("{:?}", guest("probe")), &middleware, &["`wasi:http/handler@0.3.0`", "wac plug"]);
}

/// A component of the 0.2 interface that calls a function of Spin's MQTT at every request.
fn with_mqtt() -> Vec<u8> {
    wat::parse_str(
        r#"(component
            (import "wasi:http/types@0.2.0" (instance $types
                (export "incoming-request" (type (sub resource)))
                (export "response-outparam" (type (sub resource)))))
            (import "spin:mqtt/mqtt@3.0.0" (instance $mqtt (export "ping" (func))))
            (alias export $types "incoming-request" (type $request))
            (alias export $types "response-outparam" (type $out))
            (core func $ping (canon lower (func $mqtt "ping")))
            (core module $m
                (import "" "ping" (func $ping))
                (func (export "handle") (param i32 i32) (call $ping)))
            (core instance $i (instantiate $m (with "" (instance (export "ping" (func $ping))))))
            (type $handle (func (param "request" (own $request)) (param "response-out" (own $out))))
            (func $f (type $handle) (canon lift (core func $i "handle")))
            (instance $handler (export "handle" (func $f)))
            (export "wasi:http/incoming-handler@0.2.0" (instance $handler)))"#,
    )
    .unwrap()
}

#[tokio::test]
async fn a_call_of_an_import_without_a_supplier_fails_and_the_component_goes_on() {
    let server = Server::with("");
    swap(&server, "incoming", with_mqtt()).unwrap();
    let reason = audit(&server.folder).pop().unwrap()["reason"].clone();
    assert_eq!(reason, "a call of these imports fails: spin:mqtt/mqtt@3.0.0");
    for _ in 0..30 {
        assert_eq!(incoming(&server).await.0, 500, "no circuit breaker opens");
    }
    let error = swap(&server, "probe", with_mqtt()).unwrap_err().to_string();
    assert!(error.contains("`probe`"), "{error}");
}

#[test]
fn two_routes_for_the_same_paths_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = manifest("").replace("route = \"/incoming\"", "route = \"/probe/...\"");
    let error = fixture::load(&folder, &text, &[], None).err().unwrap().to_string();
    assert!(error.contains("/probe/...") && error.contains("same paths"), "{error}");
}

#[test]
fn a_second_host_on_the_same_data_is_refused() {
    let server = Server::with("");
    match fixture::start(&server.folder, &manifest(""), &[], store()) {
        Err(StartError::Store(error)) => assert!(error.to_string().contains("in use"), "{error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("accepted"),
    }
}

#[test]
fn an_unreadable_outbound_ca_fails_a_start_without_allowed_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = fixture::options(&folder, store());
    options.outbound.authority = Some("/nowhere.pem".into());
    let error = fixture::start_with(&folder, &manifest(""), &[], &options).err().unwrap().to_string();
    assert!(error.contains("/nowhere.pem") && error.contains("--outbound-ca"), "{error}");
}

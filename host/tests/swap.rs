//! What may take a slot, and the way back.

use crate::fixture::{Server, guest};
use crate::versions::{audit, digest, incoming, swap, trapping, variant};

#[tokio::test]
async fn what_does_not_pass_the_gate_changes_nothing() {
    let server = Server::with("");
    let before = digest(&server, "probe");
    let half = std::fs::read(guest("probe")).unwrap()[..100_000].to_vec();
    let mut flipped = std::fs::read(guest("probe")).unwrap();
    flipped[50_000] ^= 0xff;
    let compiled = wasmtime::Engine::default().precompile_component(&wat::parse_str("(component)").unwrap()).unwrap();
    let rocket = r#"(component (import "acme:rocket/engine@1.0.0" (instance (export "start" (func)))))"#;
    let cases: [(&str, Vec<u8>, &[&str]); 8] = [
        ("nowhere", variant("probe", 1), &["no component `nowhere`"]),
        ("probe", b"text".to_vec(), &["`probe`", "not a usable component"]),
        ("probe", half, &["`probe`", "not a usable component"]),
        ("probe", compiled, &["`probe`", "compiled code"]),
        ("probe", wat::parse_str("(module)").unwrap(), &["`probe`", "not a usable component"]),
        ("probe", wat::parse_str("(component)").unwrap(), &["`probe`", "wasi:http/handler@0.3.0"]),
        ("probe", wat::parse_str(rocket).unwrap(), &["`probe`", "acme:rocket/engine@1.0.0"]),
        ("probe", variant("incoming", 1), &["`probe`", "does not say which area it is"]),
    ];
    let count = cases.len();
    for (component, wasm, words) in cases {
        let refusal = swap(&server, component, wasm).unwrap_err().to_string();
        for word in words {
            assert!(refusal.contains(word), "{word:?} is not in: {refusal}");
        }
        assert_eq!(digest(&server, "probe"), before);
        assert_eq!(server.ok("hello").await, "hello");
    }
    // Whether a flipped bit is found by the validator depends on where it is; it never hurts the host.
    let _ = swap(&server, "incoming", flipped);
    let audit = audit(&server.folder);
    assert!(audit.len() > count && audit[..count].iter().all(|line| line["outcome"] == "refused"), "{audit:?}");
    assert!(audit[1]["reason"].as_str().unwrap().contains("not a usable component"));
    assert!(!server.folder.path().join("data/components/active.json").exists());
}

#[tokio::test]
async fn another_area_does_not_get_in() {
    let server = Server::with("");
    let refusal = swap(&server, "incoming", variant("probe", 1)).unwrap_err().to_string();
    assert!(refusal.contains("`incoming`") && refusal.contains("area `probe`"), "{refusal}");
    assert_eq!(incoming(&server).await.0, 200);
}

#[tokio::test]
async fn a_store_that_the_new_version_cannot_read_keeps_the_old_one() {
    let server = Server::with("");
    server.ok("kv/set?key=probe/v2/a&value=1").await;
    let refusal = swap(&server, "probe", variant("probe", 1)).unwrap_err().to_string();
    assert!(refusal.contains("format 2") && refusal.contains("[1]"), "{refusal}");
    assert_eq!(server.ok("hello").await, "hello");
}

#[tokio::test]
async fn a_version_that_traps_can_be_taken_back_at_once() {
    let server = Server::with("");
    let before = digest(&server, "incoming");
    swap(&server, "incoming", trapping()).unwrap();
    assert_eq!(incoming(&server).await.0, 500);
    let report = server.host.deployer().roll_back("incoming", "the tests").unwrap();
    assert_eq!((report.digest, report.generation), (before, 1));
    assert_eq!(incoming(&server).await.0, 200);
    // And forward again: what was served before is now the trapping one.
    server.host.deployer().roll_back("incoming", "the tests").unwrap();
    assert_eq!(incoming(&server).await.0, 500);
}

#[test]
fn without_anything_before_there_is_nothing_to_go_back_to() {
    let server = Server::with("");
    let refusal = server.host.deployer().roll_back("probe", "the tests").unwrap_err().to_string();
    assert_eq!(refusal, "component `probe` has nothing to go back to");
    // The same code again is no version to go back to either.
    swap(&server, "probe", std::fs::read(guest("probe")).unwrap()).unwrap();
    assert!(server.host.deployer().roll_back("probe", "the tests").is_err());
}

#[test]
fn swaps_at_the_same_moment_come_one_after_the_other() {
    let server = Server::with("");
    let variants: Vec<_> = (1..=4).map(|mark| variant("incoming", mark)).collect();
    std::thread::scope(|scope| {
        for wasm in &variants {
            scope.spawn(|| swap(&server, "incoming", wasm.clone()).unwrap());
        }
    });
    let done: Vec<_> = audit(&server.folder);
    assert_eq!(done.len(), 4);
    // Each came after the one before it: none was lost.
    for pair in done.windows(2) {
        assert_eq!(pair[0]["digest"], pair[1]["previous"]);
    }
    assert_eq!(done[3]["digest"], digest(&server, "incoming").to_string());
}

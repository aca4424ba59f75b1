//! Which components can be swapped in, and rollbacks.

use crate::versions::{probe_of, trapping};
use crate::*;

#[tokio::test]
async fn a_refused_component_changes_nothing() {
    let server = Server::with("");
    let before = digest(&server, "probe");
    let truncated = std::fs::read(guest("probe")).unwrap()[..100_000].to_vec();
    let mut flipped = std::fs::read(guest("probe")).unwrap();
    flipped[50_000] ^= 0xff;
    let compiled = wasmtime::Engine::default().precompile_component(&wat::parse_str("(component)").unwrap()).unwrap();
    let unknown_import = r#"(component (import "acme:rocket/engine@1.0.0" (instance (export "start" (func)))))"#;
    let cases: [(&str, Vec<u8>, &[&str]); 8] = [
        ("nowhere", variant("probe", 1), &["no component `nowhere`"]),
        ("probe", b"text".to_vec(), &["`probe`", "not a usable component"]),
        ("probe", truncated, &["`probe`", "not a usable component"]),
        ("probe", compiled, &["`probe`", "compiled code"]),
        ("probe", wat::parse_str("(module)").unwrap(), &["`probe`", "not a usable component"]),
        ("probe", wat::parse_str("(component)").unwrap(), &["`probe`", "wasi:http/handler@0.3.0"]),
        ("probe", wat::parse_str(unknown_import).unwrap(), &["`probe`", "acme:rocket/engine@1.0.0"]),
        ("probe", variant("incoming", 1), &["`probe`", "does not say which area it is"]),
    ];
    let count = cases.len();
    for (component, wasm, words) in cases {
        let error = swap(&server, component, wasm).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{word:?} is not in: {error}");
        }
        assert_eq!(digest(&server, "probe"), before);
        assert_eq!(server.ok("hello").await, "hello");
    }
    // The validator may accept a flipped bit, depending on its position; the host must survive both.
    let _ = swap(&server, "incoming", flipped);
    let audit = audit(&server.folder);
    assert!(audit.len() > count && audit[..count].iter().all(|line| line["outcome"] == "refused"), "{audit:?}");
    assert!(audit[1]["reason"].as_str().unwrap().contains("not a usable component"));
    assert!(!server.folder.path().join("data/components/active.json").exists());
}

#[tokio::test]
async fn the_component_of_another_area_is_refused() {
    let server = Server::with("");
    let error = swap(&server, "incoming", variant("probe", 1)).unwrap_err().to_string();
    assert!(error.contains("`incoming`") && error.contains("area `probe`"), "{error}");
    assert_eq!(incoming(&server).await.0, 200);
}

#[tokio::test]
async fn a_version_that_cannot_read_the_stored_format_is_refused() {
    let server = Server::with("");
    server.ok("kv/set?key=probe/v2/a&value=1").await;
    let error = swap(&server, "probe", variant("probe", 1)).unwrap_err().to_string();
    assert!(error.contains("format 2") && error.contains("[1]"), "{error}");
    assert_eq!(server.ok("hello").await, "hello");
}

#[tokio::test]
async fn a_canary_does_not_write_what_the_active_version_cannot_read() {
    let server = Server::with("");
    let error = try_out(&server, "probe", probe_of("probe", 2, 2), trial(10.0)).unwrap_err().to_string();
    assert_eq!(
        error,
        "component `probe`: it writes format 2 below `probe/`, and its active version does not read that; deploy it by \
         `hexad swap` without a canary"
    );
    // The other way round, too: the active version would write what the canary cannot read.
    swap(&server, "probe", probe_of("probe", 2, 2)).unwrap();
    let error = try_out(&server, "probe", probe_of("probe", 1, 1), trial(10.0)).unwrap_err().to_string();
    assert!(error.contains("format 2 below `probe/`"), "{error}");
    try_out(&server, "probe", probe_of("probe", 3, 2), trial(10.0)).unwrap();
}

#[tokio::test]
async fn a_rollback_to_a_version_that_cannot_read_what_was_written_since_is_refused() {
    let server = Server::with("");
    let first = digest(&server, "probe");
    swap(&server, "probe", probe_of("probe", 2, 2)).unwrap();
    let roll_back = || server.host.deployer().roll_back("probe", "the tests", None);
    assert_eq!(roll_back().unwrap().digest, first, "nothing was written");
    let second = roll_back().unwrap().digest;
    server.ok("kv/set?key=probe/v2/a&value=1").await;
    let error = roll_back().unwrap_err().to_string();
    assert!(error.contains("records of format 2 below `probe/`, and it reads [1]"), "{error}");
    assert_eq!(digest(&server, "probe"), second);
    assert_eq!(server.ok("hello").await, "hello");
}

#[tokio::test]
async fn a_version_that_writes_what_another_component_cannot_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("other.wasm");
    let other = |wasm| std::fs::write(&source, wasm).unwrap();
    let table = |id: &str| {
        format!(
            "[[trigger.http]]\nroute = \"/{id}/...\"\ncomponent = {id:?}\n[component.{id}]\nsource = {source:?}\n\
             key_value_stores = [\"default\"]\nallowed_outbound_hosts = []\n[component.{id}.tool.hexad]\n\
             read = [\"probe/\"]\nwrite = [\"probe/\"]\n"
        )
    };
    let text = manifest("read = [\"probe/\"]\nwrite = [\"probe/\"]") + &table("other");
    let start = || fixture::start(&folder, &text, &[], store());
    other(probe_of("other", 2, 2));
    let error = start().err().unwrap().to_string();
    let sentence = "component `other`: it writes format 2 below `probe/`, and `probe` does not read that; first swap in \
                    a version of `probe` that does";
    assert_eq!(error, sentence);
    other(probe_of("other", 1, 1));
    let host = start().unwrap();
    let server = Server { host, folder };
    assert_eq!(swap(&server, "other", probe_of("other", 2, 2)).unwrap_err().to_string(), sentence);
    swap(&server, "probe", probe_of("probe", 2, 1)).unwrap();
    swap(&server, "other", probe_of("other", 2, 2)).unwrap();
    let back = server.host.deployer().roll_back("probe", "the tests", None).unwrap_err().to_string();
    assert!(back.contains("`other`: it writes format 2") && back.contains("`probe` does not read that"), "{back}");
}

#[tokio::test]
async fn a_version_that_traps_can_be_rolled_back() {
    let server = Server::with("");
    let before = digest(&server, "incoming");
    swap(&server, "incoming", trapping()).unwrap();
    assert_eq!(incoming(&server).await.0, 500);
    let report = server.host.deployer().roll_back("incoming", "the tests", None).unwrap();
    assert_eq!((report.digest, report.revision), (before, 1));
    assert_eq!(incoming(&server).await.0, 200);
    // The trapping version is now the previous one.
    server.host.deployer().roll_back("incoming", "the tests", None).unwrap();
    assert_eq!(incoming(&server).await.0, 500);
}

#[test]
fn a_rollback_without_a_previous_version_is_refused() {
    let server = Server::with("");
    let error = server.host.deployer().roll_back("probe", "the tests", None).unwrap_err().to_string();
    assert_eq!(error, "component `probe` has no previous revision to roll back to");
    // A swap to the same code adds no previous version.
    swap(&server, "probe", std::fs::read(guest("probe")).unwrap()).unwrap();
    assert!(server.host.deployer().roll_back("probe", "the tests", None).is_err());
}

#[test]
fn concurrent_swaps_are_serialized() {
    let server = Server::with("");
    let variants: Vec<_> = (1..=4).map(|mark| variant("incoming", mark)).collect();
    std::thread::scope(|scope| {
        for wasm in &variants {
            scope.spawn(|| swap(&server, "incoming", wasm.clone()).unwrap());
        }
    });
    let entries: Vec<_> = audit(&server.folder);
    assert_eq!(entries.len(), 4);
    // Each swap replaced the component of the one before it, so none was lost.
    for pair in entries.windows(2) {
        assert_eq!(pair[0]["digest"], pair[1]["previous"]);
    }
    assert_eq!(entries[3]["digest"], digest(&server, "incoming").to_string());
}

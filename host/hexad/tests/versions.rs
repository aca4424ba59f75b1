//! Components to swap in, and the audit log of swaps.

use crate::*;
use hexad::deploy::DeployReport;

/// A built guest with a custom section, so that only its digest differs.
pub fn variant(name: &str, mark: u8) -> Vec<u8> {
    let mut wasm = std::fs::read(guest(name)).unwrap();
    // A custom section: its id, its length, the length of its name, its name, its content.
    wasm.extend([0, 6, 4, b'm', b'a', b'r', b'k', mark]);
    wasm
}

/// The probe as an area of another name, which reads formats up to the first number and writes the second.
pub fn probe_of(name: &str, reads: u32, writes: u32) -> Vec<u8> {
    const TEXT: &str = "area probe reads 1 writes 1";
    let mut wasm = std::fs::read(guest("probe")).unwrap();
    let place = wasm.windows(TEXT.len()).position(|bytes| bytes == TEXT.as_bytes()).unwrap();
    let text = format!("area {name} reads {reads} writes {writes}");
    assert_eq!(text.len(), TEXT.len());
    wasm[place..place + TEXT.len()].copy_from_slice(text.as_bytes());
    wasm
}

/// A component of the 0.2 interface that traps at every request.
pub fn trapping() -> Vec<u8> {
    wat::parse_str(
        r#"(component
            (import "wasi:http/types@0.2.0" (instance $types
                (export "incoming-request" (type (sub resource)))
                (export "response-outparam" (type (sub resource)))))
            (alias export $types "incoming-request" (type $request))
            (alias export $types "response-outparam" (type $out))
            (core module $m (func (export "handle") (param i32 i32) unreachable))
            (core instance $i (instantiate $m))
            (type $handle (func (param "request" (own $request)) (param "response-out" (own $out))))
            (func $f (type $handle) (canon lift (core func $i "handle")))
            (instance $handler (export "handle" (func $f)))
            (export "wasi:http/incoming-handler@0.2.0" (instance $handler)))"#,
    )
    .unwrap()
}

/// A request to swap in a component, without a signature or a canary.
pub fn swap_request(component: &str, wasm: Vec<u8>) -> SwapRequest {
    SwapRequest {
        component: component.into(),
        wasm: wasm.into(),
        signature: None,
        by: "the tests".into(),
        canary: None,
        without: Vec::new(),
        expected: None,
    }
}

pub fn swap(server: &Server, component: &str, wasm: Vec<u8>) -> Result<DeployReport, DeployError> {
    server.host.deployer().swap(&swap_request(component, wasm))
}

/// A trial of an hour for this share of the callers.
pub fn trial(percent: f64) -> CanaryPolicy {
    CanaryPolicy { percent, window: Duration::from_secs(3600), ..CanaryPolicy::default() }
}

/// Puts a component on trial.
pub fn try_out(
    server: &Server,
    component: &str,
    wasm: Vec<u8>,
    policy: CanaryPolicy,
) -> Result<DeployReport, DeployError> {
    server.host.deployer().swap(&SwapRequest { canary: Some(policy), ..swap_request(component, wasm) })
}

pub fn digest(server: &Server, component: &str) -> Digest {
    server.service(component).current().digest
}

/// The audit log, one value for each line.
pub fn audit(folder: &TempDir) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.path().join("data/audit.ndjson")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub async fn incoming(server: &Server) -> (u16, String) {
    let request = http::Request::get("/incoming?x").header("host", "forge.test");
    fixture::text(server.host.handle(request.body(http_body_util::Empty::new()).unwrap()).await).await
}

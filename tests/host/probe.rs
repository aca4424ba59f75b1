//! A server of the probe, a guest whose paths name operations.

use hexad_tests::server::root;
use hexad_tests::wait::with_deadlines;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// Writes a manifest with the probe at `/probe/...` into a folder.
pub fn write_manifest(folder: &Path) -> PathBuf {
    let probe = root().join("dist/fixtures/probe.wasm");
    assert!(probe.is_file(), "{} is missing; `make fixtures` builds it", probe.display());
    let text = format!(
        r#"
        spin_manifest_version = 2
        application = {{ name = "test" }}
        [variables]
        check = {{ default = "" }}
        external_url = {{ default = "none" }}
        [[trigger.http]]
        route = "/probe/..."
        component = "probe"
        [component.probe]
        source = {probe:?}
        key_value_stores = ["default"]
        allowed_outbound_hosts = []
        variables = {{ check = "{{{{ check }}}}", external_url = "{{{{ external_url }}}}" }}
        "#
    );
    let path = folder.join("spin.toml");
    std::fs::write(&path, text).expect("a file");
    path
}

/// Sends a GET request for `/probe/<path>` and reads until the server closes.
pub fn exchange(address: &str, path: &str) -> std::io::Result<String> {
    let mut client = with_deadlines(TcpStream::connect(address)?);
    write!(client, "GET /probe/{path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The body of a good answer. `None` if the connection broke.
pub fn get(address: &str, path: &str) -> Option<String> {
    let answer = exchange(address, path).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let body = match head.contains("transfer-encoding: chunked") {
        // The first line is the length of the one chunk.
        true => body.split("\r\n").nth(1)?,
        false => body,
    };
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

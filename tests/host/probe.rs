//! A server of the probe, a guest whose paths name operations.

use super::*;
use hexad_tests::wait::with_deadlines;
use std::net::TcpStream;

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

/// Changes the text of a manifest.
pub fn edit(manifest: &Path, change: impl FnOnce(String) -> String) {
    let text = std::fs::read_to_string(manifest).expect("a file");
    std::fs::write(manifest, change(text)).expect("a file");
}

/// A server of the probe with its manifest and its data in a folder, whose command `complete` has changed.
pub fn serve_in(folder: &Path, complete: impl FnOnce(&mut Command) -> &mut Command) -> Server {
    let data = folder.join("data");
    let mut command = up(&write_manifest(folder), &data);
    complete(&mut command);
    Server::spawn(command, &data)
}

/// The same in a folder of its own.
pub fn serve(complete: impl FnOnce(&mut Command) -> &mut Command) -> Server {
    let folder = tempfile::tempdir().expect("a temporary folder");
    serve_in(folder.path(), complete).with_folder(folder)
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

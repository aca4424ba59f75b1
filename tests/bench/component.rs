//! The smallest guests, in this host and in `wasmtime serve`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hexad_tests::server::{Server, edited_manifest, root};

/// A server of the smallest guest.
pub fn hexad(data: &Path, is_cached: bool) -> Server {
    Server::start_manifest(&hello_manifest(data, is_cached), data, &[])
}

/// A server of the smallest guest of the 0.2 interface. Its instances are reused, as those of 0.3 are by default.
pub fn hexad_0_2(data: &Path) -> Server {
    let settings = "allowed_outbound_hosts = []\n[component.hello.tool.hexad]\nreuse = 1000";
    Server::start_manifest(&manifest(data, &guest_0_2(), settings), data, &[])
}

/// A server of a guest with an answer of the same size, which takes requests by value.
pub fn hexad_by_value(data: &Path) -> Server {
    Server::start_manifest(&manifest(data, &guest_by_value(), ""), data, &[])
}

/// A manifest with one route, to the smallest guest.
pub fn hello_manifest(folder: &Path, is_cached: bool) -> PathBuf {
    let cached = "[component.hello.tool.hexad]\nresponse_cache = \"1s\"\nresponse_cache_headers = []";
    manifest(folder, &guest(), if is_cached { cached } else { "" })
}

fn manifest(folder: &Path, guest: &Path, settings: &str) -> PathBuf {
    let text = format!(
        "spin_manifest_version = 2\napplication = {{ name = \"hello\" }}\n\
         [[trigger.http]]\nroute = \"/\"\ncomponent = \"hello\"\n\
         [component.hello]\nsource = {guest:?}\n{settings}\n"
    );
    let manifest = folder.join("hello.toml");
    std::fs::write(&manifest, text).expect("a file");
    manifest
}

/// A guest of the 0.3 interface, as its toolkit builds it.
pub fn guest() -> PathBuf {
    root().join("dist/fixtures/hello.wasm")
}

/// A guest of the 0.3 interface that also takes requests by value.
pub fn guest_by_value() -> PathBuf {
    root().join("dist/fixtures/by_value.wasm")
}

/// A guest of the 0.2 interface.
pub fn guest_0_2() -> PathBuf {
    root().join("dist/fixtures/incoming.wasm")
}

/// The project's manifest without the response cache.
pub fn uncached_manifest(folder: &Path) -> PathBuf {
    edited_manifest(folder, |tool| {
        tool.remove("response_cache");
        tool.remove("response_cache_headers");
    })
}

/// `wasmtime serve` with one of these guests.
pub struct Wasmtime {
    child: Child,
    pub url: String,
}

impl Wasmtime {
    /// Starts it if `make bench` has installed it.
    pub fn start(guest: &Path) -> Option<Self> {
        let program = root().join("tests/cache/wasmtime/wasmtime_cli/wasmtime");
        if !program.is_file() {
            eprintln!("{} is missing: measuring without `wasmtime serve`", program.display());
            return None;
        }
        let mut child = Command::new(program)
            .args(["serve", "-S", "p3,cli", "--addr", "127.0.0.1:0"])
            .arg(guest)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("wasmtime runs");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.split_once("on http://")?.1.trim_end_matches('/').to_owned()));
        let url = format!("http://{}", url.expect("the line with its address"));
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { child, url })
    }
}

impl Drop for Wasmtime {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

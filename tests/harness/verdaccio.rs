//! Another registry: verdaccio, with storage in a folder of its own.

use crate::server;
use crate::wait::{SOON, wait_for_ok};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Signed tokens, anonymous reading, and no registry behind it.
pub const ALONE: &str = "
auth: { htpasswd: { file: ./htpasswd, max_users: 10 } }
security: { api: { jwt: { sign: { expiresIn: 1d } } } }
uplinks: {}
packages: { '**': { access: $all, publish: $authenticated } }
";

/// The part that is common to all configurations.
const COMMON: &str = "
storage: ./storage
max_body_size: 1gb
log: { type: stdout, format: json, level: fatal }
";

pub struct Verdaccio {
    child: Child,
    pub url: String,
    pub token: String,
    _folder: tempfile::TempDir,
}

impl Verdaccio {
    /// Starts it with this configuration, if `make peers` has installed it.
    pub fn start(configuration: &str) -> Option<Self> {
        let program = server::root().join("tests/cache/peers/node_modules/verdaccio/bin/verdaccio");
        if !program.is_file() {
            eprintln!("{} is missing; `make peers` installs it", program.display());
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("config.yaml"), format!("{COMMON}{configuration}")).expect("a file");
        let address = free_address();
        let child = start(&program, folder.path(), &address);
        let url = format!("http://{address}");
        let mut peer = Verdaccio { child, url, token: String::new(), _folder: folder };
        peer.token = peer.sign_up();
        Some(peer)
    }

    /// Creates a user and returns a token, as soon as the server answers.
    fn sign_up(&mut self) -> String {
        let user = json!({"name": "tester", "password": "a-long-password"}).to_string();
        let mut answer = wait_for_ok(SOON, "an answer of verdaccio", || {
            let request = ureq::put(format!("{}/-/user/org.couchdb.user:tester", self.url));
            let request = request.config().timeout_global(Some(SOON)).build();
            request.content_type("application/json").send(&user).inspect_err(|why| {
                let ended = self.child.try_wait().expect("a child");
                assert!(ended.is_none(), "verdaccio ended: {why}");
            })
        });
        let text = answer.body_mut().read_to_string().expect("an answer");
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        answer["token"].as_str().expect("a token").to_owned()
    }

    /// Resident memory now, and at most since the last [`Verdaccio::reset_peak_memory`], in bytes.
    pub fn memory(&self) -> (u64, u64) {
        server::memory_of(self.child.id())
    }

    pub fn reset_peak_memory(&self) {
        server::reset_peak_memory_of(self.child.id());
    }
}

impl Drop for Verdaccio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(program: &Path, folder: &Path, address: &str) -> Child {
    Command::new("node")
        .arg(program)
        .args(["--config", "config.yaml", "--listen", address])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("node runs")
}

/// A free address: verdaccio cannot choose one itself and print it.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

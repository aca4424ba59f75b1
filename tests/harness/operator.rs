//! A client of a server's admin listener.

use crate::http::{self, Answer};
use crate::server::{Server, output, program, root};
use crate::wait::OF_LONG_REQUESTS;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use std::path::Path;
use std::process::Command;
use ureq::RequestBuilder;
use ureq::typestate::WithBody;

/// The admin listener of a server, from the file in the data folder.
pub struct Operator {
    url: String,
    authorization: String,
    agent: ureq::Agent,
}

/// Lets the answer take as long as a compilation.
fn patient(request: RequestBuilder<WithBody>) -> RequestBuilder<WithBody> {
    request.config().timeout_recv_response(Some(OF_LONG_REQUESTS)).build()
}

/// A built component, for example `experiments` or `fixtures/probe`, with one more custom section, so that only its
/// digest differs.
pub fn variant(component: &str, mark: u8) -> Vec<u8> {
    let path = root().join(format!("dist/{component}.wasm"));
    let mut wasm = std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}; `make components`", path.display()));
    // The section's id, its length, the length of its name, its name, its content.
    wasm.extend([0, 6, 4, b'm', b'a', b'r', b'k', mark]);
    wasm
}

impl Operator {
    pub fn of(server: &Server) -> Self {
        let path = server.data.join("admin.json");
        let text = std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let access: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let field = |name: &str| access[name].as_str().expect("a string").to_owned();
        Operator { url: field("url"), authorization: format!("Bearer {}", field("token")), agent: http::agent() }
    }

    /// For example `http://127.0.0.1:40123`.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn get(&self, path: &str) -> Answer {
        let request = self.agent.get(format!("{}{path}", self.url)).header("authorization", &self.authorization);
        request.call().and_then(http::read).expect("an answer")
    }

    pub fn post(&self, path: &str) -> Answer {
        let request = self.agent.post(format!("{}{path}", self.url)).header("authorization", &self.authorization);
        request.send_empty().and_then(http::read).expect("an answer")
    }

    /// Replaces a component, as `hexad swap` does.
    pub fn swap(&self, component: &str, wasm: &[u8]) -> Answer {
        self.swap_with(component, wasm, None)
    }

    /// The same with a signature.
    pub fn swap_signed(&self, component: &str, wasm: &[u8], signature: &[u8]) -> Answer {
        self.swap_with(component, wasm, Some(signature))
    }

    fn swap_with(&self, component: &str, wasm: &[u8], signature: Option<&[u8]>) -> Answer {
        let request = self.agent.put(format!("{}/components/{component}", self.url));
        let mut request = request.header("authorization", &self.authorization).content_type("application/wasm");
        if let Some(signature) = signature {
            request = request.header("x-hexad-signature", BASE64_STANDARD.encode(signature));
        }
        patient(request).send(wasm).and_then(http::read).expect("an answer")
    }

    /// The integer value of a metric, for example `hexad_connections` or `hexad_requests_total{component="a"}`.
    #[track_caller]
    pub fn metric(&self, name: &str) -> u64 {
        self.value(name) as u64
    }

    /// The value of any metric.
    #[track_caller]
    pub fn value(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no metric {name} in\n{text}"));
        value.parse().expect("a number")
    }
}

/// The arguments that `hexad status --web` gives to the browser at a terminal, and its output. `folder` is an empty
/// folder.
pub fn open_in_browser(server: &Server, folder: &Path) -> (Vec<String>, String) {
    let (browser, arguments) = (folder.join("browser"), folder.join("arguments"));
    let record = "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$0.new\" && mv \"$0.new\" \"${0%browser}arguments\"\n";
    // Another process writes it, because a file that is open for writing in this process cannot be run.
    let mut write = Command::new("sh");
    write.args(["-c", "printf %s \"$1\" > \"$0\" && chmod +x \"$0\""]).arg(&browser).arg(record);
    assert!(write.status().expect("sh runs").success());
    // `script` makes a terminal. When it ends, the processes there end too.
    let command = format!(
        "'{}' status --web --data '{}' && until [ -e '{}' ]; do sleep 0.05; done",
        program().display(),
        server.data.display(),
        arguments.display()
    );
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &command, "/dev/null"]).env("BROWSER", &browser).current_dir(root());
    let output = output(&mut terminal);
    let printed = String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned();
    assert!(output.status.success(), "{printed}");
    let arguments = std::fs::read_to_string(&arguments).expect("the arguments");
    (arguments.lines().map(str::to_owned).collect(), printed)
}

//! The host reads its manifest again on SIGHUP, while clients are connected.

use super::*;
use hexad_tests::wait::wait_for;
use serde_json::Value;
use std::net::TcpStream;

struct Reloading {
    server: Server,
    operator: Operator,
    manifest: PathBuf,
    /// The manifest at the start.
    text: String,
}

/// A server of the probe.
fn start() -> Reloading {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve_in(folder.path(), |command| command.args(["--threads", "2"]));
    let manifest = folder.path().join("spin.toml");
    let text = std::fs::read_to_string(&manifest).expect("a file");
    Reloading { operator: Operator::of(&server), server: server.with_folder(folder), manifest, text }
}

impl Reloading {
    /// Gives the host another manifest, and returns the report of the reload in `/status`.
    fn reload(&self, text: &str) -> Value {
        let before = self.last_reload()["at"].clone();
        std::fs::write(&self.manifest, text).expect("a file");
        self.server.signal("HUP");
        wait_for(SOON, "the report of the reload", || Some(self.last_reload()).filter(|reload| reload["at"] != before))
    }

    fn last_reload(&self) -> Value {
        let status: Value = serde_json::from_str(&self.operator.get("/status").text()).expect("JSON");
        status["host"]["last_reload"].clone()
    }

    fn audit(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.server.data.join("audit.ndjson")).expect("a file");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// A connection that stays open.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(server: &Server) -> Self {
        Client(BufReader::new(wait::connect(server.address())))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("the server reads");
    }

    fn get(&mut self, path: &str) -> (u16, String) {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
        self.answer()
    }

    /// The status and the body of the next answer.
    fn answer(&mut self) -> (u16, String) {
        let line = self.line();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let (mut length, mut is_chunked) = (0, false);
        loop {
            match self.line().to_ascii_lowercase().split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().expect("a number"),
                Some(("transfer-encoding", _)) => is_chunked = true,
                Some(_) => {}
                None => break,
            }
        }
        let mut body = String::new();
        while is_chunked {
            length = usize::from_str_radix(&self.line(), 16).expect("the length of a chunk");
            body += &self.text(length);
            assert_eq!(self.line(), "");
            is_chunked = length > 0;
        }
        body += &self.text(length);
        (status, body)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    fn text(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).expect("a body");
        String::from_utf8(bytes).expect("UTF-8")
    }
}

const VARIABLE: &str = "/probe/variable?name=external_url";

#[test]
fn a_hangup_applies_the_manifest_without_losing_a_connection() {
    let host = start();
    let (mut client, mut uploading) = (Client::connect(&host.server), Client::connect(&host.server));
    assert_eq!(client.get(VARIABLE), (200, "none".to_owned()));
    assert!(client.get("/other/hello").1.contains("404 Not Found"), "no route");
    assert_eq!(client.get("/probe/kv/set?key=free&value=1"), (200, "set".to_owned()));
    let post = "POST /probe/count HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\n";
    uploading.send(&format!("{post}abc"));
    let in_flight = || host.operator.metric("hexad_requests_in_flight{component=\"probe\"}");
    wait_until(SOON, "the upload to be in flight", || in_flight() > 0);

    let text = host.text.replace("default = \"none\"", "default = \"other\"");
    let text = text.replace(
        "route = \"/probe/...\"",
        "route = \"/probe/...\"\ncomponent = \"probe\"\n[[trigger.http]]\nroute = \"/other/...\"",
    );
    let text = format!("{text}\n[component.probe.tool.hexad]\nmax_body = \"5B\"\nwrite = [\"probe/\"]\n");
    let reload = host.reload(&text);
    assert_eq!(reload["applied"], true, "{reload}");
    assert_eq!(reload["detail"], "probe (grants, variables, limits), routes");

    // The request that began before the reload keeps the old limit.
    uploading.send("def");
    assert_eq!(uploading.answer(), (200, "6".to_owned()));
    uploading.send(&format!("{post}abcdef"));
    assert_eq!(uploading.answer().0, 413);
    assert_eq!(client.get(VARIABLE), (200, "other".to_owned()));
    assert_eq!(client.get("/other/hello").1, "nothing at /other/hello", "the probe's own answer");
    let denied = client.get("/probe/kv/set?key=free&value=2").1;
    assert!(denied.contains("access-denied") || denied.contains("AccessDenied"), "{denied}");
    let lines = host.audit();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line["action"] == "reload" && line["outcome"] == "done"), "{lines:?}");
    assert_eq!((&lines[0]["component"], &lines[0]["reason"]), (&"probe".into(), &"grants, variables, limits".into()));
    assert_eq!((&lines[1]["component"], &lines[1]["reason"]), (&Value::Null, &"routes".into()));

    // Without a change, the instances stay.
    let served: u32 = client.get("/probe/served").1.parse().expect("a number");
    assert_eq!(host.reload(&text)["detail"], "none");
    assert_eq!(client.get("/probe/served").1, (served + 1).to_string());
}

#[test]
fn an_inapplicable_manifest_is_refused_by_name_and_changes_nothing() {
    let host = start();
    let mut client = Client::connect(&host.server);
    let changed = host.text.replace("default = \"none\"", "default = \"other\"");
    let copy = host.manifest.with_file_name("copy.wasm");
    std::fs::copy(hexad_tests::server::root().join("dist/fixtures/probe.wasm"), &copy).expect("a copy");
    let source = changed.lines().find(|line| line.trim_start().starts_with("source")).expect("a source");
    let cases = [
        (changed.replace(source, "source = \"copy.wasm\""), "`probe`: its source changed"),
        (format!("{changed}\n[component.another]\nsource = \"copy.wasm\"\n"), "component `another` is new"),
        (changed.replace("component.probe", "component.q").replace("\"probe\"", "\"q\""), "component `q` is new"),
        (format!("{changed}\n[component.probe.tool.hexad]\nmemori = \"1MiB\"\n"), "memori"),
        (changed.replace("route = \"/probe/...\"", "route = \"probe\""), "does not start with `/`"),
        (changed.replace("route = \"/probe/...\"", "route = \"/probe /...\""), "\"/probe /...\" has ' '"),
        (changed.replace("key_value_stores = [\"default\"]", ""), "which the manifest does not grant"),
        (
            changed.replace("check = { default = \"\" }", "check = { default = \"fails\" }"),
            "`check` says that it fails",
        ),
        (changed.replace("check = { default = \"\" }", "check = { required = true }"), "SPIN_VARIABLE_CHECK"),
        ("{".to_owned(), "spin.toml"),
    ];
    for (number, (text, words)) in cases.iter().enumerate() {
        let reload = host.reload(text);
        let detail = reload["detail"].as_str().expect("a reason");
        assert!(reload["applied"] == false && detail.contains(words), "{words}: {reload}");
        assert_eq!(client.get(VARIABLE), (200, "none".to_owned()), "{words}");
        let lines = host.audit();
        let line = &lines[number];
        assert!(line["outcome"] == "refused" && line["reason"] == detail, "{line}");
        assert_eq!(host.operator.metric("hexad_manifest_reload_successful"), 0);
    }
    assert_eq!(host.audit().len(), cases.len());
    std::fs::remove_file(&host.manifest).expect("a file");
    assert_eq!(client.get(VARIABLE), (200, "none".to_owned()));
    let status = status(&host.server.data);
    assert!(status.contains("manifest: read again") && status.contains("REFUSED"), "{status}");

    // The same connection sees the first manifest that can be applied.
    assert_eq!(host.reload(&changed)["applied"], true);
    assert_eq!(client.get(VARIABLE), (200, "other".to_owned()));
    assert_eq!(host.operator.metric("hexad_manifest_reload_successful"), 1);
}

/// The output of `hexad status`.
fn status(data: &Path) -> String {
    let output = run(&["status", "--data", data.to_str().expect("UTF-8")], &[]);
    String::from_utf8(output.stdout).expect("UTF-8")
}

//! A component of Spin's SDK for Python, whose world imports all that Spin has. It is built from the source below.

use super::*;
use hexad_tests::http;
use hexad_tests::server::up;

const APP: &str = r#"
from spin_sdk import http
from spin_sdk.http import Request, Response
from spin_sdk.wit.imports import spin_sqlite_sqlite_3_1_0 as sqlite

class HttpHandler(http.Handler):
    async def handle_request(self, request: Request) -> Response:
        if request.uri.endswith("/hello"):
            return Response(200, {"content-type": "text/plain"}, b"Hello from Python!")
        try:
            await sqlite.Connection.open("default")
            said = "opened"
        except Exception as error:
            said = str(error)
        return Response(200, {"content-type": "text/plain"}, said.encode())
"#;

const MANIFEST: &str = r#"
spin_manifest_version = 2
application = { name = "python" }

[[trigger.http]]
route = "/..."
component = "python"

[component.python]
source = "app.wasm"
"#;

#[test]
fn a_component_in_python_is_served_and_what_the_host_does_not_supply_fails() {
    if !are_enabled() {
        return;
    }
    let machine = Machine::new();
    let folder = machine.folder("app");
    for (path, text) in [("app/app.py", APP), ("app/spin.toml", MANIFEST)] {
        machine.write(path, text);
    }
    let libraries = installed("python");
    let (program, modules) = (libraries.join("bin/componentize-py"), libraries.display().to_string());
    let world =
        ["-w", "spin:up/http-trigger@4.1.0", "componentize", "app", "-p", ".", "-p", &modules, "-o", "app.wasm"];
    let built = output(Command::new(program).env("PYTHONPATH", &modules).args(world).current_dir(&folder));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let data = folder.join("data");
    let server = Server::spawn(up(&folder.join("spin.toml"), &data), &data);
    let ask = |path: &str| {
        let answer = http::agent().get(format!("{}{path}", server.url)).call().and_then(http::read).expect("an answer");
        (answer.status, answer.text())
    };
    assert_eq!(ask("/hello"), (200, "Hello from Python!".to_owned()));
    let (status, text) = ask("/sqlite");
    let reason = "this host does not supply `spin:sqlite/sqlite@3.1.0#[static]connection.open`";
    assert!(status == 200 && text.contains(reason), "{text}");
}

//! A forge with records for every page.

use super::*;
use hexad_tests::forge::{self, PUBLIC};
use hexad_tests::http::Answer;
use hexad_tests::package;
use hexad_tests::server::{Server, output};
use hexad_tests::suggestions::{Suggestions, import_repository};
use std::process::Command;

pub const NAME: &str = "@acme/lib";

pub struct Site {
    pub server: Server,
}

impl Site {
    pub fn start() -> Self {
        Site::start_with(&[])
    }

    /// The same with values for the manifest's variables.
    pub fn start_with(variables: &[(&str, &str)]) -> Self {
        let site = Site { server: forge::server(variables) };
        let readme = "# Lib\n\n## Use\n\n- [x] done\n\n|a|b|\n|-|-|\n|1|2|\n\n```js\nrun();\n```";
        site.publish(NAME, "1.0.0", "latest", readme);
        site.publish(NAME, "2.0.0", "next", "# Lib");
        let issues: String = (1..200)
            .map(|id| {
                let issue = json!({"kind": "issue", "id": id, "iid": id, "project_id": PUBLIC, "title": "Slow", "state": if id % 3 == 0 { "opened" } else { "closed" },
                    "created_at": format!("2026-{:02}-03T00:00:00Z", id % 9 + 1), "labels": ["bug"], "author": {"id": 3}});
                format!("{issue}\n")
            })
            .collect();
        assert_eq!(site.send("POST", "import/issues", BOOTSTRAP_TOKEN, &issues).json()["failed"], 0);
        site
    }

    /// A request to the API.
    pub fn send(&self, method: &str, path: &str, token: &str, body: &str) -> Answer {
        self.server.send(method, path, token, body)
    }

    /// Publishes a version whose texts are all `text`.
    pub fn publish(&self, name: &str, version: &str, tag: &str, text: &str) {
        let tarball = package::tarball(name, version, 1000, 1);
        let mut document: Value =
            serde_json::from_slice(&package::document(name, version, tag, &tarball)).expect("JSON");
        document["readme"] = text.into();
        document["description"] = text.into();
        let record = &mut document["versions"][version];
        record["readme"] = text.into();
        record["description"] = text.into();
        record["keywords"] = json!([text]);
        record["homepage"] = text.into();
        record["repository"] = json!({"type": "git", "url": text});
        let path = format!("projects/{PUBLIC}/packages/npm/{}", name.replace('/', "%2f"));
        self.send("PUT", &path, DEVELOPER, &document.to_string()).expect(200);
    }

    /// A merge request with two suggestions on a real repository.
    pub fn merge_request(&self) -> Suggestions {
        let repository = Repository::with(&[("main.rs", b"fn main() {\n    one();\n    two();\n}\n")]);
        import_repository(&self.server, PUBLIC, &repository, &[]);
        let suggestions = Suggestions::new(&self.server, PUBLIC, DEVELOPER);
        suggestions.import_merge_request(1, "topic");
        let head = suggestions.head("topic");
        suggestions.suggest(1, &head, "main.rs", 2, "    first();").expect("a suggestion");
        suggestions.suggest(1, &head, "main.rs", 3, "    second();").expect("a suggestion");
        suggestions
    }

    /// The output of npm, with the project's registry.
    pub fn npm(&self, arguments: &[&str]) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let registry = format!("--@acme:registry={}/api/v4/projects/{PUBLIC}/packages/npm/", self.server.url);
        let mut command = Command::new("npm");
        command.args(arguments).arg(registry).arg("--cache").arg(folder.path());
        let output = output(command.current_dir(folder.path()));
        assert!(output.status.success(), "npm: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    pub fn page(&self, path: &str) -> String {
        format!("{}{path}", self.server.url)
    }

    /// Signs a browser in by the form.
    pub fn sign_in(&self, browser: &Browser, token: &str) {
        browser.open(&self.page("/-/sign-in"));
        browser.type_into("input[name=token]", token);
        browser.click("main button");
        browser.wait_for("Sign out");
    }

    /// Signs a browser out by the button of the page, and waits for the next page.
    pub fn sign_out(&self, browser: &Browser) {
        browser.click("header form button");
        browser.wait_without("Sign out");
    }
}

/// Checks that the browser reported no errors and requested only addresses that begin with `origin`.
#[track_caller]
pub fn check_quiet(browser: &Browser, origin: &str) {
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{}: {complaints:?}", browser.url());
    for request in browser.requests() {
        let is_own = ["data:", "chrome", origin].iter().any(|start| request.url.starts_with(start));
        assert!(is_own, "{} loads {}", browser.url(), request.url);
    }
}

/// Checks that a page is not wider than the window.
#[track_caller]
pub fn check_width(browser: &Browser, what: &str) {
    let overflow = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert!(overflow.as_i64().is_some_and(|pixels| pixels <= 0), "{what}: {overflow}");
}

#[track_caller]
pub fn check_accessible(browser: &Browser, what: &str) {
    let faults = browser.accessibility_faults();
    assert!(faults.is_empty(), "{what}: {faults:#?}");
    // axe-core writes to the browser's log.
    browser.complaints();
}

/// Where the pictures of pages are kept.
pub fn screenshots() -> PathBuf {
    let folder = root().join("tests/cache/screenshots");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

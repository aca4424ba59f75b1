//! Chromium, driven by Debian's chromedriver over the WebDriver protocol.

use crate::http::{self, agent};
use crate::server::root;
use crate::wait::{self, SOON, wait_for_ok};
use base64::Engine as _;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The key of an element's id (WebDriver, section 12.2).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Whether the tests in the browser run. `make test BROWSER=no` leaves them out; otherwise a missing
/// browser is a failure.
pub fn is_enabled() -> bool {
    std::env::var("HEXAD_BROWSER").as_deref() != Ok("no")
}

/// How a browser is started.
#[derive(Default)]
pub struct Options {
    pub without_scripts: bool,
    pub dark: bool,
}

/// A browser with a profile of its own. Dropping it ends it.
pub struct Browser {
    driver: Child,
    session: String,
    agent: ureq::Agent,
    _profile: tempfile::TempDir,
}

/// How often the test starts chromedriver until it listens. chromedriver takes a port that is free in IPv6, and ends if
/// another program has it in IPv4.
const DRIVER_STARTS: usize = 5;

/// Starts chromedriver. Returns it and its port, or `None` if it ended without one.
fn start_driver(missing: &str) -> Option<(Child, u16)> {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut driver = command.spawn().expect(missing);
    let mut lines = BufReader::new(driver.stdout.take().expect("piped")).lines();
    let read_port = move || {
        let mut said = Vec::new();
        for line in lines.by_ref().map_while(Result::ok) {
            let port = line.split_once("started successfully on port ").map(|(_, port)| port.trim_end_matches('.'));
            if let Some(port) = port.and_then(|port| port.parse().ok()) {
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(port);
            }
            said.push(line);
        }
        Err(said)
    };
    match wait::within(SOON, "the port of chromedriver", read_port) {
        Ok(port) => Some((driver, port)),
        Err(said) => {
            wait::exit(SOON, "the end of chromedriver", &mut driver);
            eprintln!("chromedriver ended: {}", said.join("; "));
            None
        }
    }
}

/// A request that the browser made.
#[derive(Debug)]
pub struct Fetched {
    pub url: String,
}

impl Browser {
    pub fn start(options: &Options) -> Self {
        let missing = "chromium and chromedriver are not on the PATH; install Debian's chromium and chromium-driver, \
                       or leave these tests out with `make test BROWSER=no`";
        let (driver, port) = (0..DRIVER_STARTS).find_map(|_| start_driver(missing)).expect("chromedriver starts");
        let profile = tempfile::tempdir().expect("a temporary folder");
        let arguments = [
            "--headless=new".to_owned(),
            // The tests may run as root. Chromium has no sandbox for root.
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            // Only the pages use the processor and the network.
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        let preferences = match options.without_scripts {
            true => json!({"profile.managed_default_content_settings.javascript": 2}),
            false => json!({}),
        };
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            // After a click, the next page may load later than the answer to the click.
            "timeouts": {"implicit": 10_000},
            "goog:chromeOptions": {"args": arguments, "prefs": preferences},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let agent = agent();
        let base = format!("http://127.0.0.1:{port}/session");
        let answer = agent.post(&base).content_type("application/json").send(capabilities.to_string());
        let answer = http::read(answer.expect("chromedriver answers")).expect("an answer").json();
        let id = answer["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("{missing}: {answer}"));
        let browser = Browser { driver, session: format!("{base}/{id}"), agent, _profile: profile };
        let scheme = if options.dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.devtools("Emulation.setEmulatedMedia", &features);
        browser
    }

    /// Turns the browser's cache off.
    pub fn disable_cache(&self) {
        self.devtools("Network.setCacheDisabled", &json!({"cacheDisabled": true}));
    }

    /// A command of the browser's own protocol.
    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.ask("POST", "/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_ask(method, path, body).unwrap_or_else(|why| panic!("{method} {path} {body}: {why}"))
    }

    /// The value of an answer, or the error that chromedriver names.
    fn try_ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let url = format!("{}{path}", self.session);
        let sent = match method {
            "GET" => self.agent.get(&url).call(),
            _ => self.agent.post(&url).content_type("application/json").send(body.to_string()),
        };
        let answer = http::read(sent.expect("chromedriver answers")).expect("an answer");
        match answer.status {
            200 => Ok(answer.json()["value"].take()),
            _ => Err(answer.text()),
        }
    }

    /// Loads a page and waits until it is complete.
    pub fn open(&self, url: &str) {
        self.ask("POST", "/url", &json!({"url": url}));
    }

    pub fn url(&self) -> String {
        self.ask("GET", "/url", &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// The document as it is now.
    pub fn source(&self) -> String {
        self.ask("GET", "/source", &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the document has a text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_until(text, true);
    }

    /// Waits until the document no longer has a text.
    #[track_caller]
    pub fn wait_without(&self, text: &str) {
        self.wait_until(text, false);
    }

    #[track_caller]
    fn wait_until(&self, text: &str, is_there: bool) {
        self.poll(|| match self.source() {
            source if source.contains(text) == is_there => Ok(()),
            source => Err(format!("`{text}`, {is_there}, does not come: {source}")),
        });
    }

    /// Waits until an element has a text. After a click, the browser may still show the previous page, and replace it
    /// between any two commands.
    #[track_caller]
    pub fn expect_text(&self, selector: &str, expected: &str) {
        self.poll(|| match self.try_text(selector)? {
            text if text.contains(expected) => Ok(()),
            text => Err(format!("`{expected}` is not in {selector}: {text}")),
        });
    }

    /// Waits until a script's `return` has this outcome.
    #[track_caller]
    pub fn expect_outcome(&self, script: &str, expected: &str) {
        let question = json!({"script": script, "args": []});
        self.poll(|| match self.try_ask("POST", "/execute/sync", &question)? {
            outcome if outcome == expected => Ok(()),
            outcome => Err(format!("{script}: {outcome} is not `{expected}`")),
        });
    }

    /// Waits until the page after a click or a key is complete.
    #[track_caller]
    pub fn expect_complete(&self) {
        self.expect_outcome("return document.readyState", "complete");
    }

    /// Asks until the answer is not an error.
    #[track_caller]
    fn poll<T>(&self, question: impl Fn() -> Result<T, String>) -> T {
        wait_for_ok(SOON, "the page", question)
    }

    /// The outcome of a script's `return`.
    pub fn run(&self, script: &str) -> Value {
        self.ask("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// The outcome of a script that calls its last argument when it is done.
    pub fn run_async(&self, script: &str) -> Value {
        self.ask("POST", "/execute/async", &json!({"script": script, "args": []}))
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        self.try_element(selector).unwrap_or_else(|why| panic!("{selector}: {why}"))
    }

    fn try_element(&self, selector: &str) -> Result<String, String> {
        let found = self.try_ask("POST", "/element", &json!({"using": "css selector", "value": selector}))?;
        Ok(found[ELEMENT].as_str().unwrap_or_default().to_owned())
    }

    /// The visible text of an element of a complete page. After a click, use [`Self::expect_text`].
    #[track_caller]
    pub fn text(&self, selector: &str) -> String {
        self.try_text(selector).unwrap_or_else(|why| panic!("{selector}: {why}"))
    }

    fn try_text(&self, selector: &str) -> Result<String, String> {
        let element = self.try_element(selector)?;
        let text = self.try_ask("GET", &format!("/element/{element}/text"), &Value::Null)?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.ask("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Types into a field.
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.ask("POST", &format!("/element/{element}/value"), &json!({"text": text}));
    }

    /// Presses keys, wherever the focus is.
    pub fn press(&self, keys: &[char]) {
        let strokes = keys
            .iter()
            .flat_map(|key| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]);
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes.collect::<Vec<_>>()}]});
        self.ask("POST", "/actions", &actions);
    }

    /// Waits for a dialog, and accepts it.
    #[track_caller]
    pub fn accept_dialog(&self) {
        self.poll(|| self.try_ask("POST", "/alert/accept", &json!({})));
    }

    /// Makes the window this wide, also narrower than a window of the desktop can be.
    pub fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    /// A picture of the window, as PNG.
    pub fn picture(&self) -> Vec<u8> {
        let picture = self.ask("GET", "/screenshot", &Value::Null);
        base64::engine::general_purpose::STANDARD.decode(picture.as_str().unwrap_or_default()).expect("base64")
    }

    /// The violations on the page that axe-core calls serious or critical. It writes to the browser's log.
    pub fn accessibility_faults(&self) -> Vec<String> {
        let path = root().join("tests/cache/browser/node_modules/axe-core/axe.min.js");
        let axe = std::fs::read_to_string(&path)
            .unwrap_or_else(|why| panic!("{}: {why}; `make browser` installs it", path.display()));
        self.run(&format!("{axe}\nwindow.axe = axe;"));
        let report = self.run_async(
            "const done = arguments[arguments.length - 1];\
             axe.run(document, {resultTypes: ['violations']}).then((report) => done(report.violations), (why) => done(String(why)));",
        );
        let violations = report.as_array().unwrap_or_else(|| panic!("axe-core failed: {report}"));
        let is_serious =
            |violation: &&Value| ["serious", "critical"].iter().any(|impact| violation["impact"] == *impact);
        let fault = |violation: &Value| format!("{}: {}", violation["id"], violation["nodes"][0]["html"]);
        violations.iter().filter(is_serious).map(fault).collect()
    }

    /// The entries of the browser's console since the last call: errors, and violations of the policy.
    pub fn complaints(&self) -> Vec<String> {
        let entries = self.ask("POST", "/se/log", &json!({"type": "browser"}));
        let entries = entries.as_array().cloned().unwrap_or_default();
        // A page that says 404 has that status on purpose.
        let texts = entries
            .iter()
            .filter_map(|entry| entry["message"].as_str())
            .filter(|text| !text.contains("the server responded with a status"));
        texts.map(str::to_owned).collect()
    }

    /// The requests since the last call.
    pub fn requests(&self) -> Vec<Fetched> {
        let entries = self.ask("POST", "/se/log", &json!({"type": "performance"}));
        let entries = entries.as_array().cloned().unwrap_or_default();
        let messages =
            entries.iter().filter_map(|entry| serde_json::from_str::<Value>(entry["message"].as_str()?).ok());
        let urls = messages
            .filter(|message| message["message"]["method"] == "Network.requestWillBeSent")
            .filter_map(|message| message["message"]["params"]["request"]["url"].as_str().map(str::to_owned));
        urls.map(|url| Fetched { url }).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

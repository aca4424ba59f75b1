//! The authorization matrix: callers of every kind ask every endpoint about projects of every visibility. The expected
//! answers follow from the rules in `authorization/rules.toml`.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hexad_tests::package::{document, tarball};
use hexad_tests::repository::Repository;
use hexad_tests::server::root;
use hexad_tests::upstream::Upstream;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use toml::Table;

const RULES: &str = include_str!("authorization/rules.toml");
const ENDPOINTS: &str = include_str!("authorization/endpoints.toml");

/// The maximum number of rules, so that a reader can remember them all.
const MAX_RULES: usize = 60;

/// Each visibility, with the path of the group and the id of the project.
const VISIBILITIES: [(&str, &str, u64); 3] = [("public", "pub", 11), ("internal", "int", 21), ("private", "priv", 31)];

/// Users by name, with their role in each group and other properties.
const USERS: [(&str, u64, &str); 12] = [
    ("administrator", 0, r#","is_admin":true"#),
    ("outsider", 0, ""),
    ("external", 0, r#","external":true"#),
    ("minimal", 5, ""),
    ("guest", 10, ""),
    ("external guest", 10, r#","external":true"#),
    ("planner", 15, ""),
    ("reporter", 20, ""),
    ("developer", 30, ""),
    ("maintainer", 40, ""),
    ("owner", 50, ""),
    ("blocked", 30, r#","state":"blocked""#),
];

/// Other tokens of the developer.
const DEVELOPERS: [(&str, &str); 5] = [
    ("read_api", r#""scopes":["read_api"]"#),
    ("read_user", r#""scopes":["read_user"]"#),
    ("read_repository", r#""scopes":["read_repository"]"#),
    ("expired", r#""scopes":["api"],"expires_at":"2001-01-01""#),
    ("revoked", r#""scopes":["api"],"revoked":true"#),
];

/// All callers. Deploy and job tokens belong to the project of the request.
fn callers() -> Vec<&'static str> {
    let users = USERS.iter().map(|(name, ..)| *name).chain(DEVELOPERS.iter().map(|(name, _)| *name));
    ["anonymous"].into_iter().chain(users).chain(["deploy", "job"]).collect()
}

fn token(caller: &str, project: u64) -> String {
    match caller {
        "anonymous" => String::new(),
        "deploy" | "job" => format!("{caller}-{project}"),
        caller => format!("token-of-{}", caller.replace(' ', "-")),
    }
}

fn records() -> String {
    let mut lines = String::new();
    let mut line = |text: &str| writeln!(lines, "{text}").expect("memory");
    for (id, (name, _, more)) in (1..).zip(USERS) {
        let (username, token) = (name.replace(' ', "-"), token(name, 0));
        line(&format!(r#"{{"kind":"user","id":{id},"username":"{username}","name":"{name}"{more}}}"#));
        line(&format!(r#"{{"kind":"token","user_id":{id},"token":"{token}","scopes":["api"]}}"#));
    }
    let developer = 9;
    for (name, more) in DEVELOPERS {
        line(&format!(r#"{{"kind":"token","user_id":{developer},"token":"{}",{more}}}"#, token(name, 0)));
    }
    for (visibility, path, project) in VISIBILITIES {
        let group = project - 1;
        line(&format!(r#"{{"kind":"group","id":{group},"name":"G","path":"{path}","visibility":"{visibility}"}}"#));
        line(&format!(
            r#"{{"kind":"project","id":{project},"name":"X","path":"x","namespace_id":{group},"visibility":"{visibility}"}}"#
        ));
        for (id, (_, level, _)) in (1..).zip(USERS).filter(|(_, (_, level, _))| *level > 0) {
            line(&format!(
                r#"{{"kind":"member","source_type":"group","source_id":{group},"user_id":{id},"access_level":{level}}}"#
            ));
        }
        line(&format!(
            r#"{{"kind":"token","type":"deploy","project_id":{project},"token":"deploy-{project}","scopes":["read_package_registry"]}}"#
        ));
        line(&format!(
            r#"{{"kind":"token","type":"job","user_id":{developer},"project_id":{project},"status":"running","token":"job-{project}"}}"#
        ));
    }
    lines
}

/// A request of the table.
struct Endpoint {
    family: String,
    kind: String,
    row: String,
    method: String,
    path: String,
    body: String,
    media_type: String,
    before: Option<(String, String, String)>,
    done: Vec<u16>,
}

fn text<'a>(table: &'a Table, name: &str) -> &'a str {
    table.get(name).map_or("", |value| value.as_str().unwrap_or_else(|| panic!("{name}: {value}")))
}

fn texts(table: &Table, name: &str) -> Vec<String> {
    let list = table.get(name).map(|value| value.as_array().unwrap_or_else(|| panic!("{name}: {value}")));
    list.into_iter().flatten().map(|value| value.as_str().expect("a text").to_owned()).collect()
}

fn statuses(table: &Table, name: &str) -> Vec<u16> {
    let list = table[name].as_array().expect("a list").iter();
    list.map(|value| value.as_integer().and_then(|status| status.try_into().ok()).expect("a status")).collect()
}

fn split(request: &str) -> (String, String) {
    let (method, path) = request.split_once(' ').unwrap_or_else(|| panic!("{request}"));
    (method.to_owned(), path.to_owned())
}

fn endpoints() -> Vec<Endpoint> {
    let table: Table = ENDPOINTS.parse().expect("TOML");
    let mut endpoints = Vec::new();
    for family in ["registry", "api", "git"] {
        for (kind, rows) in table[family]["kinds"].as_table().expect("kinds") {
            for row in rows.as_array().expect("rows").iter().map(|row| row.as_table().expect("a row")) {
                let (method, path) = split(text(row, "request"));
                let media_type = Some(text(row, "type")).filter(|text| !text.is_empty()).unwrap_or("application/json");
                let before = row.contains_key("before").then(|| {
                    let (method, path) = split(text(row, "before"));
                    (method, path, text(row, "before_body").to_owned())
                });
                endpoints.push(Endpoint {
                    family: family.to_owned(),
                    kind: kind.clone(),
                    row: text(row, "row").to_owned(),
                    method,
                    path,
                    body: text(row, "body").to_owned(),
                    media_type: media_type.to_owned(),
                    before,
                    done: statuses(row, "done"),
                });
            }
        }
    }
    endpoints
}

/// One rule. An empty list means all.
struct Rule {
    why: String,
    families: Vec<String>,
    kinds: Vec<String>,
    methods: Vec<String>,
    callers: Vec<String>,
    visibilities: Vec<String>,
    answers: Vec<u16>,
}

impl Rule {
    fn applies(&self, endpoint: &Endpoint, caller: &str, visibility: &str) -> bool {
        let has = |list: &[String], value: &str| list.is_empty() || list.iter().any(|entry| entry == value);
        has(&self.families, &endpoint.family)
            && has(&self.kinds, &endpoint.kind)
            && has(&self.methods, &endpoint.method)
            && has(&self.callers, caller)
            && has(&self.visibilities, visibility)
    }
}

fn rules() -> Vec<Rule> {
    let table: Table = RULES.parse().expect("TOML");
    let sets = table["sets"].as_table().expect("sets");
    let rules = table["rules"].as_array().expect("rules").iter().map(|rule| rule.as_table().expect("a rule"));
    rules
        .map(|rule| {
            let callers = texts(rule, "callers").into_iter();
            Rule {
                why: text(rule, "why").to_owned(),
                families: texts(rule, "families"),
                kinds: texts(rule, "kinds"),
                methods: texts(rule, "methods"),
                callers: callers
                    .flat_map(|name| if sets.contains_key(&name) { texts(sets, &name) } else { vec![name] })
                    .collect(),
                visibilities: texts(rule, "visibilities"),
                answers: statuses(rule, "answers"),
            }
        })
        .collect()
}

#[test]
fn the_rules_are_few_and_name_what_there_is() {
    let (rules, endpoints) = (rules(), endpoints());
    assert!(rules.len() <= MAX_RULES, "{} rules", rules.len());
    let callers = callers();
    for rule in &rules {
        assert!(!rule.why.is_empty());
        for kind in &rule.kinds {
            assert!(endpoints.iter().any(|endpoint| endpoint.kind == *kind), "no endpoint is of the kind {kind}");
        }
        for caller in &rule.callers {
            assert!(callers.contains(&&**caller), "there is no caller {caller}");
        }
    }
    for endpoint in &endpoints {
        for caller in &callers {
            for (visibility, ..) in VISIBILITIES {
                let is_ruled = rules.iter().any(|rule| rule.applies(endpoint, caller, visibility));
                assert!(is_ruled, "no rule for {caller} at {} {}", endpoint.method, endpoint.path);
            }
        }
    }
}

/// The paths in the tables of the documentation, without queries, up to the pages for people.
fn documented() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("docs/reference/endpoints.md")).expect("the documentation");
    let tables = text.split("\n## Pages").next().unwrap_or_default().lines();
    let rows = tables.filter_map(|line| line.strip_prefix("| ")).filter(|line| line.starts_with(char::is_uppercase));
    let paths = rows.filter_map(|line| line.split(" | ").nth(1)).flat_map(|cell| cell.split('`').skip(1).step_by(2));
    paths.map(|path| path.split('?').next().unwrap_or(path).to_owned()).collect()
}

#[test]
fn every_documented_endpoint_has_a_row() {
    let table: Table = ENDPOINTS.parse().expect("TOML");
    let mut rows: BTreeSet<String> = endpoints().into_iter().map(|endpoint| endpoint.row).collect();
    rows.extend(table["unasked"].as_table().expect("reasons").keys().cloned());
    let documented = documented();
    let missing: Vec<_> = documented.difference(&rows).collect();
    assert!(missing.is_empty(), "no row in tests/areas/authorization/endpoints.toml for {missing:#?}");
    let unknown: Vec<_> = rows.difference(&documented).collect();
    assert!(unknown.is_empty(), "docs/reference/endpoints.md has no such paths: {unknown:#?}");
}

/// The ids of a project's objects.
struct Ids {
    suggestion: u64,
    discussion: String,
    note: u64,
}

struct Matrix {
    forge: Forge,
    ids: Vec<Ids>,
    token: u64,
    spare: u64,
    _engine: Upstream,
}

impl Matrix {
    /// A server with a package, a repository, a merge request and a comment in each project.
    fn new() -> Self {
        let unlimited = "1000000";
        let engine = Upstream::with_json(r#"{"results":[],"cubes":[]}"#);
        let forge = Forge::empty_with(&[
            ("analytics_upstream", "http://127.0.0.1:*"),
            ("registry_rate_limit_invalid_tokens", "0"),
            ("registry_rate_limit_searches", unlimited),
            ("registry_rate_limit_lookups", unlimited),
        ]);
        let admin = |method: &str, path: &str, body: &str, media_type: &str| -> Value {
            let headers = [("content-type", media_type)];
            let answer = forge.send_with(method, &format!("/api/v4/{path}"), BOOTSTRAP_TOKEN, &headers, body);
            assert!((200..300).contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
            serde_json::from_slice(&answer.body).unwrap_or_default()
        };
        let json = |method: &str, path: &str, body: Value| admin(method, path, &body.to_string(), "application/json");
        assert_eq!(admin("POST", "import/directory", &records(), "application/x-ndjson")["failed"], 0);
        let settings = json!({"analytics_api_base_url": engine.url, "analytics_api_key": "k".repeat(32),
            "hosted": true, "operator_group": "pub"});
        json("PUT", "application/settings", settings);
        json("POST", "features/product_analytics_features", json!({"value": true}));
        let made =
            || json("POST", "users/1/personal_access_tokens", json!({"name": "t", "scopes": ["api"]}))["id"].as_u64();
        let (token, spare) = (made().expect("an id"), made().expect("an id"));
        let repository = Repository::with(&[("a.txt", b"one\ntwo\n")]);
        let objects = repository.git(&["cat-file", "--batch", "--batch-all-objects"]);
        let head = repository.text(&["rev-parse", "topic"]);
        let mut ids = Vec::new();
        for (_, group, project) in VISIBILITIES {
            let path = format!("/api/v4/import/suggestions/{project}/objects");
            assert_eq!(forge.send("POST", &path, BOOTSTRAP_TOKEN, objects.clone()).status, 200);
            let refs = ["main", "topic", "other"].map(|name| json!({"name": format!("heads/{name}"), "new": head}));
            json("POST", &format!("import/suggestions/{project}/refs"), json!({ "refs": refs }));
            let record = json!({"kind": "merge_request", "id": project, "iid": 1, "project_id": project, "title": "t",
                "source_branch": "topic", "target_branch": "main", "state": "opened", "author": {"id": 1}});
            admin("POST", "import/suggestions", &record.to_string(), "application/x-ndjson");
            let comment = json!({"body": "```suggestion:-0+0\nzwei\n```", "position": {"position_type": "text",
                "base_sha": head, "start_sha": head, "head_sha": head, "new_path": "a.txt", "new_line": 2}});
            let path = format!("/api/v4/projects/{project}/merge_requests/1/discussions");
            let headers = [("content-type", "application/json")];
            let owner = self::token("administrator", project);
            let made = forge.send_with("POST", &path, &owner, &headers, comment.to_string()).json();
            ids.push(Ids {
                suggestion: made["notes"][0]["suggestions"][0]["id"].as_u64().unwrap_or_else(|| panic!("{made}")),
                discussion: made["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned(),
                note: made["notes"][0]["id"].as_u64().unwrap_or_else(|| panic!("{made}")),
            });
            let name = format!("@{group}/pkg");
            let publish = document(&name, "1.0.0", "latest", &tarball(&name, "1.0.0", 10, 1));
            let path = format!("/api/v4/projects/{project}/packages/npm/@{group}%2fpkg");
            assert_eq!(forge.send_with("PUT", &path, BOOTSTRAP_TOKEN, &headers, publish).status, 200);
        }
        Matrix { forge, ids, token, spare, _engine: engine }
    }

    /// A text of the table for the project with this index.
    fn fill(&self, text: &str, index: usize, number: usize) -> String {
        let ((_, group, project), ids) = (VISIBILITIES[index], &self.ids[index]);
        let values = [
            ("{id}", project.to_string()),
            ("{group}", group.to_owned()),
            ("{n}", number.to_string()),
            ("{token}", self.token.to_string()),
            ("{spare}", self.spare.to_string()),
            ("{suggestion}", ids.suggestion.to_string()),
            ("{discussion}", ids.discussion.clone()),
            ("{note}", ids.note.to_string()),
        ];
        values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    fn send(&self, (method, path, body): (&str, &str, &str), media_type: &str, credential: &str) -> Answer {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/api/v4/{path}") };
        let body = match body.strip_prefix("@document ") {
            Some(name) => document(name, "1.0.0", "latest", &tarball(name, "1.0.0", 10, 1)),
            None => body.as_bytes().to_vec(),
        };
        let mut headers = vec![("content-type", media_type)];
        headers.extend((!credential.is_empty()).then_some(("authorization", credential)));
        self.forge.send_with(method, &path, "", &headers, body)
    }

    /// The status of the answer to one request.
    fn ask(&self, endpoint: &Endpoint, caller: &str, index: usize, number: usize) -> u16 {
        let fill = |text: &str| self.fill(text, index, number);
        if let Some((method, path, body)) = &endpoint.before {
            let bearer = format!("Bearer {BOOTSTRAP_TOKEN}");
            let made = self.send((method, &fill(path), &fill(body)), "application/json", &bearer);
            assert!((200..300).contains(&made.status), "{path}: {} {}", made.status, made.text());
        }
        let token = token(caller, VISIBILITIES[index].2);
        let credential = match (&*endpoint.family, token.is_empty()) {
            (_, true) => String::new(),
            ("git", false) => format!("Basic {}", STANDARD.encode(format!("git:{token}"))),
            (_, false) => format!("Bearer {token}"),
        };
        self.send((&endpoint.method, &fill(&endpoint.path), &fill(&endpoint.body)), &endpoint.media_type, &credential)
            .status
    }
}

/// Checks every cell. A difference is a fault of the program or of the rules until it is explained.
#[test]
fn every_caller_gets_what_the_rules_say() {
    let (matrix, rules) = (Matrix::new(), rules());
    let (mut differences, mut cells) = (Vec::new(), 0);
    for endpoint in endpoints() {
        let request = format!("{} {}", endpoint.path, endpoint.body);
        let is_of_a_project = ["{id}", "{group}", "{suggestion}"].iter().any(|name| request.contains(name));
        for (index, (visibility, ..)) in VISIBILITIES.iter().enumerate().take(if is_of_a_project { 3 } else { 1 }) {
            // Administrators come last, because some of their actions can be done only once.
            let mut callers = callers();
            callers.sort_by_key(|caller| *caller == "administrator");
            for caller in callers {
                let rule = rules.iter().find(|rule| rule.applies(&endpoint, caller, visibility));
                let rule = rule.expect("a rule for each cell");
                let expected = if rule.answers.is_empty() { &endpoint.done } else { &rule.answers };
                let status = matrix.ask(&endpoint, caller, index, cells);
                cells += 1;
                if !expected.contains(&status) {
                    differences.push(format!(
                        "{caller} at {} {} ({visibility}): {status} and not {expected:?}, because {}",
                        endpoint.method, endpoint.path, rule.why
                    ));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} of {cells} cells differ:\n{}", differences.len(), differences.join("\n"));
}

/// Headers that in other services change a request's caller, method or path.
const UNTRUSTED_HEADERS: [(&str, &str); 16] = [
    ("cookie", "hexad-session=token-of-administrator; private_token=token-of-administrator"),
    ("remote-user", "administrator"),
    ("x-remote-user", "administrator"),
    ("x-forwarded-user", "administrator"),
    ("x-gitlab-user-id", "1"),
    ("sudo", "administrator"),
    ("x-original-url", "/api/v4/projects/11"),
    ("x-rewrite-url", "/api/v4/projects/11"),
    ("x-http-method-override", "HEAD"),
    ("x-method-override", "HEAD"),
    ("x-forwarded-for", "127.0.0.1"),
    ("x-forwarded-host", "127.0.0.1"),
    ("forwarded", "for=127.0.0.1;host=127.0.0.1"),
    ("spin-client-addr", "127.0.0.1:1"),
    ("spin-path-info", "/api/v4/projects/11"),
    ("spin-full-url", "http://forge.test/api/v4/projects/11"),
];

/// Forms of a path that another service could resolve to the private project.
const ODD_PATHS: [&str; 14] = [
    "projects/11/../31",
    "projects/11/%2e%2e/31",
    "projects/11%2f..%2f31",
    "projects/11;/../31",
    "projects/11\\..\\31",
    "projects/%5c..%5c31",
    "projects/31%00",
    "projects/31%0d%0a",
    "projects/31;a=b",
    "projects/%33%31",
    "projects/%2531",
    "./projects/31",
    "/projects//31/",
    "projects/priv%252fx",
];

#[test]
fn nothing_but_a_token_opens_a_private_project() {
    let matrix = Matrix::new();
    let visible = |answer: &Answer| answer.status < 400 && !answer.text().contains(r#""id":11,"#);
    for (name, value) in UNTRUSTED_HEADERS {
        for token in ["", "token-of-outsider"] {
            let answer = matrix.forge.send_with("GET", "/api/v4/projects/31", token, &[(name, value)], "");
            assert!(!visible(&answer), "{name}, {token}: {} {}", answer.status, answer.text());
        }
    }
    for path in ODD_PATHS {
        let answer = matrix.forge.get(&format!("/api/v4/{path}"), "token-of-outsider");
        assert!(!visible(&answer), "{path}: {} {}", answer.status, answer.text());
    }
    assert!(visible(&matrix.forge.get("/api/v4/projects/31", "token-of-reporter")), "the test sees what is visible");
}

#[test]
fn documents_as_deep_as_they_are_long_are_refused() {
    let matrix = Matrix::new();
    let deep = "[".repeat(1_000_000);
    let ids = &matrix.ids[0];
    for (method, path, media_type) in [
        ("POST", "import/directory", "application/x-ndjson"),
        ("POST", "import/issues", "application/x-ndjson"),
        ("PUT", "application/settings", "application/json"),
        ("POST", "projects/11/product_analytics/request/load", "application/json"),
        ("PUT", "projects/11/packages/npm/@pub%2fdeep", "application/json"),
        ("PUT", "projects/11/packages/npm/-/package/@pub%2fpkg/dist-tags/t", "application/json"),
        ("POST", "packages/npm/-/npm/v1/security/audits", "application/json"),
        ("POST", "projects/11/merge_requests/1/discussions", "application/json"),
        ("PUT", "suggestions/batch_apply", "application/json"),
        ("POST", "personal_access_tokens", "application/json"),
    ] {
        for body in [deep.clone(), format!(r#"{{"query":{deep}"#), format!(r#"{{"kind":"user","id":{deep}"#)] {
            let path = format!("/api/v4/{path}");
            let headers = [("content-type", media_type)];
            let answer = matrix.forge.send_with(method, &path, "token-of-administrator", &headers, body);
            assert!(answer.status < 500, "{path}: {} {}", answer.status, answer.text());
        }
    }
    assert_eq!(matrix.forge.get(&format!("/api/v4/suggestions/{}", ids.suggestion), "token-of-reporter").status, 200);
}

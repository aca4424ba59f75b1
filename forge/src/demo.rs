//! The demo of `hexad up --demo`: a few users with tokens, and a private group with a project to publish to. A public
//! group has packages, issues and experiments for the pages of the console.
//!
//! The demo is loaded once, into an empty store, and the store records that (`import/demo`). Tokens are random and
//! shown once, so that strangers know no token of a demo on a network.

mod experiments;
mod issues;
mod merge_request;
mod packages;

use anyhow::{Result, bail};
use hexad::cli::{Serving, announce, one_line};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::SendBody;

use crate::server::Server;
use crate::token;

/// The project for packages of the user.
const PROJECT: u64 = 1;

/// The public project that the demo fills.
const PUBLIC_PROJECT: u64 = 2;

/// A person of the demo.
struct Person {
    id: u64,
    username: &'static str,
    name: &'static str,
    role: &'static str,
    /// The role in the groups of the demo; `None` for the administrator.
    access_level: Option<u64>,
}

const PEOPLE: [Person; 3] = [
    Person { id: 1, username: "root", name: "Administrator", role: "administrator", access_level: None },
    Person { id: 2, username: "mia", name: "Mia", role: "maintainer", access_level: Some(40) },
    Person { id: 3, username: "dev", name: "Dev", role: "developer", access_level: Some(30) },
];

#[derive(Deserialize)]
struct ImportReport {
    failed: u64,
}

#[derive(Deserialize)]
struct DemoState {
    state: String,
}

/// Loads the demo into the server, unless the store has the demo or other records. In each case prints a text for the
/// user at the terminal. If loading fails, the host continues without the demo.
pub fn load(serving: Serving, bootstrap_token: &str) {
    let public_url = serving.public_url.trim_end_matches("/");
    if let Err(error) = serving.plain_url.and_then(|url| load_into(&url, public_url, bootstrap_token)) {
        announce(&format!("\nOpen {public_url}/ in a browser. The demo was not loaded: {}\n\n", one_line(&error)));
    }
}

fn load_into(url: &str, public_url: &str, bootstrap_token: &str) -> Result<()> {
    let tokens = PEOPLE.iter().map(|_| token::random()).collect::<Result<Vec<_>>>()?;
    let records = records(&tokens);
    let server = Server::new(url, bootstrap_token);
    let begin = json!({"state": "loading", "records": records.iter().filter_map(stored_name).collect::<Vec<_>>()});
    let demo: DemoState = server.post_json("import/demo", &begin)?;
    if demo.state == "loaded" {
        announce(&format!(
            "\nOpen {public_url}/ in a browser. The demo is loaded, and its tokens were shown when that happened; start \
             with an empty store to load it anew.\n\n"
        ));
        return Ok(());
    }
    import(&server, "import/directory", &lines(&records))?;
    let developer = tokens.last().map(String::as_str).unwrap_or_default();
    packages::publish(&Server::new(url, developer), PUBLIC_PROJECT)?;
    merge_request::load(url, bootstrap_token, developer, PUBLIC_PROJECT)?;
    import(&server, "import/issues", &issues::records(PUBLIC_PROJECT, Timestamp::now()))?;
    import(&server, "import/experiments", &experiments::records())?;
    // Printed before the store records the demo as loaded. If the program stops in between, the demo is loaded again
    // with new tokens.
    announce(&greeting(public_url, &tokens));
    server.post_json::<DemoState>("import/demo", &json!({"state": "loaded"})).map(drop)
}

/// The name of a record that the demo must not overwrite, in the form of the admin area. `None` for other records.
fn stored_name(record: &Value) -> Option<String> {
    let text = |field: &str| record.get(field).and_then(Value::as_str);
    let (kind, id) = (text("kind")?, record.get("id"));
    Some(match kind {
        "user" => format!("user {} ({})", id?, text("username")?),
        "group" => format!("group {} ({})", id?, text("path")?),
        "project" => format!("project {} ({})", id?, text("path_with_namespace")?),
        "setting" | "feature" => format!("{kind} {}", text("name")?),
        _ => return None,
    })
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

fn import(server: &Server, path: &str, records: &str) -> Result<()> {
    let mut body = records.as_bytes();
    let report: ImportReport = server.post(path, "application/x-ndjson", SendBody::from_reader(&mut body))?;
    if report.failed > 0 {
        bail!("{} records of the demo were refused by {path}", report.failed);
    }
    Ok(())
}

fn records(tokens: &[String]) -> Vec<Value> {
    let mut records = vec![
        json!({"kind": "group", "id": 1000, "name": "Demo", "path": "demo", "visibility": "private"}),
        json!({"kind": "project", "id": PROJECT, "name": "Packages", "path_with_namespace": "demo/packages", "namespace_id": 1000, "visibility": "private"}),
        json!({"kind": "group", "id": 1001, "name": "Showcase", "path": "showcase", "visibility": "public"}),
        json!({"kind": "project", "id": PUBLIC_PROJECT, "name": "Libraries", "path_with_namespace": "showcase/libraries", "namespace_id": 1001, "visibility": "public"}),
        // Members of this group see experiments.
        json!({"kind": "setting", "name": "hosted", "value": true}),
        json!({"kind": "setting", "name": "operator_group", "value": "showcase"}),
    ];
    records.extend(experiments::features());
    for (person, token) in PEOPLE.iter().zip(tokens) {
        let is_admin = person.access_level.is_none();
        records.push(json!({"kind": "user", "id": person.id, "username": person.username, "name": person.name, "is_admin": is_admin}));
        records.push(json!({"kind": "token", "user_id": person.id, "token": token, "name": "demo", "scopes": ["api"]}));
        if is_admin {
            // Administrators need this membership to see experiments.
            records.push(json!({"kind": "member", "source_type": "group", "source_id": 1001, "user_id": person.id, "access_level": 50}));
        }
        if let Some(level) = person.access_level {
            for group in [1000, 1001] {
                records.push(json!({"kind": "member", "source_type": "group", "source_id": group, "user_id": person.id, "access_level": level}));
            }
        }
    }
    records
}

fn greeting(url: &str, tokens: &[String]) -> String {
    let people: String = PEOPLE
        .iter()
        .zip(tokens)
        .map(|(person, token)| format!("  {:<14} {:<5} {token}\n", person.role, person.username))
        .collect();
    let registry = format!("{url}/api/v4/projects/{PROJECT}/packages/npm/");
    let host = registry.split_once(':').map_or(registry.as_str(), |(_, host)| host);
    let developer = tokens.last().map(String::as_str).unwrap_or_default();
    format!(
        "\nOpen {url}/ in a browser, and sign in with one of these tokens, which are shown this once:\n\n{people}\n\
         Publish a package to it, and look at it (in an empty folder):\n\n  \
         npm init -y --scope @demo\n  \
         npm config set --location project @demo:registry={registry}\n  \
         npm config set --location project {host}:_authToken={developer}\n  \
         npm publish\n  \
         npm view @demo/${{PWD##*/}}\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_has_lines_to_paste() {
        let tokens = ["a", "b", "c"].map(str::to_owned);
        let text = greeting("http://127.0.0.1:8080", &tokens);
        assert!(
            text.contains("@demo:registry=http://127.0.0.1:8080/api/v4/projects/1/packages/npm/\n")
                && text.contains("//127.0.0.1:8080/api/v4/projects/1/packages/npm/:_authToken=c\n"),
            "{text}"
        );
    }

    #[test]
    fn every_record_is_a_line_of_json() {
        let tokens = ["a", "b", "c"].map(str::to_owned);
        let records = records(&tokens);
        for line in lines(&records).lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            assert!(record["kind"].is_string());
        }
        let names: Vec<String> = records.iter().filter_map(stored_name).collect();
        for name in ["user 1 (root)", "group 1000 (demo)", "project 1 (demo/packages)", "setting hosted"] {
            assert!(names.iter().any(|known| known == name), "{name} is not in {names:?}");
        }
        let of_no_name = records.iter().filter(|record| stored_name(record).is_none());
        assert!(of_no_name.into_iter().all(|record| record["kind"] == "token" || record["kind"] == "member"));
    }
}

//! Audits: this registry knows no advisories and says so, but a registry behind it may know some. Installations go on.
//!
//! yarn classic is left out: it sends audits to an address of its own.

use super::bun::Bun;
use super::yarn::Berry;
use super::*;
use hexad_tests::upstream::{self, Upstream};
use std::io::Write as _;

/// The title of the advisory.
const TITLE: &str = "Runs what it reads";

/// A registry with the packages of the one at `address`, and an advisory about one of them.
fn with_advisory(address: String) -> Upstream {
    let advisory = json!({"public-lib": [{
        "id": 1,
        "url": "https://advisories.example/1",
        "title": TITLE,
        "severity": "high",
        "vulnerable_versions": "<2.0.0",
        "cwe": [],
        "cvss": {"score": 0, "vectorString": null},
    }]})
    .to_string();
    Upstream::start(move |request, stream| {
        match request.head.strip_prefix("GET ").and_then(|line| line.split_once(' ')) {
            Some((path, _)) => {
                write!(stream, "HTTP/1.1 302 Found\r\nlocation: {address}{path}\r\ncontent-length: 0\r\n\r\n")
            }
            None => upstream::json(stream, &advisory),
        }
    })
}

/// How many audits a registry has received.
fn audits(registry: &Upstream) -> usize {
    registry.requests().iter().filter(|request| request.head.starts_with("POST ")).count()
}

/// Audits three applications: with packages of this registry, of the registry behind, and of both. `nothing` is the
/// client's text if it knows no advisory, which it prints only where the operator has chosen that.
fn audit_everywhere(client: &dyn Client, command: &[&str], nothing: &str) {
    let Some(there) = server() else { return };
    let audit = |machine: &Machine, folder: &Path| client.run(machine, folder, command);
    let machine = Machine::new();
    let registry = format!("{}/api/v4/projects/{PUBLIC}/packages/npm", there.url);
    client.sign_in(&machine, &format!("{registry}/"), MAINTAINER);
    client.publish(&machine, &package(&machine, "public-lib", "1.0.0", "")).ok();
    let alone = application(&machine, "alone");
    client.add(&machine, &alone, "public-lib").ok();
    let says_nothing = |printed: &ProgramOutput| {
        let all = format!("{}{}", printed.stdout, printed.stderr);
        assert!(!printed.success && !all.contains(nothing), "{all}");
    };
    says_nothing(&audit(&machine, &alone));
    let empty = forge::server(&[("registry_audit", "empty")]);
    client.sign_in(&machine, &format!("{}/api/v4/projects/{PUBLIC}/packages/npm/", empty.url), DEVELOPER);
    client.publish(&machine, &package(&machine, "public-lib", "1.0.0", "")).ok();
    let chosen = application(&machine, "chosen");
    client.add(&machine, &chosen, "public-lib").ok();
    let printed = audit(&machine, &chosen).ok();
    assert!(printed.contains(nothing), "{printed}");

    let behind = with_advisory(registry);
    let here = forge::server(&[("registry_forward_url", &behind.url)]);
    client.sign_in(&machine, &format!("{}/api/v4/projects/{PUBLIC}/packages/npm/", here.url), DEVELOPER);
    client.publish(&machine, &package(&machine, "own-lib", "1.0.0", "")).ok();
    client.sign_in(&machine, &format!("{}/api/v4/groups/acme/-/packages/npm/", here.url), DEVELOPER);
    let app = application(&machine, "app");
    client.add(&machine, &app, "public-lib").ok();
    let printed = audit(&machine, &app);
    assert!(!printed.success && printed.stdout.contains(TITLE), "{}{}", printed.stdout, printed.stderr);

    // An audit reveals the names of all packages, so it is not forwarded if one of them is here.
    let before = audits(&behind);
    client.add(&machine, &app, "own-lib").ok();
    says_nothing(&audit(&machine, &app));
    assert_eq!(audits(&behind), before);
}

tests_of! {
    npm_audits: audit_everywhere(&Npm::OnPath, &["audit"], "found 0 vulnerabilities");
    npm_10_audits: audit_everywhere(&Npm::Ten, &["audit"], "found 0 vulnerabilities");
    pnpm_audits: audit_everywhere(&Pnpm, &["audit"], "No known vulnerabilities found");
    yarn_berry_audits: audit_everywhere(&Berry, &["npm", "audit"], "No audit suggestions");
    bun_audits: audit_everywhere(&Bun, &["audit"], "No vulnerabilities found");
}

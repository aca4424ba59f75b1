//! The API clients of two languages page through namespaces, and find users, projects and groups.

use super::*;
use hexad_tests::forge::ADMIN;

/// Runs a script of this folder against a forge with 25 more groups below `acme`.
fn run(program: &str, script: &str, libraries: &str) {
    let Some(server) = server() else { return };
    let record = |id: u64| format!("{{\"kind\":\"group\",\"id\":{id},\"path\":\"team-{id}\",\"parent_id\":10}}\n");
    let groups: String = (100..125).map(record).collect();
    forge::import(&server, &groups);
    let machine = Machine::new();
    let more = [&server.url, ADMIN, DEVELOPER];
    let seen = report(&machine, &machine.folder("work"), program, script, libraries, &more);
    let all: Vec<u64> = [10, 11].into_iter().chain(100..125).chain(4_000_000_001..=4_000_000_005).collect();
    assert_eq!((&seen["total"], &seen["pages"], &seen["all"]), (&json!(32), &json!(5), &json!(all)), "{seen:#}");
    let found: Vec<String> = (100..125).map(|id| format!("acme/team-{id}")).collect();
    assert_eq!(seen["found"], json!(found), "the filters stay on every page");
    let users = 4_000_000_001_u64..=4_000_000_005;
    for (filter, ids) in [
        ("word", (110..=119).collect()),
        ("top", [10].into_iter().chain(users).collect()),
        ("together", vec![10]),
        ("mine", vec![10, 4_000_000_003]),
        ("owned", vec![4_000_000_003]),
    ] {
        assert_eq!(seen[filter], json!(ids), "{filter}");
    }
    assert_eq!((&seen["one"]["id"], &seen["one"]["kind"]), (&json!(11), &json!("group")));
    assert_eq!(seen["one"]["web_url"], json!(format!("{}/groups/acme/labs", server.url)));
    assert_eq!(seen["taken"]["exists"], true);
    assert_eq!(seen["taken"]["suggests"], json!(["acme1"]));
    assert_eq!((&seen["free"], &seen["below"]), (&json!(false), &json!(["labs1"])));
    assert_eq!(seen["missing"], json!([404, "404 Namespace Not Found"]));
    for (name, expected) in [
        ("projects", json!([7, 8, 9])),
        ("keyset", json!([7, 8, 9])),
        ("project", json!("acme/labs/secret")),
        ("of_group", json!([9, 8, 7])),
        ("members", json!(["mia", "dev", "gus"])),
        ("groups", json!(["acme/labs"])),
        ("users", json!(["gus"])),
        ("user", json!("mia")),
        ("me", json!("dev")),
        ("rotated", json!(true)),
        ("active", json!([""])),
    ] {
        assert_eq!(seen[name], expected, "{name}: {seen:#}");
    }
}

tests_of! {
    python_gitlab: run("python3", "namespaces.py", "python");
    gitbeaker: run("node", "namespaces.mjs", "clients");
}

//! `hexad token`, `hexad user`, `hexad group` and `hexad project`, as an administrator calls them.

use super::*;
use hexad_tests::forge::ADMIN;
use serde_json::Value;

/// Standard output of a command that succeeds, or else its error.
fn command(server: &Server, token: &str, arguments: &[&str]) -> Result<String, String> {
    let ended = run(arguments, &[("HEXAD_URL", &server.url), ("HEXAD_TOKEN", token)]);
    let [out, error] = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
    if ended.status.success() { Ok(out) } else { Err(error) }
}

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

#[test]
fn tokens_are_listed_and_revoked() {
    let server = forge::server(&[]);
    let hexad = |arguments: &[&str]| command(&server, ADMIN, arguments);
    let created =
        hexad(&["token", "create", "--user", "mia", "--scope", "read_api", "--name", "ci", "--json"]).expect("made");
    let created = rows(&created).remove(0);
    let (id, text) = (created["id"].to_string(), created["token"].as_str().expect("a text").to_owned());
    server.get("user", &text).expect(200);

    let listed = rows(&hexad(&["token", "list", "--user", "mia", "--json"]).expect("listed"));
    assert!(listed.iter().all(|token| token["user_id"] == 2 && token.get("token").is_none()), "{listed:?}");
    let table = hexad(&["token", "list"]).expect("listed");
    let of_id = |table: &str| table.lines().find(|line| line.starts_with(&format!("{id} "))).map(str::to_owned);
    assert!(table.starts_with("ID ") && of_id(&table).is_some_and(|line| line.contains("true")), "{table}");

    let revoked = hexad(&["token", "revoke", &id]).expect("revoked");
    assert_eq!(revoked, format!("revoked the token {id} (ci) of the user 2\n"));
    server.get("user", &text).expect(401);
    let table = hexad(&["token", "list", "--user", "2"]).expect("listed");
    assert!(of_id(&table).is_some_and(|line| line.contains("false")), "{table}");

    let error = hexad(&["token", "revoke", "999999"]).expect_err("no such token");
    assert!(error.contains("404"), "{error}");
    let error = hexad(&["token", "list", "--user", "nobody"]).expect_err("no such user");
    assert!(error.contains("there is no user nobody; `hexad user list` shows them"), "{error}");
    let error = command(&server, DEVELOPER, &["token", "revoke", &id]).expect_err("of another user");
    assert!(error.contains("does not accept the token"), "{error}");
}

#[test]
fn users_groups_and_projects_are_listed_and_deleted() {
    let server = forge::server(&[]);
    let hexad = |arguments: &[&str]| command(&server, ADMIN, arguments);
    let ids = |noun: &str| {
        let listed = rows(&hexad(&[noun, "list", "--json"]).expect("listed"));
        listed.iter().map(|row| row["id"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!((ids("user"), ids("group"), ids("project")), (vec![1, 2, 3, 4, 5], vec![10, 11], vec![7, 8, 9]));
    let found = hexad(&["user", "list", "--search", "otto"]).expect("listed");
    assert!(found.starts_with("ID ") && found.lines().count() == 2 && found.contains("Otto Outsider"), "{found}");
    assert_eq!(hexad(&["group", "list", "--search", "no&such=1"]).expect("an empty list"), "");

    for (arguments, answer) in [
        (["project", "delete", "acme/labs/secret"], "deleted the project acme/labs/secret with the id 9\n"),
        (["group", "delete", "acme/labs"], "deleted the group acme/labs with the id 11\n"),
        (["user", "delete", "otto"], "deleted the user otto with the id 5\n"),
        (["user", "delete", "4"], "deleted the user gus with the id 4\n"),
    ] {
        assert_eq!(hexad(&arguments).as_deref(), Ok(answer));
        assert!(hexad(&arguments).is_err(), "{arguments:?} again");
    }
    assert_eq!((ids("user"), ids("group"), ids("project")), (vec![1, 2, 3], vec![10], vec![7, 8]));

    // Only administrators delete.
    let error = command(&server, DEVELOPER, &["project", "delete", "acme/open"]).expect_err("refused");
    assert!(error.contains("must be an administrator's"), "{error}");
    assert_eq!(ids("project"), [7, 8]);
}

/// More rows than a page of the server has.
#[test]
fn a_list_has_the_rows_of_all_pages() {
    let server = forge::server(&[]);
    let lines: String = (1000..1250)
        .map(|id| format!("{{\"kind\":\"user\",\"id\":{id},\"username\":\"u{id}\",\"name\":\"U\"}}\n"))
        .collect();
    forge::import(&server, &lines);
    let table = command(&server, ADMIN, &["user", "list"]).expect("listed");
    assert_eq!(table.lines().count(), 1 + 5 + 250);
    assert_eq!(table.lines().filter(|line| line.starts_with("ID")).count(), 1);
}

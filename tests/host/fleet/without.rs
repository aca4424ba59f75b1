//! `hexad swap --without`.

use super::*;

#[test]
fn a_host_that_cannot_serve_a_component_can_be_left_out_and_is_not_ready_until_it_can() {
    let Some(fleet) = Fleet::start() else { return };
    let list = List(tempfile::tempdir().expect("a temporary folder"));
    list.set(&[0]);
    let free = fleet.host(&[]);
    let strict = fleet.host(&["--allow-digests", list.path().to_str().expect("UTF-8")]);
    let refused = free.operator().swap("hello", &version(1));
    assert!(refused.status == 409 && refused.text().contains("--without"), "{}", refused.text());
    let unknown = free.operator().swap("hello?without=web7", &version(1));
    assert!(unknown.status == 409 && unknown.text().contains("web7"), "{}", unknown.text());

    let status = free.operator().get("/status").json();
    let folder = strict.server.data.canonicalize().expect("a folder").display().to_string();
    let hosts = status["host"]["hosts"].as_array().expect("hosts").clone();
    let mut names = hosts.iter().map(|host| host["name"].as_str().expect("text").to_owned());
    let name = names.find(|name| name.ends_with(&folder)).expect("the host");
    let swapped = free.operator().swap(&format!("hello?without={name}"), &version(1));
    assert_eq!(swapped.status, 200, "{}", swapped.text());
    assert_eq!(free.serves(), 1);
    let reason = "select entry::json->>'reason' from hexad.audit order by id desc limit 1;";
    assert_eq!(fleet.database.sql_in("fleet", reason).trim(), format!("without {name}"));

    let end = Instant::now() + Duration::from_secs(60);
    while strict.operator().get("/readyz").text() != "components differ\n" {
        assert!(Instant::now() < end, "{}", strict.operator().get("/status").text());
    }
    let answer = strict.answer(&http::agent());
    assert!(is_try_again(&answer), "{}: {}", answer.status, answer.text());
    list.set(&[0, 1]);
    assert_eq!(strict.serves(), 1);
    while strict.operator().get("/readyz").status != 200 {
        assert!(Instant::now() < end, "{}", strict.operator().get("/status").text());
    }
}

//! The admin area: the effect of imports, tokens and settings on the other areas.

use super::*;

#[test]
fn an_empty_store_knows_the_bootstrap_token_only() {
    let forge = Forge::empty();
    assert_eq!(forge.get("/api/v4/application/settings", BOOTSTRAP_TOKEN).status, 200);
    let unknown = forge.get("/api/v4/application/settings", ADMIN);
    assert_eq!((unknown.status, unknown.json()), (401, json!({"message": "401 Unauthorized"})));
}

#[test]
fn good_lines_are_imported_and_bad_lines_are_reported() {
    let forge = Forge::empty();
    let records = [
        r#"{"kind":"user","id":1,"username":"a","name":"A"}"#,
        "",
        r#"{"kind":"user"}"#,
        "nonsense",
        r#"{"kind":"token","username":"\u0000","token":"glpat-of-a-name-that-is-no-key"}"#,
        r#"{"kind":"user","id":2,"username":"b","name":"B"}"#,
    ];
    let answer = forge.send("POST", "/api/v4/import/directory", BOOTSTRAP_TOKEN, records.join("\n"));
    let answer = answer.json();
    assert_eq!((&answer["imported"]["user"], &answer["failed"]), (&json!(2), &json!(3)), "{answer}");
    let lines: Vec<u64> =
        answer["errors"].as_array().expect("errors").iter().filter_map(|error| error["line"].as_u64()).collect();
    assert_eq!(lines, [3, 4, 5]);
}

#[test]
fn an_import_is_for_administrators() {
    let forge = Forge::seeded();
    for (token, status) in [("", 401), (DEVELOPER, 403), (ADMIN, 200)] {
        let record = r#"{"kind":"user","id":9,"username":"nine","name":"Nine"}"#;
        assert_eq!(forge.send("POST", "/api/v4/import/directory", token, record).status, status, "{token}");
    }
}

#[test]
fn a_minted_token_works_at_once_and_within_its_scopes() {
    let forge = Forge::seeded();
    let mint = r#"{"username":"dev","name":"ci","scopes":["read_api"]}"#;
    assert_eq!(forge.send_json("POST", "/api/v4/personal_access_tokens", DEVELOPER, mint).status, 403);
    let minted = forge.send_json("POST", "/api/v4/personal_access_tokens", ADMIN, mint).expect(201);
    let minted = minted.json();
    let token = minted["token"].as_str().expect("a token");
    let registry = format!("/api/v4/projects/{PRIVATE}/packages/npm");
    assert_eq!(forge.get(&format!("{registry}/-/whoami"), token).json(), json!({"username": "dev"}));
    let write = forge.send_json("PUT", &format!("{registry}/x"), token, r#"{"versions":{}}"#).expect(403);
    assert!(write.text().contains("insufficient_scope"), "{}", write.text());
}

#[test]
fn secrets_can_be_set_and_are_never_shown() {
    let forge = Forge::seeded();
    let settings = r#"{"license":"premium","analytics_api_key":"very-secret"}"#;
    let answer = forge.send_json("PUT", "/api/v4/application/settings", ADMIN, settings).expect(200);
    let shown = forge.get("/api/v4/application/settings", ADMIN);
    assert_eq!(shown.json()["license"], "premium");
    assert!(!answer.text().contains("very-secret") && !shown.text().contains("very-secret"));
}

#[test]
fn a_blocked_user_gets_the_reason() {
    let forge = Forge::seeded();
    let block = r#"{"kind":"user","id":3,"username":"dev","name":"Dev","state":"blocked"}"#;
    forge.import(block);
    let answer = forge.get(&format!("/api/v4/projects/{PRIVATE}/packages/npm/-/whoami"), DEVELOPER);
    let expected = (403, Some("403 Forbidden - Your account has been blocked."));
    assert_eq!((answer.status, answer.json()["message"].as_str()), expected);
}

#[test]
fn tokens_are_managed_without_their_text() {
    let forge = Forge::seeded();
    let mint = r#"{"name":"ci","scopes":["api"]}"#;
    let minted = forge.send_json("POST", "/api/v4/users/3/personal_access_tokens", ADMIN, mint).json();
    let (id, token) = (minted["id"].as_u64().expect("an id"), minted["token"].as_str().expect("a token"));
    let listed = forge.get("/api/v4/personal_access_tokens/", DEVELOPER);
    assert_eq!((listed.json().as_array().map(Vec::len), listed.header("x-total")), (Some(2), "2"));
    assert!(!listed.text().contains(token));
    let registry = format!("/api/v4/projects/{PRIVATE}/packages/npm");
    assert_eq!(forge.get(&format!("{registry}/-/whoami"), token).status, 200);
    let shown = forge.get(&format!("/api/v4/personal_access_tokens/{id}"), DEVELOPER).json();
    assert!(shown["last_used_at"].is_string(), "used at the registry: {shown}");
    assert_eq!(forge.get("/api/v4/personal_access_tokens/self", token).json()["id"], id);
    let rotated = forge.send_json("POST", "/api/v4/personal_access_tokens/self/rotate", token, "").json();
    let next = rotated["token"].as_str().expect("a token");
    assert_eq!(forge.get(&format!("{registry}/-/whoami"), token).status, 401);
    assert_eq!(forge.get(&format!("{registry}/-/whoami"), next).status, 200);
    let tokens = forge.get(&format!("{registry}/-/npm/v1/tokens"), next).json();
    assert_eq!(tokens["objects"].as_array().map(Vec::len), Some(2), "{tokens}");
    assert_eq!(forge.send("DELETE", &format!("{registry}/-/user/token/{next}"), next, "").status, 200);
    assert_eq!(forge.get(&format!("{registry}/-/whoami"), next).status, 401);
    assert_eq!(forge.send("DELETE", "/api/v4/personal_access_tokens/self", DEVELOPER, "").status, 204);
    assert_eq!(forge.get("/api/v4/user", DEVELOPER).status, 401);
}

#[test]
fn every_area_takes_slashes_that_say_nothing() {
    let forge = Forge::seeded();
    let paths = "/api/v4/features/ /api/v4//application/settings// /api/v4/namespaces/ /api/v4/issues_statistics/ \
        /api/v4/projects/7//packages/npm/-/ping/ /api/v4/suggestions//1/";
    for path in paths.split(' ') {
        let answer = forge.get(path, ADMIN);
        let is_routed = answer.status == 200 || answer.json()["message"].is_string();
        assert!(is_routed, "{path}: {} {}", answer.status, answer.text());
    }
}

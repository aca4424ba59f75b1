//! Invalid lines of an import.

use super::*;
use bytes::Bytes;

#[test]
fn invalid_lines_are_reported_with_their_number_and_the_others_are_applied() {
    let env = forge();
    for (line, error) in [
        ("{", "EOF while parsing an object (column 1)"),
        ("[]", "the line is not a JSON object"),
        ("\u{fffd}", "the line is not a JSON object"),
        (r#"{"id":1}"#, "missing field `kind` (column 8)"),
        (r#"{"kind":"issue"}"#, "kind `issue` is not one of user, token, group, project, member, setting, feature"),
        (r#"{"kind":"user","id":0,"username":"x"}"#, "invalid value: integer `0`, expected a nonzero u64 (column 21)"),
        (
            r#"{"kind":"user","id":17592186044416,"username":"x"}"#,
            "id 17592186044416 is too large; the largest is 17592186044415 (column 34)",
        ),
        (
            r#"{"kind":"group","id":9223372036854775808,"path":"x"}"#,
            "id 9223372036854775808 is too large; the largest is 9223372036854775807 (column 40)",
        ),
        (
            r#"{"kind":"project","id":9223372036854775808,"path":"x","namespace_id":10}"#,
            "id 9223372036854775808 is too large; the largest is 9223372036854775807 (column 42)",
        ),
        (r#"{"kind":"user","id":7}"#, "missing field `username` (column 22)"),
        (r#"{"kind":"user","id":7,"username":"x","state":"odd"}"#, "state `odd` is not known (column 51)"),
        (r#"{"kind":"user","id":7,"username":"acme"}"#, "path `acme` is taken by namespace 10"),
        (r#"{"kind":"group","id":7}"#, "path or full_path is missing"),
        (
            r#"{"kind":"group","id":7,"full_path":"no/where"}"#,
            "namespace `no` is not known; groups and users come before what is in them",
        ),
        (r#"{"kind":"group","id":10,"path":"acme","parent_id":11}"#, "group 10 cannot be moved below itself"),
        (
            r#"{"kind":"group","id":7,"path":"x","full_path":"acme/core/x","parent_id":10}"#,
            "the id and the path of the namespace are of two namespaces",
        ),
        (
            r#"{"kind":"project","id":7,"path_with_namespace":"acme/core/x","namespace_id":10}"#,
            "the id and the path of the namespace are of two namespaces",
        ),
        (
            r#"{"kind":"project","id":7,"path":"x","path_with_namespace":"acme/y","namespace_id":10}"#,
            "path is not the end of the full path",
        ),
        (r#"{"kind":"project","id":7,"path":"x"}"#, "namespace_id is missing"),
        (
            r#"{"kind":"project","id":7,"path":"x","namespace_id":99}"#,
            "namespace 99 is not known; groups and users come before what is in them",
        ),
        (
            r#"{"kind":"project","id":7,"path":"x","namespace_id":10,"visibility":"secret"}"#,
            "visibility `secret` is not known (column 76)",
        ),
        (
            r#"{"kind":"member","source_type":"team","source_id":1,"user_id":1,"access_level":10}"#,
            "source_type must be group or project, with a source_id",
        ),
        (
            r#"{"kind":"member","source_type":"group","source_id":1,"user_id":1,"access_level":11}"#,
            "access level 11 is not known (column 83)",
        ),
        (r#"{"kind":"member","source_type":"group","source_id":1,"user_id":1}"#, "access_level is missing"),
        (
            r#"{"kind":"member","source_type":"group","source_id":1,"user_id":1,"access_level":10,"expires_at":"soon"}"#,
            "expires_at is `soon`, which is not a date or time (column 103)",
        ),
        (
            r#"{"kind":"group","id":7,"path":"x","trial_ends_on":7}"#,
            "trial_ends_on is 7, which is not a date or time (column 52)",
        ),
        (r#"{"kind":"setting","name":"license","value":"gold"}"#, "license does not have a valid value"),
        (r#"{"kind":"setting","name":["license"],"value":"free"}"#, "name is not a text"),
        (r#"{"kind":"setting","value":"free"}"#, "name is missing"),
        (
            r#"{"kind":"setting","name":"license","value":"free","hosted":true}"#,
            "there are other fields beside name and value",
        ),
        (r#"{"kind":"setting","name":"license"}"#, "value is missing"),
        (r#"{"kind":"setting","value":"free","deleted":true}"#, "name is missing"),
        (r#"{"kind":"feature","name":"x"}"#, "gates or value is missing"),
        (r#"{"kind":"feature","name":"x","gates":[{"key":"odd","value":1}]}"#, "gates has a gate that is not known"),
        (r#"{"kind":"token","token":"glpat-x","scopes":["api"]}"#, "user_id or username is missing"),
        (r#"{"kind":"token","token":"glpat-x","username":"nobody"}"#, "user `nobody` is not known"),
        (r#"{"kind":"token","token":"glpat-x","username":"\u0000"}"#, "user `\0` is not known"),
        (r#"{"kind":"token","token":"x","user_id":1,"expires_at":"soon"}"#, "expires_at is not a date or time"),
        (r#"{"kind":"token","token":"x","user_id":1,"expires_at":7}"#, "expires_at is not a date or time"),
        (r#"{"kind":"token","token":"a b","user_id":1}"#, "token must be visible ASCII characters without spaces"),
        (r#"{"kind":"token","type":"deploy","token":"x"}"#, "a deploy token has either project_id or group_id"),
    ] {
        let lines = format!("\n{line}\n{{\"kind\":\"feature\",\"name\":\"after\",\"value\":true}}");
        let (status, report) = send_lines(&env, lines);
        let expected = json!({"imported": {"feature": 1}, "failed": 1, "errors": [{"line": 2, "error": error}]});
        assert_eq!((status, report), (200, expected), "{line}");
    }
}

#[test]
fn an_error_about_a_secret_does_not_quote_it() {
    let env = empty();
    for line in [
        r#"{"kind":"token","user_id":"glpat-secret","token":"x"}"#,
        r#"{"kind":"token","user_id":1,"token":["glpat-secret"]}"#,
    ] {
        let (_, report) = send_lines(&env, line);
        let error = report["errors"][0]["error"].as_str().unwrap();
        assert!(error.starts_with("a field is missing or has a value of another type"), "{error}");
        assert!(!report.to_string().contains("glpat-secret"));
    }
}

#[test]
fn a_line_has_a_maximum_length_and_a_body_has_none() {
    let env = empty();
    let long = format!("{{\"kind\":\"user\",\"id\":1,\"username\":\"{}\"}}\n", "x".repeat(1 << 20));
    let short = "{\"kind\":\"user\",\"id\":2,\"username\":\"alice\"}\n";
    let (_, report) = send_lines(&env, format!("{long}{short}"));
    assert_eq!(report["errors"], json!([{"line": 1, "error": "the line is longer than 1048576 bytes"}]));
    assert_eq!(report["imported"], json!({"user": 1}));

    let chunk = Bytes::from(short.repeat(1000));
    let (status, report) = send_lines(&env, Body::pull(std::iter::repeat_n(Ok(chunk), 50)));
    assert_eq!((status, &report["imported"]["user"]), (200, &json!(50_000)));
}

#[test]
fn only_the_first_invalid_lines_are_listed_and_shortened() {
    let env = empty();
    let line = format!("{{\"kind\":\"{}\"}}\n", "x".repeat(10_000));
    let (_, report) = send_lines(&env, line.repeat(150));
    assert_eq!((&report["failed"], report["errors"].as_array().unwrap().len()), (&json!(150), 100));
    assert!(report.to_string().len() < 50_000);
}

#[test]
fn deep_nesting_makes_a_line_invalid() {
    let env = empty();
    let line = format!("{{\"kind\":\"user\",\"x\":{}", "[".repeat(100_000));
    assert_eq!(send_lines(&env, line).1["failed"], 1);
}

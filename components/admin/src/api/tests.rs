mod authority;
mod damaged_tokens;
mod demo;
mod import;
mod import_tree;
mod invalid_lines;
mod invalid_tokens;
mod late_roles;
mod token_pages;
mod tokens;

use super::*;
use directory::token::{self, Fingerprint};
use futures::FutureExt as _;
use http::Method;
use kit::Body;
use kit::testing::{FailingStore, MemoryStore, env};
use serde_json::json;

const BOOTSTRAP_TOKEN: &str = "boot-0123456789";

const FORGE: &str = r#"
{"kind":"user","id":1,"username":"root","name":"Root","state":"active","is_admin":true,"external":false}
{"kind":"user","id":2,"username":"Alice","email":"ignored@example.com","admin":false}

{"kind":"token","user_id":1,"token":"adm","scopes":["api"]}
{"kind":"token","username":"alice","token":"ali","scopes":["api"],"name":"laptop","expires_at":"2099-01-01"}
{"kind":"token","user_id":1,"token":"reader","scopes":["read_api"]}
{"kind":"token","type":"deploy","project_id":100,"token":"dep","scopes":["read_package_registry"]}
{"kind":"token","type":"job","user_id":2,"project_id":100,"status":"running","token":"job"}
{"kind":"group","id":10,"name":"Acme","path":"acme","full_path":"acme","parent_id":null,"visibility":"public"}
{"kind":"group","id":11,"full_path":"acme/core","shared_with_groups":[{"group_id":12,"group_access_level":30,"expires_at":null}]}
{"kind":"group","id":12,"path":"guild"}
{"kind":"project","id":100,"name":"Site","path":"site","path_with_namespace":"acme/site","namespace_id":10,"visibility":"public","default_branch":"main"}
{"kind":"project","id":101,"path_with_namespace":"acme/core/engine","package_registry_access_level":"public","issues_enabled":false}
{"kind":"project","id":102,"path":"notes","namespace":{"id":4000000002,"kind":"user"}}
{"kind":"member","source_type":"Project","source_id":101,"user_id":2,"access_level":20}
{"kind":"member","source_type":"group","source_id":12,"user_id":2,"access_level":40,"expires_at":"2099-12-31"}
{"kind":"member","source_type":"group","source_id":10,"user_id":2,"access_level":50,"state":"awaiting"}
{"kind":"setting","name":"license","value":"premium"}
{"kind":"setting","hosted":false,"analytics_api_key":"hush-hush-hush-hush-hush-hush-hush"}
{"kind":"feature","name":"dark","gates":[{"key":"actors","value":["User:2"]}]}
{"kind":"feature","name":"bright","value":true}
"#;

fn call(env: &Env, token: &str, method: Method, path: &str, media_type: &str, body: impl Into<Body>) -> (u16, Value) {
    let mut request = Request::new(method, &format!("/api/v4/{path}"));
    request.body = body.into();
    if !token.is_empty() {
        request.headers.insert("private-token", token.parse().unwrap());
    }
    if !media_type.is_empty() {
        request.headers.insert("content-type", media_type.parse().unwrap());
    }
    // The future never waits. A test may send a request while another one is being handled.
    let response = handle(env.clone(), request).now_or_never().unwrap();
    let status = response.status.as_u16();
    let body = response.body.collect(1 << 20).now_or_never().unwrap().unwrap();
    (status, if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() })
}

fn json_call(env: &Env, token: &str, method: Method, path: &str, body: Value) -> (u16, Value) {
    call(env, token, method, path, "application/json", body.to_string())
}

fn get(env: &Env, token: &str, path: &str) -> (u16, Value) {
    call(env, token, Method::GET, path, "", Body::Empty)
}

fn send_lines(env: &Env, lines: impl Into<Body>) -> (u16, Value) {
    call(env, BOOTSTRAP_TOKEN, Method::POST, "import/directory", "application/x-ndjson", lines)
}

fn empty() -> Env {
    // New tokens are unlimited, unless a test sets a limit.
    env(MemoryStore::default(), &[("bootstrap_admin_token", BOOTSTRAP_TOKEN), ("tokens_rate_limit", "0")])
}

fn forge() -> Env {
    let env = empty();
    assert_eq!(send_lines(&env, FORGE).1["failed"], 0);
    env
}

#[test]
fn every_endpoint_is_for_administrators() {
    let env = forge();
    let ok_settings = json!({"hosted": true});
    let ok_token = json!({"username": "alice", "name": "n", "scopes": ["api"]});
    for (method, path, body) in [
        (Method::POST, "import/directory", json!({"kind": "user", "id": 2, "username": "mallory", "is_admin": true})),
        (Method::GET, "application/settings", Value::Null),
        (Method::PUT, "application/settings", ok_settings),
        (Method::GET, "features", Value::Null),
        (Method::POST, "features/x", json!({"value": true})),
        (Method::DELETE, "features/dark", Value::Null),
        (Method::POST, "personal_access_tokens", ok_token),
    ] {
        let status = |token| json_call(&env, token, method.clone(), path, body.clone());
        let unauthorized = (401, json!({"message": "401 Unauthorized"}));
        assert_eq!(status(""), unauthorized, "{path}");
        assert_eq!(status("wrong"), unauthorized, "{path}");
        assert_eq!(status("dep"), unauthorized, "{path}");
        assert_eq!(status("ali"), (403, json!({"message": "403 Forbidden"})), "{path}");
        if method != Method::GET {
            let (code, answer) = status("reader");
            assert_eq!((code, &answer["error"]), (403, &json!("insufficient_scope")), "{path}");
        }
    }
    let alice = user::find(&env, "alice").unwrap().unwrap();
    assert!(!alice.is_admin && feature::all(&env).unwrap().contains_key("dark"), "nothing was changed");
    assert_eq!(get(&env, "reader", "features").0, 200, "read_api is enough to read");
}

#[test]
fn settings_are_merged_and_secrets_are_never_in_an_answer() {
    let env = forge();
    let (status, settings) = get(&env, "adm", "application/settings");
    assert_eq!(status, 200);
    let expected = json!({"license": "premium", "hosted": false, "operator_group": null, "analytics_api_base_url": null,
        "cube_api_base_url": null, "product_analytics_enabled": true,
        "product_analytics_min_access_level": null, "product_analytics_token_min_access_level": null,
        "default_personal_access_token_lifetime": 365});
    assert_eq!(settings, expected);
    let (status, settings) = json_call(
        &env,
        "adm",
        Method::PUT,
        "application/settings?operator_group=acme&private_token=x",
        json!({"cube_api_base_url": "https://cube.example", "cube_api_key": "hush2", "custom": [1]}),
    );
    assert_eq!((status, &settings["analytics_api_base_url"]), (200, &json!("https://cube.example")));
    assert_eq!((&settings["operator_group"], &settings["custom"]), (&json!("acme"), &json!([1])));
    assert!(!settings.to_string().contains("hush") && settings.get("private_token").is_none());
    assert!(setting::read(&env).unwrap().all().get("private_token").is_none(), "a credential is no setting");
    assert_eq!(setting::read(&env).unwrap().text("analytics_api_key"), Some("hush2"));
    let form = call(
        &env,
        "adm",
        Method::PUT,
        "application/settings",
        "application/x-www-form-urlencoded",
        "license=free&hosted=true",
    );
    assert_eq!((form.0, &form.1["license"], &form.1["hosted"]), (200, &json!("free"), &json!(true)));
}

#[test]
fn fields_of_a_form_are_stored_as_their_declared_types() {
    let env = forge();
    let put = |query: &str, body: &str| {
        let path = format!("application/settings{query}");
        call(&env, "adm", Method::PUT, &path, "application/x-www-form-urlencoded", body.to_owned())
    };
    let body = "signup_enabled=false&max_attachment_size=20&domain_allowlist[]=a.test&domain_allowlist[]=b.test\
                &home_page_url=10&new_switch=true&session_expire_delay=";
    assert_eq!(put("?gravatar_enabled=0", body).0, 200);
    let settings = setting::read(&env).unwrap();
    for (name, value) in [
        ("signup_enabled", json!(false)),
        ("gravatar_enabled", json!(false)),
        ("max_attachment_size", json!(20)),
        ("domain_allowlist", json!(["a.test", "b.test"])),
        ("home_page_url", json!("10")),
        ("new_switch", json!(true)),
    ] {
        assert_eq!(settings.all().get(name), Some(&value), "{name}");
    }
    assert_eq!(settings.all().get("session_expire_delay"), None, "an empty field restores the default");
    let expected = (400, json!({"error": "max_attachment_size is invalid, signup_enabled is invalid"}));
    assert_eq!(put("", "signup_enabled=maybe&max_attachment_size=big"), expected);
    let part =
        |name: &str, value: &str| format!("--X\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    let form = [part("gravatar_enabled", "true"), part("domain_allowlist[]", "a.test"), "--X--\r\n".into()].concat();
    let multipart = "multipart/form-data; boundary=X";
    assert_eq!(call(&env, "adm", Method::PUT, "application/settings", multipart, form).0, 200);
    let settings = setting::read(&env).unwrap();
    assert_eq!(settings.all().get("gravatar_enabled"), Some(&json!(true)), "from a multipart form");
    assert_eq!(settings.all().get("domain_allowlist"), Some(&json!(["a.test"])));
    let texts = json!({"signup_enabled": "true", "max_attachment_size": "30", "domain_allowlist": "c.test"});
    assert_eq!(json_call(&env, "adm", Method::PUT, "application/settings", texts).0, 200);
    let settings = setting::read(&env).unwrap();
    assert_eq!(settings.all().get("signup_enabled"), Some(&json!(true)), "also as text in JSON");
    assert_eq!(settings.all().get("domain_allowlist"), Some(&json!(["c.test"])));
}

#[test]
fn doubled_and_trailing_slashes_are_no_other_path() {
    let env = forge();
    assert_eq!(get(&env, "adm", "features/").0, 200);
    assert_eq!(get(&env, "adm", "/application//settings//").0, 200);
    assert_eq!(json_call(&env, "adm", Method::POST, "features/bright/", json!({"value": false})).0, 201);
    assert_eq!(call(&env, "adm", Method::DELETE, "features/bright/", "", Body::Empty).0, 204);
}

#[test]
fn invalid_bodies() {
    let env = forge();
    let put = |media_type: &str, body: &str| {
        call(&env, "adm", Method::PUT, "application/settings", media_type, body.to_owned())
    };
    assert_eq!(put("application/json", "[1]"), (400, json!({"error": "the body must be a JSON object"})));
    let expected = (400, json!({"error": "the body is not valid JSON: EOF while parsing a value at line 1 column 5"}));
    assert_eq!(put("application/json", "{\"a\":"), expected);
    let expected = (415, json!({"error": "The provided content-type 'text/xml' is not supported."}));
    assert_eq!(put("text/xml", "<a/>"), expected);
    assert_eq!(put("", "a=1").0, 415);
    assert_eq!(put("application/json", &" ".repeat((1 << 20) + 1)).0, 413);
    assert_eq!(put("application/json", &format!("{{\"a\":{}", "[".repeat(100_000))).0, 400);
    let expected = (400, json!({"error": "license does not have a valid value"}));
    assert_eq!(put("application/json", r#"{"license":"gold"}"#), expected);
    assert_eq!(call(&env, "adm", Method::POST, "import/directory", "image/png", "x").0, 415);
    let big = json!({"x": "y".repeat(70_000)});
    let (status, answer) = json_call(&env, "adm", Method::PUT, "application/settings", big);
    let expected = (400, json!({"message": "400 Bad request - the settings would take more than 65536 bytes"}));
    assert_eq!((status, answer), expected);
}

#[test]
fn unknown_paths_and_methods() {
    let env = forge();
    assert_eq!(get(&env, "", "nothing"), (404, json!({"error": "404 Not Found"})));
    assert_eq!(get(&env, "", "import/directory"), (405, json!({"error": "405 Not Allowed"})));
}

#[test]
fn features_are_switched_for_all_or_for_some() {
    let env = forge();
    let set = |name: &str, body: Value| json_call(&env, "adm", Method::POST, &format!("features/{name}"), body);
    let (status, feature) =
        set("shiny", json!({"value": true, "user": "ALICE", "group": "acme", "project": "acme/site"}));
    let expected = json!({"name": "shiny", "state": "conditional", "definition": null, "gates": [
        {"key": "boolean", "value": false}, {"key": "actors", "value": ["Group:10", "Project:100", "User:2"]}]});
    assert_eq!((status, feature), (201, expected));
    assert_eq!(set("shiny", json!({"value": "30", "key": "percentage_of_actors"})).1["gates"][2]["value"], 30);
    assert_eq!(set("shiny", json!({"value": true})).1["state"], "on");
    let expected = (400, json!({"message": "400 Bad request - nobody is not found!"}));
    assert_eq!(set("shiny", json!({"value": true, "user": "nobody"})), expected);
    for (kind, name) in
        ["user", "group", "project"].iter().flat_map(|kind| [(kind, "\0".to_owned()), (kind, "a".repeat(3000))])
    {
        let not_found = json!({"message": format!("400 Bad request - {name} is not found!")});
        assert_eq!(set("shiny", json!({"value": true, *kind: name})), (400, not_found), "{kind}");
    }
    assert_eq!(set("shiny", json!({})), (400, json!({"error": "value is missing"})));
    let names = |list: Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|feature| feature["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(get(&env, "adm", "features").1), ["bright", "dark", "shiny"]);
    for _ in 0..2 {
        assert_eq!(call(&env, "adm", Method::DELETE, "features/shiny", "", Body::Empty), (204, Value::Null));
    }
    assert_eq!(names(get(&env, "adm", "features").1), ["bright", "dark"]);
}

#[test]
fn a_new_token_works_and_is_shown_once() {
    let env = forge();
    let new_token = json!({"username": "alice", "name": "ci", "scopes": ["read_api"], "expires_at": "2099-01-01"});
    let (status, token) = json_call(&env, BOOTSTRAP_TOKEN, Method::POST, "personal_access_tokens", new_token.clone());
    assert_eq!((status, &token["user_id"], &token["expires_at"]), (201, &json!(2), &json!("2099-01-01")));
    let secret = token["token"].as_str().unwrap();
    let mut request = Request::new(Method::GET, "/");
    request.headers.insert("private-token", secret.parse().unwrap());
    let Ok(Caller::User(session)) = caller::authenticate(&env, &request, AcceptedTokens::Api) else { panic!("let in") };
    assert_eq!((session.user.username.as_str(), &*session.scopes), ("Alice", ["read_api".to_owned()].as_slice()));
    let (_, other) = json_call(&env, BOOTSTRAP_TOKEN, Method::POST, "personal_access_tokens", new_token);
    assert_ne!(other["token"], token["token"]);
    let unknown = json!({"user_id": 99, "name": "n", "scopes": ["api"]});
    let expected = (404, json!({"message": "404 User Not Found"}));
    assert_eq!(json_call(&env, "adm", Method::POST, "personal_access_tokens", unknown), expected);
}

#[test]
fn a_storage_failure_is_500_at_every_endpoint() {
    for (method, path, body) in [
        (Method::GET, "application/settings", Value::Null),
        (Method::PUT, "application/settings", json!({"hosted": true})),
        (Method::GET, "features", Value::Null),
        (Method::POST, "features/x", json!({"value": true, "user": "alice"})),
        (Method::DELETE, "features/x", Value::Null),
        (Method::POST, "personal_access_tokens", json!({"username": "alice", "name": "n", "scopes": ["api"]})),
        (Method::GET, "personal_access_tokens", Value::Null),
        (Method::GET, "personal_access_tokens/self", Value::Null),
        (Method::POST, "personal_access_tokens/self/rotate", json!({})),
        (Method::DELETE, "personal_access_tokens/self", Value::Null),
    ] {
        let mut operations = 0;
        loop {
            let store = MemoryStore::default();
            send_lines(&env(store.clone(), &[("bootstrap_admin_token", BOOTSTRAP_TOKEN)]), FORGE);
            let failing = FailingStore::after(operations, store);
            let env = env(failing.clone(), &[("tokens_rate_limit", "0")]);
            let (status, answer) = json_call(&env, "adm", method.clone(), path, body.clone());
            if !failing.failed() {
                assert!(status < 300, "{path} {status}");
                break;
            }
            assert_eq!((status, answer), (500, json!({"message": "500 Internal Server Error"})), "{path}");
            operations += 1;
        }
        assert!(operations > 2, "{path}");
    }
}

#[test]
fn a_short_signing_key_is_kept_and_warned_about_by_name() {
    let env = forge();
    let put = |body: Value| json_call(&env, "adm", Method::PUT, "application/settings", body).1;
    let warnings = put(json!({"cube_api_key": "guess me"}))["warnings"].clone();
    let text = warnings[0].as_str().unwrap();
    assert!(text.starts_with("analytics_api_key is shorter than 32 bytes") && !text.contains("guess me"), "{text}");
    assert_eq!(setting::read(&env).unwrap().text("analytics_api_key"), Some("guess me"));
    assert_eq!(put(json!({"analytics_api_key": "k".repeat(32)})).get("warnings"), None);
    assert_eq!(put(json!({"license": "free"})).get("warnings"), None);
    let lines = r#"{"kind":"setting","name":"cube_api_key","value":"guess me"}
{"kind":"setting","analytics_api_key":"guess me","hosted":true}
{"kind":"setting","name":"hosted","value":true}
{"kind":"project","id":100,"path_with_namespace":"acme/site","cube_api_key":"guess me"}
{"kind":"project","id":999,"path_with_namespace":"none/site","cube_api_key":"guess me"}
{"kind":"setting","name":"cube_api_key","deleted":true}"#;
    let report = send_lines(&env, lines).1;
    assert_eq!(report["failed"], 1);
    let warned: Vec<_> = report["warnings"].as_array().unwrap().iter().map(|warning| &warning["line"]).collect();
    assert_eq!(warned, [1, 2, 4]);
    assert_eq!(report["warnings"][2]["warning"], text);
}

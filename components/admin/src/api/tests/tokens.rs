//! Personal tokens: visibility, rotation, revocation and expiry.

use super::*;

/// Creates a token for `username` and returns its id and text.
pub(super) fn mint(env: &Env, username: &str, name: &str, scope: &str) -> (u64, String) {
    let fields = json!({"username": username, "name": name, "scopes": [scope], "description": "for tests"});
    let (status, token) = json_call(env, "adm", Method::POST, "personal_access_tokens", fields);
    assert_eq!(status, 201, "{token}");
    (token["id"].as_u64().unwrap(), token["token"].as_str().unwrap().to_owned())
}

fn names(answer: (u16, Value)) -> Vec<String> {
    let list = answer.1.as_array().unwrap_or_else(|| panic!("{answer:?}")).clone();
    list.iter().map(|token| token["name"].as_str().unwrap().to_owned()).collect()
}

fn unauthorized() -> (u16, Value) {
    (401, json!({"message": "401 Unauthorized"}))
}

pub(super) fn revoked() -> (u16, Value) {
    let text = "Token was revoked. You have to re-authorize from the user.";
    (401, json!({"error": "invalid_token", "error_description": text}))
}

fn set_lifetime(env: &Env, days: u64) {
    let settings = json!({"default_personal_access_token_lifetime": days});
    assert_eq!(json_call(env, "adm", Method::PUT, "application/settings", settings).0, 200);
}

#[test]
fn a_new_token_expires_in_a_year_unless_the_request_or_the_setting_says_otherwise() {
    let env = forge();
    let end = |more: Value| {
        let mut fields = json!({"username": "alice", "name": "ci", "scopes": ["api"]});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json_call(&env, "adm", Method::POST, "personal_access_tokens", fields).1["expires_at"].clone()
    };
    assert_eq!(end(json!({})), "2027-09-21");
    assert_eq!(end(json!({"expires_at": null})), "2027-09-21");
    assert_eq!(end(json!({"expires_at": "2099-01-01"})), "2099-01-01");
    set_lifetime(&env, 30);
    assert_eq!(end(json!({})), "2026-10-21");
    set_lifetime(&env, 0);
    assert_eq!(end(json!({})), Value::Null);
    let imported = token::find(&env, &Fingerprint::of(b"adm")).unwrap().unwrap();
    assert_eq!(imported.expires_at, None, "imported tokens stay as they are");
}

#[test]
fn responses_warn_of_a_token_that_expires_soon() {
    let env = forge();
    let told = |text: &str| {
        let (env, request) = (
            Env { caller_headers: Default::default(), ..env.clone() },
            Request::new(Method::GET, "/api/v4/personal_access_tokens/self"),
        );
        let mut request = request;
        request.headers.insert("private-token", text.parse().unwrap());
        assert_eq!(handle(env.clone(), request).now_or_never().unwrap().status, 200);
        let headers = env.caller_headers.take();
        headers.get("x-token-expires-at").map(|end| end.to_str().unwrap().to_owned())
    };
    set_lifetime(&env, 30);
    assert_eq!(told(&mint(&env, "alice", "soon", "api").1).as_deref(), Some("2026-10-21T00:00:00.000Z"));
    set_lifetime(&env, 32);
    assert_eq!(told(&mint(&env, "alice", "later", "api").1), None);
    assert_eq!(told("adm"), None);
}

#[test]
fn users_see_their_own_tokens_and_administrators_all() {
    let env = forge();
    let (id, text) = mint(&env, "alice", "ci", "read_api");
    assert_eq!(names(get(&env, "ali", "personal_access_tokens")), ["laptop", "ci"]);
    assert_eq!(names(get(&env, "adm", "personal_access_tokens")), ["", "", "laptop", "ci"]);
    assert_eq!(names(get(&env, BOOTSTRAP_TOKEN, "personal_access_tokens?user_id=2")), ["laptop", "ci"]);
    assert_eq!(names(get(&env, "ali", "personal_access_tokens?user_id=2")), ["laptop", "ci"]);
    assert_eq!(get(&env, "ali", "personal_access_tokens?user_id=1"), unauthorized());
    assert_eq!(get(&env, "adm", "personal_access_tokens?user_id=99"), (404, json!({"message": "404 Not Found"})));
    assert_eq!(get(&env, "", "personal_access_tokens"), unauthorized());
    let (status, shown) = get(&env, "ali", &format!("personal_access_tokens/{id}"));
    let expected = json!({"id": id, "name": "ci", "revoked": false, "created_at": env.now.to_iso(), "description": "for tests",
        "scopes": ["read_api"], "user_id": 2, "last_used_at": null, "active": true, "expires_at": "2027-09-21"});
    assert_eq!((status, shown), (200, expected));
    assert_eq!(get(&env, &text, &format!("personal_access_tokens/{id}")).0, 200);
    assert_eq!(get(&env, "adm", &format!("personal_access_tokens/{id}")).0, 200);
    let admins = token::by_fingerprint(&env, &Fingerprint::of(b"adm")).unwrap().unwrap().id.get();
    for unknown in [admins, id + 1, 5] {
        let path = format!("personal_access_tokens/{unknown}");
        assert_eq!(get(&env, "ali", &path), unauthorized(), "{unknown}");
        assert_eq!(call(&env, "ali", Method::POST, &format!("{path}/rotate"), "", Body::Empty), unauthorized());
    }
    let delete = |id: u64| call(&env, "ali", Method::DELETE, &format!("personal_access_tokens/{id}"), "", Body::Empty);
    assert_eq!(delete(admins), (400, json!({"message": "400 Bad request"})));
    assert_eq!(delete(5), (404, json!({"message": "404 Not found"})));
    assert_eq!(get(&env, "adm", "personal_access_tokens").0, 200, "nothing was revoked");
    assert_eq!(get(&env, "adm", "personal_access_tokens/5"), (404, json!({"message": "404 Not Found"})));
    assert_eq!(get(&env, "adm", "personal_access_tokens/x"), (400, json!({"error": "id is invalid"})));
    for (token, path) in [("ali", "personal_access_tokens"), ("adm", "personal_access_tokens/self")] {
        let text = get(&env, token, path).1.to_string();
        assert!(!text.contains("glpat-") && !text.contains("\"token\""), "{text}");
    }
}

#[test]
fn the_tokens_of_a_deleted_user_are_gone() {
    let env = forge();
    let (id, text) = mint(&env, "alice", "ci", "api");
    assert_eq!(send_lines(&env, r#"{"kind":"user","id":2,"deleted":true}"#).1["failed"], 0);
    let path = format!("personal_access_tokens/{id}");
    let not_found = |status: &str| (404, json!({"message": status}));
    let are_gone = || {
        assert_eq!(get(&env, "adm", &path), not_found("404 Not Found"));
        let rotated = call(&env, "adm", Method::POST, &format!("{path}/rotate"), "", Body::Empty);
        assert_eq!(rotated, not_found("404 Not Found"));
        assert_eq!(call(&env, "adm", Method::DELETE, &path, "", Body::Empty), not_found("404 Not found"));
        assert_eq!(names(get(&env, "adm", "personal_access_tokens")), ["", ""]);
        assert_eq!(get(&env, &text, "personal_access_tokens/self").0, 401);
    };
    are_gone();
    assert_eq!(send_lines(&env, r#"{"kind":"user","id":2,"username":"next"}"#).1["failed"], 0);
    are_gone();
}

#[test]
fn tokens_are_filtered_ordered_and_in_pages() {
    let env = forge();
    let (second, _) = mint(&env, "alice", "Build b", "api");
    mint(&env, "alice", "build a", "api");
    call(&env, "adm", Method::DELETE, &format!("personal_access_tokens/{second}"), "", Body::Empty);
    let listed = |query: &str| names(get(&env, "ali", &format!("personal_access_tokens?{query}")));
    assert_eq!(listed("search=BUILD"), ["Build b", "build a"]);
    assert_eq!(listed("revoked=true"), ["Build b"]);
    assert_eq!(listed("revoked=false"), ["laptop", "build a"]);
    assert_eq!(listed("state=active"), ["laptop", "build a"]);
    assert_eq!(listed("state=inactive"), ["Build b"]);
    assert_eq!(listed("created_after=2001-01-01&created_before=2098-01-01").len(), 3);
    assert_eq!(listed("created_before=2001-01-01"), [""; 0]);
    assert_eq!(listed("expires_after=2098-01-01"), ["laptop"]);
    assert_eq!(listed("sort=name_asc"), ["build a", "Build b", "laptop"]);
    assert_eq!(listed("sort=id_desc"), ["build a", "Build b", "laptop"]);
    assert_eq!(listed("sort=expires_at_desc")[0], "laptop", "the others have the default lifetime");
    for sort in ["unknown", "name", "name_up", "age_asc"] {
        let refused = (400, json!({"error": "sort does not have a valid value"}));
        assert_eq!(get(&env, "ali", &format!("personal_access_tokens?sort={sort}")), refused, "{sort}");
    }
    for name in ["user_id", "state", "revoked", "created_after", "expires_before", "search", "sort", "page", "per_page"]
    {
        let refused = (400, json!({"error": format!("{name} is invalid")}));
        for form in ["[]=1", "[x]=1"] {
            let path = format!("personal_access_tokens?{name}{form}");
            assert_eq!(get(&env, "adm", &path), refused, "{path}");
        }
    }
    let expected = (
        400,
        json!({"error": "state does not have a valid value, revoked is invalid, created_after is invalid, page is invalid"}),
    );
    assert_eq!(get(&env, "ali", "personal_access_tokens?state=odd&revoked=x&created_after=soon&page=x"), expected);
    let mut request = Request::new(Method::GET, "/api/v4/personal_access_tokens?search=build&per_page=1&page=2");
    request.headers.insert("private-token", "ali".parse().unwrap());
    let headers = handle(env.clone(), request).now_or_never().unwrap().headers;
    assert_eq!(["x-total", "x-total-pages", "x-page", "x-next-page"].map(|name| &headers[name]), ["2", "2", "2", ""]);
    let link = headers["link"].to_str().unwrap();
    assert!(link.starts_with("<http://localhost/api/v4/personal_access_tokens?page=1&per_page=1&search=build>;"));
}

#[test]
fn the_last_use_of_a_token_is_recorded() {
    let env = forge();
    let (id, text) = mint(&env, "alice", "ci", "api");
    let variables = [("bootstrap_admin_token", BOOTSTRAP_TOKEN), (token::LAST_USE_MINUTES, "10")];
    let counting = Env { variables: std::rc::Rc::new(variables.into_iter().collect()), ..env.clone() };
    let shown = || get(&env, "ali", &format!("personal_access_tokens/{id}")).1["last_used_at"].clone();
    assert_eq!(shown(), Value::Null);
    assert_eq!(get(&counting, &text, "personal_access_tokens/self").1["last_used_at"], env.now.to_iso());
    assert_eq!(shown(), env.now.to_iso());
    let listed = |query: &str| names(get(&env, "ali", &format!("personal_access_tokens?{query}")));
    assert_eq!(listed("last_used_after=2001-01-01"), ["ci"]);
    assert_eq!(listed("last_used_before=2001-01-01"), [""; 0]);
    assert_eq!(listed("sort=last_used_at_desc"), ["ci", "laptop"]);
    assert_eq!(get(&counting, &text, "application/settings").0, 403);
}

#[test]
fn a_token_of_any_scope_shows_and_ends_itself() {
    let env = forge();
    let (id, text) = mint(&env, "alice", "small", "read_user");
    assert_eq!(get(&env, &text, "personal_access_tokens/self").1["id"], id);
    assert_eq!(get(&env, &text, "personal_access_tokens").1["error"], "insufficient_scope");
    assert_eq!(get(&env, &text, &format!("personal_access_tokens/{id}")).1["error"], "insufficient_scope");
    let rotated = call(&env, &text, Method::POST, "personal_access_tokens/self/rotate", "", Body::Empty);
    assert_eq!(rotated.1["error"], "insufficient_scope");
    assert_eq!(call(&env, &text, Method::DELETE, "personal_access_tokens/self", "", Body::Empty), (204, Value::Null));
    assert_eq!(get(&env, &text, "personal_access_tokens/self"), revoked());
    let built_in = get(&env, BOOTSTRAP_TOKEN, "personal_access_tokens/self");
    assert_eq!(built_in.0, 400, "{built_in:?}");
}

#[test]
fn a_rotated_token_is_replaced_and_its_reuse_revokes_the_successor() {
    let env = forge();
    let (id, text) = mint(&env, "alice", "ci", "self_rotate");
    let rotate =
        |token: &str, body: Value| json_call(&env, token, Method::POST, "personal_access_tokens/self/rotate", body);
    let (status, new) = rotate(&text, json!({}));
    let week = kit::Timestamp::from_millis(env.now.millis() + 7 * 86_400_000).to_date();
    assert_eq!((status, &new["name"], &new["expires_at"]), (200, &json!("ci"), &json!(week)), "{new}");
    assert_ne!(new["id"], json!(id));
    assert_eq!(get(&env, &text, "personal_access_tokens/self"), revoked());
    let second = new["token"].as_str().unwrap().to_owned();
    let (status, new) = rotate(&second, json!({"expires_at": "2030-05-05"}));
    assert_eq!((status, &new["expires_at"]), (200, &json!("2030-05-05")));
    let third = new["token"].as_str().unwrap().to_owned();
    assert_eq!(rotate(&third, json!({"expires_at": "2001-01-01"})).1["error"], "expires_at must be in the future");
    let path = format!("personal_access_tokens/{id}/rotate");
    let again = json_call(&env, "ali", Method::POST, &path, json!({}));
    assert_eq!(again, (400, json!({"message": "400 Bad request - token already revoked"})));
    assert_eq!(get(&env, &third, "personal_access_tokens/self").0, 200);
    assert_eq!(rotate(&text, json!({})), revoked(), "the first of the line again");
    assert_eq!(get(&env, &third, "personal_access_tokens/self"), revoked());
}

#[test]
fn a_name_that_no_user_can_have_is_an_unknown_user() {
    let env = forge();
    for name in ["nobody".to_owned(), "\0".to_owned(), "a".repeat(3000), "a/".repeat(1500)] {
        let fields = json!({"username": name, "name": "n", "scopes": ["api"]});
        let (status, answer) = json_call(&env, "adm", Method::POST, "personal_access_tokens", fields);
        assert_eq!((status, answer), (404, json!({"message": "404 User Not Found"})), "{name:?}");
    }
}

#[test]
fn administrators_make_tokens_at_the_path_of_the_user() {
    let env = forge();
    let fields = json!({"name": "n", "scopes": ["api"], "username": "root"});
    let (status, token) = json_call(&env, "adm", Method::POST, "users/2/personal_access_tokens", fields.clone());
    assert_eq!((status, &token["user_id"]), (201, &json!(2)), "the path decides");
    assert_eq!(json_call(&env, "ali", Method::POST, "users/2/personal_access_tokens", fields).0, 403);
}

#[test]
fn npm_lists_revokes_and_logs_out() {
    let env = forge();
    let (_, login) = mint(&env, "alice", "login", "api");
    let (_, other) = mint(&env, "alice", "other", "read_api");
    let bearer = |token: &str, method: Method, path: &str| {
        let mut request = Request::new(method, &format!("/api/v4/projects/100/packages/npm/-/{path}"));
        request.headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        let response = handle(env.clone(), request).now_or_never().unwrap();
        let secret = response.has_secret_path;
        let status = response.status.as_u16();
        let body: Value =
            serde_json::from_slice(&response.body.collect(1 << 20).now_or_never().unwrap().unwrap()).unwrap();
        (status, body, secret)
    };
    let (status, list, _) = bearer(&login, Method::GET, "npm/v1/tokens");
    let listed = list["objects"].as_array().unwrap();
    assert_eq!((status, listed.len(), &list["urls"]), (200, 3, &json!({})));
    assert!(!list.to_string().contains(&login) && !list.to_string().contains("glpat"));
    let key = |name: &str| {
        let found = listed.iter().find(|token| token["name"] == name).unwrap();
        assert_eq!(found["token"], "");
        found["key"].as_str().unwrap().to_owned()
    };
    let path = format!("npm/v1/tokens/token/{}", key("other"));
    let (status, answer, _) = bearer(&other, Method::DELETE, &path);
    assert_eq!((status, &answer["error"]), (403, &json!("insufficient_scope")));
    assert_eq!(bearer(&login, Method::DELETE, &path), (200, json!({"ok": true}), true));
    assert_eq!(bearer(&other, Method::GET, "npm/v1/tokens").0, 401);
    assert_eq!(bearer(&login, Method::GET, "npm/v1/tokens").1["objects"].as_array().unwrap().len(), 2);
    let (status, answer, secret) = bearer(&login, Method::DELETE, "user/token/adm");
    assert_eq!((status, &answer["error"], secret), (404, &json!("token not found"), true), "it is another user's");
    let logout = bearer(&login, Method::DELETE, &format!("user/token/{login}"));
    assert_eq!(logout, (200, json!({"ok": true}), true));
    let (status, answer, _) = bearer(&login, Method::GET, "npm/v1/tokens");
    assert_eq!((status, &answer["message"]), (401, &json!("invalid_token")), "{answer}");
    assert_eq!(bearer("dep", Method::GET, "npm/v1/tokens").0, 401, "a deploy token has no user");
}

#[test]
fn npm_creates_tokens_for_the_password_of_their_user() {
    let env = forge();
    let (_, login) = mint(&env, "alice", "login", "api");
    let (_, small) = mint(&env, "alice", "small", "read_api");
    let create = |token: &str, body: Value| {
        let mut request = Request::new(Method::POST, "/api/v4/projects/100/packages/npm/-/npm/v1/tokens");
        if !token.is_empty() {
            request.headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        request.headers.insert("content-type", "application/json".parse().unwrap());
        request.body = body.to_string().into();
        let response = handle(env.clone(), request).now_or_never().unwrap();
        let (status, stored) = (response.status.as_u16(), response.headers.get("cache-control").cloned());
        let body: Value =
            serde_json::from_slice(&response.body.collect(1 << 20).now_or_never().unwrap().unwrap()).unwrap();
        (status, body, stored)
    };
    let (status, new, stored) = create(&login, json!({"password": login, "readonly": true, "cidr_whitelist": []}));
    assert_eq!((status, &new["readonly"], stored.unwrap().to_str().unwrap()), (201, &json!(true), "no-store"), "{new}");
    let text = new["token"].as_str().unwrap();
    let shown = get(&env, text, "personal_access_tokens/self").1;
    assert_eq!((&shown["scopes"], &shown["user_id"]), (&json!(["read_api"]), &json!(2)));

    let (status, new, _) = create(&login, json!({"password": "ali", "name": "ci", "expires": 30}));
    assert_eq!((status, &new["name"], &new["readonly"]), (201, &json!("ci"), &json!(false)));
    assert_eq!(get(&env, new["token"].as_str().unwrap(), "personal_access_tokens").0, 200);
    assert!(!get(&env, "ali", "personal_access_tokens").1.to_string().contains(new["token"].as_str().unwrap()));
    let end = |body: Value| create(&login, body).1["expires"].as_str().map(str::to_owned);
    let ends = || [end(json!({"password": "ali"})), end(json!({"password": login}))];
    let year = Some("2027-09-21T00:00:00.000Z".to_owned());
    assert_eq!(ends(), [year.clone(), year.clone()], "the default lifetime");
    set_lifetime(&env, 0);
    let end_of_password = Some("2099-01-01T00:00:00.000Z".to_owned());
    assert_eq!(ends(), [end_of_password.clone(), year.clone()], "that of the password");
    set_lifetime(&env, 36_500);
    assert_eq!(ends(), [end_of_password, year], "that of the password is earlier");
    let late = create(&login, json!({"password": "ali", "expires": 100_000}));
    assert_eq!(late.1["error"], "expires is after the end of the token that is the password, 2099-01-01T00:00:00.000Z");
    assert_eq!(late.0, 400);

    for (token, password, status) in [
        (&*login, "wrong", 401),
        (&*login, "adm", 401),
        (&*login, "job", 401),
        (&*login, &*small, 401),
        ("", &*login, 401),
        ("wrong", &*login, 401),
        (&*small, &*login, 403),
        ("dep", &*login, 401),
        ("job", &*login, 401),
    ] {
        let refused = create(token, json!({"password": password}));
        assert_eq!((refused.0, refused.1["token"].is_null()), (status, true), "{token} {password}: {}", refused.1);
    }
    let refused = create(&login, json!({"password": login, "cidr_whitelist": ["10.0.0.0/8"]}));
    assert_eq!((refused.0, &refused.1["error"]), (400, &json!("cidr_whitelist is not supported by this server")));
}

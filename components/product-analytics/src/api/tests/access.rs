//! Authorization of queries, and the conditions under which a project has analytics.

use super::*;

const LOAD: &str = "7/product_analytics/request/load";

#[test]
fn errors_are_reported_in_order() {
    let forge = Forge::answering("{}");
    forge.set(json!({"license": "free"}));
    let load = |token: &str, project: &str, body: &'static str| {
        forge.ask(token, Method::POST, &format!("{project}/product_analytics/request/load"), body)
    };
    load("", "x", "{").is(401, refusal("401 Unauthorized"));
    load("unknown", "7", QUERY).is(401, refusal("401 Unauthorized"));
    assert_eq!(load("reader", "x", "{").json()["error"], "insufficient_scope");
    load("dev", "999", "{}").is(400, json!({"error": "query is missing"}));
    load("outsider", "9", QUERY).is(404, refusal("404 Project Not Found"));
    for id in ["999", "-1", "99999999999999999999999", "open", "acme%2Fnone"] {
        load("dev", id, QUERY).is(404, refusal("404 Project Not Found"));
    }
    load("dev", "7", QUERY).is(404, refusal("Product Analytics is not enabled"));
    assert_eq!(forge.engine.take_calls(), [], "the engine was not called");
}

#[test]
fn callers_who_may_read_the_project_may_query_it() {
    let forge = Forge::answering(r#"{"results":[]}"#);
    for (token, project, status) in
        [("outsider", 7, 200), ("guest", 7, 200), ("guest", 9, 200), ("dev", 9, 200), ("outsider", 9, 404)]
    {
        let answer = forge.ask(token, Method::POST, &format!("{project}/product_analytics/request/load"), QUERY);
        assert_eq!(answer.status, status, "{token} {project}");
    }
    let meta = |token, method| forge.ask(token, method, "7/product_analytics/request/meta", "").status;
    assert_eq!((meta("reader", Method::GET), meta("reader", Method::HEAD)), (200, 200));
    assert_eq!((meta("reader", Method::POST), meta("dev", Method::POST)), (403, 200));
}

/// The answer for each level that the settings and the project require, by caller and `include_token`.
#[test]
fn levels_of_the_settings_and_of_the_project_decide_and_the_higher_one_counts() {
    let asked = |settings: Value, own: Analytics, token: &str, include_token: bool| {
        let forge = Forge::answering(r#"{"results":[]}"#);
        forge.set(settings);
        forge.project(PUBLIC, "open", 10, Visibility::Public, own);
        let paths = ["load?", "dry-run?", "meta?"].map(|name| format!("7/product_analytics/request/{name}"));
        let with_token = if include_token { "include_token=1&" } else { "" };
        let gets = paths.map(|path| forge.ask(token, Method::GET, &format!("{path}{with_token}query=%7B%7D"), ""));
        let calls = forge.engine.take_calls().len();
        let names = |answer: &TestResponse| {
            let text = answer.text();
            let settings = ["product_analytics_min_access_level", "product_analytics_token_min_access_level"];
            settings.iter().position(|name| text.contains(&format!("({name})")))
        };
        (gets.each_ref().map(|answer| answer.status), calls, names(&gets[0]))
    };
    let own = |query: Option<Role>, token: Option<Role>| Analytics {
        query_level: query,
        token_level: token,
        ..Analytics::default()
    };
    let (none, all) = (own(None, None), ([200; 3], 3, None));
    let (queries, refused) = (json!({"product_analytics_min_access_level": 20}), ([403; 3], 0, Some(0)));
    let (tokens, no_token) = (json!({"product_analytics_token_min_access_level": 30}), ([403, 403, 200], 1, Some(1)));
    assert_eq!(asked(json!({}), none.clone(), "outsider", true), all);
    assert_eq!(asked(queries.clone(), none.clone(), "outsider", false), refused);
    assert_eq!(asked(queries.clone(), none.clone(), "guest", true), refused);
    assert_eq!(asked(queries.clone(), none.clone(), "dev", true), all);
    assert_eq!(asked(tokens.clone(), none.clone(), "guest", true), no_token);
    assert_eq!(asked(tokens.clone(), none.clone(), "guest", false), all);
    assert_eq!(asked(tokens.clone(), none.clone(), "dev", true), all);
    // A project can raise a level, but not lower it.
    assert_eq!(asked(json!({}), own(Some(Role::Developer), None), "guest", false), refused);
    assert_eq!(asked(json!({}), own(None, Some(Role::Maintainer)), "dev", true), no_token);
    assert_eq!(asked(queries, own(Some(Role::Guest), Some(Role::Guest)), "guest", false), refused);
    // A value that an earlier build stored, and that is no role.
    let unknown = json!({"product_analytics_min_access_level": "reporter"});
    assert_eq!(asked(unknown, none, "dev", false), refused);
}

#[test]
fn external_users_query_as_members_only() {
    let forge = Forge::answering(r#"{"results":[]}"#);
    for (id, name) in [(2, "guest"), (3, "outsider")] {
        user::save(&forge.env(), NewUser { external: true, ..new_user(id, name) }).unwrap();
    }
    assert_eq!(forge.ask("guest", Method::POST, LOAD, QUERY).status, 200);
    let text = "403 Forbidden - external users may query product analytics of projects only as members";
    forge.ask("outsider", Method::POST, LOAD, QUERY).is(403, refusal(text));
    assert_eq!(forge.engine.take_calls().len(), 1);
}

#[test]
fn a_project_is_named_by_its_path_too_and_a_moved_one_is_redirected() {
    let forge = Forge::answering(r#"{"results":[]}"#);
    let send = |token, method, project: &str| {
        forge.ask(token, method, &format!("{project}/product_analytics/request/load?query=%7B%7D"), "")
    };
    assert_eq!(send("dev", Method::GET, "acme%2Fopen").status, 200);
    assert_eq!(claims(&forge.engine.take_calls()[0])["appId"], "gitlab_project_7");
    send("outsider", Method::GET, "acme%2Flabs%2Fsecret").is(404, refusal("404 Project Not Found"));
    forge.project(PUBLIC, "opened", 10, Visibility::Public, Analytics::default());
    let moved = send("dev", Method::GET, "acme%2Fopen");
    let url = "http://forge.test:8080/api/v4/projects/7/product_analytics/request/load";
    moved.is(301, json!({"message": format!("This resource has been moved permanently to {url}")}));
    assert_eq!(moved.headers["location"], format!("{url}?query=%7B%7D"));
    let posted = forge.ask("dev", Method::POST, "acme%2Fopen/product_analytics/request/load", QUERY);
    posted.is(405, refusal("Non GET methods are not allowed for moved projects"));
    assert_eq!(forge.engine.take_calls(), []);
}

#[test]
fn refusals_name_unsupported_endpoints_of_the_engine() {
    let forge = Forge::answering("{}");
    for name in ["sql", "subscribe"] {
        let path = format!("7/product_analytics/request/{name}?query=%7B%7D");
        forge.ask("", Method::GET, &path, "").is(401, refusal("401 Unauthorized"));
        let text = format!("404 The engine's endpoint `{name}` is not supported; `load`, `dry-run` and `meta` are");
        forge.ask("dev", Method::GET, &path, "").is(404, refusal(&text));
    }
    assert_eq!(forge.engine.take_calls(), []);
}

#[test]
fn each_thing_that_is_missing_switches_it_off() {
    let off = |change: &dyn Fn(&Forge)| {
        let forge = Forge::answering("{}");
        change(&forge);
        let answer = forge.ask("dev", Method::POST, LOAD, QUERY);
        answer.is(404, refusal("Product Analytics is not enabled"));
        assert_eq!(forge.engine.take_calls(), []);
    };
    off(&|forge| forge.set(json!({"product_analytics_enabled": false})));
    off(&|forge| forge.set(json!({"analytics_api_base_url": null})));
    off(&|forge| forge.set(json!({"analytics_api_key": null})));
    off(&|forge| forge.set(json!({"license": "premium"})));
    off(&|forge| feature::delete(&forge.env(), super::super::FEATURE).unwrap());
    off(&|forge| switch_on_for(forge, "Project:9"));
    let forge = Forge::answering("{}");
    let personal = forge.ask("dev", Method::POST, "20/product_analytics/request/load", QUERY);
    personal.is(404, refusal("Product Analytics is not enabled"));
}

/// Switches the feature on for this actor only.
fn switch_on_for(forge: &Forge, actor: &str) {
    let change = |gates: &mut feature::FeatureGates| (gates.boolean, gates.actors) = (false, [actor.to_owned()].into());
    feature::save(&forge.env(), super::super::FEATURE, change).unwrap();
}

#[test]
fn a_flag_for_one_project_suffices() {
    let forge = Forge::answering("{}");
    switch_on_for(&forge, "Project:7");
    assert_eq!(forge.load(QUERY).status, 200);
}

#[test]
fn a_projects_own_engine_is_asked_with_its_own_key_or_not_at_all() {
    let signed_with = |own: Analytics| {
        let forge = Forge::answering("{}");
        forge.project(PUBLIC, "open", 10, Visibility::Public, own);
        let status = forge.load(QUERY).status;
        let calls = forge.engine.take_calls();
        calls.first().map(|call| {
            let token = call.headers["authorization"].to_str().unwrap().to_owned();
            let signs = |key: &&str| crate::engine::current(&forge.env(), key, PUBLIC, "forge.test").unwrap() == token;
            (status, call.url.to_string(), ["very secret", "own key"].into_iter().find(signs).unwrap())
        })
    };
    let own = |base_url: Option<&str>, key: Option<&str>| {
        signed_with(Analytics { base_url: base_url.map(Into::into), key: key.map(Into::into), ..Analytics::default() })
    };
    let shared = "http://engine.test/x/cubejs-api/v1/load".to_owned();
    let theirs = "https://own.test/cubejs-api/v1/load".to_owned();
    assert_eq!(own(None, None), Some((200, shared.clone(), "very secret")));
    assert_eq!(own(None, Some("own key")), Some((200, shared, "own key")));
    assert_eq!(own(Some("https://own.test"), Some("own key")), Some((200, theirs, "own key")));
    assert_eq!(own(Some("https://own.test"), None), None);
}

/// The number of store operations of a query in an instance from `new`. The store fails after each of them once.
fn operations_until_asked(forge: &Forge, new: impl Fn() -> Env) -> u64 {
    for operations in 0.. {
        let store = FailingStore::after(operations, forge.store.clone());
        let env = Env { store: Rc::new(store.clone()), ..new() };
        let answer = ask(env, "guest", Method::POST, "9/product_analytics/request/load", QUERY);
        if !store.failed() {
            assert_eq!((answer.status, forge.engine.take_calls().len()), (200, 1));
            return operations;
        }
        answer.is(500, refusal("500 Internal Server Error"));
        assert_eq!(forge.engine.take_calls(), [], "{operations}");
    }
    unreachable!()
}

#[test]
fn when_storage_fails_the_engine_is_not_asked() {
    let forge = Forge::answering("{}");
    let env = forge.env();
    change(&env, |changes| changes.group(10), || ());
    assert_eq!(ask(env.clone(), "guest", Method::POST, "9/product_analytics/request/load", QUERY).status, 200);
    forge.engine.take_calls();
    let counts = [operations_until_asked(&forge, || forge.env()), operations_until_asked(&forge, || env.clone())];
    // The instance does not read the user, the project, its two groups and the memberships again. It reads the
    // catalog's root, the token, settings and features.
    assert_eq!(counts, [9, 4]);
}

#[test]
fn a_member_who_is_removed_is_refused_by_an_instance_that_knew_them() {
    let forge = Forge::answering("{}");
    let env = forge.env();
    let status = || ask(env.clone(), "guest", Method::POST, "9/product_analytics/request/load", QUERY).status;
    let set = |role: Option<Role>| {
        list_member(&env, 2, Source::Group(10), role.map(|role| Membership { role, expires_at: None }));
    };
    set(Some(Role::Guest));
    assert_eq!((status(), status()), (200, 200));
    set(None);
    assert_eq!(status(), 404);
    set(Some(Role::Guest));
    assert_eq!(status(), 200);
    token::save(&env, &Fingerprint::of(b"guest"), None).unwrap();
    assert_eq!(status(), 401);
}

/// A client may send its body for as long as the host permits.
#[test]
fn a_caller_who_loses_access_while_the_body_arrives_is_refused() {
    let forge = Forge::answering("{}");
    let (env, writer) = (forge.env(), forge.env());
    let set = |role: Option<Role>| {
        list_member(&writer, 2, Source::Group(10), role.map(|role| Membership { role, expires_at: None }));
    };
    set(Some(Role::Guest));
    let slowly = |between: Box<dyn FnOnce()>| {
        let (first, rest) = QUERY.split_at(5);
        let second = std::iter::once_with(move || {
            between();
            Ok(rest.into())
        });
        let body = Body::pull(std::iter::once(Ok(first.into())).chain(second));
        ask(env.clone(), "guest", Method::POST, "9/product_analytics/request/load", body).status
    };
    assert_eq!(slowly(Box::new(|| ())), 200);
    let ended = writer.clone();
    assert_eq!(slowly(Box::new(move || list_member(&ended, 2, Source::Group(10), None))), 404);
    set(Some(Role::Guest));
    let revoked = writer.clone();
    let revoke = move || token::save(&revoked, &Fingerprint::of(b"guest"), None).unwrap();
    assert_eq!(slowly(Box::new(revoke)), 401);
    assert_eq!(forge.engine.take_calls().len(), 1);
}

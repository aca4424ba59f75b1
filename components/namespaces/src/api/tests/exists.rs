//! Whether a path is taken, and the suggestion of a free path.

use super::*;

#[test]
fn existence_is_about_the_path_below_one_parent() {
    let forge = Forge::filled();
    forge.project(100, 10, vec![], Some("acme-pages-1"));
    let exists = |query: &str| {
        let answer = forge.get("t4", &format!("namespaces/{query}"));
        assert_eq!(answer.status, 200, "{}", answer.body);
        (answer.body["exists"].as_bool().unwrap(), answer.body["suggests"].clone())
    };
    let free = (false, json!([]));
    let queries = "core/exists p100/exists?parent_id=10 acme/exists?parent_id=10 core/exists?parent_id=99 \
        core/exists?parent_id=-1 GUILDS/exists a%20b/exists";
    for query in queries.split(' ') {
        assert_eq!(exists(query), free, "{query}");
    }
    assert_eq!(exists("ACME/exists"), (true, json!(["ACME1"])));
    assert_eq!(exists("core/exists?parent_id=10"), (true, json!(["core1"])));
    assert_eq!(exists("alice/exists"), (true, json!(["alice1"])));
    assert_eq!(exists("acme-pages-1/exists"), (true, json!(["acme-pages-11"])));
}

#[test]
fn suggestions_avoid_paths_names_and_pages() {
    let forge = Forge::filled();
    let suggested = || forge.get("t4", "namespaces/acme/exists").body["suggests"][0].as_str().unwrap().to_owned();
    forge.save_group(NewGroup { name: "Acme1".into(), ..new_group(40, "other", None) });
    assert_eq!(suggested(), "acme2", "a name is taken");
    forge.save_group(NewGroup { name: "Acme2".into(), ..new_group(41, "inner", Some(10)) });
    assert_eq!(suggested(), "acme2", "that one is below another parent");
    forge.group(42, "ACME2", None);
    forge.project(100, 10, vec![], Some("acme3"));
    assert_eq!(suggested(), "acme4");
    forge.user(50, "acme4");
    // 2026-09-21T14:13:20.000Z: no milliseconds, minute 13, week 39.
    assert_eq!(suggested(), "acme1339");
    forge.group(43, "acme1339", None);
    assert_eq!(suggested(), "acme1340");
}

#[test]
fn requests_about_paths_are_counted_for_each_user() {
    let forge = Forge::filled();
    let mut env = forge.0.clone();
    env.variables = Rc::new([(EXISTS_RATE_LIMIT, "2".to_owned())].into_iter().collect());
    let status = |env: &Env, token: &str, path: &str| get(env, token, path).status;
    assert_eq!(status(&env, "t4", "namespaces/acme/exists"), 200);
    assert_eq!(status(&env, "t4", "namespaces/acme/exists?parent_id=x"), 400, "what is refused before is not counted");
    assert_eq!(status(&env, "t4", "namespaces/free/exists"), 200);
    let refused = get(&env, "t4", "namespaces/acme/exists");
    let text = "This endpoint has been requested too many times. Try again later.";
    let expected = (429, &json!({"message": {"error": text}, "limit": EXISTS_RATE_LIMIT}));
    assert_eq!((refused.status, &refused.body), expected);
    assert_eq!(refused.header("ratelimit-name"), EXISTS_RATE_LIMIT);
    assert_eq!(refused.header("retry-after"), "60");
    assert_eq!(status(&env, "r4", "namespaces/acme/exists"), 429, "another token of theirs");
    assert_eq!(status(&env, "t2", "namespaces/acme/exists"), 200, "another user");
    assert_eq!(status(&env, "t4", "namespaces"), 200, "another question");
    env.now = Timestamp::from_millis(env.now.millis() + 60_000);
    assert_eq!(status(&env, "t4", "namespaces/acme/exists"), 200);
    assert_eq!(status(&forge.0, "t4", "namespaces/acme/exists"), 200, "without a limit");
}

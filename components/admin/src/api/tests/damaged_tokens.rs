//! A token with an unreadable record: which requests fail, what the log says, and how an operator repairs it.

use super::*;
use kit::store::Store as _;

#[test]
fn a_list_with_a_damaged_token_names_it_in_the_log_and_the_others_are_found() {
    let store = MemoryStore::default();
    let env = env(store.clone(), &[("bootstrap_admin_token", BOOTSTRAP_TOKEN)]);
    assert_eq!(send_lines(&env, FORGE).1["failed"], 0);
    let list = || get(&env, "adm", "personal_access_tokens").1;
    let id = |text: &str| token::by_fingerprint(&env, &Fingerprint::of(text.as_bytes())).unwrap().unwrap().id.get();
    let (damaged, sound) = (id("reader"), id("ali"));
    let ids = |list: Value| list.as_array().unwrap().iter().map(|token| token["id"].clone()).collect::<Vec<_>>();
    let before = ids(list());

    let is_readers = |key: &String| {
        key.starts_with("directory/v1/token/")
            && store.get(key).unwrap().unwrap().windows(8).any(|at| at == b"read_api")
    };
    let keys: Vec<String> = store.keys().into_iter().filter(is_readers).collect();
    assert_eq!(keys.len(), 1);
    store.set(&keys[0], b"{\"user").unwrap();
    for path in
        ["personal_access_tokens", "personal_access_tokens?user_id=1", &format!("personal_access_tokens/{damaged}")]
    {
        let mut request = Request::new(Method::GET, &format!("/api/v4/{path}"));
        request.headers.insert("private-token", "adm".parse().unwrap());
        let response = handle(env.clone(), request).now_or_never().unwrap();
        let cause = response.cause.unwrap();
        assert_eq!(response.status, 500, "{path}");
        assert!(cause.starts_with("`directory/v1/token/(hidden)` cannot be read: "), "{cause}");
        assert!(cause.contains(&format!("token {damaged}: ")), "{cause}");
    }
    for path in ["personal_access_tokens?user_id=2", "personal_access_tokens/self"] {
        assert_eq!(get(&env, "adm", path).0, 200, "{path}");
    }
    assert_eq!(get(&env, "adm", &format!("personal_access_tokens/{sound}")).1["id"], sound);

    let run = |task: &str| {
        let (mut cursor, mut problems) = (json!(null), String::new());
        loop {
            let body = json!({"cursor": cursor});
            let (status, report) = json_call(&env, "adm", Method::POST, &format!("maintenance/admin/{task}"), body);
            assert_eq!(status, 200, "{report}");
            problems += &report["problems"].to_string();
            cursor = report["cursor"].clone();
            if cursor.is_null() {
                return problems;
            }
        }
    };
    let named = format!("token {damaged} is listed, and its record cannot be read");
    for task in ["fsck", "repair"] {
        let problems = run(task);
        assert!(problems.contains(&named), "{task}: {problems}");
    }
    assert_eq!(ids(list()), before);
    assert_eq!(get(&env, "adm", &format!("personal_access_tokens/{damaged}")).1["revoked"], true);
    // The token may have been revoked before the damage.
    assert_eq!(send_lines(&env, FORGE).1["failed"], 0);
    assert_eq!(get(&env, "reader", "personal_access_tokens/self").0, 401);
    let problems = run("fsck");
    assert!(!problems.contains("token"), "{problems}");
}

//! The namespaces area: records that the admin area imports are listed, searched and shown.

use super::*;
use hexad_tests::server::root;

fn ids(answer: &super::Answer) -> Vec<u64> {
    let list = answer.json();
    list.as_array().unwrap_or_else(|| panic!("{list}")).iter().filter_map(|entry| entry["id"].as_u64()).collect()
}

#[test]
fn an_import_is_listed_at_once() {
    let forge = Forge::seeded();
    let everything = forge.get("/api/v4/namespaces", ADMIN);
    assert_eq!(ids(&everything), [10, 11, 4_000_000_001, 4_000_000_002, 4_000_000_003, 4_000_000_004, 4_000_000_005]);
    assert_eq!((everything.header("x-total"), everything.header("x-total-pages")), ("7", "1"));
    assert_eq!(ids(&forge.get("/api/v4/namespaces", DEVELOPER)), [10, 4_000_000_003]);
    let rename = r#"{"kind":"group","id":11,"name":"Workshop","path":"workshop","parent_id":10,"visibility":"private","plan":"gold"}"#;
    forge.import(rename);
    assert_eq!(ids(&forge.get("/api/v4/namespaces?search=WORK", ADMIN)), [11]);
    assert_eq!(ids(&forge.get("/api/v4/namespaces?search=labs", ADMIN)), [0; 0]);
    assert_eq!(ids(&forge.get("/api/v4/namespaces?search=acme/work&full_path_search=1", ADMIN)), [11]);
    let gone = r#"{"kind":"group","id":10,"deleted":true}"#;
    forge.import(gone);
    let expected = [4_000_000_001, 4_000_000_002];
    assert_eq!(ids(&forge.get("/api/v4/namespaces?top_level_only=true&per_page=2", ADMIN)), expected);
    assert_eq!(forge.get("/api/v4/namespaces/11", ADMIN).status, 404, "the subgroup is deleted, too");
}

/// Every address below these words is a page of the console.
#[test]
fn a_group_that_is_called_like_a_page_tells_where_git_reads_its_repositories() {
    let forge = Forge::seeded();
    let manifest: toml::Table = std::fs::read_to_string(root().join("spin.toml")).unwrap().parse().unwrap();
    let routes = manifest["trigger"]["http"].as_array().unwrap().iter();
    let pages = routes.filter(|route| route["component"].as_str() == Some("console"));
    let words = pages.filter_map(|route| route["route"].as_str()?.strip_prefix('/')?.strip_suffix("/..."));
    let words: Vec<_> = words.filter(|word| *word != "-").collect();
    assert!(words.contains(&"packages"), "{words:?}");
    for (id, word) in (200..).zip(words) {
        let records = format!(
            r#"{{"kind":"group","id":{id},"name":"G","path":"{word}","visibility":"public"}}
            {{"kind":"project","id":{id},"name":"P","path":"x","namespace_id":{id},"visibility":"public"}}"#
        );
        let records: String = records.lines().map(|line| format!("{}\n", line.trim())).collect();
        forge.import(records);
        let url = forge.get(&format!("/api/v4/projects/{id}"), "").json()["http_url_to_repo"].clone();
        assert_eq!(url, format!("https://forge.test/api/v4/projects/{id}/repository.git"), "{word}");
    }
}

#[test]
fn fields_follow_the_role() {
    let forge = Forge::seeded();
    let shown = forge.get("/api/v4/namespaces/acme%2Flabs", GUEST).json();
    let expected = json!({"id": 11, "name": "Labs", "path": "labs", "kind": "group", "full_path": "acme/labs", "parent_id": 10, "avatar_url": null, "web_url": "https://forge.test/groups/acme/labs", "billable_members_count": 0});
    assert_eq!(shown, expected);
    let shown = forge.get("/api/v4/namespaces/10", ADMIN).json();
    let found =
        ["members_count_with_descendants", "projects_count", "billable_members_count", "plan"].map(|name| &shown[name]);
    assert_eq!(found, [&json!(3), &json!(3), &json!(3), &json!("free")]);
    let missing = forge.get("/api/v4/namespaces/10", OUTSIDER);
    assert_eq!((missing.status, missing.json()), (404, json!({"message": "404 Namespace Not Found"})));
    assert_eq!(forge.get("/api/v4/namespaces", "").status, 401);
}

#[test]
fn a_taken_path_has_an_alternative() {
    let forge = Forge::seeded();
    let exists = |query: &str| -> Value { forge.get(&format!("/api/v4/namespaces/{query}"), OUTSIDER).json() };
    assert_eq!(exists("ACME/exists"), json!({"exists": true, "suggests": ["ACME1"]}));
    assert_eq!(exists("labs/exists"), json!({"exists": false, "suggests": []}));
    assert_eq!(exists("labs/exists?parent_id=10"), json!({"exists": true, "suggests": ["labs1"]}));
    assert_eq!(forge.get("/api/v4/namespaces/a%2Fb/exists", OUTSIDER).json(), json!({"error": "404 Not Found"}));
}

#[test]
fn a_large_import_is_listed_page_by_page() {
    let forge = Forge::empty();
    let groups: String =
        (1..=20_000).map(|id| format!("{{\"kind\":\"group\",\"id\":{id},\"path\":\"g{id}\"}}\n")).collect();
    let answer = forge.import(groups);
    assert_eq!(answer.json()["imported"]["group"], 20_000, "{}", answer.text());
    let last = forge.get("/api/v4/namespaces?per_page=100&page=200", BOOTSTRAP_TOKEN);
    assert_eq!(ids(&last), (19_901..=20_000).collect::<Vec<_>>());
    assert_eq!(last.header("x-total"), "", "more than 10,000 are not counted");
    let found = forge.get("/api/v4/namespaces?search=g1999&per_page=100", BOOTSTRAP_TOKEN);
    assert_eq!((ids(&found).len(), found.header("x-total")), (11, "11"));
}

#[test]
fn requests_for_paths_are_limited_if_the_variable_is_set() {
    let forge = Forge::seeded_with(&[("namespaces_exists_rate_limit", "2")]);
    let status = |token: &str| forge.get("/api/v4/namespaces/acme/exists", token).status;
    assert_eq!([(); 3].map(|()| status(OUTSIDER)), [200, 200, 429], "no answer comes from the cache");
    assert_eq!(status(GUEST), 200);
    assert_eq!(forge.get("/api/v4/namespaces/acme/exists", OUTSIDER).header("retry-after"), "60");
}

#[test]
fn clients_find_their_user_and_visible_projects_and_groups() {
    let forge = Forge::seeded();
    let me = forge.get("//api/v4/user/", DEVELOPER).json();
    assert_eq!((&me["id"], &me["username"], &me["state"]), (&json!(3), &json!("dev"), &json!("active")));
    assert_eq!(forge.get("/api/v4/user", "").status, 401);
    assert_eq!(ids(&forge.get("/api/v4/users?search=dev", GUEST)), [3]);
    assert_eq!(ids(&forge.get("/api/v4/projects", DEVELOPER)), [9, 8, 7]);
    assert_eq!(ids(&forge.get("/api/v4/projects", OUTSIDER)), [8, 7]);
    assert_eq!(ids(&forge.get("/api/v4/projects/", "")), [7]);
    assert_eq!(forge.get("/api/v4/projects/acme%2Flabs%2Fsecret", DEVELOPER).json()["id"], 9);
    let missing = forge.get("/api/v4/projects/9", OUTSIDER);
    assert_eq!((missing.status, missing.json()), (404, json!({"message": "404 Project Not Found"})));
    assert_eq!(ids(&forge.get("/api/v4/groups", DEVELOPER)), [10, 11]);
    assert_eq!(ids(&forge.get("/api/v4/groups/acme/projects?include_subgroups=true", GUEST)), [9, 8, 7]);
    assert_eq!(forge.get("/api/v4/groups/11", OUTSIDER).status, 404);
    assert_eq!(ids(&forge.get("/api/v4/users/dev/projects", GUEST)), [0; 0]);
    for path in ["groups/acme/members", "groups/11/members/all", "projects/7/members/all"] {
        assert_eq!(ids(&forge.get(&format!("/api/v4/{path}"), DEVELOPER)), [2, 3, 4], "{path}");
    }
    assert_eq!(forge.get("/api/v4/projects/acme%2Flabs%2Fsecret/members", GUEST).json(), json!([]));
    assert_eq!(forge.get("/api/v4/groups/acme/members/3", GUEST).json()["access_level"], 30);
    let refused = forge.get("/api/v4/users?username[]=dev", GUEST);
    assert_eq!((refused.status, refused.json()), (400, json!({"error": "username is invalid"})));
    assert!(forge.get("/api/v4/version", GUEST).json()["version"].is_string());
    assert!(forge.get("/api/v4/metadata", GUEST).json()["revision"].is_string());
}

//! Bounds on what a request does, and on the number of requests.

use super::merge_request_filters::build_catalog;
use super::merge_requests::{LIST, create, forge, listed};
use super::*;

/// The status for a client at this address. Each request has an instance of its own.
fn status(env: Env, method: Method, path: &str, token: &str, body: &Value) -> u16 {
    let client = [("content-type", "application/json"), ("spin-client-addr", "192.0.2.1:1")];
    let headers = [("private-token", token), client[0], client[1]];
    send_with(env, method, path, &headers, body.to_string().into_bytes()).status
}

/// The merge request 1, in a list with so many numbers.
fn with_long_list(count: u64) -> Forge {
    let (forge, _) = forge();
    assert_eq!(create(&forge, "dev", Value::Null).status, 201);
    let parse = |key: &str| serde_json::from_slice::<Value>(&forge.store.get(key).unwrap()?).ok();
    let has_list = |key: &String| parse(key).is_some_and(|record| record["iids"] == json!([1]));
    let key = forge.store.keys().into_iter().find(has_list).unwrap();
    let mut record = parse(&key).unwrap();
    record["iids"] = (1..=count).collect();
    forge.store.set(&key, record.to_string().as_bytes()).unwrap();
    build_catalog(&forge);
    forge
}

#[test]
fn a_list_that_is_too_long_goes_on_or_is_refused() {
    let forge = with_long_list(20_001);
    assert_eq!(listed(&forge, "?per_page=100&page=201"), [1], "the oldest");
    assert_eq!(listed(&forge, "?per_page=100&page=201&state=all"), [1]);
    assert_eq!(listed(&forge, "?sort=asc&per_page=1"), [1]);
    assert_eq!(listed(&forge, "?state=opened&order_by=title"), [1]);
    assert_eq!(listed(&forge, "?iids[]=1&search=change"), [1]);
    for query in ["?order_by=title", "?state=merged", "?search=change"] {
        let (status, text) = forge.get(&format!("{LIST}{query}"), "dev").refusal();
        assert!(status == 400 && text.contains("more than 20000 merge requests"), "{query}: {text}");
    }
    for path in ["merge_requests?scope=all", "groups/acme/merge_requests"] {
        assert_eq!(forge.get(path, "dev").status, 400, "{path}");
        let join = if path.contains('?') { '&' } else { '?' };
        assert_eq!(forge.get(&format!("{path}{join}state=opened"), "dev").json()[0]["iid"], 1, "{path}");
    }
    assert_eq!(listed(&with_long_list(20_000), "?order_by=title"), [1]);
}

#[test]
fn records_that_anonymous_callers_read_are_bounded() {
    let forge = with_long_list(1500);
    let ask = |path: &str, token: &str| {
        let env = forge.env_with(forge.store.clone(), &[("anonymous_records_rate_limit", "4000")]);
        status(env, Method::GET, path, token, &Value::Null)
    };
    let long = &format!("{LIST}?order_by=title");
    assert_eq!([(); 4].map(|()| ask(long, "")), [200, 200, 429, 429]);
    assert_eq!([(); 4].map(|()| ask("merge_requests?scope=all", "")), [429; 4], "all lists together");
    assert_eq!(ask(&format!("{LIST}?state=opened"), ""), 200, "an ordinary one");
    assert_eq!([(); 4].map(|()| ask(long, "otto")), [200; 4]);
}

#[test]
fn branches_that_anonymous_callers_have_listed_are_bounded() {
    let (forge, repository) = (Forge::new(), Repository::with(&[("a.txt", b"one\n")]));
    let commit = repository.text(&["rev-parse", "main"]);
    for number in 0..1100 {
        repository.write(&format!(".git/refs/heads/b{number}"), commit.as_bytes());
    }
    forge.import(PUBLIC, &repository);
    let refs = format!("projects/{PUBLIC}/repository.git/info/refs");
    let ask = |path: &str, token: &str| {
        let env = forge.env_with(forge.store.clone(), &[("anonymous_records_rate_limit", "2500")]);
        status(env, Method::GET, path, token, &Value::Null)
    };
    let dumb = [(); 3].map(|()| ask(&refs, ""));
    assert_eq!(dumb, [200, 200, 429]);
    assert_eq!(ask(&format!("{refs}?service=git-upload-pack"), ""), 429, "version 0");
    assert_eq!(ask(&refs, "otto"), 200);
}

#[test]
fn each_write_counts_against_the_limit_of_its_kind() {
    let (forge, _) = forge();
    assert_eq!(create(&forge, "dev", Value::Null).status, 201);
    let id = forge.suggest(1, "a.txt", 1, &block("", "zwei"))[0];
    let (merge_request, discussion) = (format!("{LIST}/1"), forge.get(&format!("{LIST}/1/discussions"), "dev").json());
    let (discussion_id, note) =
        (discussion[0]["id"].as_str().unwrap(), discussion[0]["notes"][0]["id"].as_u64().unwrap());
    let (text, title) = (json!({"body": "x"}), json!({"title": "y"}));
    let new = comment(&forge.head(PUBLIC, "topic"), "a.txt", 1, "x");
    let notes = "notes_rate_limit";
    for (limit, method, path, body) in [
        (notes, Method::POST, format!("{merge_request}/notes"), &text),
        (notes, Method::POST, format!("{merge_request}/discussions"), &new),
        (notes, Method::POST, format!("{merge_request}/discussions/{discussion_id}/notes"), &text),
        (notes, Method::PUT, format!("{merge_request}/notes/{note}"), &text),
        (notes, Method::PUT, format!("{merge_request}/discussions/{discussion_id}/notes/{note}"), &text),
        (notes, Method::PUT, format!("{merge_request}/discussions/{discussion_id}"), &json!({"resolved": true})),
        (notes, Method::DELETE, format!("{merge_request}/notes/{note}"), &Value::Null),
        ("merge_requests_rate_limit", Method::PUT, merge_request.clone(), &title),
        ("merge_requests_rate_limit", Method::POST, LIST.to_owned(), &title),
        ("suggestions_rate_limit", Method::PUT, format!("suggestions/{id}/apply"), &json!({})),
        ("suggestions_rate_limit", Method::PUT, "suggestions/batch_apply".to_owned(), &json!({"ids": [id]})),
    ] {
        let store = forge.store.snapshot();
        let ask = || status(forge.env_with(store.clone(), &[(limit, "1")]), method.clone(), &path, "dev", body);
        assert!(ask() < 500 && ask() == 429, "{method} {path}");
    }
}

//! The cost of pages of token lists, and their completeness.

use super::*;
use kit::testing::CountingStore;

/// Users 1 to `users`. User 1 is an administrator with the token `adm`. Each user with an id divisible by `every` has a
/// token named like the id.
fn forge_of(users: u64, every: u64) -> (MemoryStore, Env) {
    let store = MemoryStore::default();
    let env = env(store.clone(), &[("bootstrap_admin_token", BOOTSTRAP_TOKEN)]);
    let user = |id: u64| json!({"kind": "user", "id": id, "username": format!("u{id}"), "is_admin": id == 1});
    let token = |id: u64| {
        let (name, text) = (id.to_string(), format!("t{id}"));
        json!({"kind": "token", "user_id": id, "token": text, "name": name, "scopes": ["api"]})
    };
    let mut lines: Vec<Value> = (1..=users).map(user).collect();
    lines.extend((1..=users).filter(|id| id % every == 0).map(token));
    lines.push(json!({"kind": "token", "user_id": 1, "token": "adm", "scopes": ["api"], "name": "adm"}));
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    assert_eq!(send_lines(&env, lines.join("\n")).1["failed"], 0);
    // The first request for a list reads all tokens of the store once.
    assert_eq!(get(&env, "adm", "personal_access_tokens/self").0, 200);
    (store, env)
}

struct Listed {
    names: Vec<String>,
    headers: http::HeaderMap,
    operations: u64,
}

impl Listed {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("(none)", |value| value.to_str().unwrap())
    }

    /// The path and query of the next page.
    fn next(&self) -> Option<&str> {
        let link = self.headers.get("link")?.to_str().unwrap();
        let next = link.split(", ").find_map(|link| link.strip_suffix(">; rel=\"next\""))?;
        next.strip_prefix("<http://localhost/api/v4/")
    }
}

/// The list as an instance without caches reads it.
fn list(store: &MemoryStore, token: &str, path: &str) -> Listed {
    let counting = CountingStore::over(store.clone());
    let env = env(counting.clone(), &[]);
    let mut request = Request::new(Method::GET, &format!("/api/v4/{path}"));
    request.headers.insert("private-token", token.parse().unwrap());
    let response = handle(env, request).now_or_never().unwrap();
    assert_eq!(response.status.as_u16(), 200, "{path}");
    let (headers, body) = (response.headers, response.body.collect(1 << 20).now_or_never().unwrap().unwrap());
    let tokens: Vec<Value> = serde_json::from_slice(&body).unwrap();
    let names = tokens.iter().map(|token| token["name"].as_str().unwrap().to_owned()).collect();
    Listed { names, headers, operations: counting.operations() }
}

#[test]
fn a_page_of_the_tokens_of_all_users_costs_as_much_with_twice_as_many_users() {
    let ((small, _), (large, _)) = (forge_of(600, 1), forge_of(1200, 1));
    for query in ["", "&page=3", "&state=active", "&sort=id_desc", "&pagination=keyset"] {
        let path = format!("personal_access_tokens?per_page=20{query}");
        let (few, many) = (list(&small, "adm", &path), list(&large, "adm", &path));
        assert_eq!((few.names.len(), many.names.len()), (20, 20), "{query}");
        assert_eq!(few.operations, many.operations, "{query}");
    }
    let keyset = list(&large, "adm", "personal_access_tokens?per_page=20&pagination=keyset");
    assert!(keyset.operations < 100, "{} for 20 tokens", keyset.operations);
}

#[test]
fn a_page_of_one_s_own_tokens_reads_the_records_of_its_tokens() {
    let (store, env) = forge_of(2, 2);
    let lines = |ids: std::ops::Range<u64>| {
        let line = |id| json!({"kind": "token", "user_id": 2, "token": format!("own{id}"), "scopes": ["api"]});
        let lines: Vec<String> = ids.map(|id| line(id).to_string()).collect();
        assert_eq!(send_lines(&env, lines.join("\n")).1["failed"], 0);
    };
    lines(0..1500);
    let operations = |path: &str| list(&store, "t2", path).operations;
    let paths = ["personal_access_tokens?per_page=1", "personal_access_tokens?per_page=1&pagination=keyset"];
    let few = paths.map(operations);
    lines(1500..1600);
    assert_eq!(paths.map(operations), few);
}

#[test]
fn totals_are_shown_while_they_are_cheap() {
    let totals = |users| {
        let (store, _) = forge_of(users, 1);
        let first = list(&store, "adm", "personal_access_tokens?per_page=50");
        let last =
            list(&store, "adm", &format!("personal_access_tokens?per_page=50&page={}", (users + 1).div_ceil(50)));
        let middle = first.next().map(|next| list(&store, "adm", next).header("x-next-page").to_owned());
        let ends = [last.header("x-next-page"), last.header("x-prev-page")].map(str::to_owned);
        (first.header("x-total").to_owned(), last.names.len(), middle, ends)
    };
    assert_eq!(totals(119), ("120".into(), 20, Some("3".into()), ["".into(), "2".into()]));
    assert_eq!(totals(419), ("(none)".into(), 20, Some("3".into()), ["".into(), "8".into()]));
}

#[test]
fn keyset_pages_have_each_token_once_in_both_orders() {
    let (store, env) = forge_of(2500, 700);
    let expected = ["adm", "700", "1400", "2100"];
    for (query, reversed) in [("", false), ("&sort=id_desc", true), ("&state=active&user_id=", false)] {
        let mut expected = expected.to_vec();
        if reversed {
            expected.reverse();
        }
        for per_page in [1, 2, 100] {
            let (mut found, mut pages) = (Vec::new(), 0);
            let mut next = Some(format!("personal_access_tokens?pagination=keyset&per_page={per_page}{query}"));
            while let Some(path) = next {
                let page = list(&store, "adm", &path);
                assert!(page.names.len() <= per_page && page.operations < 2_100, "{path}: {}", page.operations);
                assert_eq!((page.header("x-page"), page.header("x-total")), ("(none)", "(none)"));
                next = page.next().map(str::to_owned);
                found.extend(page.names);
                pages += 1;
                assert!(pages < 20, "the links go on and on: {next:?}");
            }
            assert_eq!(found, expected, "{query} {per_page}");
        }
    }
    let refused = |query: &str| get(&env, "adm", &format!("personal_access_tokens?pagination=keyset&{query}"));
    assert_eq!(refused("cursor=x"), (400, json!({"error": "cursor is invalid"})));
    let text = "Keyset pagination is not yet available for this type of request";
    assert_eq!(refused("sort=name_asc"), (405, json!({"error": text})));
}

#[test]
fn a_list_that_takes_too_many_reads_is_refused_and_says_what_to_ask_for() {
    let (store, env) = forge_of(17_000, 1);
    let (status, refused) = get(&env, "adm", "personal_access_tokens?search=16999");
    let message = refused["message"].as_str().unwrap();
    assert!(status == 400 && message.contains("user_id") && message.contains("pagination=keyset"), "{refused}");
    assert_eq!(get(&env, "adm", "personal_access_tokens?sort=name_asc").0, 400);
    assert_eq!(list(&store, "adm", "personal_access_tokens?search=16&per_page=1").names, ["16"]);
    assert_eq!(list(&store, "adm", "personal_access_tokens?search=16999&user_id=16999").names, ["16999"]);
}

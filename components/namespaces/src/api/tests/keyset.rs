//! Keyset pagination: clients follow the link of each page to the next.

use super::*;

/// The path and query that an answer links to.
fn next_of(answer: &TestResponse) -> String {
    let link = answer.header("link");
    let next = link.strip_prefix("<https://forge.test/api/v4/").and_then(|link| link.strip_suffix(">; rel=\"next\""));
    next.unwrap_or_else(|| panic!("{link}")).to_owned()
}

/// The ids of a list, page by page, and the query of each page after the first.
fn pages(forge: &Forge, token: &str, path: &str) -> (Vec<Vec<u64>>, Vec<String>) {
    let (mut pages, mut queries) = (Vec::new(), Vec::new());
    let mut next = path.to_owned();
    loop {
        let answer = forge.get(token, &next);
        assert_eq!(answer.status, 200, "{next}: {}", answer.body);
        assert!(answer.header("x-total") == "(none)" && answer.header("x-page") == "(none)", "{next}");
        pages.push(answer.ids());
        if answer.header("link") == "(none)" {
            return (pages, queries);
        }
        next = next_of(&answer);
        queries.push(next.split_once('?').unwrap().1.to_owned());
        assert!(pages.len() < 20, "the links go on and on: {next}");
    }
}

fn forge() -> Forge {
    let forge = Forge::filled();
    for id in 100..105 {
        forge.save_project(NewProject { visibility: Visibility::Public, ..new_project(id, 10) });
    }
    forge
}

#[test]
fn projects_by_id() {
    let forge = forge();
    let (found, queries) = pages(&forge, "", "projects?pagination=keyset&order_by=id&sort=asc&per_page=2");
    assert_eq!(found, [vec![100, 101], vec![102, 103], vec![104], vec![]]);
    assert_eq!(queries[0], "id_after=101&order_by=id&pagination=keyset&per_page=2&sort=asc");
    let (found, queries) = pages(&forge, "t2", "projects?pagination=keyset&order_by=id&per_page=3&visibility=public");
    assert_eq!(found, [vec![104, 103, 102], vec![101, 100], vec![]]);
    assert_eq!(queries[0], "id_before=102&order_by=id&pagination=keyset&per_page=3&visibility=public");
    let (found, _) = pages(&forge, "t2", "groups/acme/projects?pagination=keyset&order_by=id&sort=asc&per_page=3");
    assert_eq!(found, [vec![100, 101, 102], vec![103, 104], vec![]]);
}

#[test]
fn a_row_that_goes_meanwhile_moves_no_other() {
    let forge = forge();
    let first = forge.get("", "projects?pagination=keyset&order_by=id&sort=asc&per_page=2");
    forge.save_project(NewProject { visibility: Visibility::Private, ..new_project(101, 10) });
    assert_eq!((first.ids(), forge.get("", &next_of(&first)).ids()), (vec![100, 101], vec![102, 103]));
}

#[test]
fn users_by_every_order() {
    let forge = forge();
    let all = |token: &str, query: &str| pages(&forge, token, &format!("users?pagination=keyset&per_page=2{query}")).0;
    assert_eq!(all("t2", ""), [vec![5, 4], vec![3, 2], vec![1]]);
    assert_eq!(all("t1", "&order_by=id&sort=asc"), [vec![1, 2], vec![3, 4], vec![5]]);
    assert_eq!(all("t1", "&order_by=username&sort=asc"), [vec![2, 3], vec![4, 5], vec![1]]);
    assert_eq!(all("t1", "&order_by=name&sort=desc"), [vec![1, 5], vec![4, 3], vec![2]]);
    assert_eq!(all("t2", "&order_by=name&sort=asc"), [vec![5, 4], vec![3, 2], vec![1]], "only administrators choose");
    forge.save_user(NewUser { name: "Aaa".into(), ..new_user(6, "zeve") });
    assert_eq!(all("t2", "&search=eve"), [vec![4, 6]]);
    forge.save_user(NewUser { name: "Eve".into(), ..new_user(7, "other") });
    assert_eq!(all("t2", "&search=eve"), [vec![4, 7], vec![6]], "as pages by number");
    assert_eq!(all("t1", "&search=eve&sort=desc"), [vec![7, 6], vec![4]]);
    let by_match = next_of(&forge.get("t1", "users?pagination=keyset&per_page=1&search=eve"));
    assert_eq!(forge.get("t1", &format!("{by_match}&order_by=name")).status, 400, "a place in another order");
    let refused = forge.get("t2", "users?pagination=keyset&cursor=x");
    assert_eq!((refused.status, refused.body), (400, json!({"error": "cursor is invalid"})));
    assert_eq!(forge.get("t2", "users?cursor=x").status, 200, "pages by number have none");
}

#[test]
fn groups_by_name_without_a_token() {
    let forge = forge();
    for group in [
        new_group(30, "Beta", None),
        new_group(31, "beta-2", None),
        NewGroup { name: "ACME".into(), ..new_group(32, "acme-2", None) },
    ] {
        forge.save_group(group);
    }
    let (found, _) = pages(&forge, "", "groups?pagination=keyset&per_page=2");
    assert_eq!(found.concat(), forge.get("", "groups").ids());
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 1]);
    let answer = forge.get("t2", "groups?pagination=keyset&per_page=1");
    assert_eq!(answer.header("x-page"), "1", "users get pages by number");
    assert_eq!(forge.get("", "groups?pagination=keyset&cursor=e30").status, 400);
}

#[test]
fn orders_without_keyset_pagination_are_refused() {
    let forge = forge();
    for path in
        ["projects?pagination=keyset", "projects?pagination=keyset&order_by=name", "groups?pagination=keyset&sort=desc"]
    {
        let refused = forge.get("", path);
        let text = "Keyset pagination is not yet available for this type of request";
        assert_eq!((refused.status, refused.body), (405, json!({ "error": text })), "{path}");
    }
}

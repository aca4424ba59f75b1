//! Members of groups and projects, as each caller sees them.

use super::*;

/// The forge of [`Forge::filled`] with private groups core and guild. Alice is Owner of acme. Bob is Developer of core,
/// and Reporter of project 101 in it. Eve is Maintainer of guild, which is invited to 101 as Developer until the year
/// 2100.
fn forge() -> Forge {
    let forge = Forge::filled();
    forge.save_group(NewGroup { visibility: Visibility::Private, ..new_group(11, "core", Some(10)) });
    forge.save_group(NewGroup { visibility: Visibility::Private, ..new_group(20, "guild", None) });
    let share = Share { group_id: 20, role: Role::Developer, expires_at: Timestamp::parse("2100-01-01") };
    forge.project(101, 11, vec![share], None);
    forge.project(103, PERSONAL + 3, vec![], None);
    forge.join(2, Source::Group(10), Role::Owner, None);
    forge.join(3, Source::Group(11), Role::Developer, Timestamp::parse("2099-12-31"));
    forge.join(3, Source::Project(101), Role::Reporter, None);
    forge.join(4, Source::Group(20), Role::Maintainer, None);
    forge
}

/// Ids and roles of a list.
fn roles(answer: &TestResponse) -> Vec<(u64, u64)> {
    let role = |member: &Value| (member["id"].as_u64().unwrap(), member["access_level"].as_u64().unwrap());
    answer.body.as_array().unwrap_or_else(|| panic!("{}", answer.body)).iter().map(role).collect()
}

#[test]
fn direct_members_and_all() {
    let forge = forge();
    let found = |token: &str, path: &str| roles(&forge.get(token, path));
    assert_eq!(found("t2", "groups/10/members"), [(2, 50)]);
    assert_eq!(found("t2", "groups/acme%2Fcore/members"), [(3, 30)]);
    assert_eq!(found("t2", "groups/11/members/all"), [(2, 50), (3, 30)]);
    assert_eq!(found("t2", "groups/11/members/all?state=active"), [(2, 50), (3, 30)]);
    assert_eq!(found("t2", "groups/11/members/all?state=awaiting"), []);
    let refused = forge.get("t2", "groups/11/members/all?state=x");
    assert_eq!((refused.status, &refused.body["error"]), (400, &json!("state does not have a valid value")));
    assert_eq!(found("t2", "projects/101/members"), [(3, 20)]);
    assert_eq!(found("t1", "projects/101/members/all"), [(2, 50), (3, 30), (4, 30)]);
    assert_eq!(found("t3", "projects/bob%2Fp103/members"), [(3, 50)], "a user owns their own projects");
    assert_eq!(found("t3", "projects/103/members/all"), [(3, 50)]);
    let one = forge.get("t1", "projects/101/members/all/4").body;
    let expected = json!({"id": 4, "username": "eve", "name": "EVE", "state": "active", "locked": false, "public_email": null,
        "avatar_url": null, "web_url": "https://forge.test/eve", "access_level": 30, "expires_at": "2100-01-01",
        "membership_state": "active"});
    assert_eq!(one, expected);
    assert_eq!(forge.get("t1", "projects/101/members/all/3").body["expires_at"], "2099-12-31");
    let missing = forge.get("t1", "projects/101/members/4");
    assert_eq!((missing.status, missing.body), (404, json!({"message": "404 Not found"})));
}

#[test]
fn groups_that_the_caller_cannot_read_hide_their_members() {
    let forge = forge();
    assert_eq!(roles(&forge.get("t2", "projects/101/members/all")), [(2, 50), (3, 30)], "not those of guild");
    assert_eq!(roles(&forge.get("", "projects/101/members/all")), [(2, 50), (3, 20)], "nor those of core");
    for (path, kind) in
        [("groups/11/members", "Group"), ("groups/11/members/all/3", "Group"), ("projects/9/members", "Project")]
    {
        let hidden = forge.get("t5", path);
        assert_eq!((hidden.status, hidden.body), (404, json!({"message": format!("404 {kind} Not Found")})), "{path}");
    }
    assert_eq!(forge.get("x2", "groups/10/members").body["error"], "insufficient_scope");
}

#[test]
fn members_of_a_project_may_not_list_the_private_group_above_it() {
    let forge = forge();
    forge.join(5, Source::Project(101), Role::Owner, None);
    assert_eq!(forge.get("t5", "groups/11").status, 200);
    for path in
        ["groups/11/members", "groups/acme%2Fcore/members/all", "groups/11/members/3", "groups/11/members/all/3"]
    {
        let refused = forge.get("t5", path);
        assert_eq!((refused.status, refused.body), (403, json!({"message": "403 Forbidden"})), "{path}");
    }
    assert_eq!(roles(&forge.get("t5", "projects/101/members")), [(3, 20), (5, 50)]);
    for member in ["t1", "t2", "t3"] {
        assert_eq!(roles(&forge.get(member, "groups/11/members")), [(3, 30)], "{member}");
    }
}

#[test]
fn ended_memberships_and_invitations_count_for_nothing() {
    let forge = forge();
    forge.join(2, Source::Group(10), Role::Owner, Timestamp::parse("2001-01-01"));
    forge.join(5, Source::Group(10), Role::MinimalAccess, None);
    let share = Share { group_id: 20, role: Role::Developer, expires_at: Timestamp::parse("2001-01-01") };
    forge.project(101, 11, vec![share], None);
    assert_eq!(roles(&forge.get("t1", "projects/101/members/all")), [(3, 30)]);
}

#[test]
fn lists_of_members_have_filters_and_pages() {
    let forge = forge();
    let found = |query: &str| forge.get("t1", &format!("projects/101/members/all?{query}")).ids();
    assert_eq!(found("query=lic"), [2]);
    assert_eq!(found("query=LI"), [2]);
    assert_eq!(found("query=BOB"), [3]);
    assert_eq!((found("query=%40bob"), found("query=@"), found("query=%40%40bob")), (vec![3], vec![], vec![]));
    assert_eq!(found("user_ids[]=2&user_ids[]=4,9"), [2, 4]);
    assert_eq!(found("user_ids=x"), [0; 0]);
    assert_eq!(found("skip_users[]=2"), [3, 4]);
    let page =
        forge.get("t1", "projects/101/members/all?per_page=1&page=2&skip_users[]=2&skip_users[]=9&private_token=t1");
    assert_eq!((page.ids(), page.header("x-total"), page.header("x-next-page")), (vec![4], "2", ""));
    let repeated = "members/all?page=1&per_page=1&skip_users%5B%5D=2&skip_users%5B%5D=9>; rel=\"prev\"";
    assert!(page.header("link").contains(repeated), "{}", page.header("link"));
    assert_eq!(forge.get("t1", "projects/101/members?query[]=x").body, json!({"error": "query is invalid"}));
}

#[test]
fn the_best_matches_of_a_query_come_first() {
    let forge = forge();
    for (id, username, name) in [(30, "b-bob", "Zed"), (31, "a-bob", "Bob"), (32, "c-bob", "Ann")] {
        forge.save_user(NewUser { name: name.into(), ..new_user(id, username) });
        forge.join(id, Source::Group(11), Role::Guest, None);
    }
    let found = |query: &str| forge.get("t1", &format!("groups/11/members{query}")).ids();
    assert_eq!(found(""), [3, 30, 31, 32]);
    assert_eq!(found("?query=bob"), [3, 31, 32, 30]);
    assert_eq!(found("?query=bob&per_page=2&page=2"), [32, 30]);
    assert_eq!(found("/all?query=B"), [32, 3, 31, 30], "a part of each, by name and id");
}

#[test]
fn a_former_path_of_a_project_leads_to_its_members() {
    let forge = forge();
    forge.save_group(new_group(10, "acme-corp", None));
    let moved = forge.get("t2", "projects/acme%2Fcore%2Fp101/members/all?query=bob");
    let location = "https://forge.test/api/v4/projects/101/members/all?query=bob";
    assert_eq!((moved.status, moved.header("location")), (301, location));
}

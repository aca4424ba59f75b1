//! Parameters in unsupported forms, and filters by properties that no record has.

use super::*;

#[test]
fn a_list_in_place_of_a_value_is_refused() {
    let forge = Forge::filled();
    for (path, names) in [
        (
            "users",
            "username search order_by sort active blocked page per_page cursor pagination external humans admins \
             exclude_active exclude_external exclude_humans exclude_internal without_project_bots without_projects \
             auditors created_after created_before extern_uid provider public_email saml_provider_id skip_ldap two_factor",
        ),
        (
            "projects",
            "search visibility owned membership archived simple min_access_level id_after id_before order_by sort \
             pagination starred topic_id with_programming_language last_activity_after page active imported \
             marked_for_deletion_on repository_storage repository_checksum_failed wiki_checksum_failed updated_after \
             updated_before with_issues_enabled with_security_reports",
        ),
        ("projects/100", "simple"),
        ("groups", "search visibility owned all_available min_access_level top_level_only order_by sort page"),
        ("groups/10/projects", "search include_subgroups with_shared"),
        ("groups/10/subgroups", "search owned"),
        ("users/2/projects", "search visibility"),
        ("namespaces", "search owned_only top_level_only full_path_search requested_hosted_plan page per_page"),
        ("namespaces/10", "requested_hosted_plan"),
        ("namespaces/acme/exists", "parent_id"),
    ] {
        for name in names.split_whitespace() {
            for form in ["[]=1", "[x]=1", "[]=", "=&NAME[]=1"] {
                let query = format!("{name}{}", form.replace("NAME", name));
                let answer = forge.get("t2", &format!("{path}?{query}"));
                let refused = (400, json!({"error": format!("{name} is invalid")}));
                assert_eq!((answer.status, answer.body), refused, "{path}?{query}");
            }
        }
    }
}

#[test]
fn projects_have_no_stars_topics_languages_and_times() {
    let forge = Forge::filled();
    forge.project(100, 10, vec![], None);
    let found = |query: &str| forge.get("t2", query).ids();
    let without_any = "starred=true topic=rust topic[]=rust&topic[]=wasm topic_id=1 with_programming_language=Rust \
        last_activity_after=2001-01-01 last_activity_before=2999-01-01T00:00:00Z updated_after=2001-01-01 \
        updated_before=2999-01-01 marked_for_deletion_on=2026-01-01 repository_storage=default imported=true \
        repository_checksum_failed=true wiki_checksum_failed=true with_security_reports=true \
        custom_attributes[team]=x";
    for nothing in without_any.split(' ') {
        assert_eq!(found(&format!("projects?{nothing}")), [0; 0], "{nothing}");
        assert_eq!(found(&format!("groups/10/projects?{nothing}")), [0; 0], "{nothing}");
    }
    for everything in
        ["imported=false", "starred=false", "topic=", "topic[]=", "with_programming_language=", "last_activity_after="]
    {
        assert_eq!(found(&format!("projects?{everything}")), [100], "{everything}");
    }
    let answer = forge.get("t2", "projects?starred=some&topic[x]=1&topic_id=x&last_activity_after=soon");
    let expected = "starred is invalid, topic is invalid, topic_id is invalid, last_activity_after is invalid";
    assert_eq!(answer.body["error"], expected);
}

#[test]
fn user_filters_return_only_matching_users() {
    let forge = Forge::filled();
    let with = |id, name, state, external, bot| {
        forge.save_user(NewUser { state, external, bot, ..new_user(id, name) });
    };
    with(6, "gone", UserState::Blocked, false, false);
    with(7, "asleep", UserState::Deactivated, false, false);
    with(8, "banned", UserState::Banned, true, false);
    with(9, "guest", UserState::Active, true, false);
    with(10, "waiting", UserState::PendingApproval, false, true);
    let found = |token: &str, query: &str| forge.get(token, &format!("users?sort=asc&{query}")).ids();
    for (query, expected) in [
        ("", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10][..]),
        ("active=true", &[1, 2, 3, 4, 5, 9]),
        ("blocked=true", &[6]),
        ("exclude_active=true", &[6, 7, 8, 10]),
        ("active=true&blocked=true", &[]),
        ("external=true", &[8, 9]),
        ("external=true&active=true", &[9]),
        ("exclude_external=true", &[1, 2, 3, 4, 5, 6, 7, 10]),
        ("humans=true", &[1, 2, 3, 4, 6, 7, 8, 9]),
        ("without_project_bots=true", &[1, 2, 3, 4, 6, 7, 8, 9]),
        ("exclude_humans=true", &[5, 10]),
        ("humans=true&exclude_humans=true", &[]),
        ("admins=true", &[1]),
        ("external=false&humans=false&admins=false&exclude_external=0&blocked=false", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        // All users match these filters.
        ("exclude_internal=true&skip_ldap=true&two_factor=disabled", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ] {
        assert_eq!(found("t1", query), expected, "{query}");
    }
    let seen = |query: &str| forge.get("t2", &format!("users?{query}")).ids();
    assert_eq!((seen("external=true"), seen("exclude_humans=true"), seen("blocked=true")), (vec![9], vec![5], vec![]));
    let without_any = "auditors=true created_after=2001-01-01 created_before=2999-01-01T00:00:00Z \
        extern_uid=1&provider=ldap public_email=alice@forge.test saml_provider_id=1 two_factor=enabled \
        custom_attributes[team]=x";
    for nothing in without_any.split(' ') {
        assert_eq!(found("t1", nothing), [0; 0], "{nothing}");
    }
    // Filters for administrators. For other callers they exclude no user.
    let all = seen("");
    for query in
        ["without_projects=true", "created_after=2001-01-01", "created_before=2001-01-01", "two_factor=enabled"]
    {
        assert_eq!(seen(query), all, "{query}");
    }
    let answer = forge.get("t2", "users?admins=true");
    assert_eq!(
        (answer.status, &answer.body["message"]),
        (403, &json!("403 Forbidden - Must be admin to list users by admins"))
    );
    let page = forge.get("t1", "users?humans=true&external=true&per_page=1");
    assert!(page.header("link").contains("external=true&humans=true"), "{}", page.header("link"));
}

#[test]
fn groups_can_be_left_out() {
    let forge = Forge::filled();
    let found = |query: &str| forge.get("", &format!("groups?order_by=id&{query}")).ids();
    assert_eq!(found(""), [10, 11, 12, 20]);
    for query in ["skip_groups[]=11&skip_groups[]=20", "skip_groups=11,20", "skip_groups[]=x,20&skip_groups=11"] {
        assert_eq!(found(query), [10, 12], "{query}");
    }
    assert_eq!(forge.get("", "groups?skip_groups[0]=11").body, json!({"error": "skip_groups is invalid"}));
    let page = forge.get("", "groups?order_by=id&skip_groups=11&skip_groups=20&per_page=1");
    assert!(page.header("link").contains("skip_groups=11&skip_groups=20>; rel=\"next\""), "{}", page.header("link"));
}

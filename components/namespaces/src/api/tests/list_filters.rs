//! Filters that need more than the catalog, and which groups and projects administrators own.

use super::*;
use kit::testing::CountingStore;

#[test]
fn projects_whose_merge_requests_the_caller_may_not_read_can_be_left_out() {
    let forge = Forge::filled();
    let (disabled, private) = (FeatureAccess::Disabled, FeatureAccess::Private);
    forge.save_project(new_project(100, 10));
    forge.save_project(NewProject { merge_requests: disabled, ..new_project(101, 10) });
    forge.save_project(NewProject { merge_requests: private, ..new_project(102, 10) });
    forge.save_project(NewProject { repository: disabled, ..new_project(103, 10) });
    forge.save_project(NewProject { merge_requests: disabled, ..new_project(104, PERSONAL + 3) });
    forge.join(2, Source::Project(102), Role::Reporter, None);
    forge.join(3, Source::Project(102), Role::Guest, None);
    let found = |token: &str, path: &str| forge.get(token, path).ids();
    for path in ["projects?", "groups/acme/projects?", "groups/10/projects?include_subgroups=true&"] {
        let with = |token: &str| found(token, &format!("{path}with_merge_requests_enabled=true"));
        assert_eq!(with(""), [100], "{path}");
        assert_eq!(with("t2"), [102, 100], "{path}: of members");
        assert_eq!(with("t3"), [100], "{path}: a guest may not");
        assert_eq!(with("t1"), [102, 100], "{path}: an administrator");
        let all = found("t1", &format!("{path}with_merge_requests_enabled=false"));
        assert_eq!(all, found("t1", path), "{path}");
        assert!(all.contains(&101), "{path}");
    }
    assert_eq!(found("t3", "users/bob/projects?with_merge_requests_enabled=1"), [0; 0]);
    assert_eq!(found("t3", "users/bob/projects"), [104]);
    let query = "with_merge_requests_enabled=true&per_page=1";
    let page = forge.get("t2", &format!("projects?{query}"));
    assert_eq!((page.ids(), page.header("x-total")), (vec![102], "2"));
    assert!(page.header("link").contains("with_merge_requests_enabled=true>; rel=\"next\""), "{}", page.header("link"));
    let page = forge.get("t2", &format!("projects?{query}&pagination=keyset&order_by=id"));
    assert_eq!(page.ids(), [102]);
}

/// A client requests all pages of a list in turn.
#[test]
fn an_instance_reads_the_records_of_filtered_rows_once() {
    let store = MemoryStore::default();
    let forge = Forge(env(store.clone(), &[]));
    forge.user(1, "root");
    forge.group(10, "acme", None);
    (100..150).for_each(|id| forge.save_project(new_project(id, 10)));
    (100..150).for_each(|id| forge.save_user(NewUser { state: UserState::Blocked, ..new_user(id, &format!("u{id}")) }));
    for (list, filter) in [("projects", "with_merge_requests_enabled=true"), ("users", "blocked=true")] {
        let counting = CountingStore::over(store.clone());
        let warm = env(counting.clone(), &[]);
        let operations = |query: &str| {
            let before = counting.operations();
            assert_eq!(get(&warm, "t1", &format!("{list}?per_page=1&{query}")).ids().len(), 1, "{list} {query}");
            counting.operations() - before
        };
        let (_, plain) = (operations(""), operations(""));
        let first = operations(filter);
        assert!(first > plain + 50, "{list}: {first} and {plain}");
        assert_eq!(operations(&format!("{filter}&page=2")), plain + 1, "{list}");
        assert_eq!(operations(""), plain, "{list}: without the filter it costs what it did");
    }
}

#[test]
fn a_filter_by_the_records_of_too_many_projects_is_refused() {
    let forge = Forge::filled();
    let ids = 100..20_101;
    let save = || ids.clone().for_each(|id| project::save(&forge.0, new_project(id, 10)).unwrap());
    change(&forge.0, |changes| ids.clone().for_each(|id| changes.project(id)), save);
    let refused = forge.get("t2", "projects?with_merge_requests_enabled=true");
    let text = "400 Bad request - with_merge_requests_enabled needs a filter that leaves fewer projects";
    assert_eq!((refused.status, refused.body), (400, json!({"message": text})));
    let narrowed = forge.get("t2", "projects?with_merge_requests_enabled=true&id_before=102");
    assert_eq!(narrowed.ids(), [101, 100]);
}

#[test]
fn an_administrator_owns_the_groups_that_they_are_a_member_of() {
    let forge = Forge::filled();
    forge.join(1, Source::Group(11), Role::Owner, None);
    forge.join(1, Source::Group(20), Role::Reporter, None);
    let found = |query: &str| forge.get("t1", &format!("groups?order_by=id&{query}")).ids();
    assert_eq!(found("owned=true"), [11, 12]);
    assert_eq!(found("min_access_level=20"), [11, 12, 20]);
    assert_eq!(found("min_access_level=30"), [11, 12]);
    assert_eq!(found("all_available=false"), [10, 11, 12, 20], "with those above");
    forge.group(30, "other", None);
    assert_eq!(found("all_available=false"), [10, 11, 12, 20]);
    assert_eq!((found(""), found("all_available=true")), (vec![10, 11, 12, 20, 30], vec![10, 11, 12, 20, 30]));
    assert_eq!(forge.get("t1", "groups/10/subgroups?owned=true").ids(), [11]);
    assert_eq!(forge.get("t1", "groups/10/descendant_groups?owned=true").ids(), [11, 12]);
}

#[test]
fn projects_of_a_group_with_those_of_the_groups_above() {
    let forge = Forge::filled();
    for (id, namespace_id) in [(100, 10), (101, 11), (102, 12), (103, 20)] {
        forge.save_project(new_project(id, namespace_id));
    }
    let found = |query: &str| forge.get("t2", &format!("groups/11/projects?{query}")).ids();
    assert_eq!(found("include_ancestor_groups=false"), [101]);
    assert_eq!(found("include_ancestor_groups=true"), [101, 100]);
    assert_eq!(found("include_ancestor_groups=true&include_subgroups=true"), [102, 101, 100]);
}

#[test]
fn orders_and_fields_that_are_not_known_are_accepted_and_others_refused() {
    let forge = Forge::filled();
    (100..103).for_each(|id| forge.save_project(new_project(id, 10)));
    for order in ["created_at", "updated_at", "last_activity_at", "star_count", "similarity", "storage_size"] {
        assert_eq!(forge.get("t2", &format!("projects?order_by={order}")).ids(), [102, 101, 100], "{order}");
        let ascending = forge.get("t2", &format!("groups/10/projects?order_by={order}&sort=asc&statistics=true"));
        assert_eq!(ascending.ids(), [100, 101, 102], "{order}");
    }
    for (path, name) in [
        ("projects", "order_by"),
        ("groups", "order_by"),
        ("groups/10/projects", "sort"),
        ("groups/10/subgroups", "visibility"),
        ("groups/10/descendant_groups", "order_by"),
        ("users/2/projects", "visibility"),
        ("users", "order_by"),
    ] {
        let refused = forge.get("t2", &format!("{path}?{name}=other"));
        let text = format!("{name} does not have a valid value");
        assert_eq!((refused.status, refused.body), (400, json!({"error": text})), "{path}");
    }
    for path in ["projects", "groups", "groups/10/projects"] {
        let refused = forge.get("t2", &format!("{path}?min_access_level=0"));
        let text = "min_access_level does not have a valid value";
        assert_eq!((refused.status, refused.body), (400, json!({"error": text})), "{path}");
    }
    for (path, names) in [
        ("projects", "statistics with_custom_attributes include_pending_delete include_hidden"),
        ("projects", "with_merge_requests_enabled"),
        ("groups/10/projects", "with_merge_requests_enabled include_ancestor_groups with_custom_attributes"),
        ("groups", "statistics with_custom_attributes"),
    ] {
        for name in names.split(' ') {
            let refused = forge.get("t2", &format!("{path}?{name}=maybe"));
            assert_eq!((refused.status, refused.body), (400, json!({"error": format!("{name} is invalid")})), "{path}");
        }
    }
}

#[test]
fn users_without_projects_have_no_role_in_any() {
    let forge = Forge::filled();
    let without = || forge.get("t1", "users?without_projects=true&sort=asc").ids();
    let (join, now) = (|user, source, role, end| forge.join(user, source, role, end), forge.0.now.millis());
    join(2, Source::Group(11), Role::Guest, None);
    assert_eq!(without(), [1, 2, 3, 4, 5], "a group without projects, and an administrator");
    forge.save_project(new_project(100, 12));
    assert_eq!(without(), [1, 3, 4, 5], "a project in a group below the user's");
    join(3, Source::Project(100), Role::MinimalAccess, None);
    join(4, Source::Project(100), Role::Guest, Some(Timestamp::from_millis(now)));
    assert_eq!(without(), [1, 3, 4, 5], "no role, and one that has ended");
    join(3, Source::Project(100), Role::Guest, None);
    forge.save_project(new_project(101, PERSONAL + 4));
    assert_eq!(without(), [1, 5], "a direct member, and the owner of a namespace");

    forge.user(6, "invited");
    forge.user(7, "expired");
    forge.group(21, "below", Some(20));
    forge.group(22, "former", None);
    join(6, Source::Group(20), Role::Developer, None);
    join(7, Source::Group(22), Role::Developer, None);
    assert_eq!(without(), [1, 5, 6, 7]);
    let share = |group_id, expires_at| Share { group_id, role: Role::Guest, expires_at };
    forge.save_group(NewGroup {
        shares: vec![share(21, None), share(22, Some(Timestamp::from_millis(now)))],
        ..new_group(10, "acme", None)
    });
    assert_eq!(without(), [1, 5, 7], "a member above an invited group");
    forge.project(102, 10, vec![share(22, None)], None);
    assert_eq!(without(), [1, 5]);

    let page = forge.get("t1", "users?without_projects=true&per_page=1");
    assert_eq!((page.ids(), page.header("x-total")), (vec![5], "2"));
    assert!(page.header("link").contains("without_projects=true>; rel=\"next\""), "{}", page.header("link"));
}

/// A list fails instead of omitting an unreadable record ([`kit::store::StoreError::Corrupt`]). The log names the key.
#[test]
fn a_damaged_record_fails_the_requests_that_need_it_and_no_others() {
    let store = MemoryStore::default();
    let forge = Forge(env(store.clone(), &[]));
    [(1, "root"), (2, "alice"), (3, "bob")].into_iter().for_each(|(id, name)| forge.user(id, name));
    forge.group(10, "acme", None);
    [100, 101].into_iter().for_each(|id| forge.save_project(new_project(id, 10)));
    for (key, failing, sound) in [
        (
            "user/3",
            ["users", "users?blocked=false&active=true", "users/3"],
            ["users/2", "users?username=alice", "user"],
        ),
        (
            "project/101",
            ["projects", "groups/10/projects", "projects/101"],
            ["projects/100", "groups", "projects?per_page=1&page=2"],
        ),
    ] {
        let key = format!("directory/v1/{key}");
        let intact = kit::store::Store::get(&store, &key).unwrap().unwrap();
        kit::store::Store::set(&store, &key, b"{").unwrap();
        let fresh = env(store.clone(), &[]);
        for path in failing {
            let mut request = Request::new(Method::GET, &format!("/api/v4/{path}"));
            request.headers.insert("private-token", "t1".parse().unwrap());
            let response = block_on(handle(fresh.clone(), request));
            let cause = response.cause.unwrap_or_default();
            assert_eq!((response.status.as_u16(), cause.contains(&format!("`{key}`"))), (500, true), "{path}: {cause}");
        }
        for path in sound {
            assert_eq!(get(&fresh, "t1", path).status, 200, "{path}");
        }
        kit::store::Store::set(&store, &key, &intact).unwrap();
    }
}

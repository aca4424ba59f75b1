//! Users, projects and groups, as each caller sees them.

use super::*;
use kit::testing::CountingStore;

/// The forge of [`Forge::filled`] with more projects: 100 acme/p100 (public), 101 acme/core/p101 (private), 102
/// guild/p102 (internal), 103 bob/p103 (private). Groups core and guild are private; eve is external.
fn forge() -> Forge {
    let forge = Forge::filled();
    forge.save_group(NewGroup { visibility: Visibility::Private, ..new_group(11, "core", Some(10)) });
    forge.save_group(NewGroup { visibility: Visibility::Private, ..new_group(20, "guild", None) });
    forge.save_user(NewUser { external: true, ..new_user(4, "eve") });
    for (id, namespace_id, visibility) in [
        (100, 10, Visibility::Public),
        (101, 11, Visibility::Private),
        (102, 20, Visibility::Internal),
        (103, PERSONAL + 3, Visibility::Private),
    ] {
        forge.save_project(NewProject { visibility, ..new_project(id, namespace_id) });
    }
    forge
}

fn names(answer: &TestResponse) -> Vec<&str> {
    answer.body.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

fn is(answer: TestResponse, status: u16, message: &str) {
    assert_eq!((answer.status, answer.body), (status, json!({"message": message})));
}

#[test]
fn a_caller_sees_their_own_user() {
    let forge = forge();
    is(forge.get("", "user"), 401, "401 Unauthorized");
    forge.save_user(NewUser { commit_email: Some("alice@forge.test".into()), ..new_user(2, "alice") });
    for token in ["t2", "r2", "x2"] {
        let shown = forge.get(token, "user");
        assert_eq!(shown.status, 200, "{token}: also read_user suffices");
        let expected = json!({"id": 2, "username": "alice", "name": "ALICE", "state": "active", "locked": false,
            "public_email": null, "avatar_url": null, "web_url": "https://forge.test/alice", "bot": false,
            "email": "alice@forge.test", "commit_email": "alice@forge.test", "external": false});
        assert_eq!(shown.body, expected);
    }
    let admin = forge.get("t1", "user/").body;
    assert_eq!((&admin["is_admin"], &admin["namespace_id"]), (&json!(true), &json!(PERSONAL + 1)));
}

#[test]
fn users_are_listed_from_the_youngest_and_without_addresses() {
    let forge = forge();
    forge.save_user(NewUser { state: UserState::Blocked, ..new_user(6, "gone") });
    assert_eq!(forge.get("t2", "users").ids(), [5, 4, 3, 2, 1]);
    assert_eq!(forge.get("t1", "users").ids(), [6, 5, 4, 3, 2, 1]);
    assert_eq!(forge.get("t1", "users?active=true&order_by=username&sort=asc&per_page=2").ids(), [2, 3]);
    assert_eq!(forge.get("t1", "users?blocked=true").ids(), [6]);
    assert_eq!(forge.get("t2", "users?username=ALICE").ids(), [2]);
    assert_eq!(forge.get("t2", "users?username=ali").ids(), [0; 0]);
    assert_eq!(forge.get("t2", "users?search=lic").ids(), [2]);
    assert_eq!(forge.get("t2", "users?search=acme").ids(), [0; 0], "a group is no user");
    let page = forge.get("t2", "users?per_page=2&page=2&search=");
    assert_eq!((page.ids(), page.header("x-total"), page.header("x-next-page")), (vec![3, 2], "5", "3"));
    assert_eq!(forge.fields("t2", "users/3"), "avatar_url bot id locked name public_email state username web_url");
    assert_eq!(forge.get("t1", "users/3").body["is_admin"], false);
    assert_eq!(forge.get("t2", "users/6").body["state"], "blocked");
    is(forge.get("t2", "users/99"), 404, "404 User Not Found");
    is(forge.get("", "users"), 403, "403 Forbidden - Not authorized to access /api/v4/users");
    is(forge.get("", "users/2"), 403, "403 Forbidden - Not authorized!");
    assert_eq!(forge.get("", "users?username=alice").ids(), [2], "as in the reference service");
    assert_eq!(forge.get("t2", "users?sort=up").body, json!({"error": "sort does not have a valid value"}));
}

#[test]
fn projects_are_shown_only_to_callers_who_may_read_them() {
    let forge = forge();
    forge.join(2, Source::Group(10), Role::Developer, None);
    let status = |token: &str, id: &str| forge.get(token, &format!("projects/{id}")).status;
    for (token, readable) in [("", [200, 404, 404, 404]), ("t4", [200, 404, 404, 404]), ("t2", [200, 200, 200, 404])] {
        assert_eq!([100, 101, 102, 103].map(|id| status(token, &id.to_string())), readable, "{token}");
    }
    assert_eq!([100, 101, 102, 103].map(|id| status("t1", &id.to_string())), [200; 4]);
    assert_eq!((status("t3", "bob%2Fp103"), status("t3", "103")), (200, 200));
    for id in ["101", "acme%2Fcore%2Fp101", "acme%2Fnothing", "nothing", "9999"] {
        is(forge.get("t3", &format!("projects/{id}")), 404, "404 Project Not Found");
    }
    assert_eq!(forge.get("x2", "projects/100").body["error"], "insufficient_scope");
    let shown = forge.get("t2", "projects/ACME%2fcore%2Fp101").body;
    let expected = json!({"id": 101, "name": "P101", "name_with_namespace": "ACME / CORE / P101", "path": "p101",
        "path_with_namespace": "acme/core/p101", "default_branch": null, "visibility": "private",
        "http_url_to_repo": "https://forge.test/acme/core/p101.git",
        "web_url": "https://forge.test/acme/core/p101", "archived": false, "creator_id": null,
        "issues_enabled": true, "issues_access_level": "enabled", "repository_access_level": "enabled",
        "merge_requests_enabled": true, "merge_requests_access_level": "enabled", "packages_enabled": true,
        "package_registry_access_level": "enabled", "suggestion_commit_message": null,
        "permissions": {"project_access": null, "group_access": {"access_level": 30}},
        "_links": {"self": "https://forge.test/api/v4/projects/101"}, "shared_with_groups": [],
        "namespace": {"id": 11, "name": "CORE", "path": "core", "kind": "group", "full_path": "acme/core",
            "parent_id": 10, "avatar_url": null, "web_url": "https://forge.test/groups/acme/core"}});
    assert_eq!(shown, expected);
    let simple = forge.fields("", "projects/100");
    assert_eq!(simple, forge.fields("t2", "projects/100?simple=true"));
    assert!(!simple.contains("permissions") && simple.contains("path_with_namespace"));
}

#[test]
fn a_project_s_creator_is_not_the_next_user_with_the_id() {
    let forge = forge();
    let save = |creator_id| forge.save_project(NewProject { creator_id: Some(creator_id), ..new_project(100, 10) });
    let shown = || {
        let list = forge.get("t2", "projects?search=p100").body;
        let shown = forge.get("t2", "projects/100").body;
        assert_eq!(list[0]["creator_id"], shown["creator_id"]);
        shown["creator_id"].clone()
    };
    let delete = |id| {
        let delete = || dependents::delete_user(&forge.0, id).unwrap();
        change(&forge.0, |changes| changes.delete_user(id), delete);
    };
    save(4);
    assert_eq!(shown(), 4);
    delete(4);
    assert_eq!(shown(), Value::Null);
    forge.user(4, "next");
    assert_eq!(shown(), Value::Null, "of the next user with the id");
    save(4);
    assert_eq!(shown(), 4, "an import means the user who has the id");
    forge.user(4, "renamed");
    assert_eq!(shown(), 4);
    delete(4);
    forge.user(4, "third");
    assert_eq!(shown(), Value::Null);
    // A user who is created after the project is the first user with the id.
    save(60);
    assert_eq!(shown(), 60);
    forge.user(60, "later");
    assert_eq!(shown(), 60);
    forge.0.store.set("directory/v1/user/60", b"{").unwrap();
    assert_eq!(shown(), Value::Null, "whether the id is theirs is not known");
}

#[test]
fn a_list_of_projects_reads_each_of_their_creators_once() {
    let store = MemoryStore::default();
    let forge = Forge(env(store.clone(), &[]));
    [(1, "root"), (2, "alice"), (3, "bob")].into_iter().for_each(|(id, name)| forge.user(id, name));
    forge.group(10, "acme", None);
    let reads = |creators: [Option<u64>; 5], query: &str| {
        for (id, creator_id) in (100..).zip(creators) {
            forge.save_project(NewProject { creator_id, ..new_project(id, 10) });
        }
        let counting = CountingStore::over(store.clone());
        let list = get(&env(counting.clone(), &[]), "t1", &format!("projects{query}"));
        assert_eq!(list.ids(), [104, 103, 102, 101, 100]);
        counting.operations()
    };
    let without = reads([None; 5], "");
    assert_eq!(reads([Some(2); 5], ""), without + 1);
    assert_eq!(reads([Some(2), Some(3), None, Some(2), Some(3)], ""), without + 2);
    assert_eq!(reads([Some(2); 5], "?simple=true"), without, "the creator is not shown");
}

#[test]
fn a_former_path_of_a_project_leads_to_its_id() {
    let forge = forge();
    forge.save_group(new_group(10, "acme-corp", None));
    let moved = forge.get("t2", "projects/acme%2Fp100?simple=true");
    assert_eq!((moved.status, moved.header("location")), (301, "https://forge.test/api/v4/projects/100?simple=true"));
    is(forge.get("t3", "projects/acme%2Fcore%2Fp101"), 404, "404 Project Not Found");
}

#[test]
fn projects_are_listed_from_the_youngest_and_filtered() {
    let forge = forge();
    forge.join(2, Source::Group(11), Role::Owner, None);
    forge.join(2, Source::Project(102), Role::Reporter, None);
    let found = |token: &str, query: &str| forge.get(token, &format!("projects?{query}")).ids();
    assert_eq!(found("", ""), [100]);
    assert_eq!(found("t4", ""), [100], "an external user");
    assert_eq!(found("t2", ""), [102, 101, 100]);
    assert_eq!(found("t1", ""), [103, 102, 101, 100]);
    assert_eq!(found("t2", "membership=true"), [102, 101]);
    assert_eq!(found("t1", "membership=true"), [0; 0]);
    assert_eq!(found("t2", "owned=1"), [101]);
    assert_eq!(found("t3", "owned=1"), [103]);
    assert_eq!(found("", "owned=1"), [0; 0]);
    assert_eq!(found("", "membership=1"), [100]);
    assert_eq!(found("t2", "min_access_level=20"), [102, 101]);
    assert_eq!(found("t2", "min_access_level=30"), [101]);
    assert_eq!(found("t2", "visibility=internal"), [102]);
    assert_eq!(found("t2", "search=P10"), [102, 101, 100]);
    assert_eq!(found("t2", "search=p102"), [102]);
    assert_eq!(found("t2", "search=core"), [0; 0]);
    assert_eq!(found("t2", "search=acme/core&search_namespaces=true"), [101]);
    assert_eq!(found("t2", "order_by=name&sort=asc"), [100, 101, 102]);
    assert_eq!(found("t2", "order_by=last_activity_at"), [102, 101, 100]);
    assert_eq!(found("t2", "id_after=100&id_before=102"), [101]);
    assert_eq!(found("t2", "archived=true"), [0; 0]);
    assert_eq!(found("t2", "active=false"), [0; 0]);
    assert_eq!(found("t2", "active=true"), [102, 101, 100]);
    assert_eq!(found("t2", "with_issues_enabled=true"), [102, 101, 100]);
    assert_eq!(
        forge.get("t2", "projects?order_by=size&min_access_level=7&visibility=odd&page=x").body["error"],
        "visibility does not have a valid value, min_access_level does not have a valid value, \
         order_by does not have a valid value, page is invalid"
    );
    let page = forge.get("t1", "projects?per_page=2&simple=true&order_by=id&sort=asc&private_token=t1");
    assert_eq!((page.ids(), page.header("x-total")), (vec![100, 101], "4"));
    assert!(page.header("link").contains("projects?order_by=id&page=2&per_page=2&simple=true&sort=asc>; rel=\"next\""));
    assert!(!page.header("link").contains("private_token"));
}

#[test]
fn projects_without_issues_and_archived_ones_can_be_left_out() {
    let forge = forge();
    let issues = directory::project::FeatureAccess::Disabled;
    forge.save_project(NewProject { issues, archived: true, ..new_project(105, 10) });
    let found = |query: &str| forge.get("t1", &format!("groups/acme/projects?{query}")).ids();
    assert_eq!(found(""), [105, 100]);
    assert_eq!(found("with_issues_enabled=true"), [100]);
    assert_eq!(found("with_issues_enabled=false"), [105, 100]);
    assert_eq!((found("active=false"), found("active=true")), (vec![105], vec![100]));
    // Other callers do not see issues for members only.
    let issues = directory::project::FeatureAccess::Private;
    let visibility = directory::namespace::Visibility::Public;
    forge.save_project(NewProject { issues, visibility, ..new_project(106, 10) });
    assert_eq!(found("with_issues_enabled=true"), [106, 100]);
    let found = |query: &str| forge.get("", &format!("groups/acme/projects?{query}")).ids();
    assert!(found("").contains(&106) && !found("with_issues_enabled=true").contains(&106));
    let without_any = "archived=true active=false marked_for_deletion_on=2026-01-01 repository_storage=x \
        custom_attributes[team]=x";
    for nothing in without_any.split(' ') {
        assert_eq!(forge.get("t1", &format!("groups?{nothing}")).ids(), [0; 0], "{nothing}");
    }
    assert!(!forge.get("t1", "groups?archived=false&active=true").ids().is_empty());
    for query in ["archived=no-flag", "active=2", "marked_for_deletion_on=soon"] {
        let name = query.split('=').next().unwrap();
        let refused = forge.get("t1", &format!("groups?{query}"));
        assert_eq!((refused.status, &refused.body["error"]), (400, &json!(format!("{name} is invalid"))));
    }
}

#[test]
fn projects_of_a_group_and_of_a_user() {
    let forge = forge();
    let share = Share { group_id: 10, role: Role::Developer, expires_at: None };
    forge.save_project(NewProject { shares: vec![share], ..new_project(104, 20) });
    let found = |token: &str, path: &str| forge.get(token, path).ids();
    assert_eq!(found("t1", "groups/acme/projects"), [104, 100]);
    assert_eq!(found("t1", "groups/acme/projects?with_shared=false"), [100]);
    assert_eq!(found("t1", "groups/10/projects?include_subgroups=true&with_shared=false"), [101, 100]);
    assert_eq!(found("", "groups/10/projects?include_subgroups=true"), [104, 100], "what the caller may read");
    is(forge.get("t2", "groups/20/projects"), 404, "404 Group Not Found");
    assert_eq!(found("t3", "users/bob/projects"), [103]);
    assert_eq!(found("t2", "users/3/projects"), [0; 0]);
    is(forge.get("t2", "users/nobody/projects"), 404, "404 User Not Found");
}

#[test]
fn groups_are_shown_only_to_callers_who_may_read_them() {
    let forge = forge();
    forge.join(2, Source::Group(12), Role::Guest, None);
    forge.join(3, Source::Project(102), Role::Guest, None);
    forge.join(4, Source::Group(10), Role::Owner, None);
    let list = |token: &str, query: &str| forge.get(token, &format!("groups?{query}")).ids();
    assert_eq!(list("", ""), [10, 12], "public ones, by name");
    assert_eq!(list("t2", ""), [10, 11, 12], "a member, and of what is above");
    assert_eq!(list("t3", ""), [20], "by a project below");
    assert_eq!(list("t3", "all_available=true"), [10, 12, 20]);
    assert_eq!(list("t4", ""), [10, 11, 12], "an inherited owner");
    assert_eq!(list("t4", "owned=true&top_level_only=true"), [10]);
    assert_eq!(list("t4", "min_access_level=50&sort=desc&order_by=id"), [12, 11, 10]);
    assert_eq!(list("t1", ""), [10, 11, 12, 20]);
    assert_eq!(list("t1", "search=core"), [11, 12], "by the full path");
    assert_eq!(list("t1", "search=acme%2Fcore"), [11, 12]);
    assert_eq!(list("t3", "search=acme%2Fcore&all_available=true"), [12], "no group that the caller may not read");
    assert_eq!(forge.get("t1", "groups/acme/descendant_groups?search=acme").ids(), [0; 0], "by their own texts");
    assert_eq!(forge.get("t1", "groups/acme/subgroups?search=cor").ids(), [11]);
    assert_eq!(list("t1", "visibility=private"), [11, 20]);
    assert_eq!(list("t1", "search=alice"), [0; 0], "a personal namespace is no group");
    assert_eq!(forge.get("t1", "groups/acme/subgroups").ids(), [11]);
    assert_eq!(forge.get("t1", "groups/acme/descendant_groups").ids(), [11, 12]);
    let status = |token: &str, id: &str| forge.get(token, &format!("groups/{id}")).status;
    assert_eq!(["10", "11", "20"].map(|id| status("", id)), [200, 404, 404]);
    assert_eq!(["acme", "acme%2Fcore", "guild"].map(|id| status("t2", id)), [200, 200, 404]);
    for id in ["alice", "nothing", "99", "acme%2Fp100"] {
        is(forge.get("t1", &format!("groups/{id}")), 404, "404 Group Not Found");
    }
    let expected = json!({"id": 11, "name": "CORE", "path": "core", "full_name": "ACME / CORE", "full_path": "acme/core",
        "parent_id": 10, "visibility": "private", "avatar_url": null,
        "web_url": "https://forge.test/groups/acme/core", "shared_with_groups": []});
    assert_eq!(forge.get("t4", "groups/acme%2Fcore").body, expected);
    assert_eq!(names(&forge.get("t1", "groups?per_page=1&page=2")), ["CORE"]);
}

#[test]
fn invited_groups_are_shown_only_to_callers_who_may_read_them() {
    let forge = forge();
    let shares = || [11, 20, 12].map(|group_id| Share { group_id, role: Role::Developer, expires_at: None }).to_vec();
    forge.save_group(NewGroup { shares: shares(), ..new_group(30, "host", None) });
    forge.save_project(NewProject { shares: shares(), ..new_project(105, 30) });
    forge.join(2, Source::Group(20), Role::Guest, None);
    let invited = |token: &str, path: &str| {
        let shown = forge.get(token, path).body;
        let groups = shown["shared_with_groups"].as_array().cloned().unwrap_or_default();
        groups.iter().map(|share| share["group_id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    for (token, readable) in [("", vec![12]), ("t3", vec![12]), ("t2", vec![20, 12]), ("t1", vec![11, 20, 12])] {
        assert_eq!(invited(token, "groups/30"), readable, "{token}");
        let of_project = if token.is_empty() { vec![] } else { readable };
        assert_eq!(invited(token, "projects/105"), of_project, "{token}");
    }
}

#[test]
fn the_version_is_for_users() {
    let forge = forge();
    for path in ["version", "metadata/"] {
        is(forge.get("", path), 401, "401 Unauthorized");
        let shown = forge.get("x2", path).body;
        assert!(shown["version"].as_str().unwrap().split('.').count() == 3, "{shown}");
        assert!(shown["revision"].as_str().unwrap().starts_with("hexad-"), "{shown}");
    }
}

#[test]
fn a_storage_that_fails_anywhere_is_a_500_in_lists_too() {
    let store = MemoryStore::default();
    let forge = Forge(env(store.clone(), &[]));
    forge.user(2, "alice");
    forge.group(10, "acme", None);
    forge.project(100, 10, vec![], None);
    forge.join(2, Source::Group(10), Role::Owner, None);
    for path in ["user", "users", "users/2", "projects", "projects/100", "groups", "groups/acme", "groups/10/projects"]
    {
        for after in 0.. {
            let failing = FailingStore::after(after, store.clone());
            let answer = get(&env(failing.clone(), &[]), "t2", path);
            if !failing.failed() {
                assert_eq!((answer.status, after > 2), (200, true));
                break;
            }
            assert_eq!(answer.status, 500, "{path} {after}");
        }
    }
}

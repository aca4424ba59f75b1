//! Authentication, and which issues a caller sees.

use super::*;

#[test]
fn a_count_needs_a_token() {
    let env = forge();
    for path in
        ["issues_statistics?scope=all", "groups/10/issues_statistics", "projects/100/issues_statistics?weight=x"]
    {
        let answer = get(&env, "", path);
        assert_eq!((answer.status, answer.body), (401, json!({"message": "401 Unauthorized"})), "{path}");
    }
}

#[test]
fn status_400_comes_before_404() {
    let env = forge();
    let answer = get(&env, "alice", "projects/999/issues_statistics?author_id=x");
    assert_eq!((answer.status, answer.body), (400, json!({"error": "author_id is invalid"})));
}

#[test]
fn unreadable_groups_and_projects_are_not_found() {
    let env = forge();
    for (path, kind) in [
        ("projects/101/issues_statistics", "Project"),
        ("projects/acme%2Fcore%2Fengine/issues_statistics", "Project"),
        ("projects/999/issues_statistics", "Project"),
        ("projects/site/issues_statistics", "Project"),
        ("groups/11/issues_statistics", "Group"),
        ("groups/acme%2Fcore/issues_statistics", "Group"),
        ("groups/nowhere/issues_statistics", "Group"),
        ("groups/alice/issues_statistics", "Group"),
    ] {
        let answer = get(&env, "alice", path);
        assert_eq!((answer.status, answer.body), (404, json!({"message": format!("404 {kind} Not Found")})), "{path}");
    }
    assert_eq!(counts(&env, "alice", "projects/ACME%2Fsite/issues_statistics"), [0, 0, 0]);
    assert_eq!(counts(&env, "alice", "groups/Acme/issues_statistics"), [0, 0, 0]);
}

#[test]
fn a_former_path_of_a_project_redirects() {
    let env = forge();
    save_project(&env, 100, "place", 10, Visibility::Public, FeatureAccess::Enabled);
    let answer = get(&env, "alice", "projects/acme%2Fsite/issues_statistics?labels=a");
    assert_eq!(answer.status, 301);
    let url = "http://localhost/api/v4/projects/100/issues_statistics";
    assert_eq!(answer.location, Some(format!("{url}?labels=a")));
    assert_eq!(answer.body, json!({"message": format!("This resource has been moved permanently to {url}")}));
}

/// An issue in each project.
fn import_one_for_each_project(env: &Env) {
    let lines: Vec<Value> = (0..4).map(|n| issue(n + 1, json!({"project_id": 100 + n, "author": {"id": 9}}))).collect();
    assert_eq!(import(env, &lines)["imported"]["issue"], 4);
}

#[test]
fn only_issues_of_readable_projects_count() {
    let env = forge();
    import_one_for_each_project(&env);
    let sees = |token: &str| all(&env, token, "issues_statistics?scope=all");
    assert_eq!(["root", "alice", "bob", "eve"].map(sees), [4, 2, 3, 1]);
    join(&env, 4, Source::Group(10), Role::Guest);
    assert_eq!(sees("eve"), 3, "a role in a group is inherited below");
    save_project(&env, 100, "site", 10, Visibility::Public, FeatureAccess::Disabled);
    assert_eq!(["root", "alice", "eve"].map(sees), [3, 1, 2]);
    assert_eq!(in_project(&env, "root", ""), 0);
    save_project(&env, 100, "site", 10, Visibility::Public, FeatureAccess::Private);
    assert_eq!(["root", "alice", "eve"].map(sees), [4, 1, 3], "members only");
}

#[test]
fn groups_count_everything_below_and_follow_a_move() {
    let env = forge();
    import_one_for_each_project(&env);
    let group = |path: &str| all(&env, "root", &format!("groups/{path}/issues_statistics"));
    assert_eq!(["10", "acme%2Fcore", "guild"].map(group), [3, 1, 0]);
    save_group(&env, 11, "core", Some(12), Visibility::Private);
    assert_eq!(["10", "guild%2Fcore", "guild"].map(group), [2, 1, 1]);
    save_project(&env, 100, "site", 12, Visibility::Private, FeatureAccess::Enabled);
    assert_eq!(["10", "guild"].map(group), [1, 2]);
    assert_eq!(all(&env, "alice", "groups/10/issues_statistics"), 1);
}

#[test]
fn confidential_issues_are_for_participants_and_planners() {
    let env = forge();
    import(
        &env,
        &[
            issue(1, json!({"confidential": true, "author": {"id": 2}})),
            issue(2, json!({"confidential": true, "author": {"id": 9}, "assignees": [{"id": 3}]})),
            issue(3, json!({"confidential": false, "author": {"id": 9}})),
        ],
    );
    let sees = |token: &str| {
        ["", "?confidential=true", "?confidential=false"]
            .map(|query| all(&env, token, &format!("projects/100/issues_statistics{query}")))
    };
    assert_eq!(sees("root"), [3, 2, 1]);
    assert_eq!(sees("alice"), [2, 1, 1], "its author");
    assert_eq!(sees("bob"), [2, 1, 1], "assigned to it");
    assert_eq!(sees("eve"), [1, 0, 1]);
    join(&env, 4, Source::Project(100), Role::Guest);
    assert_eq!(sees("eve"), [1, 0, 1]);
    join(&env, 4, Source::Project(100), Role::Planner);
    assert_eq!(sees("eve"), [3, 2, 1]);
}

#[test]
fn issues_of_banned_authors_are_hidden() {
    let env = forge();
    import(&env, &[issue(1, json!({"hidden": true})), issue(2, json!({"author": {"id": 5, "state": "banned"}}))]);
    assert_eq!(["root", "alice"].map(|token| in_project(&env, token, "")), [2, 0]);
}

#[test]
fn issues_of_authors_who_are_banned_later_are_hidden_until_they_are_not_banned() {
    let env = forge();
    import(&env, &[issue(1, json!({"author": {"id": 4}})), issue(2, json!({"author": {"id": 5}}))]);
    let counts = || ["root", "alice"].map(|token| in_project(&env, token, ""));
    for (state, expected) in [
        (UserState::Active, [2, 2]),
        (UserState::Banned, [2, 1]),
        (UserState::Blocked, [2, 2]),
        (UserState::Banned, [2, 1]),
        (UserState::Active, [2, 2]),
    ] {
        save_user_as(&env, 4, "eve", state);
        assert_eq!(counts(), expected, "{state:?}");
    }
}

#[test]
fn imports_are_for_administrators() {
    let env = forge();
    let post = |token: &str| send_body(&env, Method::POST, "/api/v4/import/issues", token, Body::Empty).status;
    assert_eq!(["", "alice", "root"].map(post), [401, 403, 200]);
}

#[test]
fn searches_are_limited_if_configured() {
    let store = MemoryStore::default();
    forge_on(store.clone());
    let env = kit::testing::env(store, &[("issues_search_rate_limit", "2")]);
    let status = |path: &str| get(&env, "alice", path).status;
    assert_eq!(["?search=a"; 3].map(|query| status(&format!("issues_statistics{query}"))), [200, 200, 429]);
    assert_eq!(status("issues_statistics"), 200);
    assert_eq!(get(&env, "bob", "issues_statistics?search=a").status, 200, "each user has a limit of their own");
}

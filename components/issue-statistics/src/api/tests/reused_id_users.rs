//! A new user with the id of a deleted user does not inherit their issues, assignments and reactions.

use super::*;
use kit::store::Store as _;

/// Deletes a user and creates another one with the same id, whose token is their name.
fn replace(env: &Env, id: u64, username: &str) {
    change(env, |changes| changes.delete_user(id), || dependents::delete_user(env, id).unwrap());
    save_user(env, id, username);
}

/// Counts of all issues of project 100, for each query.
fn sees<const N: usize>(env: &Env, token: &str, queries: [&str; N]) -> [u64; N] {
    queries.map(|query| all(env, token, &format!("projects/100/issues_statistics?{query}")))
}

const OWN: [&str; 5] = [
    "confidential=true",
    "scope=created_by_me",
    "scope=assigned_to_me",
    "my_reaction_emoji=tada",
    "my_reaction_emoji=Any",
];

/// Two confidential issues and a public one. User 2 is author, assignee, and reacted, in this order.
fn issues(first: u64) -> [Value; 3] {
    [
        issue(first, json!({"confidential": true})),
        issue(first + 1, json!({"confidential": true, "author": {"id": 9}, "assignees": [{"id": 2}]})),
        issue(first + 2, json!({"author": {"id": 9}, "reactions": [{"name": "tada", "user": {"id": 2}}]})),
    ]
}

#[test]
fn confidential_issues_are_hidden_from_the_next_user_with_the_id() {
    let env = forge();
    import(&env, &issues(1));
    assert_eq!(sees(&env, "alice", OWN), [2, 1, 1, 1, 1]);
    replace(&env, 2, "anna");
    assert_eq!(sees(&env, "anna", OWN), [0; 5]);
    assert_eq!(sees(&env, "anna", [""]), [1]);
    import(&env, &issues(11));
    assert_eq!(sees(&env, "anna", OWN), [2, 1, 1, 1, 1], "their own");
    replace(&env, 2, "amy");
    assert_eq!(sees(&env, "amy", OWN), [0; 5]);
    assert_eq!(sees(&env, "root", [""]), [6]);
    // An issue imported before its author belongs to the first user with the id.
    import(&env, &[issue(21, json!({"confidential": true, "author": {"id": 8}}))]);
    save_user(&env, 8, "ann");
    assert_eq!(sees(&env, "ann", ["scope=created_by_me"]), [1]);
}

#[test]
fn user_filters_match_the_current_user_with_the_id() {
    let env = forge();
    import(&env, &issues(1));
    replace(&env, 2, "anna");
    join(&env, 2, Source::Group(12), Role::Guest);
    join(&env, 1, Source::Group(12), Role::Guest);
    let queries = [
        "author_id=2",
        "author_username=anna",
        "assignee_id=2",
        "assignee_username[]=anna",
        "assignee_username[]=@guild",
        "not[author_id]=2",
        "not[author_username]=anna",
        "not[assignee_id]=2",
        "not[assignee_username][]=@guild",
    ];
    assert_eq!(sees(&env, "root", queries), [0, 0, 0, 0, 0, 3, 3, 3, 3]);
    import(&env, &issues(11));
    assert_eq!(sees(&env, "root", queries), [1, 1, 1, 1, 1, 5, 5, 5, 5]);
    // A deleted user counts as the first user with the id, unless the id was reused.
    change(&env, |changes| changes.delete_user(3), || dependents::delete_user(&env, 3).unwrap());
    import(&env, &[issue(21, json!({"author": {"id": 3}}))]);
    assert_eq!(sees(&env, "root", ["author_id=3"]), [1]);
}

#[test]
fn a_banned_user_hides_no_issues_of_the_deleted_one() {
    let env = forge();
    import(&env, &[issue(1, json!({"author": {"id": 4}}))]);
    replace(&env, 4, "ed");
    import(&env, &[issue(2, json!({"author": {"id": 4}}))]);
    let counts = || ["root", "alice"].map(|token| in_project(&env, token, ""));
    assert_eq!(counts(), [2, 2]);
    save_user_as(&env, 4, "ed", UserState::Banned);
    assert_eq!(counts(), [2, 1]);
    change(&env, |changes| changes.delete_user(4), || dependents::delete_user(&env, 4).unwrap());
    assert_eq!(counts(), [2, 2], "who is banned no more, as there is no such user");
    save_user_as(&env, 4, "eva", UserState::Banned);
    assert_eq!(counts(), [2, 2], "the issues are of others");
}

/// The catalog of an earlier build does not record that a banned user has a reused id. Their issues are hidden all the
/// same.
#[test]
fn issues_of_a_user_banned_by_an_earlier_build_are_hidden() {
    let (store, earlier) = (MemoryStore::default(), MemoryStore::default());
    let env = forge_on(store.clone());
    replace(&env, 4, "ed");
    import(&env, &[issue(1, json!({"author": {"id": 4}})), issue(2, json!({}))]);
    // In the catalog of that build, user 4 is the first user with the id.
    let env = forge_on(earlier.clone());
    save_user_as(&env, 4, "eve", UserState::Banned);
    for key in store.keys().iter().filter(|key| key.starts_with("issue-statistics/")) {
        if let Ok(Some(value)) = store.get(key) {
            earlier.set(key, &value).unwrap();
        }
    }
    let counts = ["root", "alice"].map(|token| in_project(&env, token, ""));
    assert_eq!(counts, [2, 1]);
}

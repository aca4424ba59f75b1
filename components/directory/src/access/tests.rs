//! Roles, visibility and access levels, for every kind of caller.

use super::*;
use crate::caller::{AcceptedTokens, authenticate};
use crate::dependents;
use crate::member::Membership;
use crate::namespace::NewGroup;
use crate::project::{JobTokenScope, NewProject};
use crate::testing::*;
use crate::token::Subject;
use crate::user::NewUser;
use kit::testing::{MemoryStore, NOW};

fn caller(env: &Env, subject: Subject) -> Caller {
    issue(env, "t", new_token(subject, &["api"]));
    authenticate(env, &request("authorization", "Bearer t"), AcceptedTokens::Registry).unwrap()
}

fn user(env: &Env, id: u64) -> Caller {
    caller(env, Subject::User(id))
}

fn project(env: &Env, id: u64) -> Project {
    project::by_id(env, id).unwrap().unwrap()
}

fn role_in(env: &Env, caller: &Caller, project_id: u64) -> Role {
    project_role(env, caller, &project(env, project_id)).unwrap()
}

fn reads(env: &Env, caller: &Caller) -> Vec<u64> {
    let readable = |id: &u64| may_read_project(env, caller, &project(env, *id)).unwrap();
    [100, 101, 102, 103].into_iter().filter(readable).collect()
}

fn reads_groups(env: &Env, caller: &Caller) -> Vec<u64> {
    let group = |id: u64| namespace::by_id(env, id).unwrap().unwrap();
    [10, 11, 12].into_iter().filter(|id| may_read_group(env, caller, &group(*id)).unwrap()).collect()
}

#[test]
fn visibility_decides_for_callers_without_a_role() {
    let env = forge();
    assert_eq!(reads(&env, &Caller::Anonymous), [100]);
    assert_eq!(reads(&env, &user(&env, 2)), [100, 102]);
    assert_eq!(reads(&env, &user(&env, 4)), [100], "external users do not see internal projects");
    assert_eq!(reads(&env, &user(&env, 3)), [100, 102, 103], "an owner sees their personal projects");
    assert_eq!(reads(&env, &user(&env, 1)), [100, 101, 102, 103], "an administrator sees everything");
    assert_eq!(role_in(&env, &user(&env, 1), 101), Role::Owner);
    assert_eq!(role_in(&env, &user(&env, 3), 103), Role::Owner);
    assert_eq!(role_in(&env, &Caller::Anonymous, 100), Role::None);
}

#[test]
fn the_highest_of_direct_and_inherited_roles_counts() {
    let env = forge();
    join(&env, 2, Source::Group(10), Role::Developer);
    join(&env, 2, Source::Group(11), Role::Guest);
    join(&env, 2, Source::Project(100), Role::Maintainer);
    let alice = user(&env, 2);
    assert_eq!(role_in(&env, &alice, 100), Role::Maintainer);
    assert_eq!(role_in(&env, &alice, 101), Role::Developer);
    assert_eq!(role_in(&env, &alice, 103), Role::None);
    assert_eq!(reads(&env, &alice), [100, 101, 102]);
}

#[test]
fn a_membership_of_a_subgroup_does_not_reach_upwards() {
    let env = forge();
    join(&env, 4, Source::Group(11), Role::Owner);
    assert_eq!(role_in(&env, &user(&env, 4), 102), Role::None);
    assert_eq!(reads(&env, &user(&env, 4)), [100, 101]);
}

#[test]
fn expired_and_minimal_memberships_give_no_rights() {
    let env = forge();
    let ended = Membership { role: Role::Owner, expires_at: Some(NOW) };
    set_membership(&env, 2, Source::Project(101), Some(ended));
    assert_eq!(role_in(&env, &user(&env, 2), 101), Role::None);
    let lasts = Membership { expires_at: Some(Timestamp::from_millis(NOW.millis() + 1)), ..ended };
    set_membership(&env, 2, Source::Project(101), Some(lasts));
    assert_eq!(role_in(&env, &user(&env, 2), 101), Role::Owner);
    set_membership(&env, 2, Source::Project(101), None);
    assert_eq!(role_in(&env, &user(&env, 2), 101), Role::None);
    join(&env, 2, Source::Group(11), Role::MinimalAccess);
    assert_eq!(role_in(&env, &user(&env, 2), 101), Role::MinimalAccess);
    assert_eq!(reads(&env, &user(&env, 2)), [100, 102]);
    assert_eq!(reads_groups(&env, &user(&env, 2)), [10]);
}

#[test]
fn an_invited_group_gives_its_members_at_most_the_role_of_the_invitation() {
    let env = forge();
    let share = |role| Share { group_id: 12, role, expires_at: None };
    let share_core =
        |shares| dependents::save_group(&env, NewGroup { shares, ..new_group(11, "core", Some(10)) }).unwrap();
    join(&env, 2, Source::Group(12), Role::Developer);
    share_core(vec![share(Role::Reporter)]);
    assert_eq!(role_in(&env, &user(&env, 2), 101), Role::Reporter, "through a group above the project");
    share_core(vec![share(Role::Owner)]);
    assert_eq!(role_in(&env, &user(&env, 2), 101), Role::Developer, "never more than their own role");
    share_core(vec![Share { expires_at: Some(NOW), ..share(Role::Owner) }]);
    assert_eq!(role_in(&env, &user(&env, 2), 101), Role::None, "not after it expired");
    let engine = NewProject { shares: vec![share(Role::Guest)], ..new_project(101, "engine", 11) };
    project::save(&env, engine).unwrap();
    assert_eq!(role_in(&env, &user(&env, 2), 101), Role::Guest, "through the project itself");
    assert_eq!(role_in(&env, &user(&env, 3), 101), Role::None);
}

#[test]
fn a_private_group_is_seen_by_members_of_its_descendants() {
    let env = forge();
    assert_eq!(reads_groups(&env, &Caller::Anonymous), [10]);
    assert_eq!(reads_groups(&env, &user(&env, 2)), [10]);
    assert_eq!(reads_groups(&env, &user(&env, 1)), [10, 11, 12]);
    join(&env, 2, Source::Project(101), Role::Guest);
    assert_eq!(reads_groups(&env, &user(&env, 2)), [10, 11]);
    dependents::save_group(&env, new_group(13, "inner", Some(12))).unwrap();
    join(&env, 3, Source::Group(13), Role::Guest);
    assert_eq!(reads_groups(&env, &user(&env, 3)), [10, 12]);
    join(&env, 4, Source::Group(99), Role::Owner);
    assert_eq!(reads_groups(&env, &user(&env, 4)), [10]);
}

#[test]
fn a_deploy_token_reads_its_group_or_project_and_public_ones() {
    let env = forge();
    let of_group = caller(&env, Subject::Deployment(Source::Group(11)));
    assert_eq!(reads(&env, &of_group), [100, 101]);
    assert_eq!(reads_groups(&env, &of_group), [10, 11]);
    let of_project = caller(&env, Subject::Deployment(Source::Project(102)));
    assert_eq!(reads(&env, &of_project), [100, 102]);
    assert_eq!(role_in(&env, &of_project, 102), Role::None);
}

#[test]
fn a_job_has_its_users_role_where_its_project_is_accepted() {
    let env = forge();
    join(&env, 2, Source::Group(10), Role::Developer);
    let job = caller(&env, Subject::Job { user_id: 2, project_id: 100, running: true });
    assert_eq!(role_in(&env, &job, 100), Role::Developer);
    assert!(refuses_job(&job, &project(&env, 101)));
    assert_eq!((role_in(&env, &job, 101), reads(&env, &job)), (Role::None, vec![100, 102]));
    for (restricted, projects, groups) in [(true, vec![100], vec![]), (true, vec![], vec![10]), (false, vec![], vec![])]
    {
        let job_tokens = JobTokenScope { restricted, projects, groups };
        project::save(&env, NewProject { job_tokens, ..new_project(101, "engine", 11) }).unwrap();
        assert_eq!(role_in(&env, &job, 101), Role::Developer);
    }
}

#[test]
fn a_caller_who_is_blocked_has_no_rights() {
    let env = forge();
    join(&env, 3, Source::Project(101), Role::Owner);
    let Caller::User(mut session) = user(&env, 3) else { panic!("a user") };
    std::rc::Rc::make_mut(&mut session.user).state = UserState::Blocked;
    let bob = Caller::User(session);
    assert_eq!((role_in(&env, &bob, 101), reads(&env, &bob)), (Role::None, vec![100]));
}

#[test]
fn unknown_roles_and_visibilities_give_no_rights() {
    let store = MemoryStore::default();
    let env = kit::testing::env(store.clone(), &[]);
    fill(&env);
    crate::user::save(&env, NewUser { ..new_user(2, "alice") }).unwrap();
    let set = |key: &str, value: &str| kit::store::Store::set(&store, key, value.as_bytes()).unwrap();
    set("directory/v1/access/2", r#"{"projects":{"101":{"role":99}}}"#);
    set(
        "directory/v1/project/100",
        r#"{"name":"","path":"site","namespace_id":10,"visibility":"new","registry":"new","issues":"new"}"#,
    );
    let alice = user(&env, 2);
    assert_eq!(role_in(&env, &alice, 101), Role::None);
    assert_eq!(reads(&env, &alice), [102]);
    assert_eq!(project(&env, 100).registry, project::FeatureAccess::Disabled);
}

/// The projects of 100, 101 and 102 whose code, and whose merge requests, the caller may read.
fn reads_code(env: &Env, caller: &Caller) -> (Vec<u64>, Vec<u64>) {
    let code = |id: &u64| may_read_code(env, caller, &project(env, *id)).unwrap();
    let merge_requests = |id: &u64| may_read_merge_requests(env, caller, &project(env, *id)).unwrap();
    let projects = || [100, 101, 102].into_iter();
    (projects().filter(code).collect(), projects().filter(merge_requests).collect())
}

#[test]
fn the_code_of_a_private_project_takes_a_reporter() {
    let env = forge();
    let both = |projects: &[u64]| (projects.to_vec(), projects.to_vec());
    assert_eq!(reads_code(&env, &Caller::Anonymous), both(&[100]));
    assert_eq!(reads_code(&env, &user(&env, 4)), both(&[100]), "external users do not see internal projects");
    for (role, expected) in
        [(Role::Guest, both(&[100, 102])), (Role::Planner, both(&[100, 102])), (Role::Reporter, both(&[100, 101, 102]))]
    {
        join(&env, 2, Source::Group(10), role);
        assert_eq!(reads_code(&env, &user(&env, 2)), expected, "{role:?}");
    }
    assert_eq!(reads_code(&env, &user(&env, 1)), both(&[100, 101, 102]), "an administrator");
    let deployment = caller(&env, Subject::Deployment(Source::Project(101)));
    assert_eq!(reads_code(&env, &deployment), both(&[100, 101]));
}

#[test]
fn access_levels_decide_about_code_and_merge_requests() {
    use crate::project::FeatureAccess::{Disabled, Enabled, Private, Public};
    let env = forge();
    join(&env, 3, Source::Group(10), Role::Guest);
    join(&env, 2, Source::Group(10), Role::Reporter);
    // The readers of a public and of a private project's code, and of their merge requests: no caller, administrators
    // and Reporters, all members, all callers.
    const NONE: usize = 0;
    const REPORTERS: usize = 2;
    const MEMBERS: usize = 3;
    const ALL: usize = 4;
    for (repository, merge_requests, of_public, of_private) in [
        (Enabled, Enabled, (ALL, ALL), (REPORTERS, REPORTERS)),
        (Public, Public, (ALL, ALL), (REPORTERS, REPORTERS)),
        (Private, Enabled, (MEMBERS, MEMBERS), (REPORTERS, REPORTERS)),
        (Private, Private, (MEMBERS, REPORTERS), (REPORTERS, REPORTERS)),
        (Enabled, Private, (ALL, REPORTERS), (REPORTERS, REPORTERS)),
        (Enabled, Disabled, (ALL, NONE), (REPORTERS, NONE)),
        (Disabled, Enabled, (NONE, NONE), (NONE, NONE)),
    ] {
        for (visibility, expected) in [(Visibility::Public, of_public), (Visibility::Private, of_private)] {
            let new = NewProject { visibility, repository, merge_requests, ..new_project(101, "engine", 11) };
            project::save(&env, new).unwrap();
            let callers = [user(&env, 1), user(&env, 2), user(&env, 3), Caller::Anonymous];
            let allowed = callers.map(|caller| {
                let (code, merge_requests) = reads_code(&env, &caller);
                (code.contains(&101), merge_requests.contains(&101))
            });
            let first = |count: usize| [0, 1, 2, 3].map(|index| index < count);
            let case = format!("{visibility:?}, repository {repository:?}, merge requests {merge_requests:?}");
            assert_eq!(allowed.map(|(code, _)| code), first(expected.0), "{case}");
            assert_eq!(allowed.map(|(_, merge_requests)| merge_requests), first(expected.1), "{case}");
        }
    }
}

#[test]
fn a_deploy_token_reads_the_private_repository_that_it_covers() {
    let env = forge();
    let repository = project::FeatureAccess::Private;
    project::save(&env, NewProject { repository, visibility: Visibility::Public, ..new_project(100, "site", 10) })
        .unwrap();
    let of = |id| caller(&env, Subject::Deployment(Source::Project(id)));
    assert_eq!(reads_code(&env, &of(100)).0, [100]);
    assert_eq!(reads_code(&env, &of(102)).0, [102]);
}

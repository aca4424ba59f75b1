//! What a caller may do in one group or project: roles, direct and inherited, and visibility.

pub use crate::model::role::Role;

use crate::caller::{Caller, Session};
use crate::member::{Memberships, Share, Source, is_current};
use crate::namespace::{self, MAX_DEPTH, Namespace, NamespaceKind, Visibility};
use crate::project::{self, Project};
use crate::user::UserState;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::collections::BTreeMap;

/// The caller's role in a project: the highest of their own, those inherited from every group
/// above, and those through invited groups. The owner of a personal namespace owns its projects;
/// an administrator owns everything. A deploy token has no role (see
/// [`crate::caller::DeployToken::covers`]), nor has a job that the project refuses.
///
/// One read for a caller's first question, and for each invited group those of its lineage.
pub fn project_role(env: &Env, caller: &Caller, project: &Project) -> Result<Role, StoreError> {
    if refuses_job(caller, project) {
        return Ok(Role::None);
    }
    let Some(session) = caller.session() else {
        return Ok(Role::None);
    };
    role(env, session, Some(project), &project.namespace)
}

/// The caller's role in a group or personal namespace, likewise.
pub fn namespace_role(env: &Env, caller: &Caller, namespace: &Namespace) -> Result<Role, StoreError> {
    match caller.session() {
        Some(session) => role(env, session, None, namespace),
        None => Ok(Role::None),
    }
}

/// Whether the caller may see a project at all.
pub fn may_read_project(env: &Env, caller: &Caller, project: &Project) -> Result<bool, StoreError> {
    if let Caller::DeployToken(token) = caller
        && token.covers(project)
    {
        return Ok(true);
    }
    Ok(is_open(caller, project.visibility) || project_role(env, caller, project)? >= Role::Guest)
}

/// Whether the caller may see a group: it is open to them, or they are a member of it, of a group
/// above, or of a group or project below. The last costs up to a read for each membership of the caller
/// and is therefore checked last.
pub fn may_read_group(env: &Env, caller: &Caller, group: &Namespace) -> Result<bool, StoreError> {
    if is_open(caller, group.visibility) || namespace_role(env, caller, group)? >= Role::Guest {
        return Ok(true);
    }
    match caller {
        Caller::DeployToken(token) => Ok(token.covers_group(group)),
        Caller::User(session) => is_member_below(env, session, group),
        Caller::Job(job) => is_member_below(env, &job.session, group),
        Caller::Anonymous => Ok(false),
    }
}

/// Whether the caller is a job that the project does not accept: it then has no rights by
/// membership, whatever its user may do.
pub fn refuses_job(caller: &Caller, project: &Project) -> bool {
    let Caller::Job(job) = caller else { return false };
    let accepted = &project.job_tokens;
    accepted.restricted
        && job.project.id != project.id
        && !accepted.projects.contains(&job.project.id)
        && !job.project.namespace.lineage().any(|group| accepted.groups.contains(&group.id))
}

/// Whether the visibility alone lets the caller see a group or project.
pub(crate) fn is_open(caller: &Caller, visibility: Visibility) -> bool {
    match visibility {
        Visibility::Public => true,
        Visibility::Internal => caller.user().is_some_and(|user| user.state == UserState::Active && !user.external),
        Visibility::Private => false,
    }
}

fn role(env: &Env, session: &Session, project: Option<&Project>, namespace: &Namespace) -> Result<Role, StoreError> {
    let user = &session.user;
    if user.state != UserState::Active {
        return Ok(Role::None);
    }
    if user.is_admin || namespace.lineage().any(|above| above.kind == NamespaceKind::User { owner: user.id }) {
        return Ok(Role::Owner);
    }
    let memberships = session.memberships(env)?;
    let own = project.map_or(Role::None, |project| memberships.role(Source::Project(project.id), env.now));
    let mut role = own.max(inherited(memberships, namespace, env.now));
    let invited = project.map(|project| project.shares.as_slice()).unwrap_or_default();
    for share in invited.iter().chain(namespace.lineage().flat_map(|above| &above.shares)) {
        if share.role > role {
            role = role.max(role_by_share(env, memberships, share)?);
        }
    }
    Ok(role)
}

/// The highest role in a namespace or in one above it.
fn inherited(memberships: &Memberships, namespace: &Namespace, now: Timestamp) -> Role {
    let roles = namespace.lineage().map(|above| memberships.role(Source::Group(above.id), now));
    roles.max().unwrap_or(Role::None)
}

/// The role that a user with these memberships has as a member of an invited group.
fn role_by_share(env: &Env, memberships: &Memberships, share: &Share) -> Result<Role, StoreError> {
    let in_some_group = memberships.0.keys().any(|source| matches!(source, Source::Group(_)));
    if !in_some_group || !is_current(share.expires_at, env.now) {
        return Ok(Role::None);
    }
    let group = namespace::by_id(env, share.group_id)?;
    Ok(group.map_or(Role::None, |group| inherited(memberships, &group, env.now).min(share.role)))
}

/// Whether the user is a member of a group or project somewhere below `group`.
fn is_member_below(env: &Env, session: &Session, group: &Namespace) -> Result<bool, StoreError> {
    let memberships = session.memberships(env)?;
    // Many memberships have ancestors in common; each namespace is read once.
    let mut known = BTreeMap::from([(group.id, true)]);
    for source in memberships.0.keys().filter(|source| memberships.role(**source, env.now) >= Role::Guest) {
        let namespace_id = match *source {
            Source::Group(id) => Some(id),
            Source::Project(id) => project::namespace_of(env, id)?,
        };
        if let Some(id) = namespace_id
            && is_below(env, id, &mut known)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a namespace is the group or below it. `known` has the answers for namespaces so far.
fn is_below(env: &Env, id: u64, known: &mut BTreeMap<u64, bool>) -> Result<bool, StoreError> {
    let mut visited = Vec::new();
    let mut next = Some(id);
    let mut below = false;
    while let Some(id) = next {
        if let Some(answer) = known.get(&id) {
            below = *answer;
            break;
        }
        if visited.len() > MAX_DEPTH {
            break;
        }
        visited.push(id);
        next = namespace::parent_of(env, id)?;
    }
    known.extend(visited.into_iter().map(|id| (id, below)));
    Ok(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{AcceptedTokens, authenticate};
    use crate::member::Membership;
    use crate::namespace::NewGroup;
    use crate::project::{JobTokenScope, NewProject};
    use crate::testing::{fill, forge, issue, join, new_group, new_project, new_token, new_user, set_membership};
    use crate::token::Subject;
    use crate::user::NewUser;
    use http::Method;
    use kit::Request;
    use kit::testing::{MemoryStore, NOW};

    fn caller(env: &Env, subject: Subject) -> Caller {
        issue(env, "t", new_token(subject, &["api"]));
        let mut request = Request::new(Method::GET, "/");
        request.headers.insert("authorization", "Bearer t".parse().unwrap());
        authenticate(env, &request, AcceptedTokens::Registry).unwrap()
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
        let share_core = |shares| {
            let core = NewGroup { shares, ..new_group(11, "core", Some(10)) };
            namespace::save_group(&env, core).unwrap();
        };
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
        namespace::save_group(&env, new_group(13, "inner", Some(12))).unwrap();
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
        for (restricted, projects, groups) in
            [(true, vec![100], vec![]), (true, vec![], vec![10]), (false, vec![], vec![])]
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
        session.user.state = UserState::Blocked;
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
}

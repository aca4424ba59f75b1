//! A caller's access to one group or project: roles, direct and inherited, and visibility.

pub use crate::model::membership::Role;

use crate::caller::{Caller, Session};
use crate::member::{Memberships, Share, Source, is_current};
use crate::namespace::{self, MAX_DEPTH, Namespace, NamespaceKind, Visibility};
use crate::project::{self, FeatureAccess, Project};
use crate::user::{self, UserState};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The caller's role in a project: the highest of direct roles, roles inherited from every group above, and roles
/// through invited groups. The owner of a personal namespace owns its projects; an administrator owns everything. A
/// deploy token ([`crate::caller::DeployToken::covers`]) and a job that the project refuses have no role.
///
/// 1 read for a caller's first question, and for each invited group the reads of its lineage.
pub fn project_role(env: &Env, caller: &Caller, project: &Project) -> Result<Role, StoreError> {
    if refuses_job(caller, project) {
        return Ok(Role::None);
    }
    let Some(session) = caller.session() else {
        return Ok(Role::None);
    };
    role(env, session, Some(project), &project.namespace)
}

/// A user's role in a project, as in [`project_role`]. An unknown user has no role.
pub fn project_role_of(env: &Env, user_id: u64, project: &Project) -> Result<Role, StoreError> {
    match user::shared_by_id(env, user_id)? {
        Some(user) => role(env, &Session::new(user, Rc::default()), Some(project), &project.namespace),
        None => Ok(Role::None),
    }
}

/// The caller's role in a group or personal namespace, as in [`project_role`].
pub fn namespace_role(env: &Env, caller: &Caller, namespace: &Namespace) -> Result<Role, StoreError> {
    match caller.session() {
        Some(session) => role(env, session, None, namespace),
        None => Ok(Role::None),
    }
}

/// Whether the caller may see a project.
pub fn may_read_project(env: &Env, caller: &Caller, project: &Project) -> Result<bool, StoreError> {
    if let Caller::DeployToken(token) = caller
        && token.covers(project)
    {
        return Ok(true);
    }
    Ok(is_open(caller, project.visibility) || project_role(env, caller, project)? >= Role::Guest)
}

/// Whether the caller may read the project's code: its repository, and texts that quote it. As in the reference
/// service, a private project requires a Reporter. In other projects the access level `private` requires a member.
pub fn may_read_code(env: &Env, caller: &Caller, project: &Project) -> Result<bool, StoreError> {
    may_use(env, caller, project, project.repository, Role::Guest)
}

/// Whether the caller may read the project's merge requests and their discussions. They show code, so the caller must
/// also be allowed to read code. The access level `private` requires a Reporter, as in the reference service.
pub fn may_read_merge_requests(env: &Env, caller: &Caller, project: &Project) -> Result<bool, StoreError> {
    Ok(may_read_code(env, caller, project)? && may_use(env, caller, project, project.merge_requests, Role::Reporter)?)
}

/// Whether the caller may use a feature whose users see code. `member` is the least role for the access level
/// `private`. `public` equals `enabled`: it opens nothing of a private project. A deploy token may use the features of
/// the projects that it covers.
fn may_use(
    env: &Env,
    caller: &Caller,
    project: &Project,
    level: FeatureAccess,
    member: Role,
) -> Result<bool, StoreError> {
    let least = match (level, project.visibility) {
        (FeatureAccess::Disabled, _) => return Ok(false),
        (_, Visibility::Private) => Role::Reporter,
        (FeatureAccess::Private, _) => member,
        (FeatureAccess::Enabled | FeatureAccess::Public, _) => return may_read_project(env, caller, project),
    };
    if let Caller::DeployToken(token) = caller {
        return Ok(token.covers(project));
    }
    Ok(project_role(env, caller, project)? >= least)
}

/// Whether the caller may see a group. The group is open to the caller, or the caller is a member of it, of a group
/// above, or of a group or project below. The last check costs up to 1 read for each membership of the caller, so it
/// comes last.
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

/// Whether the caller is a job that the project does not accept. The job then has no rights by membership, even if its
/// user has some.
pub fn refuses_job(caller: &Caller, project: &Project) -> bool {
    let Caller::Job(job) = caller else { return false };
    let from = &job.project;
    project.job_tokens.restricted
        && from.id != project.id
        && !project.accepts_jobs_of(Source::Project(from.id), &from.incarnation)
        && !from.namespace.lineage().any(|group| project.accepts_jobs_of(Source::Group(group.id), &group.incarnation))
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

/// The highest role in a namespace or in a namespace above it.
fn inherited(memberships: &Memberships, namespace: &Namespace, now: Timestamp) -> Role {
    let roles = namespace.lineage().map(|above| memberships.role(Source::Group(above.id), now));
    roles.max().unwrap_or(Role::None)
}

/// The role of a user with these memberships through an invited group.
fn role_by_share(env: &Env, memberships: &Memberships, share: &Share) -> Result<Role, StoreError> {
    let in_some_group = memberships.0.keys().any(|source| matches!(source, Source::Group(_)));
    if !in_some_group || !is_current(share.expires_at, env.now) {
        return Ok(Role::None);
    }
    let group = namespace::by_id(env, share.group_id)?;
    Ok(group.map_or(Role::None, |group| inherited(memberships, &group, env.now).min(share.role)))
}

/// Whether the user is a member of a group or project below `group`.
fn is_member_below(env: &Env, session: &Session, group: &Namespace) -> Result<bool, StoreError> {
    let memberships = session.memberships(env)?;
    // Many memberships have common ancestors. Each namespace is read once.
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

/// Whether a namespace is the group or below it. `known` caches the answers for namespaces.
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
mod tests;

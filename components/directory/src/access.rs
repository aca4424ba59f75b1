//! What a caller may do: roles, direct and inherited, and who may see what.

use crate::caller::{Caller, Session};
use crate::member::{self, Memberships, Share, Source};
use crate::namespace::{self, Kind, Namespace, Visibility};
use crate::project::{self, Project};
use crate::store::{self, Key};
use crate::user::State;
use kit::store::Fault;
use kit::{Env, Timestamp};
use std::collections::BTreeMap;

/// A role in a group or project, ordered by what it allows. The numbers are those of the
/// reference service's `access_level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    None = 0,
    /// Counts as a member, but sees nothing that outsiders do not.
    MinimalAccess = 5,
    Guest = 10,
    Planner = 15,
    Reporter = 20,
    Developer = 30,
    Maintainer = 40,
    Owner = 50,
}

impl Role {
    const ALL: [Role; 8] = [
        Role::None,
        Role::MinimalAccess,
        Role::Guest,
        Role::Planner,
        Role::Reporter,
        Role::Developer,
        Role::Maintainer,
        Role::Owner,
    ];

    /// The role with this `access_level`.
    pub fn from_level(level: u64) -> Option<Self> {
        Role::ALL.into_iter().find(|role| role.level() == level)
    }

    pub fn level(self) -> u64 {
        self as u64
    }
}

/// The caller's role in a project: the highest of their own, those inherited from every group
/// above, and those through invited groups. The owner of a personal namespace owns its projects;
/// an administrator owns everything. A deploy token has no role (see
/// [`crate::caller::DeployToken::covers`]), nor has a job that the project refuses.
///
/// One read for a caller's first question, and for each invited group those of its lineage.
pub fn project_role(env: &Env, caller: &Caller, project: &Project) -> Result<Role, Fault> {
    if refuses_job(caller, project) {
        return Ok(Role::None);
    }
    let Some(session) = caller.session() else {
        return Ok(Role::None);
    };
    role(env, session, Some(project), &project.namespace)
}

/// The caller's role in a group or personal namespace, likewise.
pub fn namespace_role(env: &Env, caller: &Caller, namespace: &Namespace) -> Result<Role, Fault> {
    match caller.session() {
        Some(session) => role(env, session, None, namespace),
        None => Ok(Role::None),
    }
}

/// Whether the caller may see a project at all.
pub fn may_read_project(env: &Env, caller: &Caller, project: &Project) -> Result<bool, Fault> {
    if let Caller::DeployToken(token) = caller
        && token.covers(project)
    {
        return Ok(true);
    }
    Ok(is_open(caller, project.visibility) || project_role(env, caller, project)? >= Role::Guest)
}

/// Whether the caller may see a group: it is open to them, or they are a member of it, of a group
/// above, or of anything below. The last costs up to a read for each membership of the caller,
/// and is asked only if the rest is no.
pub fn may_read_group(env: &Env, caller: &Caller, group: &Namespace) -> Result<bool, Fault> {
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

/// Whether the visibility alone lets the caller in.
fn is_open(caller: &Caller, visibility: Visibility) -> bool {
    match visibility {
        Visibility::Public => true,
        Visibility::Internal => caller.user().is_some_and(|user| user.state == State::Active && !user.external),
        Visibility::Private => false,
    }
}

fn role(env: &Env, session: &Session, project: Option<&Project>, namespace: &Namespace) -> Result<Role, Fault> {
    let user = &session.user;
    if user.state != State::Active {
        return Ok(Role::None);
    }
    if user.is_admin || namespace.lineage().any(|above| above.kind == Kind::User { owner: user.id }) {
        return Ok(Role::Owner);
    }
    let memberships = session.memberships(env)?;
    let own = project.map_or(Role::None, |project| memberships.role(Source::Project(project.id), env.now));
    let mut role = own.max(inherited(memberships, namespace, env.now));
    let invited = project.map(|project| project.shares.as_slice()).unwrap_or_default();
    for share in invited.iter().chain(namespace.lineage().flat_map(|above| &above.shares)) {
        if share.role > role {
            role = role.max(through(env, memberships, share)?);
        }
    }
    Ok(role)
}

/// The highest role in a namespace or in one above it.
fn inherited(memberships: &Memberships, namespace: &Namespace, now: Timestamp) -> Role {
    let roles = namespace.lineage().map(|above| memberships.role(Source::Group(above.id), now));
    roles.max().unwrap_or(Role::None)
}

/// The role that an invited group gives to its members.
fn through(env: &Env, memberships: &Memberships, share: &Share) -> Result<Role, Fault> {
    let in_some_group = memberships.0.keys().any(|source| matches!(source, Source::Group(_)));
    if !in_some_group || !member::is_current(share.expires_at, env.now) {
        return Ok(Role::None);
    }
    let group = namespace::by_id(env, share.group_id)?;
    Ok(group.map_or(Role::None, |group| inherited(memberships, &group, env.now).min(share.role)))
}

/// Whether the user is a member of a group or project somewhere below `group`.
fn is_member_below(env: &Env, session: &Session, group: &Namespace) -> Result<bool, Fault> {
    let memberships = session.memberships(env)?;
    // Many memberships have ancestors in common; each namespace is asked about once.
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

/// Whether a namespace is one that is `known` to be below (or to be) the group in question.
fn is_below(env: &Env, id: u64, known: &mut BTreeMap<u64, bool>) -> Result<bool, Fault> {
    let mut passed = Vec::new();
    let mut next = Some(id);
    let mut below = false;
    while let Some(id) = next {
        if let Some(answer) = known.get(&id) {
            below = *answer;
            break;
        }
        if passed.len() > namespace::MAX_DEPTH {
            break;
        }
        passed.push(id);
        next = store::read::<store::Namespace>(env, &Key::Namespace(id))?.and_then(|record| record.parent_id);
    }
    known.extend(passed.into_iter().map(|id| (id, below)));
    Ok(below)
}

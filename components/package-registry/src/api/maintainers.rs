//! The maintainers of a package: the members of its project who may unpublish its versions, as far as the caller may
//! see them. `npm owner ls` prints them.

use directory::access::{self, Role};
use directory::caller::Caller;
use directory::catalog::member;
use directory::member::Source;
use directory::namespace::{self, Namespace, NamespaceKind};
use directory::project::Project;
use directory::record_cache::Derived;
use directory::user::{self, UserState};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde_json::json;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Most maintainers that metadata lists, ordered by highest role and then by lowest user id.
const MAX_MAINTAINERS: usize = 50;

/// Most members that a list of members has, in the same order.
const MAX_MEMBERS: usize = 1000;

/// The groups that give a project members.
struct Groups {
    /// The groups above the project.
    above: Vec<u64>,
    /// The invited groups, each with the groups above it and the highest role that its members get here.
    invited: Vec<(Vec<u64>, Role)>,
    /// When the first invitation ends.
    valid_until: Option<Timestamp>,
}

/// A project's list, as seen by callers who may read certain groups. It is valid while the members are unchanged.
struct CachedList {
    /// When the first membership ends.
    valid_until: Option<Timestamp>,
    maintainers: Rc<Maintainers>,
}

/// The maintainers of a project's packages. E-mail addresses are not disclosed.
pub struct Maintainers {
    pub usernames: Vec<String>,
    /// As metadata shows them: `[{"name":"mia","email":""}]`.
    json: String,
}

impl Maintainers {
    fn new(usernames: Vec<String>) -> Self {
        let people: Vec<_> = usernames.iter().map(|username| json!({"name": username, "email": ""})).collect();
        Maintainers { usernames, json: serde_json::Value::from(people).to_string() }
    }

    pub fn as_json(&self) -> &str {
        &self.json
    }
}

/// The maintainers of a project's packages, as far as the caller may see them. The list is empty if the caller may not
/// read the project, even if its packages are public. As in lists of members, it omits users whose role comes from a
/// group that the caller may not read. Reads: the invited groups; and, unless the instance has cached a valid list, the
/// members of the project and of the groups, and each maintainer.
pub fn list(env: &Env, caller: &Caller, project: &Project) -> Result<Rc<Maintainers>, StoreError> {
    let none_visible = || Ok(Rc::new(Maintainers::new(Vec::new())));
    let Some(known) = Derived::<(u64, Vec<u64>), CachedList>::of(env) else { return none_visible() };
    if !access::may_read_project(env, caller, project)? {
        return none_visible();
    }
    let groups = readable_groups(env, caller, project, Role::Maintainer)?;
    let invited = groups.invited.iter().flat_map(|(groups, _)| groups);
    let key = (project.id, groups.above.iter().chain(invited).copied().collect());
    let is_valid = |list: &Rc<CachedList>| list.valid_until.is_none_or(|end| env.now < end);
    if let Some(known) = known.get(&key).filter(is_valid) {
        return Ok(known.maintainers.clone());
    }
    let (users, valid_until) = find(env, project, &groups, Role::Maintainer)?;
    let named = active(env, users, MAX_MAINTAINERS)?;
    let maintainers = Rc::new(Maintainers::new(named.into_iter().map(|(username, _)| username).collect()));
    known.put(key, Rc::new(CachedList { valid_until, maintainers: maintainers.clone() }));
    Ok(maintainers)
}

/// The members of a project with at least the role Reporter, and the role of each, as far as the caller may see them.
pub fn members(env: &Env, caller: &Caller, project: &Project) -> Result<Vec<(String, Role)>, StoreError> {
    if !access::may_read_project(env, caller, project)? {
        return Ok(Vec::new());
    }
    let groups = readable_groups(env, caller, project, Role::Reporter)?;
    active(env, find(env, project, &groups, Role::Reporter)?.0, MAX_MEMBERS)
}

/// The members of a group and of the groups above it that the caller may read, each with the highest role.
pub fn of_group(env: &Env, caller: &Caller, group: &Namespace) -> Result<Vec<(String, Role)>, StoreError> {
    let above = readable(env, caller, group.lineage())?;
    let sources: Vec<Source> = above.iter().map(|group| Source::Group(group.id)).collect();
    let mut roles: BTreeMap<u64, Role> = BTreeMap::new();
    for member in member::of_sources(env, &sources)?.into_iter().filter(|member| member.is_current(env.now)) {
        let highest = roles.entry(member.user_id).or_insert(member.role);
        *highest = member.role.max(*highest);
    }
    active(env, roles.into_iter().collect(), MAX_MEMBERS)
}

/// The first `most` of these users that are active, by name.
fn active(env: &Env, users: UserRoles, most: usize) -> Result<Vec<(String, Role)>, StoreError> {
    let mut named = Vec::new();
    for (id, role) in users {
        if named.len() == most {
            break;
        }
        let user = user::by_id(env, id)?.filter(|user| user.state == UserState::Active);
        named.extend(user.map(|user| (user.username, role)));
    }
    Ok(named)
}

/// The groups that give at least the role `least` in the project, as far as the caller may read them.
fn readable_groups(env: &Env, caller: &Caller, project: &Project, least: Role) -> Result<Groups, StoreError> {
    let above = readable(env, caller, project.namespace.lineage())?;
    let mut groups =
        Groups { above: above.iter().map(|group| group.id).collect(), invited: Vec::new(), valid_until: None };
    let shares = project.shares.iter().chain(above.iter().flat_map(|group| &group.shares));
    for share in shares.filter(|share| share.role >= least) {
        let is_current = share.expires_at.is_none_or(|end| env.now < end);
        let Some(group) = namespace::by_id(env, share.group_id)?.filter(|_| is_current) else { continue };
        if access::may_read_group(env, caller, &group)? {
            let lineage = readable(env, caller, group.lineage())?.iter().map(|group| group.id).collect();
            groups.invited.push((lineage, share.role));
            groups.valid_until = earliest(groups.valid_until, share.expires_at);
        }
    }
    Ok(groups)
}

fn readable<'a>(
    env: &Env,
    caller: &Caller,
    groups: impl Iterator<Item = &'a Namespace>,
) -> Result<Vec<&'a Namespace>, StoreError> {
    let if_readable = |group| Ok(access::may_read_group(env, caller, group)?.then_some(group));
    groups.map(if_readable).filter_map(Result::transpose).collect()
}

/// Users, each with a role.
type UserRoles = Vec<(u64, Role)>;

/// The users with at least the role `least`, the highest role first; and when the first membership ends.
fn find(
    env: &Env,
    project: &Project,
    groups: &Groups,
    least: Role,
) -> Result<(UserRoles, Option<Timestamp>), StoreError> {
    let mut valid_until = groups.valid_until;
    let mut roles: BTreeMap<u64, Role> = BTreeMap::new();
    for above in project.namespace.lineage() {
        if let NamespaceKind::User { owner } = above.kind {
            roles.insert(owner, Role::Owner);
        }
    }
    let sources = |groups: &[u64]| groups.iter().map(|id| Source::Group(*id)).collect::<Vec<_>>();
    let own = [sources(&groups.above), vec![Source::Project(project.id)]].concat();
    let invited = groups.invited.iter().map(|(groups, most)| (sources(groups), *most));
    for (sources, most) in [(own, Role::Owner)].into_iter().chain(invited) {
        for member in member::of_sources(env, &sources)? {
            let role = member.role.min(most);
            if role >= least && member.is_current(env.now) {
                valid_until = earliest(valid_until, member.expires_at);
                let highest = roles.entry(member.user_id).or_insert(role);
                *highest = role.max(*highest);
            }
        }
    }
    let mut users: UserRoles = roles.into_iter().collect();
    users.sort_by_key(|(_, role)| std::cmp::Reverse(*role));
    Ok((users, valid_until))
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

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
    let groups = readable_groups(env, caller, project)?;
    let invited = groups.invited.iter().flat_map(|(groups, _)| groups);
    let key = (project.id, groups.above.iter().chain(invited).copied().collect());
    let is_valid = |list: &Rc<CachedList>| list.valid_until.is_none_or(|end| env.now < end);
    if let Some(known) = known.get(&key).filter(is_valid) {
        return Ok(known.maintainers.clone());
    }
    let (users, valid_until) = find(env, project, &groups)?;
    let mut names = Vec::new();
    for id in users {
        if names.len() == MAX_MAINTAINERS {
            break;
        }
        let user = user::by_id(env, id)?.filter(|user| user.state == UserState::Active);
        names.extend(user.map(|user| user.username));
    }
    let maintainers = Rc::new(Maintainers::new(names));
    known.put(key, Rc::new(CachedList { valid_until, maintainers: maintainers.clone() }));
    Ok(maintainers)
}

/// The groups that give roles in the project, as far as the caller may read them.
fn readable_groups(env: &Env, caller: &Caller, project: &Project) -> Result<Groups, StoreError> {
    let above = readable(env, caller, project.namespace.lineage())?;
    let mut groups =
        Groups { above: above.iter().map(|group| group.id).collect(), invited: Vec::new(), valid_until: None };
    let shares = project.shares.iter().chain(above.iter().flat_map(|group| &group.shares));
    for share in shares.filter(|share| share.role >= Role::Maintainer) {
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

/// The users with at least the role Maintainer, the highest role first; and when the first membership ends.
fn find(env: &Env, project: &Project, groups: &Groups) -> Result<(Vec<u64>, Option<Timestamp>), StoreError> {
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
            if role >= Role::Maintainer && member.is_current(env.now) {
                valid_until = earliest(valid_until, member.expires_at);
                let highest = roles.entry(member.user_id).or_insert(role);
                *highest = role.max(*highest);
            }
        }
    }
    let mut users: Vec<(u64, Role)> = roles.into_iter().collect();
    users.sort_by_key(|(_, role)| std::cmp::Reverse(*role));
    Ok((users.into_iter().map(|(id, _)| id).collect(), valid_until))
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

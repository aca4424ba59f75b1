//! The maintainers of a package: the members of its project who may unpublish its versions. `npm owner ls`
//! prints them.

use directory::access::Role;
use directory::catalog::member;
use directory::member::Source;
use directory::namespace::{self, NamespaceKind};
use directory::project::Project;
use directory::record_cache::Derived;
use directory::user::{self, UserState};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde_json::json;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Most maintainers that metadata lists: those with the highest role, then those with the lowest user id.
const MAX_MAINTAINERS: usize = 50;

/// The list of a project, as long as its members are the same.
struct KnownList {
    /// When the first of the memberships ends.
    valid_until: Option<Timestamp>,
    maintainers: Rc<Maintainers>,
}

/// The maintainers of a project's packages. Addresses are not disclosed.
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

/// The maintainers of a project's packages. Reads: nothing if the instance knows the list and no record has changed;
/// else the members of the project, of the groups above and of invited groups, and each maintainer.
pub fn list(env: &Env, project: &Project) -> Result<Rc<Maintainers>, StoreError> {
    let Some(known) = Derived::<u64, KnownList>::of(env) else { return Ok(Rc::new(Maintainers::new(Vec::new()))) };
    let is_valid = |list: &Rc<KnownList>| list.valid_until.is_none_or(|end| env.now < end);
    if let Some(known) = known.get(&project.id).filter(is_valid) {
        return Ok(known.maintainers.clone());
    }
    let (users, valid_until) = find(env, project)?;
    let mut names = Vec::new();
    for id in users {
        if names.len() == MAX_MAINTAINERS {
            break;
        }
        let user = user::by_id(env, id)?.filter(|user| user.state == UserState::Active);
        names.extend(user.map(|user| user.username));
    }
    let maintainers = Rc::new(Maintainers::new(names));
    known.put(project.id, Rc::new(KnownList { valid_until, maintainers: maintainers.clone() }));
    Ok(maintainers)
}

/// The users with at least the role of a maintainer, the highest role first, and when the first of their
/// memberships ends.
fn find(env: &Env, project: &Project) -> Result<(Vec<u64>, Option<Timestamp>), StoreError> {
    let mut valid_until: Option<Timestamp> = None;
    let mut roles: BTreeMap<u64, Role> = BTreeMap::new();
    let groups = project.namespace.lineage();
    let own = groups.map(|group| Source::Group(group.id)).chain([Source::Project(project.id)]).collect();
    let mut grants: Vec<(Vec<Source>, Role)> = vec![(own, Role::Owner)];
    for above in project.namespace.lineage() {
        if let NamespaceKind::User { owner } = above.kind {
            roles.insert(owner, Role::Owner);
        }
    }
    let shares = project.shares.iter().chain(project.namespace.lineage().flat_map(|above| &above.shares));
    for share in shares.filter(|share| share.role >= Role::Maintainer) {
        let is_current = share.expires_at.is_none_or(|end| env.now < end);
        if let Some(group) = namespace::by_id(env, share.group_id)?.filter(|_| is_current) {
            valid_until = earliest(valid_until, share.expires_at);
            grants.push((group.lineage().map(|group| Source::Group(group.id)).collect(), share.role));
        }
    }
    for (sources, most) in grants {
        for member in member::of_sources(env, &sources)? {
            let role = member.role.min(most);
            if role >= Role::Maintainer && member.is_current(env.now) {
                valid_until = earliest(valid_until, member.expires_at);
                let held = roles.entry(member.user_id).or_insert(role);
                *held = role.max(*held);
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

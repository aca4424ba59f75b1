//! Member counts of groups, including their subgroups and projects.

use directory::access::Role;
use directory::catalog::member::Member;
use directory::catalog::{Catalog, NamespaceView};
use directory::member::Source;
use kit::Env;
use kit::store::StoreError;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// The member counts of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Active users who are members of the group or of one of its subgroups.
    pub members: u64,
    /// Active users except bots who are members of the group, of a subgroup or project, or of a group invited to one of
    /// these.
    pub billable: u64,
    /// The same, without users who have only the role Guest.
    pub billable_without_guests: u64,
}

/// Cached counts of one revision and one day. Memberships end at midnight, so the counts are valid for a day.
struct CachedCounts {
    revision: String,
    day: i64,
    counts: RefCell<HashMap<u64, Counts>>,
}

/// The most groups with cached counts.
const MAX_CACHED: usize = 100_000;

/// The counts of a group, from the cache of the instance or newly counted. Counting reads each uncached blob of the
/// member table that has one of the members.
pub fn counts(env: &Env, catalog: &Catalog, group: NamespaceView) -> Result<Counts, StoreError> {
    let day = env.now.millis().div_euclid(24 * 60 * 60 * 1000);
    let is_current = |cached: &Rc<CachedCounts>| cached.revision == catalog.revision() && cached.day == day;
    let cached = env.instance_cache.get::<CachedCounts>().filter(is_current).unwrap_or_else(|| {
        let cached = Rc::new(CachedCounts { revision: catalog.revision().to_owned(), day, counts: RefCell::default() });
        env.instance_cache.put(cached.clone());
        cached
    });
    if let Some(counts) = cached.counts.borrow().get(&group.id()) {
        return Ok(*counts);
    }
    let counts = count(env, catalog, group)?;
    let mut all = cached.counts.borrow_mut();
    if all.len() >= MAX_CACHED {
        all.clear();
    }
    all.insert(group.id(), counts);
    Ok(counts)
}

fn count(env: &Env, catalog: &Catalog, group: NamespaceView) -> Result<Counts, StoreError> {
    let is_member = |member: &Member| member.role >= Role::Guest && member.is_current(env.now);
    let personal_namespace = |user_id: u64| catalog.namespace_of_user(user_id);
    let groups: Vec<Source> = group.descendants().map(|below| Source::Group(below.id())).collect();
    let projects: Vec<Source> = group.projects_below().map(|project| Source::Project(project.id())).collect();
    let mut members = HashSet::new();
    let mut billable: HashMap<u64, Role> = HashMap::new();
    let mut add_billable = |member: &Member, at_most: Role| {
        if personal_namespace(member.user_id).is_some_and(NamespaceView::has_active_human_owner) {
            let role = billable.entry(member.user_id).or_insert(Role::Guest);
            *role = (*role).max(member.role.min(at_most));
        }
    };
    catalog.members(env, &groups, |member| {
        if is_member(&member) {
            if personal_namespace(member.user_id).is_some_and(NamespaceView::has_active_owner) {
                members.insert(member.user_id);
            }
            add_billable(&member, Role::Owner);
        }
    })?;
    catalog.members(env, &projects, |member| {
        if is_member(&member) {
            add_billable(&member, Role::Owner);
        }
    })?;
    for (invited, role) in invited(env, group) {
        let Some(invited) = catalog.namespace(invited) else { continue };
        let lineage: Vec<Source> = invited.lineage().map(|above| Source::Group(above.id())).collect();
        catalog.members(env, &lineage, |member| {
            if is_member(&member) {
                add_billable(&member, role);
            }
        })?;
    }
    let without_guests = billable.values().filter(|role| **role > Role::Guest).count();
    Ok(Counts {
        members: members.len() as u64,
        billable: billable.len() as u64,
        billable_without_guests: without_guests as u64,
    })
}

/// The groups invited to a group, or to one of its subgroups or projects. Each has the highest role that its members
/// get there.
fn invited(env: &Env, group: NamespaceView) -> BTreeSet<(u64, Role)> {
    let shares = group.descendants().flat_map(NamespaceView::shares);
    let shares = shares.chain(group.projects_below().flat_map(|project| project.shares()));
    let current = shares.filter(|share| share.expires_at.is_none_or(|end| env.now < end) && share.role >= Role::Guest);
    current.map(|share| (share.group_id, share.role)).collect()
}

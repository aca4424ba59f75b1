//! How many members a group has with everything below it.

use directory::access::Role;
use directory::catalog::member::Member;
use directory::catalog::{Catalog, Namespace};
use directory::member::Source;
use kit::Env;
use kit::store::StoreError;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Counts of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Active users who are members of the group or of a group below it.
    pub members: u64,
    /// Active users, bots aside, who are members of the group, of any group or project below it, or
    /// of a group that is invited to one of these.
    pub billable: u64,
    /// The same without those who are guests everywhere.
    pub billable_without_guests: u64,
}

/// The counts of one revision on one day, as far as they were asked for: memberships end at
/// midnight.
struct Known {
    revision: String,
    day: i64,
    counts: RefCell<HashMap<u64, Counts>>,
}

/// How many groups' counts are remembered.
const REMEMBERED: usize = 100_000;

/// Counts a group's members, or takes the counts of a former request. Reads each part of the table
/// of members that has one of these, unless the instance has it.
pub fn counts(env: &Env, catalog: &Catalog, group: Namespace) -> Result<Counts, StoreError> {
    let day = env.now.millis().div_euclid(24 * 60 * 60 * 1000);
    let is_ours = |known: &Rc<Known>| known.revision == catalog.revision() && known.day == day;
    let known = env.instance_cache.get::<Known>().filter(is_ours).unwrap_or_else(|| {
        let known = Rc::new(Known { revision: catalog.revision().to_owned(), day, counts: RefCell::default() });
        env.instance_cache.put(known.clone());
        known
    });
    if let Some(counts) = known.counts.borrow().get(&group.id()) {
        return Ok(*counts);
    }
    let counts = count(env, catalog, group)?;
    let mut all = known.counts.borrow_mut();
    if all.len() >= REMEMBERED {
        all.clear();
    }
    all.insert(group.id(), counts);
    Ok(counts)
}

fn count(env: &Env, catalog: &Catalog, group: Namespace) -> Result<Counts, StoreError> {
    let is_member = |member: &Member| member.role >= Role::Guest && member.is_current(env.now);
    let home = |user_id: u64| catalog.namespace_of_user(user_id);
    let groups: Vec<Source> = group.descendants().map(|below| Source::Group(below.id())).collect();
    let projects: Vec<Source> = group.projects_below().map(|project| Source::Project(project.id())).collect();
    let mut members = HashSet::new();
    let mut billable: HashMap<u64, Role> = HashMap::new();
    let mut bill = |member: &Member, at_most: Role| {
        if home(member.user_id).is_some_and(Namespace::has_active_human_owner) {
            let role = billable.entry(member.user_id).or_insert(Role::Guest);
            *role = (*role).max(member.role.min(at_most));
        }
    };
    catalog.members(env, &groups, |member| {
        if is_member(&member) {
            if home(member.user_id).is_some_and(Namespace::has_active_owner) {
                members.insert(member.user_id);
            }
            bill(&member, Role::Owner);
        }
    })?;
    catalog.members(env, &projects, |member| {
        if is_member(&member) {
            bill(&member, Role::Owner);
        }
    })?;
    for (invited, role) in invited(env, group) {
        let Some(invited) = catalog.namespace(invited) else { continue };
        let lineage: Vec<Source> = invited.lineage().map(|above| Source::Group(above.id())).collect();
        catalog.members(env, &lineage, |member| {
            if is_member(&member) {
                bill(&member, role);
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

/// The groups that are invited to a group or to anything below it, each with the role that their
/// members have there at most.
fn invited(env: &Env, group: Namespace) -> BTreeSet<(u64, Role)> {
    let shares = group.descendants().flat_map(Namespace::shares);
    let shares = shares.chain(group.projects_below().flat_map(|project| project.shares()));
    let current = shares.filter(|share| share.expires_at.is_none_or(|end| env.now < end) && share.role >= Role::Guest);
    current.map(|share| (share.group_id, share.role)).collect()
}

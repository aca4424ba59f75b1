//! The members of a group or project, with their roles.

use crate::group::{self, GroupReader};
use crate::query::Query;
use crate::user_search::UserSearch;
use directory::access::Role;
use directory::catalog::member::Member;
use directory::catalog::{Catalog, NamespaceView, ProjectView};
use directory::member::{Membership, Share, Source};
use kit::params::Validation;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A group or project, which has members.
#[derive(Clone, Copy)]
pub enum GroupOrProject<'c> {
    Group(NamespaceView<'c>),
    Project(ProjectView<'c>),
}

impl<'c> GroupOrProject<'c> {
    fn source(self) -> Source {
        match self {
            GroupOrProject::Group(group) => Source::Group(group.id()),
            GroupOrProject::Project(project) => Source::Project(project.id()),
        }
    }

    /// The groups whose members are also members here. The personal namespace, for a project of a user.
    fn ancestors(self) -> impl Iterator<Item = NamespaceView<'c>> {
        let (nearest, skipped) = match self {
            GroupOrProject::Group(group) => (group, 1),
            GroupOrProject::Project(project) => (project.namespace(), 0),
        };
        nearest.lineage().skip(skipped)
    }

    /// The groups invited here, and to those groups above that the caller may read.
    fn shares(self, reader: &GroupReader) -> Vec<Share> {
        let own = match self {
            GroupOrProject::Group(group) => group.shares(),
            GroupOrProject::Project(project) => project.shares(),
        };
        let inherited = self.ancestors().filter(|group| reader.may_read(*group)).flat_map(NamespaceView::shares);
        own.into_iter().chain(inherited).collect()
    }
}

/// The direct members by user id. A project of a user also has this user.
pub fn direct(env: &Env, catalog: &Catalog, resource: GroupOrProject) -> Result<BTreeMap<u64, Membership>, StoreError> {
    let mut members = Members::new(env, catalog, resource);
    members.add(&[resource.source()], Role::Owner, None)?;
    Ok(members.by_user)
}

/// All members by user id, each with the highest role. Roles from groups that the caller may not read do not count.
/// Reads the uncached parts of the member table.
pub fn all(
    env: &Env,
    catalog: &Catalog,
    resource: GroupOrProject,
    reader: &GroupReader,
) -> Result<BTreeMap<u64, Membership>, StoreError> {
    let sources = |groups: &mut dyn Iterator<Item = NamespaceView>| -> Vec<Source> {
        groups.filter(|group| reader.may_read(*group)).map(|group| Source::Group(group.id())).collect()
    };
    let mut members = Members::new(env, catalog, resource);
    let mut own = sources(&mut resource.ancestors());
    own.push(resource.source());
    members.add(&own, Role::Owner, None)?;
    for share in resource.shares(reader) {
        let is_current = share.expires_at.is_none_or(|end| env.now < end);
        let invited = catalog.namespace(share.group_id).filter(|group| is_current && reader.may_read(*group));
        if let Some(invited) = invited {
            members.add(&sources(&mut invited.lineage()), share.role, share.expires_at)?;
        }
    }
    Ok(members.by_user)
}

struct Members<'a> {
    env: &'a Env,
    catalog: &'a Catalog,
    by_user: BTreeMap<u64, Membership>,
}

impl<'a> Members<'a> {
    fn new(env: &'a Env, catalog: &'a Catalog, resource: GroupOrProject) -> Self {
        let owner = match resource {
            GroupOrProject::Group(_) => None,
            GroupOrProject::Project(project) => project.namespace().owner(),
        };
        let owner = owner.map(|user_id| (user_id, Membership { role: Role::Owner, expires_at: None }));
        Members { env, catalog, by_user: owner.into_iter().collect() }
    }

    /// Adds the direct members of `sources`. `most` limits their roles, and the roles end by `until`.
    fn add(&mut self, sources: &[Source], most: Role, until: Option<Timestamp>) -> Result<(), StoreError> {
        let (now, by_user) = (self.env.now, &mut self.by_user);
        self.catalog.members(self.env, sources, |member| {
            let role = member.role.min(most);
            if role >= Role::Guest && member.is_current(now) {
                let expires_at = [member.expires_at, until].into_iter().flatten().min();
                let held = by_user.entry(member.user_id).or_insert(Membership { role, expires_at });
                // Of two memberships with the same role, the one with the later end wins.
                let rank = |role: Role, end: Option<Timestamp>| (role, end.is_none(), end);
                if rank(role, expires_at) > rank(held.role, held.expires_at) {
                    *held = Membership { role, expires_at };
                }
            }
        })
    }
}

/// The filters of a list of members.
pub struct MemberFilter {
    /// A part of the name or username.
    pub search: Option<UserSearch>,
    user_ids: Option<HashSet<u64>>,
    skipped: HashSet<u64>,
    /// Whether the filter asks for members who await approval. No member does: each one is active.
    only_awaiting: bool,
}

impl MemberFilter {
    /// The names of the parameters, for the links to other pages.
    pub const PARAMETERS: [&str; 4] = ["query", "skip_users", "state", "user_ids"];

    pub fn check(checks: &Validation) -> Self {
        MemberFilter {
            search: checks.text("query").and_then(|text| UserSearch::parse(text, Query::parse_any_length)),
            user_ids: group::ids(checks, "user_ids").filter(|ids| !ids.is_empty()),
            skipped: group::ids(checks, "skip_users").unwrap_or_default(),
            only_awaiting: checks.one_of("state", &["active", "awaiting"]) == Some("awaiting"),
        }
    }

    /// Whether the list has the member who owns this personal namespace.
    pub fn matches(&self, user: NamespaceView) -> bool {
        let id = user.owner().unwrap_or(0);
        !self.only_awaiting
            && self.user_ids.as_ref().is_none_or(|ids| ids.contains(&id))
            && !self.skipped.contains(&id)
            && self.search.as_ref().is_none_or(|search| search.matches(user))
    }
}

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
    let is_current = |cached: &CachedCounts| cached.revision == catalog.revision() && cached.day == day;
    let make = || CachedCounts { revision: catalog.revision().to_owned(), day, counts: RefCell::default() };
    let cached = env.instance_cache.get_current_or_insert_with(is_current, make);
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

//! What one caller may do in every namespace and project at once, by the same rules as
//! [`crate::access`].

use super::snapshot::{Catalog, Namespace, Project};
use crate::access::{self, Role};
use crate::caller::{Caller, Session};
use crate::member::{Memberships, Share, Source, is_current};
use crate::namespace::Visibility;
use crate::project::FeatureAccess;
use crate::store::ShareRecord;
use crate::user::UserState;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::collections::HashMap;

/// A caller's roles.
pub struct AccessSnapshot {
    /// Whether they are an administrator, who owns everything.
    all: bool,
    /// Whether they may see what is internal.
    internal: bool,
    /// Of each position of the tree: the role; empty if there is none anywhere.
    roles: Vec<Role>,
    /// Of projects with members or invited groups of their own, by row: the role from those.
    projects: HashMap<u32, Role>,
    valid_until: Option<Timestamp>,
}

impl Catalog {
    /// What `caller` may do. 1 read, and time for what is below the groups that they are in.
    ///
    /// A deploy token or job has only what is open to everybody (or to its user): what they were
    /// made for is not for lists.
    pub fn access_snapshot(&self, env: &Env, caller: &Caller) -> Result<AccessSnapshot, StoreError> {
        let mut snapshot = AccessSnapshot {
            all: false,
            internal: access::is_open(caller, Visibility::Internal),
            roles: Vec::new(),
            projects: HashMap::new(),
            valid_until: None,
        };
        let Caller::User(session) = caller else { return Ok(snapshot) };
        if session.user.state != UserState::Active {
            return Ok(snapshot);
        }
        if session.user.is_admin {
            snapshot.all = true;
            return Ok(snapshot);
        }
        snapshot.add(self, session, session.memberships(env)?, env.now);
        Ok(snapshot)
    }
}

impl AccessSnapshot {
    fn add(&mut self, catalog: &Catalog, session: &Session, memberships: &Memberships, now: Timestamp) {
        let personal = catalog.namespace_of_user(session.user.id);
        if memberships.0.is_empty() && personal.is_none() {
            return;
        }
        let tree = &catalog.tree;
        let mut roles = vec![Role::None; tree.namespaces().len()];
        let mut until = Expiry { now, first: None };
        let raise = |roles: &mut Vec<Role>, namespace: u32, role: Role| {
            for held in roles.get_mut(tree.range(namespace)).unwrap_or_default() {
                *held = role.max(*held);
            }
        };
        let mut in_some_group = false;
        for (source, membership) in &memberships.0 {
            in_some_group |= matches!(source, Source::Group(_));
            if !until.is_current(membership.expires_at) {
                continue;
            }
            match *source {
                Source::Group(id) => {
                    if let Some(group) = catalog.namespace(id) {
                        raise(&mut roles, group.at, membership.role);
                    }
                }
                Source::Project(id) => {
                    if let Some(project) = catalog.project(id) {
                        self.projects.insert(project.at, membership.role);
                    }
                }
            }
        }
        if in_some_group {
            // What an invited group gives depends on the roles in it, those by invitation aside.
            let own = roles.clone();
            let mut through = |share: &ShareRecord| {
                let share = Share::from(share.clone());
                let group = catalog.namespace(share.group_id)?;
                let held = tree.position(group.at).and_then(|at| own.get(at as usize)).copied()?;
                let role = held.min(share.role);
                (role > Role::None && until.is_current(share.expires_at)).then_some(role)
            };
            for (namespace, shares) in &catalog.namespaces.shares {
                if let Some(role) = shares.iter().filter_map(&mut through).max() {
                    raise(&mut roles, *namespace, role);
                }
            }
            for (project, shares) in &catalog.projects.shares {
                if let Some(role) = shares.iter().filter_map(&mut through).max() {
                    let held = self.projects.entry(*project).or_insert(Role::None);
                    *held = role.max(*held);
                }
            }
        }
        if let Some(personal) = personal {
            raise(&mut roles, personal.at, Role::Owner);
        }
        self.roles = roles;
        self.valid_until = until.first;
    }

    /// From this moment on a role may have ended, and this is to be asked anew.
    pub fn valid_until(&self) -> Option<Timestamp> {
        self.valid_until
    }

    pub fn is_admin(&self) -> bool {
        self.all
    }

    /// As [`access::namespace_role`].
    pub fn namespace_role(&self, namespace: Namespace) -> Role {
        if self.all {
            return Role::Owner;
        }
        let position = namespace.catalog.tree.position(namespace.at);
        position.and_then(|at| self.roles.get(at as usize)).copied().unwrap_or(Role::None)
    }

    /// As [`access::project_role`].
    pub fn project_role(&self, project: Project) -> Role {
        let inherited = self.namespace_role(project.namespace());
        self.projects.get(&project.at).copied().unwrap_or(Role::None).max(inherited)
    }

    /// As [`access::may_read_project`].
    pub fn may_read(&self, project: Project) -> bool {
        let open = match project.visibility() {
            Visibility::Public => true,
            Visibility::Internal => self.internal,
            Visibility::Private => false,
        };
        open || self.project_role(project) >= Role::Guest
    }

    /// Whether the caller may read the project and use its issues: they are on for everybody who
    /// may, or for members and the caller is one.
    pub fn may_read_issues(&self, project: Project) -> bool {
        match project.issues() {
            FeatureAccess::Disabled => false,
            FeatureAccess::Private => self.project_role(project) >= Role::Guest,
            FeatureAccess::Enabled | FeatureAccess::Public => self.may_read(project),
        }
    }
}

/// The first of all ends that are still to come.
struct Expiry {
    now: Timestamp,
    first: Option<Timestamp>,
}

impl Expiry {
    fn is_current(&mut self, end: Option<Timestamp>) -> bool {
        let current = is_current(end, self.now);
        if let Some(end) = end.filter(|_| current) {
            self.first = Some(self.first.map_or(end, |first| first.min(end)));
        }
        current
    }
}

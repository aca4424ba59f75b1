//! A caller's access to all namespaces and projects, by the rules of [`crate::access`].

use super::snapshot::{Catalog, NamespaceView, ProjectView};
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

/// A caller's roles in all namespaces and projects.
pub struct AccessSnapshot {
    /// An administrator owns everything.
    is_admin: bool,
    sees_internal: bool,
    /// The role in each namespace, by position in the tree; empty if the caller has no role in any.
    namespace_roles: Vec<Role>,
    /// The role in projects with direct members or invited groups, by row.
    project_roles: HashMap<u32, Role>,
    valid_until: Option<Timestamp>,
}

impl Catalog {
    /// The access of `caller`. 1 read, and time linear in the namespaces below the caller's groups.
    ///
    /// A deploy token or job sees only public projects in lists, not its own project or group. A job also sees internal
    /// projects if its user does.
    pub fn access_snapshot(&self, env: &Env, caller: &Caller) -> Result<AccessSnapshot, StoreError> {
        let mut snapshot = AccessSnapshot {
            is_admin: false,
            sees_internal: access::is_open(caller, Visibility::Internal),
            namespace_roles: Vec::new(),
            project_roles: HashMap::new(),
            valid_until: None,
        };
        let Caller::User(session) = caller else { return Ok(snapshot) };
        if session.user.state != UserState::Active {
            return Ok(snapshot);
        }
        if session.user.is_admin {
            snapshot.is_admin = true;
            return Ok(snapshot);
        }
        snapshot.add_roles(self, session, session.memberships(env)?, env.now);
        Ok(snapshot)
    }
}

impl AccessSnapshot {
    fn add_roles(&mut self, catalog: &Catalog, session: &Session, memberships: &Memberships, now: Timestamp) {
        let personal = catalog.namespace_of_user(session.user.id);
        if memberships.0.is_empty() && personal.is_none() {
            return;
        }
        let tree = &catalog.tree;
        let mut roles = vec![Role::None; tree.namespaces().len()];
        let mut expiry = Expiry { now, first: None };
        let raise = |roles: &mut Vec<Role>, namespace: u32, role: Role| {
            for held in roles.get_mut(tree.range(namespace)).unwrap_or_default() {
                *held = role.max(*held);
            }
        };
        let mut in_some_group = false;
        for (source, membership) in &memberships.0 {
            in_some_group |= matches!(source, Source::Group(_));
            if !expiry.is_current(membership.expires_at) {
                continue;
            }
            match *source {
                Source::Group(id) => {
                    if let Some(group) = catalog.namespace(id) {
                        raise(&mut roles, group.row, membership.role);
                    }
                }
                Source::Project(id) => {
                    if let Some(project) = catalog.project(id) {
                        self.project_roles.insert(project.row, membership.role);
                    }
                }
            }
        }
        if in_some_group {
            // An invitation passes on the roles in the invited group, except roles by other invitations.
            let own = roles.clone();
            let mut role_by_share = |share: &ShareRecord| {
                let share = Share::from(share.clone());
                let group = catalog.namespace(share.group_id)?;
                let held = tree.position(group.row).and_then(|position| own.get(position as usize)).copied()?;
                let role = held.min(share.role);
                (role > Role::None && expiry.is_current(share.expires_at)).then_some(role)
            };
            for (namespace, shares) in &catalog.namespaces.shares {
                if let Some(role) = shares.iter().filter_map(&mut role_by_share).max() {
                    raise(&mut roles, *namespace, role);
                }
            }
            for (project, shares) in &catalog.projects.shares {
                if let Some(role) = shares.iter().filter_map(&mut role_by_share).max() {
                    let held = self.project_roles.entry(*project).or_insert(Role::None);
                    *held = role.max(*held);
                }
            }
        }
        if let Some(personal) = personal {
            raise(&mut roles, personal.row, Role::Owner);
        }
        self.namespace_roles = roles;
        self.valid_until = expiry.first;
    }

    /// The moment at which the first role ends. The snapshot is invalid from then on.
    pub fn valid_until(&self) -> Option<Timestamp> {
        self.valid_until
    }

    pub fn is_admin(&self) -> bool {
        self.is_admin
    }

    /// As [`access::namespace_role`].
    pub fn namespace_role(&self, namespace: NamespaceView) -> Role {
        if self.is_admin {
            return Role::Owner;
        }
        let position = namespace.catalog.tree.position(namespace.row);
        position.and_then(|position| self.namespace_roles.get(position as usize)).copied().unwrap_or(Role::None)
    }

    /// As [`access::project_role`].
    pub fn project_role(&self, project: ProjectView) -> Role {
        let inherited = self.namespace_role(project.namespace());
        self.project_roles.get(&project.row).copied().unwrap_or(Role::None).max(inherited)
    }

    /// As [`access::may_read_project`].
    pub fn may_read(&self, project: ProjectView) -> bool {
        let is_open = match project.visibility() {
            Visibility::Public => true,
            Visibility::Internal => self.sees_internal,
            Visibility::Private => false,
        };
        is_open || self.project_role(project) >= Role::Guest
    }

    /// Whether the caller may read the project and use its issues, which may be for members only.
    pub fn may_read_issues(&self, project: ProjectView) -> bool {
        match project.issues() {
            FeatureAccess::Disabled => false,
            FeatureAccess::Private => self.project_role(project) >= Role::Guest,
            FeatureAccess::Enabled | FeatureAccess::Public => self.may_read(project),
        }
    }
}

/// The earliest future expiry.
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

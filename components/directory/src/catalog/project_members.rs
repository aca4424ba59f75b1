//! The users who have projects.

use super::snapshot::Catalog;
use crate::member::{Share, Source, is_current};
use crate::model::role::Role;
use kit::Env;
use kit::store::StoreError;
use std::collections::BTreeSet;

impl Catalog {
    /// The users with a role in some project, by the rules of [`crate::access`]. The role is direct, inherited from a
    /// group above, given by an invitation, or the namespace owner's. Administrators' rights in all projects do not
    /// count. Inactive users count. Reads the tables of namespaces, projects and members.
    pub fn users_with_projects(&self, env: &Env) -> Result<BTreeSet<u64>, StoreError> {
        let mut users: BTreeSet<u64> = BTreeSet::new();
        let mut sources: BTreeSet<Source> = self.projects().map(|project| Source::Project(project.id())).collect();
        let mut invite = |shares: Vec<Share>| {
            let invited = |share: &Share| share.role >= Role::Guest && is_current(share.expires_at, env.now);
            for group in shares.iter().filter(|share| invited(share)).filter_map(|share| self.namespace(share.group_id))
            {
                sources.extend(group.lineage().map(|above| Source::Group(above.id())));
            }
        };
        self.projects().for_each(|project| invite(project.shares()));
        let with_projects = || self.namespaces().filter(|namespace| namespace.projects_below().len() > 0);
        with_projects().for_each(|namespace| invite(namespace.shares()));
        for namespace in with_projects() {
            match namespace.owner() {
                Some(owner) => drop(users.insert(owner)),
                None => drop(sources.insert(Source::Group(namespace.id()))),
            }
        }
        let sources: Vec<Source> = sources.into_iter().collect();
        self.members(env, &sources, |member| {
            if member.role >= Role::Guest && member.is_current(env.now) {
                users.insert(member.user_id);
            }
        })?;
        Ok(users)
    }
}

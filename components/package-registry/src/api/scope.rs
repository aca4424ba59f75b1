//! The projects in which searches and lists look.

use super::access;
use super::request::RegistryRequest;
use crate::route::Level;
use crate::store;
use directory::catalog;
use directory::project::{self, Project};
use kit::Error;
use std::collections::HashSet;
use std::rc::Rc;

/// Most projects whose lists of packages are read: those that got their first package last.
const MAX_PROJECTS: usize = 20_000;

/// Projects that have packages and that the caller may read.
pub struct Scope {
    pub projects: Vec<Rc<Project>>,
    /// Whether there are more than are looked at.
    pub is_cut: bool,
}

/// The projects in scope.
pub fn projects(request: &RegistryRequest) -> Result<Scope, Error> {
    let env = &request.env;
    let mut ids = match &request.level {
        Level::Project(_) => {
            return Ok(Scope { projects: vec![access::readable_project(request)?], is_cut: false });
        }
        Level::Instance => store::projects(env)?,
        Level::Group(id) => {
            let group = access::readable_group(request, id)?;
            let catalog = catalog::read(env)?;
            let below = catalog.namespace(group.id).map(|group| group.projects_below().map(|project| project.id()));
            let below: HashSet<u64> = below.into_iter().flatten().collect();
            store::projects(env)?.into_iter().filter(|id| below.contains(id)).collect()
        }
    };
    let excess = ids.len().saturating_sub(MAX_PROJECTS);
    ids.drain(..excess);
    let mut projects = Vec::new();
    for id in ids {
        let Some(project) = project::by_id(env, id)? else { continue };
        if access::may_read(request, &project)? {
            projects.push(Rc::new(project));
        }
    }
    Ok(Scope { projects, is_cut: excess > 0 })
}

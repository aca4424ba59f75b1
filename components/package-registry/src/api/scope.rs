//! The projects that searches and lists cover.

use super::access;
use super::request::RegistryRequest;
use crate::route::Level;
use crate::store;
use directory::catalog;
use directory::project::{self, Project};
use kit::Error;
use std::collections::HashSet;
use std::rc::Rc;

/// The most projects that a search or list covers. Of the readable projects, it covers those with the greatest ids.
const MAX_PROJECTS: usize = 20_000;

/// Projects that have packages and that the caller may read.
pub struct Scope {
    pub projects: Vec<Rc<Project>>,
    /// Whether projects were left out.
    pub is_truncated: bool,
}

/// The projects in scope.
pub fn projects(request: &RegistryRequest) -> Result<Scope, Error> {
    let env = &request.env;
    let mut ids = match &request.level {
        Level::Project(_) => {
            return Ok(Scope { projects: vec![access::readable_project(request)?], is_truncated: false });
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
    let is_truncated = ids.len() > MAX_PROJECTS;
    if is_truncated {
        // The catalog does not know which projects make only their registry public.
        let catalog = catalog::read(env)?;
        let access = catalog.access_snapshot(env, &request.caller)?;
        let is_readable = |id: u64| catalog.project(id).is_some_and(|project| access.may_read(project));
        ids = last_readable(ids, MAX_PROJECTS, is_readable);
    }
    let mut projects = Vec::new();
    for id in ids {
        let Some(project) = project::by_id(env, id)? else { continue };
        if access::may_read(request, &project)? {
            projects.push(Rc::new(project));
        }
    }
    Ok(Scope { projects, is_truncated })
}

/// The last `count` ids; readable projects take precedence.
fn last_readable(ids: Vec<u64>, count: usize, is_readable: impl Fn(u64) -> bool) -> Vec<u64> {
    let (mut readable, mut others): (Vec<u64>, Vec<u64>) = ids.into_iter().partition(|id| is_readable(*id));
    readable.drain(..readable.len().saturating_sub(count));
    others.drain(..others.len().saturating_sub(count - readable.len()));
    others.extend(readable);
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_projects_do_not_count() {
        let last = |count, readable: &[u64]| last_readable(vec![5, 2, 9, 7], count, |id| readable.contains(&id));
        assert_eq!(last(2, &[5]), [7, 5], "the rest is of the others: their registry may be public");
        assert_eq!(last(2, &[5, 2, 9]), [2, 9]);
        assert_eq!(last(3, &[]), [2, 9, 7]);
    }
}

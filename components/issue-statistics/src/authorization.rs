//! Decides whose issues a caller may count. The decision is made once, before the index is read, and carried on as an
//! [`AuthorizedCount`].

use crate::route::Level;
use crate::store::{IndexStore, SEARCH_RATE_KEYS};
use directory::caller::Caller;
use directory::catalog::Catalog;
use directory::catalog::access_snapshot::AccessSnapshot;
use directory::project::{Project, ProjectLookup};
use directory::user::UserKey;
use directory::{access, namespace, project};
use kit::rate_limit::{self, RateLimit};
use kit::{Env, Error};
use std::rc::Rc;

/// The variable for the number of searches that a user may make in a minute; empty means no limit.
pub const SEARCH_RATE_LIMIT: &str = "issues_search_rate_limit";

/// The scope of a count: all issues, those of a group and everything below it, or those of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Instance,
    Group(u64),
    Project(u64),
}

/// A caller, the access of the caller, and the target to count.
pub struct AuthorizedCount {
    pub user: UserKey,
    pub target: Target,
    pub catalog: Rc<Catalog>,
    pub snapshot: Rc<AccessSnapshot>,
}

pub enum Decision {
    Authorized(AuthorizedCount),
    /// The request names a former path of this project, which the caller may read.
    Moved(Box<Project>),
}

/// The caller of this function reads `catalog` before it authenticates `caller`. 404 if the caller may not read the
/// group or project; 429 after too many searches.
pub fn authorize(
    env: &Env,
    store: &IndexStore,
    catalog: Rc<Catalog>,
    caller: &Caller,
    level: &Level,
    is_search: bool,
) -> Result<Decision, Error> {
    let target = match level {
        Level::Instance => Target::Instance,
        Level::Group(name) => match namespace::find_group(env, name)? {
            Some(group) if access::may_read_group(env, caller, &group)? => Target::Group(group.id),
            _ => return Err(Error::not_found("Group")),
        },
        Level::Project(name) => {
            let (project, is_moved) = match project::find(env, name)? {
                ProjectLookup::Found(project) => (project, false),
                ProjectLookup::Moved(project) => (project, true),
                ProjectLookup::Missing => return Err(Error::not_found("Project")),
            };
            if !access::may_read_project(env, caller, &project)? {
                return Err(Error::not_found("Project"));
            }
            if is_moved {
                return Ok(Decision::Moved(Box::new(project)));
            }
            Target::Project(project.id)
        }
    };
    let user = caller.user_or_401()?.key();
    if is_search {
        let limit = RateLimit { variable: SEARCH_RATE_LIMIT, seconds: 60, keys: SEARCH_RATE_KEYS };
        rate_limit::check(env, &limit, &user.id.to_string())?;
    }
    let snapshot =
        store.cache.access_snapshot(user.id, catalog.revision(), env.now, || catalog.access_snapshot(env, caller))?;
    Ok(Decision::Authorized(AuthorizedCount { user, target, catalog, snapshot }))
}

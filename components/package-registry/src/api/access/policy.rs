//! The token's scope and the role that an action needs, and the protection rules of package names.

use super::action::Action;
use super::denial;
use crate::api::error::same_text;
use crate::api::request::RegistryRequest;
use crate::route::Endpoint;
use crate::store;
use directory::access::{self, Role};
use directory::caller::{self, Caller};
use directory::namespace::Visibility;
use directory::project::{FeatureAccess, Project};
use directory::{protection, setting};
use http::{Method, StatusCode};
use kit::store::StoreError;
use kit::{Env, Error};
use serde_json::Value;

/// Scopes of deploy tokens that allow reading and writing packages.
const DEPLOY_READ: &[&str] = &["read_package_registry", "write_package_registry"];
const DEPLOY_WRITE: &[&str] = &["write_package_registry"];

/// Checks that the caller's token has a scope for packages; 403 if not, also at addresses without a project. A write
/// with a deploy token needs a further scope ([`check`]).
pub fn check_scope(caller: &Caller, endpoint: &Endpoint, method: &Method) -> Result<(), Error> {
    match endpoint {
        Endpoint::Ping => Ok(()),
        // An audit is a POST, but changes nothing.
        Endpoint::Audit(_) => check_scope_of(caller, &Method::GET),
        _ => check_scope_of(caller, method),
    }
}

/// Checks the token's scope for a method, at every endpoint without a rule of its own.
pub fn check_scope_of(caller: &Caller, method: &Method) -> Result<(), Error> {
    match caller {
        Caller::DeployToken(_) => caller.require_scope(DEPLOY_READ),
        _ => caller.require_scope(caller::api_scopes(method)),
    }
}

/// Checks that the caller may perform `action` on packages of this project; [`check_scope`] has checked the token's
/// scope. Returns the caller's role if the decision needed it.
pub fn check(request: &RegistryRequest, project: &Project, action: Action) -> Result<Option<Role>, Error> {
    let RegistryRequest { env, caller, .. } = request;
    if action.is_write() && matches!(caller, Caller::DeployToken(_)) {
        caller.require_scope(DEPLOY_WRITE)?;
    }
    let is_open = project.registry == FeatureAccess::Public && !action.is_write();
    if is_open {
        return Ok(None);
    }
    if !access::may_read_project(env, caller, project)? {
        return Err(denial::project_unreadable(request, project, action));
    }
    if project.registry == FeatureAccess::Disabled {
        return Err(Error::forbidden());
    }
    if let Caller::DeployToken(token) = caller
        && token.covers(project)
    {
        return if action.is_write() && project.archived { Err(Error::forbidden()) } else { Ok(None) };
    }
    let minimum = match action {
        Action::Publish => Role::Developer,
        Action::Unpublish => Role::Maintainer,
        // Guests see that a private project exists, but not its packages.
        Action::Read | Action::Download if project.visibility == Visibility::Private => Role::Reporter,
        Action::Read | Action::Download if project.registry == FeatureAccess::Private => Role::Guest,
        Action::Read | Action::Download => return Ok(None),
    };
    let refuse = || match caller {
        Caller::Anonymous => denial::project_unreadable(request, project, action),
        _ => denial::job_not_accepted(request, project).unwrap_or_else(Error::forbidden),
    };
    if action.is_write() && project.archived {
        return Err(refuse());
    }
    let role = access::project_role(env, caller, project)?;
    if role < minimum { Err(refuse()) } else { Ok(Some(role)) }
}

/// Checks the protection rules for this name, of which the strictest counts. `role` comes from [`check`]; a deploy token
/// has none. Reads the settings and the project's rules.
pub fn check_protection(
    env: &Env,
    caller: &Caller,
    project: &Project,
    role: Option<Role>,
    name: &str,
    action: Action,
) -> Result<(), Error> {
    let settings = setting::read(env)?;
    let own = Value::from(store::protection(env, &project.key())?.rules.clone());
    let mut required = None;
    for (rules, what) in [(settings.all().get(protection::SETTING), protection::SETTING), (Some(&own), "protection/")] {
        let rules =
            protection::parse_rules(rules).map_err(|why| StoreError::corrupt(&format!("the setting `{what}`"), why))?;
        let removes = action == Action::Unpublish;
        required = required.max(protection::required_access(&rules, project.id, name, removes));
    }
    match required {
        Some(minimum) if !minimum.allows(role, caller.is_admin()) => {
            Err(same_text(StatusCode::FORBIDDEN, "Package protected."))
        }
        _ => Ok(()),
    }
}

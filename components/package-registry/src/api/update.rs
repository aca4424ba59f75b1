//! Changes a package that exists.

use super::access::Authorized;
use super::error::package_not_found;
use crate::package::Package;
use crate::store;
use kit::root::Decision;
use kit::{Env, Error};

pub enum Change {
    Made,
    /// The package is in the requested state already.
    None,
}

/// Applies `change` to the current revision of the package and stores the result. `change` is called
/// again if another request stored a revision in between.
pub fn update<P>(
    env: &Env,
    authorized: &Authorized<P>,
    mut change: impl FnMut(&mut Package) -> Result<Change, Error>,
) -> Result<(), Error> {
    let event = env.id();
    store::update_package(env, &authorized.project.key(), &authorized.name, |package| {
        let mut package = package.ok_or_else(package_not_found)?;
        // An earlier attempt was stored, but its reply was lost.
        if package.has_applied(&event) {
            return Ok(Decision::Keep(()));
        }
        match change(&mut package)? {
            Change::None => Ok(Decision::Keep(())),
            Change::Made => {
                package.record_change(&event, env.now);
                Ok(Decision::Replace(package, ()))
            }
        }
    })
}

//! Finds a version in the packages of a name.

use crate::merged::{Holder, MergedPackage};
use crate::package::RunRef;
use crate::store::{self, StoredVersion};
use kit::Env;
use kit::store::StoreError;

/// The listed version of this number, in the first package that has it.
pub fn find<'a>(
    env: &Env,
    merged: &'a MergedPackage,
    version: &str,
) -> Result<Option<(&'a Holder, StoredVersion)>, StoreError> {
    for holder in merged.iter() {
        if let Some(found) = store::find_listed(env, &holder.package, version)? {
            return Ok(Some((holder, found)));
        }
    }
    Ok(None)
}

/// The run that lists this version, in the first package that has it.
pub fn run<'a>(
    env: &Env,
    merged: &'a MergedPackage,
    version: &str,
) -> Result<Option<(&'a Holder, &'a RunRef)>, StoreError> {
    for holder in merged.iter() {
        if let Some(run) = store::run_with_version(env, &holder.package, version)? {
            return Ok(Some((holder, run)));
        }
    }
    Ok(None)
}

//! Packages: the roots that name everything else.

use super::key::Key;
use super::record::PackageRecord;
use crate::name::PackageName;
use crate::package::Package;
use directory::project::ProjectKey;
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, gc};
use std::rc::Rc;

/// The package of this name in a project. A package whose versions are all unpublished exists, and lists no version. 1
/// read; an instance decodes a package once for each revision.
pub fn package(env: &Env, project: &ProjectKey, name: &PackageName) -> Result<Option<Rc<Package>>, StoreError> {
    let key = Key::Package(project, name).text();
    root::read_cached(env, &key, |record: PackageRecord| record.read(&key))
}

/// Changes a package as [`root::update`] does. A package that does not exist yet must have been
/// added to the listings with [`super::add_project_with_name`] before it is written.
pub fn update_package<T, E: From<StoreError>>(
    env: &Env,
    project: &ProjectKey,
    name: &PackageName,
    mut decide: impl FnMut(Option<Package>) -> Result<Decision<Package, T>, E>,
) -> Result<T, E> {
    let key = Key::Package(project, name).to_string();
    root::update(env, &key, |record: Option<PackageRecord>| {
        Ok(match decide(record.map(|record| record.read(&key)).transpose()?)? {
            Decision::Keep(answer) => Decision::Keep(answer),
            Decision::Replace(..) if gc::is_too_late(env) => return Err(StoreError::TooLate.into()),
            Decision::Replace(package, answer) => Decision::Replace(PackageRecord::from(&package), answer),
        })
    })
}

//! The look-up of an object in packs and among loose objects.

use crate::repository_id::RepositoryId;
use crate::store::packs::Packs;
use kit::Env;
use kit::store::StoreError;

/// Looks an object up: by `in_packs` in the packs that the instance knows, by `loose` among the loose objects, and then
/// in the present packs. A loose object is removed only once a listed pack has it, so the last step finds an object
/// that moves during the first two.
pub fn look_up<T>(
    env: &Env,
    project: RepositoryId,
    mut in_packs: impl FnMut(&Packs) -> Result<Option<T>, StoreError>,
    loose: impl FnOnce() -> Result<Option<T>, StoreError>,
) -> Result<Option<T>, StoreError> {
    if let Some(found) = Packs::with_cached(env, project, &mut in_packs)? {
        return Ok(Some(found));
    }
    match loose()? {
        Some(found) => Ok(Some(found)),
        None => in_packs(&Packs::load(env, project)?),
    }
}

//! The version that `latest` falls back to, for packages of old builds, which did not store it.

use crate::package::{LATEST, Package};
use crate::store;
use crate::version::Version;
use crate::version_run::{self, VersionState};
use kit::Env;
use kit::store::StoreError;

/// Finds the highest stable version, if the package may lack it. It then reads every index.
pub fn complete(env: &Env, package: &mut Package) -> Result<(), StoreError> {
    if package.highest_stable.is_some() || package.highest.is_none() {
        return Ok(());
    }
    let mut highest: Option<(Version, String)> = None;
    for run in &package.runs {
        let index = store::index(env, run)?;
        for entry in version_run::entries(&index).filter(|entry| entry.state == VersionState::Listed) {
            let version = Version::parse(entry.version).filter(|version| !version.is_prerelease());
            if let Some(version) = version.filter(|version| highest.as_ref().is_none_or(|(most, _)| most < version)) {
                highest = Some((version, entry.upload.to_owned()));
            }
        }
    }
    if let Some((version, upload)) = highest {
        package.highest_stable = Some(version);
        if !package.tags.contains_key(LATEST) {
            package.latest_upload = Some(upload);
        }
    }
    Ok(())
}

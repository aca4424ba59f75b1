//! The version that `latest` falls back to, in packages of builds that did not store it.

use crate::package::{LATEST, Package};
use crate::segment::{self, VersionState};
use crate::store;
use crate::version::Version;
use kit::Env;
use kit::store::StoreError;

/// Looks for the highest version that is no prerelease, if it may be unknown. Reads every index then.
pub fn complete(env: &Env, package: &mut Package) -> Result<(), StoreError> {
    if package.highest_stable.is_some() || package.highest.is_none() {
        return Ok(());
    }
    let mut highest: Option<(Version, String)> = None;
    for part in &package.segments {
        let index = store::index(env, part)?;
        for entry in segment::entries(&index).filter(|entry| entry.state == VersionState::Listed) {
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

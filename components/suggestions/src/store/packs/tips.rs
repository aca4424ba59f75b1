//! The tips of a pack, which reach its objects, and the commits of other packs that it builds on.
//!
//! Each push and each applied suggestion reads and writes the list of packs. After commits on many branches, a joined
//! pack has as many tips, so a pack with more than a few has them in a blob.

use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use crate::store::json_blob;
use crate::store::key::Key;
use crate::store::record::{PackRecord, PackTipsRecord};
use kit::Env;
use kit::store::StoreError;
use std::collections::BTreeSet;

/// The most tips and bases of a pack that the list names.
const MAX_LISTED: usize = 16;

/// Writes tips and bases of a self-contained pack into a blob if they are many. Any other pack does not need them.
pub fn spill_tips(env: &Env, pack: &mut PackRecord) -> Result<(), StoreError> {
    if pack.has_tips_blob || pack.is_self_contained && pack.tips.len() + pack.bases.len() <= MAX_LISTED {
        return Ok(());
    }
    let record = PackTipsRecord { tips: std::mem::take(&mut pack.tips), bases: std::mem::take(&mut pack.bases) };
    if pack.is_self_contained {
        json_blob::write(env, &Key::PackTips(&pack.id), &record)?;
        (pack.is_self_contained, pack.has_tips_blob) = (false, true);
    }
    Ok(())
}

/// The tips of consecutive packs, and the commits that they build on, of which the packs before may have some. `None`
/// if one of the packs is not self-contained.
pub fn of_all(
    env: &Env,
    project: RepositoryId,
    packs: &[PackRecord],
) -> Result<Option<[BTreeSet<ObjectId>; 2]>, StoreError> {
    let (mut tips, mut bases) = (BTreeSet::new(), BTreeSet::new());
    if !packs.iter().all(PackRecord::is_reachability_closed) {
        return Ok(None);
    }
    for pack in packs {
        let mut add = |added: &[ObjectId], built_on: &[ObjectId]| {
            // The tips of a later pack reach the commits that it builds on.
            tips = &tips - &built_on.iter().copied().collect();
            tips.extend(added);
            bases.extend(built_on);
        };
        if pack.has_tips_blob {
            let key = Key::PackTips(&pack.id);
            let record = json_blob::read::<PackTipsRecord>(env, &key)?;
            let missing = || StoreError::corrupt(&key.to_string(), format!("it is missing (project {project})"));
            let record = record.ok_or_else(missing)?;
            add(&record.tips, &record.bases);
        } else {
            add(&pack.tips, &pack.bases);
        }
    }
    Ok(Some([tips, bases]))
}

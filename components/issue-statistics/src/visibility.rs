//! Which documents of a segment a caller may see, out of a group or everywhere.

use crate::facet::{PROJECT, Term, project_of};
use crate::segment::{Part, Segment};
use crate::set::{self, Bits};
use crate::store::Store;
use directory::access::Role;
use directory::catalog::Catalog;
use directory::catalog::access_snapshot::AccessSnapshot;
use kit::store::StoreError;
use roaring::RoaringBitmap;
use std::collections::HashSet;
use std::rc::Rc;

/// Who asks.
pub struct Viewer {
    pub user_id: u64,
    pub catalog: Rc<Catalog>,
    pub snapshot: Rc<AccessSnapshot>,
}

/// The documents that the viewer may see: those of projects whose issues they may read, without
/// confidential ones, unless it is theirs or they plan in that project, and without those of banned
/// authors, unless they are an administrator. `dead` are superseded.
///
/// Made of the postings of all projects, once for each segment, viewer and revision of the catalog.
pub fn visible(
    store: &Store,
    segment: &Segment,
    dead: Option<&str>,
    viewer: &Viewer,
) -> Result<Rc<RoaringBitmap>, StoreError> {
    let until = viewer.snapshot.valid_until().map_or(0, |end| end.millis());
    let key = format!(
        "visible {} {} {} {} {until}",
        segment.id,
        dead.unwrap_or_default(),
        viewer.user_id,
        viewer.catalog.revision()
    );
    store.warm.set(key.as_bytes(), || {
        let mut seen = Bits::new(segment.documents());
        let mut planned = Bits::new(segment.documents());
        each_project(segment, |id, stored| {
            let Some(project) = viewer.catalog.project(id) else { return Some(()) };
            if !viewer.snapshot.may_read_issues(project) {
                return Some(());
            }
            seen.unite(stored)?;
            if viewer.snapshot.project_role(project) >= Role::Planner { planned.unite(stored) } else { Some(()) }
        })?;
        let mut seen = seen.bitmap();
        if !viewer.snapshot.is_admin() {
            let mut hidden = (*term(store, segment, &Term::Confidential.key())?).clone();
            hidden -= planned.bitmap();
            hidden -= &*term(store, segment, &Term::Author(viewer.user_id).key())?;
            hidden -= &*term(store, segment, &Term::Assignee(viewer.user_id).key())?;
            hidden |= &*term(store, segment, &Term::Hidden.key())?;
            seen -= hidden;
        }
        if let Some(dead) = dead {
            seen -= &*store.dead(dead)?;
        }
        Ok(seen)
    })
}

/// The documents of a group's projects, and of those of everything below it.
pub fn of_group(
    store: &Store,
    segment: &Segment,
    catalog: &Catalog,
    group: u64,
) -> Result<Rc<RoaringBitmap>, StoreError> {
    let key = format!("group {} {group} {}", segment.id, catalog.revision());
    store.warm.set(key.as_bytes(), || {
        let mut found = Bits::new(segment.documents());
        if let Some(group) = catalog.namespace(group) {
            let below: HashSet<u64> = group.projects_below().map(|project| project.id()).collect();
            each_project(segment, |id, stored| if below.contains(&id) { found.unite(stored) } else { Some(()) })?;
        }
        Ok(found.bitmap())
    })
}

/// Calls `each` for every project of the segment with its stored documents.
fn each_project(segment: &Segment, mut each: impl FnMut(u64, &[u8]) -> Option<()>) -> Result<(), StoreError> {
    let mut cursor = segment.table(Part::Terms).from(&[PROJECT])?;
    while let Some(entry) = cursor.next()? {
        let Some(id) = project_of(&entry.key) else { break };
        each(id, &entry.value).ok_or_else(|| segment.damaged(Part::Terms))?;
    }
    Ok(())
}

/// The documents with a term, by its key.
pub fn term(store: &Store, segment: &Segment, key: &[u8]) -> Result<Rc<RoaringBitmap>, StoreError> {
    let name = [b"term ", segment.id.as_bytes(), b" ", key].concat();
    store.warm.set(&name, || {
        let stored = segment.table(Part::Terms).get(key)?;
        let set = stored.map(|stored| set::bitmap(&stored).ok_or_else(|| segment.damaged(Part::Terms)));
        set.unwrap_or_else(|| Ok(RoaringBitmap::new()))
    })
}

//! The tree of paths that users, groups and projects share.
//!
//! A path is resolved one segment at a time: the entry of a segment below a namespace names who
//! lives there by id. Nothing stores a full path, so renaming a group is one write however much is
//! below it. An entry is the present address only if the record that it leads to says so too; else
//! it is an old one, which leads on until somebody claims it. Resolving costs two reads a segment.

use crate::namespace::{self, Namespace};
use crate::project::{self, Lookup};
use crate::rejection::{Rejection, Unsaved};
use crate::store::{self, Key};
use kit::Env;
use kit::store::Fault;

/// The longest segment, as in the reference service.
const MAX_SEGMENT: usize = 255;

/// Who lives at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resident {
    Namespace(u64),
    Project(u64),
}

/// What a client calls a namespace, project or user by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identifier<'a> {
    /// All digits: always an id, also where there is a path of digits.
    Id(u64),
    Path(&'a str),
    /// Nothing can have it; storage is not asked.
    Impossible,
}

impl<'a> Identifier<'a> {
    pub fn parse(text: &'a str) -> Self {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            // A number that does not fit is the id of nothing.
            return text.parse().map_or(Identifier::Impossible, Identifier::Id);
        }
        let possible = text.split('/').all(is_segment) && text.split('/').count() <= namespace::MAX_DEPTH + 1;
        if possible { Identifier::Path(text) } else { Identifier::Impossible }
    }
}

/// Whether `text` can be one segment of a path: letters, digits, `_`, `-` and `.` of ASCII, not
/// starting with a dash, not ending in a dot, `.git` or `.atom`.
pub fn is_segment(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    (1..=MAX_SEGMENT).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        && !text.starts_with('-')
        && ![".", ".git", ".atom"].iter().any(|end| lower.ends_with(end))
}

/// The namespace whose present address is `path`.
pub(crate) fn namespace(env: &Env, path: &str) -> Result<Option<Namespace>, Fault> {
    let mut place = Place::default();
    for segment in path.split('/') {
        match place.entry(env, segment)? {
            Some(Resident::Namespace(id)) if place.enter(env, id, segment)? && !place.moved => {}
            _ => return Ok(None),
        }
    }
    Ok(place.namespace)
}

/// The project whose present or former address is `path`.
pub(crate) fn project(env: &Env, path: &str) -> Result<Lookup, Fault> {
    let Some((above, name)) = path.rsplit_once('/') else {
        return Ok(Lookup::Missing);
    };
    let mut place = Place::default();
    for segment in above.split('/') {
        match place.entry(env, segment)? {
            Some(Resident::Namespace(id)) if place.enter(env, id, segment)? => {}
            _ => return Ok(Lookup::Missing),
        }
    }
    let (Some(Resident::Project(id)), Some(namespace)) = (place.entry(env, name)?, place.namespace) else {
        return Ok(Lookup::Missing);
    };
    let Some(record) = store::read::<store::Project>(env, &Key::Project(id))? else {
        return Ok(Lookup::Missing);
    };
    if record.namespace_id == namespace.id && record.path.eq_ignore_ascii_case(name) {
        let project = record.into_project(id, namespace);
        return Ok(if place.moved { Lookup::Moved(project) } else { Lookup::Found(project) });
    }
    Ok(project::by_id(env, id)?.map_or(Lookup::Missing, Lookup::Moved))
}

/// Where the resolution of a path has come to.
#[derive(Default)]
struct Place {
    /// None at the top.
    namespace: Option<Namespace>,
    /// Whether an old address was passed.
    moved: bool,
}

impl Place {
    fn entry(&self, env: &Env, segment: &str) -> Result<Option<Resident>, Fault> {
        let parent_id = self.namespace.as_ref().map(|namespace| namespace.id);
        Ok(store::read::<store::Entry>(env, &Key::entry(parent_id, segment))?.map(Resident::from))
    }

    /// Goes on into the namespace that the entry of `segment` names; false if it is gone.
    fn enter(&mut self, env: &Env, id: u64, segment: &str) -> Result<bool, Fault> {
        let Some(record) = store::read::<store::Namespace>(env, &Key::Namespace(id))? else {
            return Ok(false);
        };
        let here = self.namespace.as_ref().map(|namespace| namespace.id);
        if record.parent_id == here && record.path.eq_ignore_ascii_case(segment) {
            self.namespace = Some(record.into_namespace(id, self.namespace.take()));
        } else {
            self.moved = true;
            self.namespace = namespace::by_id(env, id)?;
        }
        Ok(self.namespace.is_some())
    }
}

/// Makes `resident` the one whom `segment` below the namespace `parent_id` names. Refused while
/// somebody else lives there.
///
/// Claim first and write the record after: between the two the entry looks like an old address,
/// and repeating both completes them.
pub(crate) fn claim(env: &Env, parent_id: Option<u64>, segment: &str, resident: Resident) -> Result<(), Unsaved> {
    if !is_segment(segment) {
        return Err(Rejection::BadPath(segment.to_owned()).into());
    }
    let key = Key::entry(parent_id, segment);
    store::try_update(env, &key, |current: Option<store::Entry>| match current.map(Resident::from) {
        Some(other) if other != resident && lives_at(env, other, parent_id, segment)? => {
            Err(Rejection::Taken { path: segment.to_owned(), by: other }.into())
        }
        _ => Ok(store::Entry::from(resident)),
    })
}

/// Whether the record of `resident` says that this is its address.
fn lives_at(env: &Env, resident: Resident, parent_id: Option<u64>, segment: &str) -> Result<bool, Fault> {
    let (parent, path) = match resident {
        Resident::Namespace(id) => match store::read::<store::Namespace>(env, &Key::Namespace(id))? {
            Some(record) => (record.parent_id, record.path),
            None => return Ok(false),
        },
        Resident::Project(id) => match store::read::<store::Project>(env, &Key::Project(id))? {
            Some(record) => (Some(record.namespace_id), record.path),
            None => return Ok(false),
        },
    };
    Ok(parent == parent_id && path.eq_ignore_ascii_case(segment))
}

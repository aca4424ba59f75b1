//! What is reached from branches, discussions and former heads, for removing garbage and for checks.

use super::record::{AppliedRecord, DiscussionRecord, HeadRecord, LeftRecord, ListRecord, LocatorRecord};
use super::record::{MergeRequestRecord, NamesRecord};
use super::space::{self, Space, Turn};
use super::{Key, PREFIX, object};
use crate::git::{self, Id, Link};
use kit::gc::{self, GRACE, GcReport, GcRequest};
use kit::maintenance::Maintain;
use kit::reachability::{BlobId, KeyLayout, LONGEST_RUN, Node, Roots, StepError, Tracer};
use kit::root;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::de::DeserializeOwned;

/// Prefixes of blobs, below [`PREFIX`]. Objects and their chunks are in two spaces.
const SPACES: [(&str, Space); 4] =
    [("chunk/", Space::First), ("chunk2/", Space::Second), ("object/", Space::First), ("object2/", Space::Second)];
const DISCUSSIONS: &str = "discussion/";
const PAGES: &str = "page/";
const LEFT: &str = "reflog/";
const LOCATORS: &str = "suggestion/";

/// How long, in milliseconds, a former head keeps its history: longer than whoever read where
/// branches stand takes to build on it, and longer than any run.
const KEEP_LEFT: i64 = LONGEST_RUN + GRACE;

/// The repositories and discussions as [`kit::maintenance`] sees them.
pub struct Repositories<'a> {
    env: &'a Env,
    turn: Option<Turn>,
}

impl<'a> Repositories<'a> {
    pub fn new(env: &'a Env) -> Result<Self, StoreError> {
        Ok(Repositories { env, turn: space::turn(env)? })
    }

    fn sweeps(&self, began: Timestamp) -> bool {
        self.turn.is_some_and(|turn| turn.sweeps(began))
    }

    /// Whether objects are followed: only for a sweep of them, or for a check.
    fn follows_objects(&self, visit: &Tracer) -> bool {
        visit.check || self.sweeps(self.env.now)
    }
}

/// What a mark is of.
enum Marked {
    Object(u64, Id),
    Discussion(Id),
}

/// Project and id, and what kind of mark it is in the last byte: that of a time-ordered id has 0.
fn mark_object(project: u64, id: Id) -> BlobId {
    mark(project, id, 1)
}

/// The id of a discussion has as many bytes as that of an object.
fn mark_discussion(id: Id) -> BlobId {
    mark(0, id, 2)
}

fn mark(project: u64, id: Id, kind: u8) -> BlobId {
    let mut bytes = [0; BlobId::LENGTH];
    let filled = project.to_be_bytes().into_iter().chain(*id.bytes());
    bytes.iter_mut().zip(filled).for_each(|(byte, filled)| *byte = filled);
    if let Some(last) = bytes.last_mut() {
        *last = kind;
    }
    BlobId(bytes)
}

fn read_mark(mark: &BlobId) -> Option<Marked> {
    let (project, rest) = mark.0.split_first_chunk()?;
    let (id, rest) = rest.split_first_chunk()?;
    match rest.last()? {
        1 => Some(Marked::Object(u64::from_be_bytes(*project), Id::new(*id))),
        2 => Some(Marked::Discussion(Id::new(*id))),
        _ => None,
    }
}

impl Roots for Repositories<'_> {
    fn plan(&self) -> KeyLayout {
        let below = |kinds: &[&str]| kinds.iter().map(|kind| format!("{PREFIX}{kind}")).collect();
        let mut blobs = SPACES.map(|(prefix, _)| prefix).to_vec();
        blobs.extend([DISCUSSIONS, PAGES, LEFT, LOCATORS]);
        blobs.sort_unstable();
        KeyLayout {
            // Former heads last: a branch that is moved while roots are visited is seen where it was
            // or in what it left.
            roots: below(&["discussions/", "ref/", LEFT]),
            records: below(&["applied/", "branches/", "merge_request/", LOCATORS]),
            blobs: below(&blobs),
            marks: format!("{PREFIX}gc/"),
        }
    }

    fn visit(&self, place: Node, visit: &mut Tracer) -> Result<bool, StoreError> {
        match place {
            Node::Root(key) => self.root(key, visit),
            Node::Blob(mark) => {
                match read_mark(mark) {
                    Some(Marked::Object(project, id)) if self.follows_objects(visit) => {
                        self.object(project, id, visit)?;
                    }
                    Some(Marked::Discussion(id)) if self.follows_objects(visit) => self.discussion(id, visit)?,
                    _ => {}
                }
                Ok(true)
            }
        }
    }

    fn follows(&self) -> bool {
        true
    }

    fn mark(&self, prefix: &str, rest: &str) -> Option<BlobId> {
        match prefix.strip_prefix(PREFIX)? {
            "object/" | "object2/" => {
                let (project, id) = rest.split_once('/')?;
                Some(mark_object(project.parse().ok()?, Id::parse(id)?))
            }
            DISCUSSIONS => Id::parse(rest).map(mark_discussion),
            // It goes with its discussion.
            LOCATORS => {
                let locator: Option<LocatorRecord> = root::read(&*self.env.store, &format!("{prefix}{rest}")).ok()?;
                Id::parse(&locator?.discussion).map(mark_discussion)
            }
            _ => BlobId::of_id(rest.split('/').next()?),
        }
    }

    fn is_garbage(&self, prefix: &str, mark: &BlobId, began: Timestamp) -> bool {
        let Some(kind) = prefix.strip_prefix(PREFIX) else { return false };
        if let Some((_, space)) = SPACES.iter().find(|(prefix, _)| *prefix == kind) {
            return self.turn.is_some_and(|turn| turn.sweeps(began) && turn.current != *space);
        }
        match kind {
            LEFT => mark.is_older(began, KEEP_LEFT),
            DISCUSSIONS | LOCATORS => self.is_old_discussion(mark, began),
            _ => mark.is_older(began, GRACE),
        }
    }
}

impl Maintain for Repositories<'_> {
    fn collect(&self, env: &Env, wanted: &GcRequest) -> Result<GcReport, StepError> {
        if wanted.cursor.is_none() && !wanted.dry_run {
            space::change_roles(env)?;
        }
        let step = gc::step(env, self, wanted)?;
        if step.cursor.is_none()
            && !wanted.dry_run
            && let Some((turn, began)) = self.turn.zip(gc::began(wanted))
            && turn.sweeps(began)
        {
            space::has_swept(env, &turn)?;
        }
        Ok(step)
    }
}

impl Repositories<'_> {
    fn read<R: DeserializeOwned>(&self, key: &str) -> Result<R, StoreError> {
        root::read(&*self.env.store, key)?.ok_or_else(|| StoreError::corrupt(key, "it is missing"))
    }

    fn root(&self, key: &str, visit: &mut Tracer) -> Result<bool, StoreError> {
        let Some((kind, name)) = key.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/')) else {
            return Ok(false);
        };
        // The counter beside a root (see `kit::root::update`).
        if name.ends_with("/init") {
            return Ok(false);
        }
        let project = || {
            let number = name.split('/').next().and_then(|number| number.parse::<u64>().ok());
            number.ok_or_else(|| StoreError::corrupt(key, "no project has such a number"))
        };
        match kind {
            "discussions" => self.list(key, visit)?,
            // `reflog` has one more letter than `ref`, and is listed apart.
            "ref" | "reflog" if !self.follows_objects(visit) => {}
            "ref" => {
                let head: Option<HeadRecord> = self.read(key)?;
                head.iter()
                    .try_for_each(|head| project().map(|project| visit.mark(mark_object(project, head.commit))))?;
            }
            "reflog" => {
                // It may be swept meanwhile.
                let left: Option<LeftRecord> = root::read(&*self.env.store, key)?;
                left.iter().for_each(|left| visit.mark(mark_object(left.project_id, left.commit)));
            }
            "applied" => drop(self.read::<AppliedRecord>(key)?),
            "branches" => drop(self.read::<NamesRecord>(key)?),
            "merge_request" => drop(self.read::<Option<MergeRequestRecord>>(key)?),
            "suggestion" => drop(self.read::<LocatorRecord>(key)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The discussions of a merge request.
    fn list(&self, key: &str, visit: &mut Tracer) -> Result<(), StoreError> {
        let ListRecord { pages, last } = self.read(key)?;
        let mut reach = |discussions: &[String]| {
            discussions.iter().filter_map(|id| Id::parse(id)).for_each(|id| visit.mark(mark_discussion(id)));
        };
        reach(&last);
        for page in &pages {
            reach(&self.read::<Vec<String>>(&Key::Page(page).to_string())?);
        }
        pages.iter().for_each(|page| visit.reach(page));
        Ok(())
    }

    /// The file that was commented on, as it was then.
    fn discussion(&self, id: Id, visit: &mut Tracer) -> Result<(), StoreError> {
        let key = Key::Discussion(&id.to_string()).to_string();
        if let Some(file) = self.read::<DiscussionRecord>(&key)?.into_discussion(&id.to_string()).file {
            visit.mark(mark_object(file.project_id, file.blob));
        }
        Ok(())
    }

    /// A discussion that no list names was never listed if it was begun that long ago.
    fn is_old_discussion(&self, mark: &BlobId, began: Timestamp) -> bool {
        let Some(Marked::Discussion(id)) = read_mark(mark) else { return false };
        let key = Key::Discussion(&id.to_string()).to_string();
        match root::read::<DiscussionRecord>(&*self.env.store, &key) {
            Ok(Some(record)) => record.created().millis() < began.millis() - GRACE,
            // Its suggestions are removed after it.
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// What an object names. A parent that is not there ends a history that was cut short.
    fn object(&self, project: u64, id: Id, visit: &mut Tracer) -> Result<(), StoreError> {
        let scanned = object::scan(self.env, project, id, visit.check)?;
        visit.read(scanned.size);
        scanned.uploads.iter().for_each(|upload| visit.reach(upload));
        let Some(contents) = scanned.contents else { return Ok(()) };
        let corrupt = |why: String| StoreError::corrupt(&Key::Object(Space::First, project, id).to_string(), why);
        let links = git::links(scanned.kind, contents);
        for link in links.ok_or_else(|| corrupt(format!("it is not a {}", scanned.kind.as_str())))? {
            match link {
                Link::Part(id) => visit.mark(mark_object(project, id)),
                Link::Parent(id) if object::is_anywhere(self.env, project, id)? => {
                    visit.mark(mark_object(project, id));
                }
                Link::Parent(parent) if visit.check => {
                    let key = Key::Object(Space::First, project, id);
                    visit.found(key, format!("its parent {parent} is missing"));
                }
                Link::Parent(_) => {}
            }
        }
        Ok(())
    }
}

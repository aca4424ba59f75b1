//! The history of repositories: commits and their parents.

use super::objects;
use crate::git::{Commit, Link, ObjectId, ObjectKind, parse_links};
use crate::repository_id::RepositoryId;
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::rc::Rc;

/// The longest commit or tag that is read, in bytes.
const MAX_COMMIT: u64 = 32 << 20;

/// The most nested tags between a pushed ref and its target. Every listing of the refs follows them.
pub const MAX_NESTED_TAGS: usize = 16;

/// Commits of some repositories of a fork network, each read once.
pub struct History<'a> {
    env: &'a Env,
    /// An object is read from the first repository that has it.
    repositories: Vec<RepositoryId>,
    nodes: HashMap<ObjectId, Option<Rc<Commit>>>,
}

impl<'a> History<'a> {
    pub fn new(env: &'a Env, repositories: &[RepositoryId]) -> Self {
        History { env, repositories: repositories.to_vec(), nodes: HashMap::new() }
    }

    /// A commit; `None` if there is no such object, or it is no commit.
    pub fn commit(&mut self, id: ObjectId) -> Result<Option<Rc<Commit>>, StoreError> {
        if let Some(known) = self.nodes.get(&id) {
            return Ok(known.clone());
        }
        let node = match self.read(id)? {
            Some((ObjectKind::Commit, contents)) => Commit::parse(&contents).map(Rc::new),
            _ => None,
        };
        self.nodes.insert(id, node.clone());
        Ok(node)
    }

    fn read(&self, id: ObjectId) -> Result<Option<(ObjectKind, Bytes)>, StoreError> {
        for repository in &self.repositories {
            if let Some(found) = objects::read_any(self.env, *repository, id, MAX_COMMIT)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn kind(&self, id: ObjectId) -> Result<Option<ObjectKind>, StoreError> {
        for repository in &self.repositories {
            if let Some(kind) = objects::kind(self.env, *repository, id)? {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }

    /// The target of a chain of tags, and the tags; the object itself if it is no tag. `None` if an object of the chain
    /// is missing. 1 to 2 reads for each tag.
    pub fn peel(&self, id: ObjectId) -> Result<Option<PeeledTag>, StoreError> {
        self.peel_at_most(id, usize::MAX)
    }

    /// As [`Self::peel`], for a ref that many requests ask for. `None` also if the chain is longer than
    /// [`MAX_NESTED_TAGS`].
    pub fn peel_ref(&self, id: ObjectId) -> Result<Option<PeeledTag>, StoreError> {
        self.peel_at_most(id, MAX_NESTED_TAGS)
    }

    fn peel_at_most(&self, id: ObjectId, limit: usize) -> Result<Option<PeeledTag>, StoreError> {
        let (mut target, mut tags) = (id, Vec::new());
        loop {
            match self.kind(target)? {
                Some(ObjectKind::Tag) if tags.len() < limit => {}
                Some(ObjectKind::Tag) | None => return Ok(None),
                Some(kind) => return Ok(Some(PeeledTag { target, kind, tags })),
            }
            let Some((kind, contents)) = self.read(target)? else { return Ok(None) };
            tags.push(target);
            match parse_links(kind, contents).unwrap_or_default().first() {
                // Chains end, because an id is a hash.
                Some(Link::Part(id) | Link::Parent(id)) => target = *id,
                None => return Ok(None),
            }
        }
    }

    /// As [`Self::peel`], for an object that a ref or another object names, so that its absence is damage.
    pub fn peel_named(&self, id: ObjectId) -> Result<Option<PeeledTag>, StoreError> {
        match (self.peel(id)?, self.repositories.first()) {
            (None, Some(repository)) if self.kind(id)?.is_none() => Err(objects::missing(*repository, id)),
            (peeled, _) => Ok(peeled),
        }
    }

    /// Fails if the object that a branch of a repository names is missing, which is damage. A deleted project may lack
    /// it, because its packs are removed before its branches. 1 read of the commit, which is kept; more only if it is
    /// missing.
    pub fn expect_head(&mut self, repository: RepositoryId, id: ObjectId) -> Result<(), StoreError> {
        let is_there = self.commit(id)?.is_some() || self.kind(id)?.is_some();
        if is_there || repository.is_deleted(self.env)? { Ok(()) } else { Err(objects::missing(repository, id)) }
    }

    /// Whether the history of `descendant` has `ancestor`, or both are the same commit.
    pub fn is_ancestor(&mut self, ancestor: ObjectId, descendant: ObjectId) -> Result<bool, StoreError> {
        let mut queue = NewestFirst::default();
        queue.push(self, descendant)?;
        while let Some((id, node)) = queue.pop() {
            if id == ancestor {
                return Ok(true);
            }
            for parent in &node.parents {
                queue.push(self, *parent)?;
            }
        }
        Ok(false)
    }
}

impl History<'_> {
    /// Removes from `wanted` the objects that these refs reach by tags and parents, in one walk. The walk visits the
    /// newest commits first and ends when `wanted` is empty. `visit` gets each tree of a visited commit or a tag, and
    /// may remove more.
    pub fn remove_reached(
        &mut self,
        refs: impl IntoIterator<Item = ObjectId>,
        wanted: &mut HashSet<ObjectId>,
        mut visit: impl FnMut(ObjectId, &mut HashSet<ObjectId>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut queue = NewestFirst::default();
        for id in refs {
            wanted.remove(&id);
            let Some(peeled) = self.peel(id)? else { continue };
            for found in peeled.tags.iter().chain([&peeled.target]) {
                wanted.remove(found);
            }
            match peeled.kind {
                ObjectKind::Commit => queue.push(self, peeled.target)?,
                ObjectKind::Tree => visit(peeled.target, wanted)?,
                ObjectKind::Blob | ObjectKind::Tag => {}
            }
        }
        while !wanted.is_empty()
            && let Some((id, node)) = queue.pop()
        {
            wanted.remove(&id);
            visit(node.tree, wanted)?;
            for parent in &node.parents {
                queue.push(self, *parent)?;
            }
        }
        Ok(())
    }
}

/// See [`History::peel`].
pub struct PeeledTag {
    pub target: ObjectId,
    pub kind: ObjectKind,
    /// The outermost tag first.
    pub tags: Vec<ObjectId>,
}

/// Commits that a walk still has to visit, the newest first, each once. Missing commits, at the end of a shallow
/// history, are left out.
#[derive(Default)]
pub struct NewestFirst {
    queue: BinaryHeap<Queued>,
    known: HashSet<ObjectId>,
}

struct Queued {
    id: ObjectId,
    node: Rc<Commit>,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.node.seconds, self.id).cmp(&(other.node.seconds, other.id))
    }
}

impl NewestFirst {
    pub fn push(&mut self, history: &mut History, id: ObjectId) -> Result<(), StoreError> {
        if self.known.insert(id)
            && let Some(node) = history.commit(id)?
        {
            self.queue.push(Queued { id, node });
        }
        Ok(())
    }

    pub fn pop(&mut self) -> Option<(ObjectId, Rc<Commit>)> {
        self.queue.pop().map(|Queued { id, node }| (id, node))
    }
}

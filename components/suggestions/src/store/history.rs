//! The history of a repository: commits and their parents.

use super::objects;
use crate::git::{Link, ObjectId, ObjectKind, parse_links};
use crate::repository_id::RepositoryId;
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::rc::Rc;

/// The longest commit or tag that is read, in bytes.
const MAX_COMMIT: u64 = 32 << 20;

/// A commit as a walk sees it.
#[derive(Debug, PartialEq, Eq)]
pub struct CommitNode {
    pub tree: ObjectId,
    pub parents: Vec<ObjectId>,
    /// When it was committed, in seconds since 1970; 0 if the commit does not say.
    pub seconds: i64,
}

/// Commits, each read once.
pub struct History<'a> {
    env: &'a Env,
    project: RepositoryId,
    nodes: HashMap<ObjectId, Option<Rc<CommitNode>>>,
}

impl<'a> History<'a> {
    pub fn new(env: &'a Env, project: RepositoryId) -> Self {
        History { env, project, nodes: HashMap::new() }
    }

    /// A commit; `None` if there is no such object, or it is no commit.
    pub fn commit(&mut self, id: ObjectId) -> Result<Option<Rc<CommitNode>>, StoreError> {
        if let Some(known) = self.nodes.get(&id) {
            return Ok(known.clone());
        }
        let node = match objects::read_any(self.env, self.project, id, MAX_COMMIT)? {
            Some((ObjectKind::Commit, contents)) => parse(contents).map(Rc::new),
            _ => None,
        };
        self.nodes.insert(id, node.clone());
        Ok(node)
    }

    /// What a chain of tags leads to, and the tags; the object itself if it is no tag. `None` if an object of the chain
    /// is missing.
    pub fn peel(&self, id: ObjectId) -> Result<Option<PeeledTag>, StoreError> {
        let (mut target, mut tags) = (id, Vec::new());
        loop {
            match objects::kind(self.env, self.project, target)? {
                None => return Ok(None),
                Some(ObjectKind::Tag) => {}
                Some(kind) => return Ok(Some(PeeledTag { target, kind, tags })),
            }
            let Some((kind, contents)) = objects::read_any(self.env, self.project, target, MAX_COMMIT)? else {
                return Ok(None);
            };
            tags.push(target);
            match parse_links(kind, contents).unwrap_or_default().first() {
                // Chains end, because an id is a hash.
                Some(Link::Part(id) | Link::Parent(id)) => target = *id,
                None => return Ok(None),
            }
        }
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

/// See [`History::peel`].
pub struct PeeledTag {
    pub target: ObjectId,
    pub kind: ObjectKind,
    /// From the outermost one.
    pub tags: Vec<ObjectId>,
}

fn parse(contents: Bytes) -> Option<CommitNode> {
    let mut tree = None;
    let mut parents = Vec::new();
    for link in parse_links(ObjectKind::Commit, contents.clone())? {
        match link {
            Link::Part(id) => tree = Some(id),
            Link::Parent(id) => parents.push(id),
        }
    }
    let committer = contents.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let committer = committer.filter_map(|line| line.strip_prefix(b"committer ")).next();
    let seconds = committer.and_then(|line| {
        let text = line.rsplit(|byte| *byte == b' ').nth(1)?;
        std::str::from_utf8(text).ok()?.parse().ok()
    });
    Some(CommitNode { tree: tree?, parents, seconds: seconds.unwrap_or(0) })
}

/// Commits that a walk has still to visit, the newest first, each once. Missing ones, at the end of a shallow history,
/// are left out.
#[derive(Default)]
pub struct NewestFirst {
    queue: BinaryHeap<Queued>,
    known: HashSet<ObjectId>,
}

struct Queued {
    id: ObjectId,
    node: Rc<CommitNode>,
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

    pub fn pop(&mut self) -> Option<(ObjectId, Rc<CommitNode>)> {
        self.queue.pop().map(|Queued { id, node }| (id, node))
    }
}

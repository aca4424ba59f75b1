//! The links of the objects of a pack that is being received: each object is checked as it becomes known.
//!
//! How deep the trees of a received pack are nested. git follows no tree that is too deep, so one push would break
//! every clone.

use crate::git::fsck::{self, CheckedObject, TypedLink};
use crate::git::{Link, ObjectId, ObjectKind, SpecialFile, parse_links};
use crate::repository_id::RepositoryId;
use crate::store::new_pack::received::{PackError, PackOrigin, invalid};
use crate::store::objects::MAX_WHOLE;
use ::bytes::Bytes;
use kit::Env;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The links and special files of a pack's objects, as far as they are known.
pub struct Resolver<'a> {
    pub(super) env: &'a Env,
    pub(super) project: RepositoryId,
    pub(super) origin: PackOrigin,
    /// The targets of links in the pack: the kind that each must have, and whether a link leads into history.
    pub(super) links: HashMap<ObjectId, (Option<ObjectKind>, bool)>,
    /// Files that git reads.
    pub(super) special_files: BTreeMap<ObjectId, Vec<SpecialFile>>,
    /// The numbers of delta and base, for deltas that name their base by its id and found it in the pack. Other bases
    /// are the repository's.
    pub(super) internal_bases: HashMap<u32, u32>,
    /// The objects of the repository that deltas were applied to.
    pub(super) external_bases: BTreeSet<ObjectId>,
    /// Only for a push that has enough objects for trees that are nested too deep.
    pub(super) nesting: Option<TreeNesting>,
}

impl<'a> Resolver<'a> {
    pub fn new(env: &'a Env, project: RepositoryId, origin: PackOrigin) -> Self {
        let (links, special_files) = (HashMap::new(), BTreeMap::new());
        let (internal_bases, external_bases) = (HashMap::new(), BTreeSet::new());
        Resolver { env, project, origin, links, special_files, internal_bases, external_bases, nesting: None }
    }

    /// Call it before the first object, with the number of objects.
    pub fn expect_objects(&mut self, objects: u32) {
        self.nesting = (self.origin == PackOrigin::Push && objects > MAX_TREE_DEPTH).then(TreeNesting::default);
    }

    /// Checks an object, and records its links. The contents of a blob may be left out.
    pub fn check(&mut self, id: ObjectId, kind: ObjectKind, contents: &Bytes) -> Result<(), PackError> {
        // A larger tree could not be read again.
        if kind == ObjectKind::Tree && contents.len() as u64 > MAX_WHOLE {
            return Err(invalid(format!(
                "tree {id} has {} bytes, and at most {MAX_WHOLE} are accepted; divide the folder",
                contents.len()
            )));
        }
        let mut checked = fsck::check(kind, contents);
        if self.origin == PackOrigin::Import {
            checked = checked.or_else(|why| links_only(kind, contents).ok_or(why));
        }
        let checked = checked.map_err(|why| invalid(format!("{} {id}: {why}", kind.as_str())))?;
        if let Some(nesting) = self.nesting.as_mut().filter(|_| kind == ObjectKind::Tree) {
            let subtrees = checked.links.iter().filter(|link| link.kind == Some(ObjectKind::Tree));
            nesting.add(id, subtrees.map(|link| link.id));
        }
        for link in checked.links {
            let known = self.links.entry(link.id).or_insert((link.kind, link.is_history));
            match (known.0, link.kind) {
                (Some(a), Some(b)) if a != b => {
                    return Err(invalid(format!(
                        "object {} is used as a {} and as a {}",
                        link.id,
                        a.as_str(),
                        b.as_str()
                    )));
                }
                (None, kind) => known.0 = kind,
                _ => {}
            }
            known.1 |= link.is_history;
        }
        for (id, file) in checked.special_files {
            let files = self.special_files.entry(id).or_default();
            if !files.contains(&file) {
                files.push(file);
            }
        }
        Ok(())
    }
}

/// The links of an object with faults, if it can be read at all.
fn links_only(kind: ObjectKind, contents: &Bytes) -> Option<CheckedObject> {
    let links = parse_links(kind, contents.clone())?.into_iter().map(|link| match link {
        Link::Part(id) => TypedLink { id, kind: None, is_history: false },
        Link::Parent(id) => TypedLink { id, kind: Some(ObjectKind::Commit), is_history: true },
    });
    Some(CheckedObject { links: links.collect(), special_files: Vec::new() })
}

/// The most trees that a tree may be below, as in git (`core.maxTreeDepth`).
pub const MAX_TREE_DEPTH: u32 = 2048;

/// The most links between trees that are followed, which take 8 bytes each.
const MAX_LINKS: usize = 4 << 20;

/// The trees of a pack, and their subtrees.
#[derive(Default)]
pub struct TreeNesting {
    numbers: HashMap<ObjectId, u32>,
    /// The numbers of a tree and of one in it.
    links: Vec<(u32, u32)>,
}

impl TreeNesting {
    /// Adds a tree with the trees in it. Beyond [`MAX_LINKS`], it is left out.
    pub fn add(&mut self, tree: ObjectId, subtrees: impl Iterator<Item = ObjectId>) {
        for subtree in subtrees {
            if self.links.len() >= MAX_LINKS {
                return;
            }
            let link = (self.number(tree), self.number(subtree));
            self.links.push(link);
        }
    }

    fn number(&mut self, id: ObjectId) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(id).or_insert(next)
    }

    /// A tree that is below more than [`MAX_TREE_DEPTH`] others, by the trees that were added alone. Visits a tree
    /// after all trees that it is in.
    pub fn find_too_deep(mut self) -> Option<ObjectId> {
        self.links.sort_unstable();
        // How many links to a tree were not followed yet, and the longest way to it.
        let mut trees = vec![(0_u32, 0_u32); self.numbers.len()];
        for (_, subtree) in &self.links {
            trees.get_mut(index(*subtree))?.0 += 1;
        }
        let mut pending: Vec<u32> =
            (0..).zip(&trees).filter(|(_, (links, _))| *links == 0).map(|(tree, _)| tree).collect();
        while let Some(tree) = pending.pop() {
            let depth = trees.get(index(tree))?.1 + 1;
            let start = self.links.partition_point(|(from, _)| *from < tree);
            let links = self.links.iter().skip(start).take_while(|(from, _)| *from == tree);
            for (_, subtree) in links {
                let (unfollowed, known) = trees.get_mut(index(*subtree))?;
                (*unfollowed, *known) = (*unfollowed - 1, depth.max(*known));
                if *known > MAX_TREE_DEPTH {
                    return self.numbers.iter().find(|(_, number)| *number == subtree).map(|(id, _)| *id);
                }
                if *unfollowed == 0 {
                    pending.push(*subtree);
                }
            }
        }
        None
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

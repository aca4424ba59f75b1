//! How deep the trees of a received pack are nested. git follows no tree that is too deep, so one push would break
//! every clone.

use crate::git::ObjectId;
use std::collections::HashMap;

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

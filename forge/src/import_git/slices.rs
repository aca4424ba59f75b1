//! A history cut into packs: commits after their parents, so that a pack needs only itself and the packs before it, and
//! an import that broke off goes on behind the last one that the server has.

use std::collections::BTreeSet;

use super::git::Commit;

/// The most commits of a pack. A pack whose request breaks off is sent again.
const COMMITS: usize = 5_000;

/// Commits that are sent as one pack.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Slice<'a> {
    pub commits: usize,
    /// Commits that no other commit of the slice has as a parent: they reach all of it.
    pub heads: Vec<&'a str>,
    /// Commits that the slice builds on.
    pub bases: Vec<&'a str>,
}

/// Cuts commits, parents first, into slices.
pub fn slices(commits: &[Commit]) -> Vec<Slice<'_>> {
    commits.chunks(COMMITS).map(slice).collect()
}

fn slice(commits: &[Commit]) -> Slice<'_> {
    let ids: BTreeSet<&str> = commits.iter().map(|commit| commit.id.as_str()).collect();
    let parents: BTreeSet<&str> = commits.iter().flat_map(|commit| &commit.parents).map(String::as_str).collect();
    let heads = commits.iter().map(|commit| commit.id.as_str()).filter(|id| !parents.contains(id)).collect();
    Slice { commits: commits.len(), heads, bases: parents.difference(&ids).copied().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(id: usize, parents: &[usize]) -> Commit {
        let name = |id: &usize| format!("{id:040x}");
        Commit { id: name(&id), parents: parents.iter().map(name).collect() }
    }

    #[test]
    fn a_slice_has_heads_that_reach_it_and_bases_before_it() {
        // Two lines of commits, that are merged in the second slice.
        let mut commits = vec![commit(0, &[])];
        for id in 1..COMMITS {
            commits.push(commit(id, &[id.saturating_sub(2)]));
        }
        commits.push(commit(COMMITS, &[COMMITS - 1, COMMITS - 2]));
        let cut = slices(&commits);
        let name = |id: usize| commits[id].id.as_str();
        assert_eq!(cut.len(), 2);
        assert_eq!((cut[0].commits, cut[0].bases.len()), (COMMITS, 0));
        assert_eq!(cut[0].heads, [name(COMMITS - 2), name(COMMITS - 1)]);
        let (heads, bases) = (vec![name(COMMITS)], vec![name(COMMITS - 2), name(COMMITS - 1)]);
        assert_eq!(cut[1], Slice { commits: 1, heads, bases });
        assert_eq!(slices(&[]), []);
    }
}

//! Cuts a history into packs. Commits follow their parents, so a pack depends only on itself and earlier packs. An
//! interrupted import continues after the last pack on the server.

use std::collections::BTreeSet;

use super::git::Commit;

/// The most commits of a pack. If a request breaks off, its pack is sent again.
const COMMITS: usize = 5_000;

/// The commits of one pack.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Slice<'a> {
    pub commits: usize,
    /// Commits that are no parent of another commit in the slice. All commits of the slice are reachable from them.
    pub heads: Vec<&'a str>,
    /// The parents of commits in the slice that are outside of it.
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
        // Two branches of commits, which are merged in the second slice.
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

//! Leaves lines out of a search that cannot be anchors: lines that the other version does not have, and among them
//! lines that it has very often. As `xdl_cleanup_records` in git's xprepare.c.

use imara_diff::Token;

/// How many lines before and after a frequent line decide about it.
const WINDOW: usize = 100;

/// A line that the other version has so often is frequent, even in a long file.
const MAX_FREQUENT: u64 = 1024;

/// The lines of a version that are searched, and where they are in it.
pub struct PrunedVersion {
    pub tokens: Vec<Token>,
    pub positions: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Matches {
    None,
    Some,
    Frequent,
}

/// Prunes a version, given how often the other one has each token.
pub fn prune(version: &[Token], other: &[u64]) -> PrunedVersion {
    // As in git, at least 2: a token that the other version has once is not frequent.
    let frequent = version.len().isqrt().max(2) as u64;
    let matches: Vec<Matches> = version
        .iter()
        .map(|token| match other.get(token.0 as usize) {
            None | Some(0) => Matches::None,
            Some(count) if *count >= frequent.min(MAX_FREQUENT) => Matches::Frequent,
            Some(_) => Matches::Some,
        })
        .collect();
    let above = Surroundings::along(matches.iter());
    let mut below = Surroundings::along(matches.iter().rev());
    below.reverse();
    let mut pruned = PrunedVersion { tokens: Vec::new(), positions: Vec::new() };
    let lines = version.iter().zip(matches).zip(above.into_iter().zip(below)).enumerate();
    for (position, ((token, matches), (above, below))) in lines {
        let is_kept = match matches {
            Matches::None => false,
            Matches::Some => true,
            Matches::Frequent => !above.is_discardable_with(&below),
        };
        if is_kept {
            pruned.tokens.push(*token);
            pruned.positions.push(position);
        }
    }
    pruned
}

/// The lines before a line, back to the next line that is matched and not frequent, at most [`WINDOW`].
#[derive(Clone, Copy, Default)]
struct Surroundings {
    unmatched: usize,
    frequent: usize,
}

impl Surroundings {
    /// The surroundings of each line, in the order of the lines.
    fn along<'a>(matches: impl ExactSizeIterator<Item = &'a Matches> + Clone) -> Vec<Self> {
        let mut all = Vec::with_capacity(matches.len());
        let mut window = Surroundings::default();
        let mut leaving = matches.clone();
        for line in matches {
            all.push(window);
            if *line == Matches::Some {
                leaving.by_ref().take(window.unmatched + window.frequent + 1).for_each(drop);
                window = Surroundings::default();
                continue;
            }
            window.count(*line, 1);
            if window.unmatched + window.frequent > WINDOW
                && let Some(oldest) = leaving.next()
            {
                window.count(*oldest, -1);
            }
        }
        all
    }

    fn count(&mut self, matches: Matches, by: isize) {
        match matches {
            Matches::None => self.unmatched = self.unmatched.saturating_add_signed(by),
            Matches::Frequent => self.frequent = self.frequent.saturating_add_signed(by),
            Matches::Some => {}
        }
    }

    /// Whether a frequent line between these is one of few frequent lines among unmatched lines.
    fn is_discardable_with(&self, other: &Self) -> bool {
        let (unmatched, frequent) = (self.unmatched + other.unmatched, self.frequent + other.frequent);
        self.unmatched > 0 && other.unmatched > 0 && unmatched > 3 * frequent
    }
}

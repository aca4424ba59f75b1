//! Myers' algorithm in linear space ("An O(ND) Difference Algorithm and its Variations"). As in `xdl_split` of git's
//! xdiffi.c, the search for a middle is bounded: beyond the bound, the furthest point is taken. So a comparison takes
//! about as many steps as it has lines, times the root of their number.
//!
//! Leaves lines out of a search that cannot be anchors: lines that the other version does not have, and among them
//! lines that it has very often. As `xdl_cleanup_records` in git's xprepare.c.

use imara_diff::Token;
use std::ops::Range;

/// The bound on the changes of a search for a middle; for long files, the root of their length if that is more.
const MIN_MAX_CHANGES: usize = 256;

/// The lines that differ.
pub struct Changes {
    removed: Vec<bool>,
    added: Vec<bool>,
}

impl Changes {
    /// The changes in the order of lines, numbered from 0.
    pub fn hunks(&self) -> Vec<Hunk> {
        let run = |lines: &[bool], from: usize, is_changed: bool| {
            let rest = lines.get(from..).unwrap_or_default();
            rest.iter().take_while(|line| **line == is_changed).count()
        };
        let (mut before, mut after, mut hunks) = (0, 0, Vec::new());
        while before < self.removed.len() || after < self.added.len() {
            let (removed, added) = (run(&self.removed, before, true), run(&self.added, after, true));
            if removed + added > 0 {
                let (removed, added) = (before..before + removed, after..after + added);
                let wide = |lines: &Range<usize>| lines.start as u64..lines.end as u64;
                hunks.push(Hunk { before: wide(&removed), after: wide(&added) });
                (before, after) = (removed.end, added.end);
            }
            let same = run(&self.removed, before, false).min(run(&self.added, after, false));
            (before, after) = (before + same, after + same);
        }
        hunks
    }
}

/// Parts of both versions that are compared with each other.
struct Parts {
    before: Range<usize>,
    after: Range<usize>,
}

/// Compares two versions in about `max_steps`. Lines that are not compared then count as changed. Also returns the
/// steps taken.
pub fn compare(before: &[Token], after: &[Token], max_steps: u64) -> (Changes, u64) {
    let pruned_before = prune(before, &occurrences(after));
    let pruned_after = prune(after, &occurrences(before));
    let mut changes = Changes { removed: vec![true; before.len()], added: vec![true; after.len()] };
    let (tokens_before, tokens_after) = (&pruned_before.tokens, &pruned_after.tokens);
    let mut search = Search::new(tokens_before.len(), tokens_after.len(), max_steps);
    let mut pending = vec![Parts { before: 0..tokens_before.len(), after: 0..tokens_after.len() }];
    while let Some(Parts { before, after }) = pending.pop() {
        let (left, right) = (slice(tokens_before, &before), slice(tokens_after, &after));
        let prefix = common(left.iter(), right.iter());
        let (left, right) = (left.get(prefix..).unwrap_or_default(), right.get(prefix..).unwrap_or_default());
        let suffix = common(left.iter().rev(), right.iter().rev());
        search.steps += (prefix + suffix) as u64;
        let mut mark = |before: usize, after: usize, count: usize| {
            unmark(&mut changes.removed, &pruned_before, before..before + count);
            unmark(&mut changes.added, &pruned_after, after..after + count);
        };
        mark(before.start, after.start, prefix);
        mark(before.end - suffix, after.end - suffix, suffix);
        let rest = Parts {
            before: before.start + prefix..before.end - suffix,
            after: after.start + prefix..after.end - suffix,
        };
        if rest.before.is_empty() || rest.after.is_empty() || search.steps >= max_steps {
            continue;
        }
        let middle = search.find_middle(slice(tokens_before, &rest.before), slice(tokens_after, &rest.after));
        let Some((x, y)) = middle.map(|(x, y)| (rest.before.start + x, rest.after.start + y)) else { continue };
        pending.push(Parts { before: x..rest.before.end, after: y..rest.after.end });
        pending.push(Parts { before: rest.before.start..x, after: rest.after.start..y });
    }
    (changes, search.steps)
}

fn slice<'a>(tokens: &'a [Token], range: &Range<usize>) -> &'a [Token] {
    tokens.get(range.clone()).unwrap_or_default()
}

/// How often each token occurs.
fn occurrences(version: &[Token]) -> Vec<u64> {
    let count = version.iter().map(|token| token.0 as usize + 1).max().unwrap_or_default();
    let mut occurrences = vec![0; count];
    for token in version {
        if let Some(count) = occurrences.get_mut(token.0 as usize) {
            *count += 1;
        }
    }
    occurrences
}

/// How many elements both begin with.
fn common<'a>(one: impl Iterator<Item = &'a Token>, other: impl Iterator<Item = &'a Token>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

/// Marks these lines as present in both versions.
fn unmark(changed: &mut [bool], version: &PrunedVersion, range: Range<usize>) {
    for position in version.positions.get(range).unwrap_or_default() {
        if let Some(line) = changed.get_mut(*position) {
            *line = false;
        }
    }
}

/// How far paths have come on each diagonal: the number of a line before, minus the number of a line after.
struct Frontier {
    /// The line before.
    reached: Vec<i32>,
    /// The position of diagonal 0.
    origin: i32,
    min: i32,
    max: i32,
    /// The value of a diagonal that is not reached.
    unreached: i32,
}

impl Frontier {
    fn new(before: usize, after: usize, unreached: i32) -> Self {
        let origin = i32::try_from(after).unwrap_or(i32::MAX - 1) + 1;
        Frontier { reached: vec![unreached; before + after + 3], origin, min: 0, max: 0, unreached }
    }

    fn start(&mut self, diagonal: i32, reached: i32) {
        (self.min, self.max) = (diagonal, diagonal);
        self.set(diagonal, reached);
    }

    fn get(&self, diagonal: i32) -> i32 {
        let at = usize::try_from(self.origin + diagonal).ok();
        at.and_then(|at| self.reached.get(at)).copied().unwrap_or(self.unreached)
    }

    fn set(&mut self, diagonal: i32, reached: i32) {
        let at = usize::try_from(self.origin + diagonal).ok();
        if let Some(slot) = at.and_then(|at| self.reached.get_mut(at)) {
            *slot = reached;
        }
    }

    fn has(&self, diagonal: i32) -> bool {
        (self.min..=self.max).contains(&diagonal)
    }

    fn diagonals(&self) -> impl Iterator<Item = i32> + use<> {
        (self.min..=self.max).rev().step_by(2)
    }

    /// Extends the paths by one change, within the existing diagonals.
    fn widen(&mut self, lowest: i32, highest: i32) {
        if self.min > lowest {
            self.min -= 1;
            self.set(self.min - 1, self.unreached);
        } else {
            self.min += 1;
        }
        if self.max < highest {
            self.max += 1;
            self.set(self.max + 1, self.unreached);
        } else {
            self.max -= 1;
        }
    }
}

struct Search {
    forward: Frontier,
    backward: Frontier,
    max_changes: usize,
    steps: u64,
    max_steps: u64,
}

impl Search {
    fn new(before: usize, after: usize, max_steps: u64) -> Self {
        Search {
            forward: Frontier::new(before, after, -1),
            backward: Frontier::new(before, after, i32::MAX),
            max_changes: (before + after).isqrt().max(MIN_MAX_CHANGES),
            steps: 0,
            max_steps,
        }
    }

    /// A point on a short path from the beginning to the end of these parts, other than the two ends; `None` if no
    /// steps are left. The parts are not empty, and begin and end with different lines.
    fn find_middle(&mut self, before: &[Token], after: &[Token]) -> Option<(usize, usize)> {
        let (width, height) = (i32::try_from(before.len()).ok()?, i32::try_from(after.len()).ok()?);
        self.forward.start(0, 0);
        self.backward.start(width - height, width);
        let mut found = None;
        for _ in 0..self.max_changes {
            found = self.advance_forward(before, after).or_else(|| self.advance_backward(before, after));
            if found.is_some() || self.steps >= self.max_steps {
                break;
            }
        }
        if found.is_none() && self.steps >= self.max_steps {
            return None;
        }
        let (x, y) = found.unwrap_or_else(|| self.furthest(width, height));
        let is_inside = (0..=width).contains(&x) && (0..=height).contains(&y);
        let is_end = (x, y) == (0, 0) || (x, y) == (width, height);
        (is_inside && !is_end).then_some((usize::try_from(x).ok()?, usize::try_from(y).ok()?))
    }

    /// Extends the paths from the beginning by one change. Returns the point where one meets a path from the end.
    fn advance_forward(&mut self, before: &[Token], after: &[Token]) -> Option<(i32, i32)> {
        let (width, height) = (before.len() as i32, after.len() as i32);
        self.forward.widen(-height, width);
        for diagonal in self.forward.diagonals() {
            let x = (self.forward.get(diagonal - 1) + 1).max(self.forward.get(diagonal + 1));
            let rest = |tokens: &[Token], from: i32| usize::try_from(from).ok().filter(|from| *from <= tokens.len());
            let same = match (rest(before, x), rest(after, x - diagonal)) {
                (Some(x), Some(y)) => {
                    common(before.get(x..).unwrap_or_default().iter(), after.get(y..).unwrap_or_default().iter())
                }
                _ => 0,
            };
            self.steps += 1 + same as u64;
            let x = x + same as i32;
            self.forward.set(diagonal, x);
            let is_odd = (width - height) % 2 != 0;
            if is_odd && self.backward.has(diagonal) && self.backward.get(diagonal) <= x {
                return Some((x, x - diagonal));
            }
        }
        None
    }

    /// Extends the paths from the end by one change. Returns the point where one meets a path from the beginning.
    fn advance_backward(&mut self, before: &[Token], after: &[Token]) -> Option<(i32, i32)> {
        let (width, height) = (before.len() as i32, after.len() as i32);
        self.backward.widen(-height, width);
        for diagonal in self.backward.diagonals() {
            let x = self.backward.get(diagonal - 1).min(self.backward.get(diagonal + 1) - 1);
            let head = |tokens: &[Token], to: i32| usize::try_from(to).ok().filter(|to| *to <= tokens.len());
            let same = match (head(before, x), head(after, x - diagonal)) {
                (Some(x), Some(y)) => common(
                    before.get(..x).unwrap_or_default().iter().rev(),
                    after.get(..y).unwrap_or_default().iter().rev(),
                ),
                _ => 0,
            };
            self.steps += 1 + same as u64;
            let x = x - same as i32;
            self.backward.set(diagonal, x);
            let is_even = (width - height) % 2 == 0;
            if is_even && self.forward.has(diagonal) && x <= self.forward.get(diagonal) {
                return Some((x, x - diagonal));
            }
        }
        None
    }

    /// The point that is furthest from the start of its path.
    fn furthest(&self, width: i32, height: i32) -> (i32, i32) {
        let inside = |frontier: &Frontier, diagonal: i32| {
            let x = frontier.get(diagonal).clamp(diagonal.max(0), width.min(height + diagonal));
            (x, x - diagonal)
        };
        let forward =
            self.forward.diagonals().map(|diagonal| inside(&self.forward, diagonal)).max_by_key(|(x, y)| x + y);
        let backward =
            self.backward.diagonals().map(|diagonal| inside(&self.backward, diagonal)).min_by_key(|(x, y)| x + y);
        let (forward, backward) = (forward.unwrap_or((0, 0)), backward.unwrap_or((width, height)));
        if forward.0 + forward.1 > width + height - (backward.0 + backward.1) { forward } else { backward }
    }
}

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

/// Lines that were replaced. The numbers are from 0. Of an insertion `before` is empty, of a deletion `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    pub before: Range<u64>,
    pub after: Range<u64>,
}

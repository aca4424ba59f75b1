//! The difference between two versions of a file, by line.

mod myers;

use crate::line_diff::myers::Hunk;
use crate::lines::IndexedFile;
use imara_diff::{Algorithm, Diff, InternedInput, Token};
use std::cell::Cell;
use std::ops::{Range, RangeInclusive};

/// The most lines, of both versions together, that are compared. Lines that both versions begin or end with do not
/// count. Beyond it, all other lines are one change.
const MAX_COMPARED_LINES: u64 = 200_000;

/// The most steps of the histogram algorithm, whose hunks people expect. Its steps grow with the lines times the
/// changes. Beyond the bound, Myers' algorithm is used: its bounded search takes fewer steps.
const MAX_HISTOGRAM_STEPS: u64 = 1 << 24;

/// The most steps of one comparison. Lines that are not compared then count as changed.
const MAX_STEPS: u64 = 1 << 27;

/// The cost of reading and hashing a line, in steps.
const STEPS_OF_LINE: u64 = 16;

/// Histogram takes no line for an anchor that occurs more often in the earlier version.
const MAX_OCCURRENCES: u64 = 64;

/// The bounds of a comparison.
#[derive(Debug, Clone, Copy)]
struct Limits {
    lines: u64,
    histogram: u64,
    steps: u64,
}

const LIMITS: Limits = Limits { lines: MAX_COMPARED_LINES, histogram: MAX_HISTOGRAM_STEPS, steps: MAX_STEPS };

/// The changes that make one version of a file out of another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineDiff {
    /// In the order of lines. No two of them touch.
    hunks: Vec<Hunk>,
}

impl LineDiff {
    /// Compares two versions in at most [`MAX_STEPS`], which count towards the budget; `None` if it is spent.
    pub fn between(before: &IndexedFile, after: &IndexedFile, budget: &StepBudget) -> Option<Self> {
        if budget.is_spent() {
            return None;
        }
        let (diff, steps) = LineDiff::bounded(before, after, LIMITS);
        budget.spend(steps);
        Some(diff)
    }

    /// All lines between the common beginning and end of both versions, as one change.
    pub fn of_ends(before: &IndexedFile, after: &IndexedFile) -> Self {
        let changed = changed_between_ends(before, after);
        let is_same = changed.before.is_empty() && changed.after.is_empty();
        LineDiff { hunks: if is_same { Vec::new() } else { vec![changed] } }
    }

    /// Compares two versions. Also returns the steps taken.
    fn bounded(before: &IndexedFile, after: &IndexedFile, limits: Limits) -> (Self, u64) {
        let changed = changed_between_ends(before, after);
        let compared = changed.before.end - changed.before.start + (changed.after.end - changed.after.start);
        if changed.before.is_empty() || changed.after.is_empty() || compared > limits.lines {
            return (LineDiff::of_ends(before, after), STEPS_OF_LINE);
        }
        let mut input = InternedInput::default();
        input.update_before(before.lines(changed.before.clone()));
        input.update_after(after.lines(changed.after.clone()));
        let line_steps = STEPS_OF_LINE * compared;
        let (first_before, first_after) = (changed.before.start, changed.after.start);
        let moved = |hunk: Hunk| Hunk {
            before: first_before + hunk.before.start..first_before + hunk.before.end,
            after: first_after + hunk.after.start..first_after + hunk.after.end,
        };
        let histogram_steps = histogram_steps(&input.before, &input.after, input.interner.num_tokens());
        if histogram_steps <= limits.histogram {
            let diff = Diff::compute(Algorithm::Histogram, &input);
            let wide = |lines: Range<u32>| u64::from(lines.start)..u64::from(lines.end);
            let hunks = diff.hunks().map(|hunk| moved(Hunk { before: wide(hunk.before), after: wide(hunk.after) }));
            return (LineDiff { hunks: hunks.collect() }, line_steps + histogram_steps);
        }
        let (changes, steps) = myers::compare(&input.before, &input.after, limits.steps);
        (LineDiff { hunks: changes.hunks().into_iter().map(moved).collect() }, line_steps + steps)
    }

    /// The numbers, from 1, that these lines of the earlier version have in the later one. `None` if one of them was
    /// changed or removed, or if lines were inserted between them.
    pub fn follow(&self, lines: &RangeInclusive<u64>) -> Option<RangeInclusive<u64>> {
        let (start, end) = (lines.start().checked_sub(1)?, *lines.end());
        let above = self.hunks.partition_point(|hunk| hunk.before.end <= start);
        if self.hunks.get(above).is_some_and(|hunk| hunk.before.start < end) {
            return None;
        }
        let (before, after) = match above.checked_sub(1).and_then(|last| self.hunks.get(last)) {
            Some(hunk) => (hunk.before.end, hunk.after.end),
            None => (0, 0),
        };
        Some(start - before + after + 1..=end - before + after)
    }

    /// Whether this line of the later version, from 1, is new, or at most `distance` lines from a change.
    pub fn is_near_addition(&self, line: u64, distance: u64) -> bool {
        self.hunks.iter().any(|hunk| is_near(&hunk.after, line, distance))
    }

    /// Whether this line of the earlier version, from 1, was removed, or is at most `distance` lines from a change.
    pub fn is_near_removal(&self, line: u64, distance: u64) -> bool {
        self.hunks.iter().any(|hunk| is_near(&hunk.before, line, distance))
    }

    /// The difference as git prints it, from the first `@@` on; bytes that are no UTF-8 are replaced. The arguments are
    /// the compared versions.
    pub fn to_unified(&self, before: &IndexedFile, after: &IndexedFile, context: u64) -> String {
        let mut text = String::new();
        let mut rest = self.hunks.as_slice();
        while let Some(first) = rest.first() {
            // Changes whose context meets are printed together.
            let is_far = |pair: &[Hunk]| match pair {
                [one, next] => next.before.start - one.before.end > 2 * context,
                _ => false,
            };
            let count = rest.windows(2).position(is_far).map_or(rest.len(), |last| last + 1);
            let (together, others) = rest.split_at(count);
            rest = others;
            let last = together.last().unwrap_or(first);
            let above = context.min(first.before.start);
            let below = context.min(before.count() - last.before.end);
            let shown = Hunk {
                before: first.before.start - above..last.before.end + below,
                after: first.after.start - above..last.after.end + below,
            };
            text += &format!("@@ -{} +{} @@\n", hunk_range(&shown.before), hunk_range(&shown.after));
            let mut at = shown.before.start;
            for hunk in together {
                push_lines(&mut text, ' ', before.lines(at..hunk.before.start));
                push_lines(&mut text, '-', before.lines(hunk.before.clone()));
                push_lines(&mut text, '+', after.lines(hunk.after.clone()));
                at = hunk.before.end;
            }
            push_lines(&mut text, ' ', before.lines(at..shown.before.end));
        }
        text
    }

    /// The memory that it takes, in bytes.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.hunks.len() * size_of::<Hunk>()
    }
}

/// The lines between the common beginning and end of both versions.
fn changed_between_ends(before: &IndexedFile, after: &IndexedFile) -> Hunk {
    let (before_count, after_count) = (before.count(), after.count());
    let shorter = before_count.min(after_count);
    let lines = before.lines(0..before_count).zip(after.lines(0..after_count));
    let prefix = lines.take_while(|(before, after)| before == after).count() as u64;
    let ends = before.lines(before_count - (shorter - prefix)..before_count).rev();
    let ends = ends.zip(after.lines(after_count - (shorter - prefix)..after_count).rev());
    let suffix = ends.take_while(|(before, after)| before == after).count() as u64;
    Hunk { before: prefix..before_count - suffix, after: prefix..after_count - suffix }
}

/// The most steps that histogram takes: each line of the shorter version may become an anchor, which is chosen among
/// all pairs of equal lines.
fn histogram_steps(before: &[Token], after: &[Token], tokens: u32) -> u64 {
    let mut occurrences = vec![0_u64; tokens as usize];
    for token in before {
        if let Some(count) = occurrences.get_mut(token.0 as usize) {
            *count += 1;
        }
    }
    let count = |token: &Token| occurrences.get(token.0 as usize).copied().unwrap_or_default();
    // Lines that are in one version only are skipped.
    let pairs: u64 = after.iter().map(count).filter(|count| *count < MAX_OCCURRENCES).sum();
    let anchors = after.iter().filter(|token| count(token) > 0).count().min(before.len()) as u64;
    (pairs + (before.len() + after.len()) as u64) * anchors
}

/// A range of lines, from 0, as the head of a hunk has it.
fn hunk_range(lines: &Range<u64>) -> String {
    match lines.end - lines.start {
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn push_lines<'a>(text: &mut String, mark: char, lines: impl Iterator<Item = &'a [u8]>) {
    for line in lines {
        text.push(mark);
        *text += &String::from_utf8_lossy(line);
        if !line.ends_with(b"\n") {
            *text += "\n\\ No newline at end of file\n";
        }
    }
}

/// Whether a line, from 1, is among these, from 0, or at most `distance` lines before or after them.
fn is_near(lines: &Range<u64>, line: u64, distance: u64) -> bool {
    (lines.start + 1).saturating_sub(distance) <= line && line <= lines.end.saturating_add(distance)
}

/// The most steps of all comparisons of a request.
const MAX_BUDGET: u64 = 1 << 29;

/// A bound on the steps of several comparisons.
pub struct StepBudget {
    left: Cell<u64>,
}

impl StepBudget {
    pub fn new() -> Self {
        StepBudget::of(MAX_BUDGET)
    }

    pub fn of(steps: u64) -> Self {
        StepBudget { left: Cell::new(steps) }
    }

    pub fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    pub fn spend(&self, steps: u64) {
        self.left.set(self.left.get().saturating_sub(steps));
    }
}

#[cfg(test)]
mod tests;

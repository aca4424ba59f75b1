//! The difference between two versions of a file, by line.

use crate::lines::IndexedFile;
use imara_diff::{Algorithm, Diff, InternedInput};
use std::ops::{Range, RangeInclusive};

/// The most lines, of both versions together, that are compared with an algorithm whose time is not linear.
/// Lines that both versions begin or end with do not count. Beyond it, all lines between those are
/// one change.
const MAX_COMPARED_LINES: u64 = 200_000;

/// Up to so many, the algorithm is histogram, whose hunks are those that people expect, and whose time grows with
/// the lines times the changes. Beyond, it is Myers with git's heuristics, whose time is bounded.
const MAX_HISTOGRAM_LINES: u64 = 10_000;

/// The changes that make one version of a file out of another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineDiff {
    /// In the order of lines. No two of them touch.
    hunks: Vec<Hunk>,
}

/// Lines that were replaced. The numbers are from 0. Of an insertion `before` is empty, of a deletion `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hunk {
    before: Range<u64>,
    after: Range<u64>,
}

impl LineDiff {
    /// Compares two versions in bounded time.
    pub fn between(before: &IndexedFile, after: &IndexedFile) -> Self {
        LineDiff::bounded(before, after, MAX_COMPARED_LINES, MAX_HISTOGRAM_LINES)
    }

    fn bounded(before: &IndexedFile, after: &IndexedFile, max_compared: u64, max_histogram: u64) -> Self {
        let (before_count, after_count) = (before.count(), after.count());
        let shorter = before_count.min(after_count);
        let lines = before.lines(0..before_count).zip(after.lines(0..after_count));
        let prefix = lines.take_while(|(before, after)| before == after).count() as u64;
        let ends = before.lines(before_count - (shorter - prefix)..before_count).rev();
        let ends = ends.zip(after.lines(after_count - (shorter - prefix)..after_count).rev());
        let suffix = ends.take_while(|(before, after)| before == after).count() as u64;
        let changed = Hunk { before: prefix..before_count - suffix, after: prefix..after_count - suffix };
        let compared = (changed.before.end - changed.before.start) + (changed.after.end - changed.after.start);
        if compared == 0 {
            return LineDiff::default();
        }
        if changed.before.is_empty() || changed.after.is_empty() || compared > max_compared {
            return LineDiff { hunks: vec![changed] };
        }
        let mut input = InternedInput::default();
        input.update_before(before.lines(changed.before.clone()));
        input.update_after(after.lines(changed.after.clone()));
        let algorithm = if compared <= max_histogram { Algorithm::Histogram } else { Algorithm::Myers };
        let diff = Diff::compute(algorithm, &input);
        let moved = |lines: Range<u32>| prefix + u64::from(lines.start)..prefix + u64::from(lines.end);
        let hunks = diff.hunks().map(|hunk| Hunk { before: moved(hunk.before), after: moved(hunk.after) });
        LineDiff { hunks: hunks.collect() }
    }

    /// The numbers, from 1, that these lines of the earlier version have in the later one; `None` if one of
    /// them was changed or removed, or if lines were inserted between them.
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

    /// The difference as git prints it, from the first `@@` on; bytes that are no UTF-8 are replaced. The versions are
    /// those that were compared.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> IndexedFile {
        IndexedFile::new(text.to_owned().into())
    }

    fn diff(before: &str, after: &str) -> LineDiff {
        LineDiff::between(&file(before), &file(after))
    }

    #[test]
    fn lines_are_followed_past_changes_and_not_through_them() {
        let diff = diff("a\nb\nc\nd\ne\n", "new\na\nb\nc\nchanged\nmore\ne\n");
        let expected = [Some(2..=2), Some(3..=3), Some(4..=4), None, Some(7..=7)];
        assert_eq!([1, 2, 3, 4, 5].map(|line| diff.follow(&(line..=line))), expected);
        assert_eq!((diff.follow(&(1..=3)), diff.follow(&(3..=4)), diff.follow(&(0..=1))), (Some(2..=4), None, None));
    }

    #[test]
    fn lines_beside_an_insertion_stay_and_lines_around_one_do_not() {
        let diff = diff("a\nb\nc\n", "a\nx\nb\nc\n");
        assert_eq!(
            (diff.follow(&(1..=1)), diff.follow(&(2..=3)), diff.follow(&(1..=2))),
            (Some(1..=1), Some(3..=4), None)
        );
    }

    #[test]
    fn a_line_that_loses_its_ending_was_changed() {
        assert_eq!(diff("a\nb\n", "a\nb").follow(&(2..=2)), None);
        assert_eq!(diff("a\nb", "a\nb\nc").follow(&(2..=2)), None);
        assert_eq!(diff("a\nb\n", "a\r\nb\n").follow(&(1..=1)), None);
        assert_eq!(diff("a\nb\n", "a\r\nb\n").follow(&(2..=2)), Some(2..=2));
    }

    #[test]
    fn lines_near_a_change() {
        let diff = diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\nfour\n4.5\n5\n6\n7\n8\n9\n");
        let near =
            |is_near: fn(&LineDiff, u64, u64) -> bool| (1..=10).filter(|line| is_near(&diff, *line, 2)).collect();
        let (added, removed): (Vec<u64>, Vec<u64>) =
            (near(LineDiff::is_near_addition), near(LineDiff::is_near_removal));
        assert_eq!((added, removed), (vec![2, 3, 4, 5, 6, 7], vec![2, 3, 4, 5, 6]));
        assert!(LineDiff::between(&file("a\nb\n"), &file("b\n")).is_near_addition(1, 1));
    }

    #[test]
    fn empty_and_equal_files() {
        assert_eq!(diff("", ""), LineDiff::default());
        assert_eq!(diff("a\n", "a\n").follow(&(1..=1)), Some(1..=1));
        assert_eq!(diff("a\n", "").follow(&(1..=1)), None);
        assert_eq!(diff("", "a\n").hunks, [Hunk { before: 0..0, after: 0..1 }]);
    }

    #[test]
    fn beyond_the_bound_everything_between_common_ends_is_changed() {
        let (before, after) = (file("a\nb\nc\nd\ne\n"), file("new\na\nB\nc\nD\ne\n"));
        assert_eq!(LineDiff::bounded(&before, &after, 9, 9).follow(&(3..=3)), Some(4..=4));
        let bounded = LineDiff::bounded(&before, &after, 8, 8);
        assert_eq!((bounded.follow(&(3..=3)), bounded.follow(&(5..=5))), (None, Some(6..=6)));
    }

    /// A deterministic pseudo-random number generator.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % sides
        }
    }

    /// A line of a version, and the number that it had in the first version unless it was changed since.
    type Line = (Option<u64>, String);

    fn text(lines: &[Line]) -> IndexedFile {
        file(&lines.iter().map(|(_, text)| text.as_str()).collect::<String>())
    }

    /// Edits of lines that all differ, so that which line is which is never in doubt.
    #[test]
    fn after_random_edits_each_line_is_where_it_was_put() {
        let mut dice = Dice(11);
        for round in 0..400 {
            let count = 1 + dice.roll(40);
            let first: Vec<Line> = (0..count as u64).map(|line| (Some(line), format!("line {line}\n"))).collect();
            let mut edited = first.clone();
            for edit in 0..dice.roll(8) {
                let at = dice.roll(edited.len() + 1);
                let removed = dice.roll(4).min(edited.len() - at);
                let new = (0..dice.roll(4)).map(|line| (None, format!("new {round} {edit} {line}\n")));
                edited.splice(at..at + removed, new.collect::<Vec<_>>());
            }
            // Every other time with Myers.
            let diff = LineDiff::bounded(&text(&first), &text(&edited), 1000, 1000 * (round % 2));
            for from in 0..count {
                for to in from..count.min(from + 5) {
                    let at = edited.iter().position(|(line, _)| *line == Some(from as u64));
                    let expected = at.filter(|at| {
                        let wanted = (from..=to).map(|line| Some(line as u64));
                        edited[*at..].iter().map(|(line, _)| *line).take(to - from + 1).eq(wanted)
                    });
                    let expected = expected.map(|at| at as u64 + 1..=(at + to - from) as u64 + 1);
                    assert_eq!(diff.follow(&(from as u64 + 1..=to as u64 + 1)), expected, "{round}: {from} {to}");
                }
            }
        }
    }

    /// Files whose lines repeat, where several answers can be right: lines that are followed are equal, and
    /// keep their order.
    #[test]
    fn followed_lines_are_equal_and_in_order() {
        let mut dice = Dice(5);
        for round in 0..400 {
            let mut version =
                || -> String { (0..dice.roll(60)).map(|_| ["a\n", "b\n", "}\n", "\n"][dice.roll(4)]).collect() };
            let (before, after) = (file(&version()), file(&version()));
            let diff = LineDiff::bounded(&before, &after, 1000, 1000 * (round % 2));
            let mut last = 0;
            for line in 1..=before.count() {
                let Some(followed) = diff.follow(&(line..=line)) else { continue };
                assert_eq!(before.slice(&(line..=line)), after.slice(&followed), "{round}");
                assert!(*followed.start() > last, "{round}");
                last = *followed.start();
            }
        }
    }

    #[test]
    fn unified_differences_are_those_of_git() {
        let long = |changed: &[u64]| -> String {
            (1..=30)
                .map(|line| if changed.contains(&line) { format!("{line}!\n") } else { format!("{line}\n") })
                .collect()
        };
        let pairs = [
            ("a\nb\nc\n".to_owned(), "a\nx\nc\n".to_owned()),
            (String::new(), "a\n".to_owned()),
            ("a\nb".to_owned(), String::new()),
            ("a\nb\n".to_owned(), "a\nb".to_owned()),
            (long(&[]), long(&[1, 8, 15, 30])),
            (long(&[]), long(&[10, 18])),
        ];
        let folder = tempfile::tempdir().unwrap();
        for (before, after) in pairs {
            std::fs::write(folder.path().join("before"), &before).unwrap();
            std::fs::write(folder.path().join("after"), &after).unwrap();
            let mut git = std::process::Command::new("git");
            git.args(["diff", "--no-index", "--histogram", "--no-indent-heuristic", "before", "after"]);
            let output = git.current_dir(folder.path()).output().unwrap().stdout;
            let output = String::from_utf8(output).unwrap();
            // git adds to the head of a hunk the line that it takes for a function's.
            let lines = output.lines().skip_while(|line| !line.starts_with("@@"));
            let expected: String = lines
                .map(|line| match line.strip_prefix("@@ ").and_then(|head| head.split_once(" @@")) {
                    Some((ranges, _)) => format!("@@ {ranges} @@\n"),
                    None => format!("{line}\n"),
                })
                .collect();
            let unified = diff(&before, &after).to_unified(&file(&before), &file(&after), 3);
            assert_eq!(unified, expected, "{before:?} {after:?}");
        }
    }
}

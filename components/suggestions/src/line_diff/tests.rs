//! Differences by line, and their cost.

use super::*;
use fastrand::Rng;

fn file(text: &str) -> IndexedFile {
    IndexedFile::new(text.to_owned().into())
}

fn diff(before: &str, after: &str) -> LineDiff {
    LineDiff::bounded(&file(before), &file(after), LIMITS).0
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
    assert_eq!((diff.follow(&(1..=1)), diff.follow(&(2..=3)), diff.follow(&(1..=2))), (Some(1..=1), Some(3..=4), None));
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
    let near = |is_near: fn(&LineDiff, u64, u64) -> bool| (1..=10).filter(|line| is_near(&diff, *line, 2)).collect();
    let (added, removed): (Vec<u64>, Vec<u64>) = (near(LineDiff::is_near_addition), near(LineDiff::is_near_removal));
    assert_eq!((added, removed), (vec![2, 3, 4, 5, 6, 7], vec![2, 3, 4, 5, 6]));
    assert!(LineDiff::bounded(&file("a\nb\n"), &file("b\n"), LIMITS).0.is_near_addition(1, 1));
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
    assert_eq!(LineDiff::bounded(&before, &after, Limits { lines: 9, ..LIMITS }).0.follow(&(3..=3)), Some(4..=4));
    let bounded = LineDiff::bounded(&before, &after, Limits { lines: 8, ..LIMITS }).0;
    assert_eq!((bounded.follow(&(3..=3)), bounded.follow(&(5..=5))), (None, Some(6..=6)));
}

/// Limits that force Myers' algorithm in every other round.
fn every_other(round: u64) -> Limits {
    if round.is_multiple_of(2) { LIMITS } else { Limits { histogram: 0, ..LIMITS } }
}

/// A line of a version, and the number that it had in the first version unless it was changed since.
type Line = (Option<u64>, String);

fn text(lines: &[Line]) -> IndexedFile {
    file(&lines.iter().map(|(_, text)| text.as_str()).collect::<String>())
}

/// Edits of lines that all differ, so that each line can be recognised.
#[test]
fn after_random_edits_each_line_is_where_it_was_put() {
    let mut rng = Rng::with_seed(11);
    for round in 0..400 {
        let count = rng.usize(1..=40);
        let first: Vec<Line> = (0..count as u64).map(|line| (Some(line), format!("line {line}\n"))).collect();
        let mut edited = first.clone();
        for edit in 0..rng.usize(..8) {
            let at = rng.usize(..=edited.len());
            let removed = rng.usize(..4).min(edited.len() - at);
            let new = (0..rng.usize(..4)).map(|line| (None, format!("new {round} {edit} {line}\n")));
            edited.splice(at..at + removed, new.collect::<Vec<_>>());
        }
        let diff = LineDiff::bounded(&text(&first), &text(&edited), every_other(round)).0;
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
    let mut rng = Rng::with_seed(5);
    for round in 0..400 {
        let mut version =
            || -> String { (0..rng.usize(..60)).map(|_| rng.choice(["a\n", "b\n", "}\n", "\n"]).unwrap()).collect() };
        let (before, after) = (file(&version()), file(&version()));
        let diff = LineDiff::bounded(&before, &after, every_other(round)).0;
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
fn unified_diffs_equal_the_diffs_of_git() {
    let long = |changed: &[u64]| -> String {
        (1..=30).map(|line| if changed.contains(&line) { format!("{line}!\n") } else { format!("{line}\n") }).collect()
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
        // git adds the line that it takes for a function's head to the head of a hunk.
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

/// A source-like file: most of its lines are in every version of it.
fn source(lines: u64, version: &str) -> IndexedFile {
    let text = (0..lines).map(|line| match (line * 7_919 + line / 3) % 4 {
        0 => "}\n".to_owned(),
        1 => "\n".to_owned(),
        2 => "  return x;\n".to_owned(),
        _ => format!("  {version} {line}();\n"),
    });
    file(&text.collect::<String>())
}

fn steps(before: &IndexedFile, after: &IndexedFile) -> u64 {
    LineDiff::bounded(before, after, LIMITS).1
}

#[test]
fn a_rewritten_file_takes_steps_by_the_line() {
    for lines in [1_000, 8_000, 40_000] {
        let steps = steps(&source(lines, "old"), &source(lines + lines / 10, "new"));
        assert!(steps < MAX_HISTOGRAM_STEPS + 600 * 2 * lines, "{lines} lines took {steps} steps");
    }
    let shuffled = |factor: u64| -> IndexedFile {
        file(&(0..40_000_u64).map(|line| format!("{}\n", line * factor % 40_009)).collect::<String>())
    };
    assert!(steps(&shuffled(1), &shuffled(20_011)) < MAX_HISTOGRAM_STEPS + 600 * 80_000);
    let repeated = |factor: u64| -> IndexedFile {
        file(&(0..5_000_u64).map(|line| format!("{}\n", line * line / factor % 97)).collect::<String>())
    };
    assert!(steps(&repeated(3), &repeated(5)) < MAX_HISTOGRAM_STEPS + 600 * 10_000);
}

#[test]
fn lines_not_compared_within_the_step_limit_count_as_changed() {
    let (before, after) = (source(5_000, "old"), source(6_000, "new"));
    let limits = Limits { histogram: 0, steps: 20_000, ..LIMITS };
    let (diff, steps) = LineDiff::bounded(&before, &after, limits);
    assert!(steps < 20_000 + STEPS_OF_LINE * 11_000 + 11_000, "{steps}");
    assert!(!diff.hunks.is_empty());
    for line in 1..=before.count() {
        if let Some(followed) = diff.follow(&(line..=line)) {
            assert_eq!(before.slice(&(line..=line)), after.slice(&followed));
        }
    }
}

#[test]
fn a_spent_budget_compares_nothing() {
    let (before, after) = (file("a\nb\n"), file("a\nc\n"));
    let budget = StepBudget::of(1);
    assert!(LineDiff::between(&before, &after, &budget).is_some());
    assert!(LineDiff::between(&before, &after, &budget).is_none());
    assert_eq!(LineDiff::of_ends(&before, &after).hunks, [Hunk { before: 1..2, after: 1..2 }]);
    assert_eq!(LineDiff::of_ends(&before, &before), LineDiff::default());
}

#[test]
fn small_differences_of_large_files_are_small() {
    let mut lines: Vec<String> = (0..60_000_u64).map(|line| format!("line {}\n", line % 20_000)).collect();
    let before = file(&lines.concat());
    lines.insert(10, "first\n".into());
    lines.remove(30_000);
    lines.insert(59_000, "last\n".into());
    let (diff, _) = LineDiff::bounded(&before, &file(&lines.concat()), Limits { histogram: 0, ..LIMITS });
    let expected = [(10..10, 10..11), (29_999..30_000, 30_000..30_000), (59_000..59_000, 59_000..59_001)];
    assert_eq!(diff.hunks, expected.map(|(before, after)| Hunk { before, after }));
}

//! Suggestions whose branch has moved since they were made.

use super::*;

const TEN: &[u8] = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

/// Merge request 1 from `topic` of a repository that is pushed to.
fn forge() -> (Forge, Repository) {
    Forge::with(&[("a.txt", TEN), ("src/b.rs", b"fn a() {}\r\nfn b() {}\r\n"), ("c.txt", b"c\n")])
}

/// Commits files to `topic` and pushes it.
fn push(forge: &Forge, repository: &Repository, files: &[(&str, &str)]) {
    files.iter().for_each(|(path, contents)| repository.write(path, contents.as_bytes()));
    repository.commit("push");
    forge.import(PUBLIC, repository);
}

/// A file at the head of `topic`.
fn contents(forge: &Forge, path: &str) -> String {
    String::from_utf8(forge.clone(PUBLIC).git(&["cat-file", "blob", &format!("topic:{path}")])).unwrap()
}

fn refusal(forge: &Forge, id: u64) -> InapplicableReason {
    use InapplicableReason::{FileNotFound, LineOutdated, LinesOutdated};
    let refused = forge.apply(id, "dev", Value::Null).refusal();
    assert!(!forge.flags(id).0, "the flag agrees");
    let mut reasons = [FileNotFound, LineOutdated, LinesOutdated].into_iter();
    reasons.find(|reason| refused == (400, reason.to_string())).unwrap_or_else(|| panic!("{refused:?}"))
}

#[test]
fn suggestions_of_one_review_are_applied_one_after_another() {
    let (forge, _) = forge();
    let ids = [
        forge.suggest(1, "a.txt", 5, &block("", "five\nfive and a half"))[0],
        forge.suggest(1, "a.txt", 2, &block(":-1", "one and two"))[0],
        forge.suggest(1, "src/b.rs", 2, &block("", "fn bee() {}"))[0],
        forge.suggest(1, "a.txt", 6, &block("", ""))[0],
        forge.suggest(1, "a.txt", 10, &block("", "ten"))[0],
    ];
    for id in ids {
        assert_eq!(forge.flags(id), (true, false));
        forge.apply(id, "dev", Value::Null).expect(200);
        assert_eq!(forge.flags(id), (false, true));
    }
    assert_eq!(contents(&forge, "a.txt"), "one and two\n3\n4\nfive\nfive and a half\n7\n8\n9\nten\n");
    assert_eq!(contents(&forge, "src/b.rs"), "fn a() {}\r\nfn bee() {}\r\n");
    assert_eq!(forge.clone(PUBLIC).text(&["rev-list", "--count", "main..topic"]), "5");
}

#[test]
fn a_push_moves_lines_and_the_suggestion_shows_where_they_are() {
    let (forge, repository) = forge();
    let body = block(":-1", "four and five") + &block("", "5!");
    let [two, one] = forge.suggest(1, "a.txt", 5, &body)[..] else { panic!("two suggestions") };
    let applied = forge.suggest(1, "c.txt", 1, &block("", "sea"))[0];
    push(&forge, &repository, &[("a.txt", "0\n1\n2\nthree\n4\n5\n6\n8\n9\n10\n")]);
    let shown = forge.get(&format!("suggestions/{two}"), "rep").json();
    let expected = (&json!(5), &json!(6), &json!("4\n5\n"));
    assert_eq!((&shown["from_line"], &shown["to_line"], &shown["from_content"]), expected);
    assert_eq!(forge.apply(two, "dev", Value::Null).json(), shown, "the answer is the suggestion before the commit");
    assert_eq!(contents(&forge, "a.txt"), "0\n1\n2\nthree\nfour and five\n6\n8\n9\n10\n");
    assert_eq!(refusal(&forge, one), InapplicableReason::LineOutdated);
    let outdated = forge.get(&format!("suggestions/{one}"), "rep").json();
    assert_eq!((&outdated["from_line"], &outdated["from_content"]), (&json!(5), &json!("5\n")), "as it was made");
    assert_eq!(forge.apply(applied, "dev", Value::Null).status, 200);
}

#[test]
fn lines_that_were_changed_removed_or_parted_are_outdated() {
    let (forge, repository) = forge();
    let changed = forge.suggest(1, "a.txt", 2, &block("", "x"))[0];
    let removed = forge.suggest(1, "a.txt", 4, &block("", "x"))[0];
    let parted = forge.suggest(1, "a.txt", 7, &block(":-1", "x"))[0];
    let gone = forge.suggest(1, "c.txt", 1, &block("", "x"))[0];
    let beside = forge.suggest(1, "a.txt", 3, &block("", "x"))[0];
    repository.git(&["rm", "-q", "c.txt"]);
    push(&forge, &repository, &[("a.txt", "1\ntwo\n3\n5\n6\n6.5\n7\n8\n9\n10\n")]);
    assert_eq!(refusal(&forge, changed), InapplicableReason::LineOutdated);
    assert_eq!(refusal(&forge, removed), InapplicableReason::LineOutdated);
    assert_eq!(refusal(&forge, parted), InapplicableReason::LinesOutdated);
    assert_eq!(refusal(&forge, gone), InapplicableReason::FileNotFound);
    assert_eq!(forge.apply_all(&[changed, beside], "dev").status, 400, "one of them");
    assert_eq!(forge.apply(beside, "dev", Value::Null).status, 200);
    // Lines that come back can be replaced again.
    push(&forge, &repository, &[("a.txt", "new\n1\n2\n3\n")]);
    assert_eq!(forge.flags(changed), (true, false));
}

#[test]
fn a_batch_mixes_commits() {
    let (forge, repository) = forge();
    let first = forge.suggest(1, "a.txt", 2, &block("", "two"))[0];
    push(&forge, &repository, &[("a.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"), ("c.txt", "c\nd\n")]);
    let second = forge.suggest(1, "a.txt", 2, &block("", "one"))[0];
    let third = forge.suggest(1, "c.txt", 2, &block("", "dee"))[0];
    push(&forge, &repository, &[("a.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"), ("c.txt", "b\nc\nd\n")]);
    let fourth = forge.suggest(1, "a.txt", 10, &block("", "nine"))[0];
    // Lines are compared where they are now.
    let overlap = forge.suggest(1, "a.txt", 3, &block("", "zwei"))[0];
    let refused = forge.apply_all(&[first, overlap], "dev").refusal();
    assert_eq!(refused, (400, InapplicableReason::OverlappingLines.to_string()));
    forge.apply_all(&[fourth, second, third, first], "dev").expect(200);
    assert_eq!(contents(&forge, "a.txt"), "0\none\ntwo\n3\n4\n5\n6\n7\n8\nnine\n");
    assert_eq!(contents(&forge, "c.txt"), "b\nc\ndee\n");
    assert_eq!(refusal(&forge, overlap), InapplicableReason::LineOutdated);
}

#[test]
fn a_renamed_file_is_found_by_its_contents() {
    let (forge, repository) = forge();
    let id = forge.suggest(1, "a.txt", 2, &block("", "two"))[0];
    repository.git(&["mv", "c.txt", "other.txt"]);
    repository.write("copies/1.txt", TEN);
    std::fs::create_dir_all(repository.file("moved/here")).unwrap();
    repository.git(&["mv", "a.txt", "moved/here/a.txt"]);
    push(&forge, &repository, &[]);
    forge.apply(id, "dev", json!({"commit_message": "%{file_paths}"})).expect(200);
    assert_eq!(contents(&forge, "moved/here/a.txt"), "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n10\n");
    assert_eq!(contents(&forge, "copies/1.txt").as_bytes(), TEN);
    assert_eq!(forge.clone(PUBLIC).text(&["log", "-1", "--format=%s", "topic"]), "moved/here/a.txt");
}

#[test]
fn a_renamed_file_with_other_contents_is_not_found() {
    let (forge, repository) = forge();
    let id = forge.suggest(1, "a.txt", 2, &block("", "two"))[0];
    // A file that had the contents before is no renamed one.
    let other = forge.suggest(1, "c.txt", 1, &block("", "x"))[0];
    repository.git(&["rm", "-q", "c.txt"]);
    repository.git(&["mv", "a.txt", "b.txt"]);
    push(&forge, &repository, &[("b.txt", "1\n2\n3\n")]);
    assert_eq!(refusal(&forge, id), InapplicableReason::FileNotFound);
    assert_eq!(refusal(&forge, other), InapplicableReason::FileNotFound);
}

#[test]
fn a_rewritten_branch_keeps_suggestions_whose_lines_it_has() {
    let (forge, repository) = forge();
    let ids = [("a.txt", 9), ("c.txt", 1)].map(|(path, line)| forge.suggest(1, path, line, &block("", "x"))[0]);
    repository.git(&["checkout", "-q", "--orphan", "anew"]);
    repository.git(&["branch", "-q", "-D", "topic"]);
    repository.git(&["mv", "c.txt", "d.txt"]);
    repository.write("a.txt", b"7\n8\n9\n10\n");
    repository.commit("anew");
    repository.git(&["branch", "-m", "topic"]);
    forge.import(PUBLIC, &repository);
    forge.apply_all(&ids, "dev").expect(200);
    assert_eq!((contents(&forge, "a.txt").as_str(), contents(&forge, "d.txt").as_str()), ("7\n8\nx\n10\n", "x\n"));
}

#[test]
fn suggestions_of_a_fork_follow_its_branch() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a.txt", TEN)]);
    forge.import(FORK, &repository);
    forge.merge_request(3, json!({"source_project_id": FORK}));
    let ids = [9, 2].map(|line| forge.suggest(3, "a.txt", line, &block("", "x\ny"))[0]);
    for id in ids {
        assert_eq!(forge.apply(id, "dev", Value::Null).status, 200);
    }
    let expected = "1\nx\ny\n3\n4\n5\n6\n7\n8\nx\ny\n10";
    assert_eq!(forge.clone(FORK).text(&["show", "topic:a.txt"]), expected);
}

/// Suggestions on every sixth line, applied in any order while a developer pushes changes of other lines.
#[test]
fn a_review_in_any_order_changes_the_lines_that_it_names() {
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..6 {
        let line = |number: u64| format!("line {number}\n");
        let file: String = (1..=60).map(line).collect();
        let (forge, _) = Forge::with(&[("a.txt", file.as_bytes())]);
        let mut expected: Vec<String> = (1..=60).map(line).collect();
        let mut open: Vec<(u64, u64, String)> = (0..10)
            .map(|number| {
                let at = 3 + number * 6;
                let text: String = (0..rng.u64(..4)).map(|part| format!("suggested {at} {part}\n")).collect();
                let id = forge.suggest(1, "a.txt", at, &format!("```suggestion\n{text}```"))[0];
                (at, id, text)
            })
            .collect();
        let mut push = 0;
        while !open.is_empty() {
            if rng.u64(..3) == 0 && push < 9 {
                // A line between those of two suggestions.
                let at = 6 + push * 6;
                push += 1;
                expected[at as usize - 1] = (0..rng.u64(1..=3)).map(|part| format!("pushed {at} {part}\n")).collect();
                let clone = forge.clone(PUBLIC);
                clone.git(&["checkout", "-q", "topic"]);
                clone.write("a.txt", expected.concat().as_bytes());
                clone.commit("push");
                forge.import(PUBLIC, &clone);
                continue;
            }
            let (at, id, text) = open.swap_remove(rng.usize(..open.len()));
            forge.apply(id, "dev", Value::Null).expect(200);
            expected[at as usize - 1] = text;
        }
        assert_eq!(contents(&forge, "a.txt"), expected.concat());
    }
}

use super::*;
use crate::facet::Facet;

fn parsed(line: &str) -> Result<Change<'_>, IssueError> {
    parse(line.as_bytes())
}

fn upserted(line: &str) -> Issue<'_> {
    match parsed(line) {
        Ok(Change::Upsert(issue)) => *issue,
        other => panic!("{other:?}"),
    }
}

fn facets(line: &str) -> Vec<String> {
    let mut facets = Vec::new();
    upserted(line).facets(|facet| facets.push(format!("{facet:?}")));
    facets.sort();
    facets.dedup();
    facets
}

#[test]
fn texts_are_borrowed_from_the_line() {
    let issue = upserted(r#"{"kind":"issue","id":1,"project_id":2,"title":"a b","description":"c"}"#);
    assert!(matches!((&issue.title, &issue.description), (Cow::Borrowed("a b"), Cow::Borrowed("c"))));
    let issue = upserted(r#"{"id":1,"project_id":2,"title":"a\n","description":null}"#);
    assert_eq!((&*issue.title, &*issue.description), ("a\n", ""));
}

#[test]
fn both_shapes_of_entities_have_the_same_facets() {
    let sample = r#"{"kind":"issue","id":5,"iid":2,"project_id":3,"state":"opened","labels":["bug"],
        "milestone":{"title":"1.0"},"author":{"id":7,"username":"u"},"assignees":[{"id":8}],
        "confidential":true,"epic":{"id":9},"reactions":[{"name":"tada","user":{"id":4}}]}"#;
    let entity = r#"{"id":5,"iid":2,"project_id":3,"state":"opened","labels":[{"id":1,"name":"bug"}],
        "milestone":{"id":1,"title":"1.0","state":"active","due_date":null},"author":{"id":7,"state":"active"},
        "assignee":{"id":8,"name":"x"},"confidential":true,"epic_iid":1,"epic":{"id":9,"iid":1},
        "type":"ISSUE","issue_type":"issue","award_emoji":[{"id":3,"name":"tada","user":{"id":4}}]}"#;
    assert_eq!(facets(sample), facets(entity));
    let expected = [
        "Assignee(8)",
        "Author(7)",
        "Confidential",
        "Epic(9)",
        "HasAssignee",
        "HasEpic",
        "HasLabel",
        "HasMilestone",
        "HasReaction(4)",
        "Iid(2)",
        "Label(\"bug\")",
        "Milestone(\"1.0\")",
        "Opened",
        "Project(3)",
        "Reaction(4, \"tada\")",
    ];
    assert_eq!(facets(sample), expected);
}

#[test]
fn planning_fields() {
    let line = r#"{"id":5,"project_id":3,"state":"closed","weight":0,"health_status":"On_Track","hidden":true,
        "iteration":{"id":6,"title":"it","start_date":"2026-01-01","due_date":"2026-01-14"},
        "milestone":{"id":1,"title":"1.0","state":"closed","start_date":"2026-02-01","group_id":4}}"#;
    let found = facets(line);
    for facet in [
        Facet::Weight(0),
        Facet::HasWeight,
        Facet::Health("on_track"),
        Facet::Hidden,
        Facet::Iteration(6),
        Facet::IterationTitle("it"),
        Facet::HasIteration,
    ] {
        assert!(found.contains(&format!("{facet:?}")), "{facet:?} in {found:?}");
    }
    assert!(found.iter().any(|facet| facet.starts_with("MilestoneDates") && facet.contains("Group(4)")), "{found:?}");
    assert!(found.iter().any(|facet| facet.starts_with("IterationDates")), "{found:?}");
    assert!(!found.contains(&"Opened".to_owned()));
}

#[test]
fn deleted_and_uncounted_issues_are_deletes() {
    for line in [
        r#"{"kind":"issue","id":5,"deleted":true}"#,
        r#"{"id":5,"project_id":1,"issue_type":"epic"}"#,
        r#"{"id":5,"project_id":1,"type":"KEY_RESULT"}"#,
    ] {
        assert!(matches!(parsed(line), Ok(Change::Delete(5))), "{line}");
    }
}

#[test]
fn each_error_has_its_text() {
    for (line, message) in [
        ("[1]", "the line is not a JSON object"),
        (r#"{"id":1,"project_id":2,"kind":"user"}"#, "kind `user` is not issue"),
        (r#"{"project_id":2}"#, "id is missing"),
        (r#"{"id":0,"project_id":2}"#, "id is missing"),
        (r#"{"id":1}"#, "project_id is missing"),
        (r#"{"id":1,"project_id":2,"state":"new"}"#, "state cannot be `new`"),
        (r#"{"id":1,"project_id":2,"type":"novel"}"#, "issue_type cannot be `novel`"),
        (r#"{"id":1,"project_id":2,"created_at":"soon"}"#, "created_at cannot be `soon`"),
        (
            r#"{"id":1,"project_id":2,"milestone":{"title":"a","due_date":"2026-1-1"}}"#,
            "milestone cannot be `2026-1-1`",
        ),
        (r#"{"id":1,"#, "EOF while parsing a value (column 8)"),
        (r#"{"id":"x"}"#, "invalid type: string \"x\", expected u64 (column 9)"),
    ] {
        assert_eq!(parsed(line).unwrap_err().to_string(), message, "{line}");
    }
}

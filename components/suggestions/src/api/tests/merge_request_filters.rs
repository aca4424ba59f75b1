//! Filters of lists of merge requests by people, labels and times.

use super::merge_requests::{LIST, forge, listed};
use serde_json::json;

#[test]
fn a_filter_by_what_no_merge_request_has_finds_nothing() {
    let forge = forge().0;
    for (iid, created, updated) in [(1, "2026-01-01", "2026-02-01"), (2, "2026-01-02", "2026-01-03")] {
        forge.merge_request(iid, json!({"created_at": created, "updated_at": updated}));
    }
    forge.merge_request(3, json!({}));
    let all = vec![3, 2, 1];
    for name in [
        "assignee_id",
        "assignee_username[]",
        "reviewer_id",
        "reviewer_username",
        "labels",
        "labels[]",
        "milestone",
        "my_reaction_emoji",
        "approved_by_ids[]",
    ] {
        for (value, expected) in
            [("5", vec![]), ("Any", vec![]), ("None", all.clone()), ("none", all.clone()), ("", all.clone())]
        {
            assert_eq!(sorted(listed(&forge, &format!("?{name}={value}"))), sorted(expected), "{name}={value}");
        }
    }
    assert_eq!(listed(&forge, "?labels=None,bug"), [0; 0]);
    assert_eq!(listed(&forge, "?not[labels]=bug").len(), 3);
    for (query, expected) in [
        ("created_after=2026-01-02", vec![2]),
        ("created_after=2026-01-02T00:00:00.001Z", vec![]),
        ("created_before=2026-01-01", vec![1]),
        ("created_after=2026-01-01&created_before=2026-01-02", vec![2, 1]),
        ("updated_after=2026-01-04", vec![1]),
        ("updated_before=2026-01-03T00:00:00Z", vec![2]),
        ("created_before=2000-01-01", vec![]),
        ("created_before=2099-01-01", vec![2, 1]),
    ] {
        assert_eq!(listed(&forge, &format!("?{query}")), expected, "{query}");
    }
    assert_eq!(forge.get(&format!("{LIST}?created_after=now"), "").refusal(), (400, "created_after is invalid".into()));
    for query in ["?scope=all&assignee_id=5", "?scope=all&labels=x"] {
        assert_eq!(forge.get(&format!("merge_requests{query}"), "").text(), "[]", "{query}");
    }
    let page = forge.get(&format!("{LIST}?labels=None&created_before=2099-01-01&per_page=1"), "");
    let link = page.headers["link"].to_str().unwrap();
    assert!(link.contains("labels=None") && link.contains("created_before=2099-01-01"), "{link}");
}

fn sorted(mut iids: Vec<u64>) -> Vec<u64> {
    iids.sort_unstable();
    iids
}

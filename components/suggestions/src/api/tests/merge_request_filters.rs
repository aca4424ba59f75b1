//! Filters of lists of merge requests by people, labels and times.

use super::merge_requests::{LIST, forge, listed};
use super::*;
use directory::catalog::changes::Changes;
use directory::testing::change;

#[test]
fn a_filter_by_a_field_that_is_never_set_finds_nothing() {
    let forge = forge().0;
    for (iid, created, updated) in [(1, "2026-01-01", "2026-02-01"), (2, "2026-01-02", "2026-01-03")] {
        forge.merge_request(iid, json!({"created_at": created, "updated_at": updated}));
    }
    forge.merge_request(3, json!({}));
    let all = vec![3, 2, 1];
    let names = "assignee_id assignee_username[] reviewer_id reviewer_username labels labels[] milestone \
        my_reaction_emoji approved_by_ids[]";
    for name in names.split(' ') {
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

#[test]
fn filters_by_drafts_authors_and_merges() {
    let forge = forge().0;
    for (iid, more) in [
        (1, json!({"title": "Draft: roof", "author": {"id": 2}, "source_project_id": FORK})),
        (2, json!({"title": " [DRAFT] cellar", "description": "of the roof"})),
        (3, json!({"title": "no draft: yet", "author": {"id": 2}, "state": "merged", "merged_at": "2026-01-02"})),
        (4, json!({"title": "roof", "state": "merged", "merged_at": "2026-01-01"})),
        (5, json!({"title": "(draft) door", "state": "closed", "closed_at": "2026-01-01"})),
    ] {
        forge.merge_request(iid, more);
    }
    for (query, expected) in [
        ("wip=yes", vec![5, 2, 1]),
        ("wip=no", vec![4, 3]),
        ("draft=true", vec![5, 2, 1]),
        ("draft=false", vec![4, 3]),
        ("draft=true&state=opened", vec![2, 1]),
        ("not[author_id]=2", vec![5, 4, 2]),
        ("not[author_username]=mia", vec![5, 4, 2]),
        ("not[author_username]=nobody", vec![5, 4, 3, 2, 1]),
        ("not[author_username]=%00", vec![5, 4, 3, 2, 1]),
        ("author_username=%00", vec![]),
        (&format!("author_username={}", "a".repeat(3000)), vec![]),
        ("author_id=3&not[author_id]=3", vec![]),
        ("not[assignee_id]=2&not[labels]=bug", vec![5, 4, 3, 2, 1]),
        ("source_project_id=17", vec![1]),
        ("source_project_id=99", vec![]),
        ("merged_after=2026-01-02", vec![3]),
        ("merged_before=2026-01-01", vec![4]),
        ("merge_user_id=2", vec![]),
        ("merge_user_username=mia", vec![]),
        ("merge_user_username=%00", vec![]),
        ("source_branch=%00", vec![]),
        ("search=roof", vec![4, 2, 1]),
        ("search=roof&in=title", vec![4, 1]),
        ("search=roof&in=description", vec![2]),
        ("search=roof&in=title,description", vec![4, 2, 1]),
        ("approved=yes", vec![]),
        ("approved=no", vec![5, 4, 3, 2, 1]),
        ("deployed_after=2020-01-01", vec![]),
        ("order_by=merged_at", vec![3, 4, 5, 2, 1]),
        ("order_by=merged_at&sort=asc", vec![4, 3, 1, 2, 5]),
        ("order_by=priority", vec![5, 4, 3, 2, 1]),
        ("order_by=title&sort=asc", vec![2, 5, 1, 3, 4]),
    ] {
        assert_eq!(listed(&forge, &format!("?{query}")), expected, "{query}");
    }
    for (query, why) in [
        ("wip=maybe", "wip does not have a valid value"),
        ("draft=maybe", "draft is invalid"),
        ("draft=true&wip=yes", "draft, wip are mutually exclusive"),
        ("not[author_id]=x", "not[author_id] is invalid"),
        ("not[author_id]=1&not[author_username]=x", "not[author_id], not[author_username] are mutually exclusive"),
        ("merge_user_id=1&merge_user_username=x", "merge_user_id, merge_user_username are mutually exclusive"),
        ("order_by=size", "order_by does not have a valid value"),
    ] {
        assert_eq!(forge.get(&format!("{LIST}?{query}"), "").refusal(), (400, why.into()), "{query}");
    }
    let page = forge.get(&format!("{LIST}?draft=true&not[author_id]=9&in=title&per_page=1&order_by=title"), "");
    let link = page.headers["link"].to_str().unwrap();
    for parameter in ["draft=true", "not%5Bauthor_id%5D=9", "in=title", "order_by=title"] {
        assert!(link.contains(parameter), "{parameter}: {link}");
    }
}

#[test]
fn merge_requests_merged_here_are_found_by_their_merger() {
    let (forge, repository) = forge();
    forge.merge_request(1, json!({"source_branch": "topic"}));
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "topic:main"]).unwrap();
    for (query, expected) in
        [("merge_user_id=2", vec![1]), ("merge_user_username=mia", vec![1]), ("merge_user_id=3", vec![])]
    {
        assert_eq!(listed(&forge, &format!("?{query}")), expected, "{query}");
    }
}

#[test]
fn only_the_merge_requests_that_are_named_are_read() {
    let forge = forge().0;
    (1..=50).for_each(|iid| forge.merge_request(iid, json!({})));
    let count = |query: &str| {
        let store = CountingStore::over(forge.store.clone());
        let path = format!("{LIST}{query}");
        let listed = send(forge.env_over(store.clone()), Method::GET, &path, "", "", Vec::new()).json();
        (listed.as_array().unwrap().len(), store.operations())
    };
    let (none, all, two) = (count("?iids[]=99"), count("?source_branch=no"), count("?iids[]=3&iids[]=40"));
    assert_eq!((none.0, all.0, two.0), (0, 0, 2));
    assert!(all.1 >= none.1 + 50 && two.1 < none.1 + 20, "{none:?} {all:?} {two:?}");
}

/// The catalog as an import makes it of the records that it names.
pub fn build_catalog(forge: &Forge) {
    let name = |changes: &mut Changes| {
        [10, 11, 12].into_iter().for_each(|id| changes.group(id));
        [PUBLIC, PRIVATE].into_iter().for_each(|id| changes.project(id));
        for id in 1..=6 {
            changes.user(id, None);
            changes.member(Source::Group(10), id);
        }
    };
    change(&forge.env(), name, || ());
}

#[test]
fn the_list_of_a_group_covers_all_projects_below_it() {
    let (forge, repository) = forge();
    forge.import(PRIVATE, &repository);
    for (id, path, parent_id, visibility) in
        [(11, "core", Some(10), Visibility::Public), (12, "other", None, Visibility::Private)]
    {
        dependents::save_group(&forge.env(), NewGroup { visibility, ..new_group(id, path, parent_id) }).unwrap();
    }
    forge.project(PRIVATE, |project| {
        project.namespace_id = 11;
        project.visibility = Visibility::Private;
    });
    forge.merge_request(1, json!({"created_at": "2026-01-01"}));
    forge.merge_request(2, json!({"created_at": "2026-01-02", "author": {"id": 2}}));
    forge.merge_request(5, json!({"id": 900, "created_at": "2026-01-03", "project_id": PRIVATE}));
    build_catalog(&forge);
    let get = |path: &str, token: &str| forge.get(&format!("groups/{path}"), token);
    let listed = |path: &str, token: &str| get(path, token).expect(200).iids();
    assert_eq!(listed("10/merge_requests", "rep"), [5, 2, 1]);
    assert_eq!(listed("acme/merge_requests?author_username=mia", "rep"), [2]);
    assert_eq!(listed("acme%2Fcore/merge_requests", "rep"), [5]);
    assert_eq!(listed("10/merge_requests", ""), [2, 1], "what everyone may read");
    assert_eq!(listed("10/merge_requests?scope=created_by_me", "mia"), [2]);
    assert_eq!(listed("12/merge_requests", "root"), [0; 0]);
    for (path, token) in [("12/merge_requests", "rep"), ("99/merge_requests", "root"), ("a%2Fb/merge_requests", "")] {
        assert_eq!(get(path, token).refusal(), (404, "404 Group Not Found".into()), "{path}");
    }
    forge.project(PUBLIC, |project| project.archived = true);
    build_catalog(&forge);
    assert_eq!(listed("10/merge_requests", "rep"), [5]);
    assert_eq!(listed("10/merge_requests?non_archived=false", "rep"), [5, 2, 1]);
    let page = get("10/merge_requests?non_archived=false&per_page=1", "rep");
    assert_eq!(page.headers["x-total"], "3");
    let link = page.headers["link"].to_str().unwrap();
    assert!(link.contains("/groups/10/merge_requests?non_archived=false&page=2&per_page=1>; rel=\"next\""), "{link}");
    assert_eq!(get("10/merge_requests?non_archived=x", "rep").refusal(), (400, "non_archived is invalid".into()));
}

fn sorted(mut iids: Vec<u64>) -> Vec<u64> {
    iids.sort_unstable();
    iids
}

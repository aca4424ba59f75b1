//! The meaning of each filter.

use super::*;

/// A forge with these issues.
struct Counted(Env);

impl Counted {
    fn of<const N: usize>(issues: [Value; N]) -> Self {
        let counted = Counted(forge());
        import(&counted.0, &issues);
        counted
    }

    /// Checks the count of project 100 for each query.
    #[track_caller]
    fn check<const N: usize>(&self, expected: [(&str, u64); N]) {
        for (query, count) in expected {
            assert_eq!(in_project(&self.0, "alice", &format!("?{query}")), count, "{query}");
        }
    }
}

#[test]
fn all_states_are_counted_whatever_the_parameters() {
    let env = forge();
    import(&env, &[issue(1, json!({})), issue(2, json!({"state": "closed"})), issue(3, json!({"state": "closed"}))]);
    for query in ["", "?state=opened", "?state=nonsense", "?order_by=x&sort=y"] {
        assert_eq!(counts(&env, "alice", &format!("projects/100/issues_statistics{query}")), [3, 2, 1], "{query}");
    }
}

#[test]
fn labels() {
    let counted = Counted::of([
        issue(1, json!({"labels": ["a", "b"]})),
        issue(2, json!({"labels": ["a"]})),
        issue(3, json!({"labels": ["None"]})),
        issue(4, json!({})),
    ]);
    counted.check([
        ("labels=a", 2),
        ("labels=a,b", 1),
        ("labels[]=b&labels[]=a", 1),
        ("labels=A", 0),
        ("labels=a,a", 0),
        ("labels=a,x", 0),
        ("labels=", 4),
        ("labels=nOnE,a", 1),
        ("labels=any", 3),
        ("not[labels]=a", 2),
        ("not[labels]=b,None", 2),
        ("labels=a&not[labels]=b", 1),
    ]);
    assert_eq!(all(&counted.0, "alice", "issues_statistics?scope=all&labels=a,a"), 2, "only below a namespace");
}

#[test]
fn milestones() {
    // The time of tests is in September 2026.
    let milestone = |title: &str, start: &str, due: &str| json!({"milestone": {"title": title, "state": "active", "start_date": start, "due_date": due}});
    let counted = Counted::of([
        issue(1, json!({"milestone": {"title": "1.0"}})),
        issue(2, milestone("now", "2026-09-01", "2026-12-01")),
        issue(3, milestone("next", "2027-01-01", "2027-02-01")),
        issue(4, milestone("past", "2026-01-01", "2026-02-01")),
        issue(5, json!({})),
    ]);
    counted.check([
        ("milestone=1.0", 1),
        ("milestone=2.0", 0),
        ("milestone=None", 1),
        ("milestone=Any+Milestone", 4),
        ("milestone_id=None", 1),
        ("milestone_id=Any", 4),
        ("milestone_id=Started", 2),
        ("milestone=%23started", 2),
        ("milestone_id=Upcoming", 1),
        ("milestone=%23upcoming&not[milestone]=now", 0),
        ("not[milestone]=1.0", 4),
        ("not[milestone]=None", 5),
        ("not[milestone_id]=Started", 1),
        ("not[milestone_id]=Upcoming", 1),
        ("not[milestone_id]=None", 4),
        ("not[milestone_id]=Any", 1),
    ]);
    // Without an issue in the upcoming milestone, the milestone after it is upcoming.
    import(&counted.0, &[issue(2, json!({}))]);
    counted.check([("milestone_id=Upcoming", 1), ("milestone_id=Upcoming&iids[]=3", 1)]);
}

#[test]
fn people() {
    let counted = Counted::of([
        issue(1, json!({"author": {"id": 2}, "assignees": [{"id": 3}]})),
        issue(2, json!({"author": {"id": 3}, "assignees": [{"id": 2}, {"id": 3}]})),
        issue(3, json!({"author": {"id": 4}})),
    ]);
    join(&counted.0, 3, Source::Group(10), Role::Guest);
    join(&counted.0, 4, Source::Group(10), Role::Guest);
    counted.check([
        ("author_id=2", 1),
        ("author_id=99", 0),
        ("author_id=-2", 0),
        ("author_username=BOB", 1),
        ("author_username=nobody", 0),
        ("author_username=%00", 0),
        (&format!("author_username={}", "a".repeat(3000)), 0),
        (&format!("author_username=@{}", "a".repeat(3000)), 0),
        ("author_username=@acme", 2),
        ("author_username=@guild", 0),
        ("assignee_id=3", 2),
        ("assignee_id=None", 1),
        ("assignee_id=any", 2),
        ("assignee_username=bob", 2),
        ("assignee_username[]=bob&assignee_username[]=Alice", 1),
        ("assignee_username=bob,nobody", 0),
        ("not[author_id]=2", 2),
        ("not[author_username]=nobody", 3),
        ("not[assignee_id]=2", 2),
        ("not[assignee_username]=alice,bob", 1),
        ("scope=created_by_me", 1),
        ("scope=assigned-to-me", 1),
        ("scope=created_by_me&author_id=3", 0),
    ]);
    assert_eq!(all(&counted.0, "alice", "issues_statistics"), 1, "only theirs by default");
    assert_eq!(all(&counted.0, "alice", "issues_statistics?author_id=3"), 0);
}

#[test]
fn planning() {
    let iteration = json!({"id": 8, "title": "it", "start_date": "2026-09-01", "due_date": "2026-12-31"});
    let counted = Counted::of([
        issue(1, json!({"weight": 0, "epic": {"id": 7}, "health_status": "at_risk"})),
        issue(2, json!({"weight": 5, "iteration": iteration})),
        issue(3, json!({"iteration": {"id": 9, "start_date": "2026-01-01", "due_date": "2026-01-14"}})),
    ]);
    counted.check([
        ("weight=0", 1),
        ("weight=None", 1),
        ("weight=any", 2),
        ("not[weight]=5", 2),
        ("epic_id=7", 1),
        ("epic_id=none", 2),
        ("epic_id=Any", 1),
        ("health_status=At_Risk", 1),
        ("health_status=none", 2),
        ("iteration_id=8", 1),
        ("iteration_id=current", 1),
        ("iteration_id=any", 2),
        ("iteration_title=it", 1),
        ("not[iteration_id]=8", 2),
        ("not[iteration_title]=it", 2),
        ("not[iteration_id]=Current", 2),
    ]);
}

#[test]
fn the_reaction_filter_finds_only_reactions_of_the_caller() {
    let reaction = |name: &str, user: u64| json!({"name": name, "user": {"id": user}});
    let counted = Counted::of([
        issue(1, json!({"reactions": [reaction("tada", 2), reaction("heart", 3)]})),
        issue(2, json!({"award_emoji": [reaction("heart", 2)]})),
        issue(3, json!({"reactions": [reaction("heart", 3)]})),
    ]);
    counted.check([
        ("my_reaction_emoji=heart", 1),
        ("my_reaction_emoji=Any", 2),
        ("my_reaction_emoji=None", 1),
        ("my_reaction_emoji=eyes", 0),
    ]);
}

#[test]
fn numbers_and_times() {
    let counted = Counted::of([
        issue(1, json!({"created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-02-01T00:00:00.000Z"})),
        issue(2, json!({"created_at": "2026-01-02T00:00:00.000Z", "updated_at": "2026-02-02T00:00:00.000Z"})),
        issue(3, json!({"created_at": "2026-01-02T00:00:00.001Z", "updated_at": "2026-02-03T00:00:00.000Z"})),
    ]);
    counted.check([
        ("iids[]=1&iids[]=3&iids[]=77", 2),
        ("iids=x", 0),
        ("not[iids]=1,2", 1),
        ("created_after=2026-01-02", 2),
        ("created_after=2026-01-02T00:00:00.001Z", 1),
        ("created_before=2026-01-02", 2),
        ("created_before=2025-01-02", 0),
        ("created_after=2026-01-02&created_before=2026-01-02", 1),
        ("created_after=2026-01-02T02:00:00%2B02:00&updated_before=2026-02-02", 1),
        ("updated_after=2026-02-02&updated_before=2026-02-01", 0),
    ]);
}

#[test]
fn texts() {
    let counted = Counted::of([
        issue(1, json!({"title": "Login ERROR on start", "description": "The  login\nfails at #42."})),
        issue(2, json!({"title": "Straße gesperrt", "description": "ΟΔΟΣ und Übergröße"})),
        issue(3, json!({"title": "日本語のテスト", "description": "error, login"})),
    ]);
    counted.check([
        ("search=login", 2),
        ("search=LOGIN+error", 2),
        ("search=ogi", 2),
        ("search=e", 3),
        ("search=er", 3),
        ("search=%2342.", 1),
        ("search=login&in=title", 1),
        ("search=error&in=description", 1),
        ("search=\"login+error\"", 1),
        ("search=\"error+login\"", 0),
        ("search=\"error,+login\"", 1),
        ("search=\"the++login\"", 1),
        ("search=\"the+login\"", 0),
        ("search=\"login%0Afails\"", 1),
        ("search=\"ogin+error+on+st\"", 1),
        ("search=stra%C3%9Fe", 1),
        ("search=%CE%BF%CE%B4%CE%BF%CF%82", 1),
        ("search=%C3%9Cberg", 1),
        ("search=%E6%9C%AC", 1),
        ("search=%E8%AA%9E%E3%81%AE%E3%83%86", 1),
        ("search=login+stra%C3%9Fe", 0),
        ("search=", 3),
        ("search=login&not[iids]=1", 1),
    ]);
}

#[test]
fn licensed_filters_need_their_license() {
    let counted = Counted::of([issue(1, json!({"weight": 1})), issue(2, json!({}))]);
    directory::setting::save(&counted.0, json!({"license": "free"}).as_object().unwrap()).unwrap();
    counted.check([("weight=1", 2), ("weight=x&epic_id=x&health_status=x", 2)]);
    let answer = get(&counted.0, "alice", "issues_statistics?assignee_username=a,b");
    assert_eq!(answer.status, 400);
}

//! Issue statistics, as the shipped component counts them.

use super::*;

fn import(forge: &Forge, lines: &[Value]) -> Value {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let answer = forge.send("POST", "/api/v4/import/issues", ADMIN, text).expect(200);
    answer.json()
}

fn issue(id: u64, project: u64, fields: Value) -> Value {
    let mut issue =
        json!({"kind": "issue", "id": id, "iid": id, "project_id": project, "title": "A title", "state": "opened"});
    fields.as_object().expect("fields").iter().for_each(|(name, value)| issue[name] = value.clone());
    issue
}

#[track_caller]
fn counts(forge: &Forge, path: &str, token: &str) -> Value {
    let answer = forge.get(&format!("/api/v4/{path}"), token).expect(200);
    answer.json()["statistics"]["counts"].clone()
}

#[test]
fn a_caller_counts_the_issues_that_it_may_see() {
    let forge = Forge::seeded();
    let report = import(
        &forge,
        &[
            issue(1, PUBLIC, json!({"labels": ["bug"]})),
            issue(2, PRIVATE, json!({"state": "closed"})),
            issue(3, PRIVATE, json!({"confidential": true, "description": "The pipeline times out"})),
            json!({"kind": "issue", "id": "four"}),
        ],
    );
    let expected = (&json!({"issue": 3}), &json!(1), &json!(4));
    assert_eq!((&report["imported"], &report["failed"], &report["errors"][0]["line"]), expected);
    let all = "issues_statistics?scope=all";
    assert_eq!(counts(&forge, all, ADMIN), json!({"all": 3, "closed": 1, "opened": 2}));
    assert_eq!(counts(&forge, all, DEVELOPER), json!({"all": 3, "closed": 1, "opened": 2}));
    assert_eq!(counts(&forge, all, GUEST), json!({"all": 2, "closed": 1, "opened": 1}));
    assert_eq!(counts(&forge, all, OUTSIDER), json!({"all": 1, "closed": 0, "opened": 1}));
    assert_eq!(counts(&forge, "groups/acme%2Flabs/issues_statistics?search=PIPE+out", DEVELOPER)["all"], 1);
    assert_eq!(counts(&forge, &format!("projects/{PUBLIC}/issues_statistics?labels=bug"), OUTSIDER)["all"], 1);
    assert_eq!(forge.get("/api/v4/issues_statistics?scope=all", "").status, 401);
    assert_eq!(forge.get(&format!("/api/v4/projects/{PRIVATE}/issues_statistics"), OUTSIDER).status, 404);
}

#[test]
fn issues_of_a_banned_author_are_counted_for_administrators_only() {
    let forge = Forge::seeded();
    import(&forge, &[issue(1, PUBLIC, json!({"author": {"id": 4}})), issue(2, PUBLIC, json!({"author": {"id": 3}}))]);
    let path = format!("projects/{PUBLIC}/issues_statistics");
    for (state, seen) in [("banned", 1), ("active", 2)] {
        let record = json!({"kind": "user", "id": 4, "username": "gus", "name": "Gus Guest", "state": state});
        forge.import(record.to_string());
        let expected = (&json!(2), &json!(seen));
        assert_eq!((&counts(&forge, &path, ADMIN)["all"], &counts(&forge, &path, OUTSIDER)["all"]), expected);
        assert_eq!(forge.get("/api/v4/users/4", ADMIN).json()["state"], state);
    }
}

#[test]
fn many_issues_are_counted_after_each_change() {
    let forge = Forge::seeded();
    let line = |id: u64, title: &str| issue(id, PUBLIC, json!({"title": title, "weight": id % 3}));
    let mut lines: Vec<Value> = (1..=5000).map(|id| line(id, "first draft")).collect();
    import(&forge, &lines);
    lines.truncate(1000);
    lines.iter_mut().for_each(|line| line["title"] = json!("second draft"));
    import(&forge, &lines);
    import(&forge, &[json!({"kind": "issue", "id": 1, "deleted": true})]);
    let project = format!("projects/{PUBLIC}/issues_statistics");
    for (query, count) in
        [("", 4999), ("?search=first", 4000), ("?search=%22ond+dra%22", 999), ("?weight=0&search=draft", 1666)]
    {
        assert_eq!(counts(&forge, &format!("{project}{query}"), ADMIN)["all"], count, "{query}");
    }
}

/// Words of 1 MiB, and texts of thousands of characters without spaces, fit into an instance's memory.
#[test]
fn texts_of_any_length_and_script_are_counted() {
    let forge = Forge::seeded();
    let long =
        |id: u64| issue(id, PUBLIC, json!({"description": format!("data:{}{id}", "iVBORw0KGgo".repeat(90_000))}));
    import(&forge, &(1..=40).map(long).collect::<Vec<_>>());
    let han = |id: u64| -> String {
        let number = |index: u64| (id * 7919 + index * index * 104_729) % 20_000;
        (0..450).filter_map(|index| char::from_u32(0x4e00 + number(index) as u32)).chain("問題".chars()).collect()
    };
    for first in [100, 5100] {
        let lines = (first..first + 5000).map(|id| issue(id, PUBLIC, json!({"description": han(id)})));
        import(&forge, &lines.collect::<Vec<_>>());
    }
    let project = format!("projects/{PUBLIC}/issues_statistics");
    for (query, count) in
        [("", 10_040), ("?search=0KGgoiVB", 40), ("?search=KGgo17", 1), ("?search=%E5%95%8F%E9%A1%8C", 10_000)]
    {
        assert_eq!(counts(&forge, &format!("{project}{query}"), ADMIN)["all"], count, "{query}");
    }
}

#[test]
fn a_question_has_a_bound_on_its_work() {
    let forge = Forge::seeded_with(&[("issues_max_work", "20000")]);
    let text = "echo ".repeat(2000);
    import(&forge, &(1..100).map(|id| issue(id, PUBLIC, json!({"description": text}))).collect::<Vec<_>>());
    let project = format!("/api/v4/projects/{PUBLIC}/issues_statistics");
    let answer = forge.get(&format!("{project}?search=%22echo+echo+echo%22"), ADMIN).expect(400);
    let message = answer.json()["message"].to_string();
    assert!(message.contains("the search for `echo echo echo` takes too long"), "{message}");
    assert_eq!(forge.get(&format!("{project}?search=echo"), ADMIN).status, 200);
}

//! Extreme texts and queries: very long, very many values, very costly.

use super::*;
use fastrand::Rng;
use kit::path::encode;
use kit::testing::WatchedStore;

fn searched(env: &Env, text: &str) -> u64 {
    all(env, "root", &format!("projects/100/issues_statistics?search={}", encode(&format!("\"{text}\""))))
}

/// `length` characters of a text, from `start` on.
fn part(chars: &[char], start: usize, length: usize) -> String {
    chars[start..(start + length).min(chars.len())].iter().collect()
}

#[test]
fn a_line_of_four_mebibytes_is_found_by_every_part() {
    let mut rng = Rng::with_seed(7);
    let texts: [fn(&mut Rng) -> char; 4] = [
        |rng| rng.digit(16),
        |rng| rng.char('\u{4e00}'..'\u{59b8}'),
        |rng| if rng.u64(..9) == 0 { ' ' } else { rng.lowercase() },
        |rng| if rng.u64(..1000) == 0 { 'b' } else { 'a' },
    ];
    for make in texts {
        let mut text = String::new();
        while text.len() < (4 << 20) - 300 {
            text.push(make(&mut rng));
        }
        let env = forge();
        assert_eq!(import(&env, &[issue(1, json!({"description": text})), issue(2, json!({}))])["failed"], 0);
        let chars: Vec<char> = text.chars().collect();
        for length in [1, 2, 7, 100] {
            for start in [0, rng.usize(..chars.len() - length), chars.len() - length] {
                let part = part(&chars, start, length);
                if !part.trim().is_empty() {
                    assert_eq!(searched(&env, &part), 1, "{length} characters at {start}: {part}");
                }
            }
        }
        let absent = format!("{}\u{1f600}", part(&chars, 0, 3));
        assert_eq!(searched(&env, &absent), 0);
    }
}

#[test]
fn words_of_a_mebibyte_are_counted_and_merged() {
    let env = forge();
    for round in 0..5 {
        let word = |id: u64| issue(id, json!({"title": format!("data:{}{id}", "iVBORw0KGgo".repeat(90_000))}));
        import(&env, &(1..9).map(|number| word(round * 8 + number)).collect::<Vec<_>>());
    }
    let found = (searched(&env, "ORw0KGgoiVB"), searched(&env, "GgoiVBORw0KGgo17"), searched(&env, "data:iV"));
    assert_eq!(found, (40, 1, 40));
}

#[test]
fn long_labels_and_milestones_are_told_apart() {
    let env = forge();
    let long = "ü".repeat(100_000);
    let labelled =
        |id: u64| issue(id, json!({"labels": [format!("{long}{id}")], "milestone": {"title": long.clone()}}));
    import(&env, &(1..5).map(labelled).collect::<Vec<_>>());
    let count = |query: &str| all(&env, "root", &format!("projects/100/issues_statistics?{query}"));
    assert_eq!(count(&format!("labels={}", encode(&format!("{long}3")))), 1);
    assert_eq!(count(&format!("labels={}", encode(&long))), 0);
    assert_eq!(count(&format!("milestone={}", encode(&long))), 4);
}

#[test]
fn too_many_values_of_an_issue_are_refused() {
    let env = forge();
    let labels = |count: u64| (0..count).map(|number| format!("l{number}")).collect::<Vec<_>>();
    let report =
        import(&env, &[issue(1, json!({"labels": labels(10_000)})), issue(2, json!({"labels": labels(10_001)}))]);
    assert_eq!(report["imported"]["issue"], 1);
    assert_eq!(report["errors"][0]["error"], "labels has more than 10000 values");
}

/// The answer to a count that may cost at most `max_cost`; 0 means the default.
fn limited(store: &MemoryStore, max_cost: u64, query: &str) -> TestResponse {
    let limit = if max_cost == 0 { String::new() } else { max_cost.to_string() };
    let env = kit::testing::env(store.clone(), &[("issues_max_work", &limit)]);
    get(&env, "root", &format!("issues_statistics?scope=all&{query}"))
}

#[test]
fn the_cost_of_a_query_is_bounded() {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    let text = "echo ".repeat(5000);
    import_many(&env, 1..200, |id| issue(id, json!({"description": text})));
    let phrase = format!("search={}", encode(&format!("\"{}\"", "echo ".repeat(2000))));
    let answer = limited(&store, 0, &phrase);
    assert_eq!(answer.status, 400, "{}", answer.body);
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.starts_with("400 Bad request - the search for `echo echo ") && message.len() < 250, "{message}");
    assert_eq!(limited(&store, 0, "search=%22echo+echo+echo%22").body["statistics"]["counts"]["all"], 199);
    assert_eq!(limited(&store, 5000, "search=%22echo+echo%22").status, 400);
    assert_eq!(limited(&store, 5000, "search=echo").status, 200);
}

#[test]
fn a_repeated_query_has_the_same_cost() {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    import_many(&env, 1..300, |id| issue(id, json!({"title": format!("w{id} common text")})));
    let outcomes = |limit: u64| {
        let env = kit::testing::env(store.clone(), &[("issues_max_work", &limit.to_string())]);
        let ask = || get(&env, "root", "issues_statistics?scope=all&search=w1+%22common+text%22+w12").status;
        [ask(), ask(), ask()]
    };
    let mut seen = [false; 2];
    for limit in (500..40_000).step_by(500) {
        let [first, rest @ ..] = outcomes(limit);
        assert_eq!(rest, [first; 2], "with the limit {limit}");
        seen[usize::from(first == 200)] = true;
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn filters_with_thousands_of_values_are_bounded() {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    import(&env, &[issue(1, json!({"labels": ["l7"]}))]);
    let iids = (1..3000).map(|iid| format!("iids[]={iid}")).collect::<Vec<_>>().join("&");
    let labels = format!("not[labels]={}", (8..3000).map(|number| format!("l{number}")).collect::<Vec<_>>().join(","));
    for query in [&iids, &labels] {
        assert_eq!(limited(&store, 0, query).body["statistics"]["counts"]["all"], 1);
        let answer = limited(&store, 1000, query);
        let message = "400 Bad request - the filters have too many values; ask with fewer of them";
        assert_eq!((answer.status, answer.body), (400, json!({ "message": message })));
    }
}

#[test]
fn the_cost_of_many_projects_is_bounded_and_the_same_at_every_repetition() {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    let projects = 1000;
    import(&env, &(1..=projects).map(|id| issue(id, json!({"project_id": 10_000 + id}))).collect::<Vec<_>>());
    let ask = |path: &str, limit: u64| {
        let env = kit::testing::env(store.clone(), &[("issues_max_work", &limit.to_string())]);
        let ask = || get(&env, "root", path);
        let first = ask();
        assert_eq!(ask(), first, "from the cache");
        first
    };
    let path = "issues_statistics?scope=all";
    let too_few = ask(path, projects * 50);
    let message = "400 Bad request - there are issues of too many projects; an administrator can raise issues_max_work";
    assert_eq!((too_few.status, too_few.body), (400, json!({ "message": message })));
    assert_eq!(ask(path, projects * 60).status, 200);
}

#[test]
fn a_count_of_a_project_or_group_costs_the_same_however_many_other_projects_have_issues() {
    let of_store = |others: u64| {
        let store = MemoryStore::default();
        let env = forge_on(store.clone());
        join(&env, 3, Source::Group(11), Role::Developer);
        let secret = json!({"confidential": true, "project_id": 101, "author": {"id": 9}});
        import(&env, &[issue(1, json!({})), issue(2, json!({"project_id": 101})), issue(3, secret)]);
        import_many(&env, 10..10 + others, |id| issue(id, json!({"project_id": 10_000 + id})));
        ["projects/100", "projects/101", "groups/10", "groups/11"].map(|target| {
            let path = format!("{target}/issues_statistics");
            let (watched, reads) = WatchedStore::counting(&store, |_, key| key.starts_with("issue-statistics/"));
            let env = Env { store: std::rc::Rc::new(watched), ..kit::testing::env(store.clone(), &[]) };
            let counts = counts(&env, "bob", &path);
            let least = (0..100).map(|step| step * 100).find(|limit| {
                let env = kit::testing::env(store.clone(), &[("issues_max_work", &limit.to_string())]);
                get(&env, "bob", &path).status == 200
            });
            (counts, reads.get(), least.expect("a limit that suffices"))
        })
    };
    let (small, large) = (of_store(10), of_store(20_000));
    assert_eq!(small.map(|(counts, ..)| counts[0]), [1, 2, 3, 2]);
    for ((counts, reads, cost), large) in small.into_iter().zip(large) {
        assert_eq!((counts, cost), (large.0, large.2));
        // The project's facet is on another page than the others.
        assert!(large.1 <= reads + 1, "{} reads of the index in place of {reads}", large.1);
    }
}

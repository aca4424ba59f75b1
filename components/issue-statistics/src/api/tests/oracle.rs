//! Random issues, callers and queries. Each count is compared with a plain count over all issues in memory.

mod issues;
mod queries;

use super::*;
use directory::access::Role;
use fastrand::Rng;
use issues::{Issues, USERS, random_issue};
use queries::{Query, is_assigned, random_query};

fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.u64(..100) < percent
}

/// Whether a user may read the issues of projects 100 to 106, and whether they are a planner there.
fn access(user: u64, project: u64) -> (bool, bool) {
    if user == 1 {
        // The issues of 105 are disabled, and 106 does not exist.
        return (project <= 104, true);
    }
    match (user, project) {
        // alice: Reporter of acme; its project 104 is for members only.
        (2, 100..=102 | 104) => (true, true),
        // bob: Guest of core, owner of 103.
        (3, 101) => (true, false),
        (3, 103) => (true, true),
        (3, 100 | 102) => (true, false),
        // eve, external: Planner of 102.
        (4, 102) => (true, true),
        (4, 100) => (true, false),
        // zoe: no role anywhere.
        (5, 100 | 102) => (true, false),
        _ => (false, false),
    }
}

fn forge_with_roles(store: &MemoryStore) -> Env {
    let env = forge_on(store.clone());
    save_user(&env, 5, "zoe");
    save_project(&env, 104, "members", 10, Visibility::Public, FeatureAccess::Private);
    save_project(&env, 105, "off", 10, Visibility::Public, FeatureAccess::Disabled);
    join(&env, 2, Source::Group(10), Role::Reporter);
    join(&env, 3, Source::Group(11), Role::Guest);
    join(&env, 4, Source::Project(102), Role::Planner);
    env
}

fn expected(issues: &Issues, me: u64, query: &Query) -> [u64; 3] {
    let mut counts = [0; 3];
    for issue in issues.values() {
        let (may_read, is_planner) = access(me, issue["project_id"].as_u64().unwrap());
        let is_participant = issue["author"]["id"] == me || is_assigned(issue, me);
        let visible = may_read
            && (issue["confidential"] == false || is_planner || is_participant)
            && (me == 1 || issue["hidden"].is_null());
        if visible && query.tests.iter().all(|test| test(issue)) {
            counts[0] += 1;
            counts[if issue["state"] == "closed" { 1 } else { 2 }] += 1;
        }
    }
    counts
}

/// Rounds of changes, each followed by queries.
fn compare(seed: u64, rounds: u64, changes: u64, queries: u64) {
    let mut rng = Rng::with_seed(seed);
    let store = MemoryStore::default();
    let env = forge_with_roles(&store);
    let mut issues = Issues::new();
    let mut found = 0;
    for round in 0..rounds {
        let mut lines = Vec::new();
        // Imports differ in size, so that segments do, too.
        let size = if round % 3 == 0 { changes } else { rng.u64(1..=changes / 10 + 1) };
        for _ in 0..size {
            let id = rng.u64(1..=changes * 2);
            if chance(&mut rng, 10) {
                issues.remove(&id);
                lines.push(json!({"kind": "issue", "id": id, "deleted": true}));
            } else {
                let issue = random_issue(&mut rng, id);
                issues.insert(id, issue.clone());
                lines.push(issue);
            }
        }
        let report = import(&env, &lines);
        assert_eq!(report["failed"], 0, "{report}");
        // An instance with a filled cache, and an instance with an empty cache.
        let fresh = kit::testing::env(store.clone(), &[]);
        for number in 0..queries {
            let (token, me) = rng.choice(USERS).unwrap();
            let (path, query) = random_query(&mut rng, me, &issues);
            let path = format!("{path}?{}", query.parameters.join("&"));
            let env = if number % 8 == 0 { &fresh } else { &env };
            let counts = counts(env, token, &path);
            let expected = expected(&issues, me, &query);
            assert_eq!(counts, expected, "seed {seed}, round {round}, {token}: {path}");
            found += u64::from(counts[0] > 0);
        }
    }
    assert!(found * 3 > rounds * queries, "most queries find nothing: {found}");
}

#[test]
fn counts_equal_a_plain_count() {
    for seed in 1..5 {
        compare(seed * 77_777, 12, 150, 80);
    }
}

#[test]
fn counts_of_more_issues_equal_a_plain_count() {
    compare(12_345, 3, 1200, 120);
}

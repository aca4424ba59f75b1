//! Random issues, random callers and random questions, each compared with a plain count over all
//! issues in memory.

use super::*;
use directory::access::Role;
use kit::path::encode;
use std::collections::{BTreeMap, BTreeSet};

/// xorshift64*: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len() as u64) as usize]
    }
}

const WORDS: [&str; 24] = [
    "error",
    "Error",
    "crash",
    "login",
    "LOGIN",
    "timeout",
    "pipeline",
    "a",
    "b",
    "ab",
    "abc",
    "Straße",
    "ΟΔΟΣ",
    "öl",
    "x-y",
    "日本語",
    "語",
    "deadbeef",
    "cafe01",
    "cafe02",
    "token,",
    "(token)",
    "#42",
    "i\u{307}",
];
const GAPS: [&str; 6] = [" ", " ", " ", "  ", "\n", "\t"];
const LABELS: [&str; 6] = ["bug", "Bug", "feature", "ux", "None", "a b"];
const EMOJI: [&str; 3] = ["tada", "heart", "eyes"];
const TITLES: [&str; 4] = ["1.0", "2.0", "none", "3.0"];
/// Around the day of the doubles' moment, 2026-09-21.
const DATES: [&str; 6] = ["2026-01-01", "2026-09-20", "2026-09-21", "2026-09-22", "2026-10-01", "2027-01-01"];
const TODAY: &str = "2026-09-21";
const USERS: [(&str, u64); 5] = [("root", 1), ("alice", 2), ("bob", 3), ("eve", 4), ("zoe", 5)];

fn text(random: &mut Random, most: u64) -> String {
    let mut text = String::new();
    for _ in 0..random.below(most) {
        text.push_str(random.pick(&WORDS.each_ref().map(|word| *word)));
        text.push_str(random.pick(&GAPS.each_ref().map(|gap| *gap)));
    }
    if random.chance(50) { text.trim().to_owned() } else { text }
}

fn moment(random: &mut Random) -> String {
    format!(
        "2026-0{}-{:02}T0{}:00:00.{:03}Z",
        1 + random.below(3),
        1 + random.below(28),
        random.below(3),
        random.below(2)
    )
}

fn random_issue(random: &mut Random, id: u64) -> Value {
    let mut issue = json!({
        "kind": "issue", "id": id, "iid": 1 + random.below(60), "project_id": 100 + random.below(7),
        "title": text(random, 4), "description": text(random, 12),
        "state": if random.chance(60) { "closed" } else { "opened" },
        "created_at": moment(random), "updated_at": moment(random),
        "labels": (0..random.below(4)).map(|_| random.pick(&LABELS)).collect::<BTreeSet<_>>(),
        "author": {"id": 1 + random.below(6)},
        "assignees": (0..random.below(3)).map(|_| 1 + random.below(6)).collect::<BTreeSet<_>>().into_iter()
            .map(|id| json!({"id": id})).collect::<Vec<_>>(),
        "confidential": random.chance(15),
    });
    let mut set = |name: &str, value: Value| issue[name] = value;
    if random.chance(50) {
        let mut milestone =
            json!({"title": random.pick(&TITLES), "state": if random.chance(80) { "active" } else { "closed" }});
        for date in ["start_date", "due_date"] {
            if random.chance(50) {
                milestone[date] = json!(random.pick(&DATES));
            }
        }
        if random.chance(50) {
            milestone["group_id"] = json!(10 + random.below(3));
        }
        set("milestone", milestone);
    }
    if random.chance(40) {
        set("weight", json!(random.below(4)));
    }
    if random.chance(30) {
        set("epic", json!({"id": 1 + random.below(4)}));
    }
    if random.chance(30) {
        set("health_status", json!(random.pick(&["on_track", "at_risk", "needs_attention"])));
    }
    if random.chance(40) {
        let id = 1 + random.below(3);
        let (start, due) =
            [("2026-01-01", "2026-01-14"), ("2026-09-14", TODAY), ("2026-09-22", "2026-10-01")][id as usize - 1];
        set("iteration", json!({"id": id, "title": format!("it{id}"), "start_date": start, "due_date": due}));
    }
    if random.chance(5) {
        set("hidden", json!(true));
    }
    let reactions =
        (0..random.below(4)).map(|_| json!({"name": random.pick(&EMOJI), "user": {"id": 1 + random.below(5)}}));
    let reactions: Vec<Value> = reactions.collect();
    set("reactions", json!(reactions));
    issue
}

type Issues = BTreeMap<u64, Value>;

/// What each user may do in projects 100 to 106, by hand: (may read issues, plans).
fn rights(user: u64, project: u64) -> (bool, bool) {
    if user == 1 {
        // The issues of 105 are switched off, and 106 does not exist.
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

fn setting(store: &MemoryStore) -> Env {
    let env = forge_on(store.clone());
    save_user(&env, 5, "zoe");
    save_project(&env, 104, "members", 10, Visibility::Public, FeatureAccess::Private);
    save_project(&env, 105, "off", 10, Visibility::Public, FeatureAccess::Disabled);
    join(&env, 2, Source::Group(10), Role::Reporter);
    join(&env, 3, Source::Group(11), Role::Guest);
    join(&env, 4, Source::Project(102), Role::Planner);
    env
}

/// A question: its parameters, and the same as a predicate.
#[derive(Default)]
struct Question {
    query: Vec<String>,
    tests: Vec<Test>,
}

type Test = Box<dyn Fn(&Value) -> bool>;

impl Question {
    fn add(&mut self, parameter: String, test: impl Fn(&Value) -> bool + 'static) {
        self.query.push(parameter);
        self.tests.push(Box::new(test));
    }

    /// With a chance the filter is negated.
    fn either(&mut self, not: bool, name: &str, value: &str, test: impl Fn(&Value) -> bool + 'static) {
        let value = encode(value);
        let parameter = if not { format!("not[{name}]={value}") } else { format!("{name}={value}") };
        self.add(parameter, move |issue| test(issue) != not);
    }
}

fn has_label(issue: &Value, label: &str) -> bool {
    issue["labels"].as_array().unwrap().iter().any(|has| has == label)
}

fn is_assigned(issue: &Value, user: u64) -> bool {
    issue["assignees"].as_array().unwrap().iter().any(|assignee| assignee["id"] == user)
}

fn has_reaction(issue: &Value, user: u64, name: Option<&str>) -> bool {
    let mut reactions = issue["reactions"].as_array().unwrap().iter();
    reactions.any(|reaction| reaction["user"]["id"] == user && name.is_none_or(|name| reaction["name"] == name))
}

fn owner(issue: &Value) -> (bool, u64) {
    match issue["milestone"]["group_id"].as_u64() {
        Some(group) => (true, group),
        None => (false, issue["project_id"].as_u64().unwrap()),
    }
}

fn date<'a>(issue: &'a Value, name: &str) -> Option<&'a str> {
    issue["milestone"][name].as_str()
}

fn is_active(issue: &Value) -> bool {
    issue["milestone"]["state"] == "active"
}

/// For each owner, the title of the milestone that is due next.
fn upcoming(issues: &Issues) -> BTreeMap<(bool, u64), (String, String)> {
    let mut next: BTreeMap<(bool, u64), (String, String)> = BTreeMap::new();
    for issue in issues.values().filter(|issue| is_active(issue)) {
        let Some(due) = date(issue, "due_date").filter(|due| *due > TODAY) else { continue };
        let this = (due.to_owned(), issue["milestone"]["title"].as_str().unwrap().to_owned());
        let known = next.entry(owner(issue)).or_insert_with(|| this.clone());
        *known = this.min(known.clone());
    }
    next
}

fn fold(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).map(|char| if char == 'ς' { 'σ' } else { char }).collect()
}

fn ask(random: &mut Random, me: u64, issues: &Issues) -> (String, Question) {
    let mut question = Question::default();
    let path = match random.below(8) {
        0..4 => "issues_statistics".to_owned(),
        4 | 5 => "groups/10/issues_statistics".to_owned(),
        6 if rights(me, 101).0 => "groups/11/issues_statistics".to_owned(),
        _ => {
            let project = 100 + random.below(5);
            let project = if rights(me, project).0 { project } else { 100 };
            format!("projects/{project}/issues_statistics")
        }
    };
    match path.split('/').nth(1).map(|id| id.parse::<u64>().unwrap()) {
        None => {}
        Some(10) => question.tests.push(Box::new(|issue| ![103, 106].contains(&issue["project_id"].as_u64().unwrap()))),
        Some(11) => question.tests.push(Box::new(|issue| issue["project_id"] == 101)),
        Some(project) => question.tests.push(Box::new(move |issue| issue["project_id"] == project)),
    }
    match (random.below(6), path == "issues_statistics") {
        (0, _) => question.add("scope=created_by_me".into(), move |issue| issue["author"]["id"] == me),
        (1, _) => question.add("scope=assigned_to_me".into(), move |issue| is_assigned(issue, me)),
        (2, true) => question.tests.push(Box::new(move |issue| issue["author"]["id"] == me)),
        (_, true) => question.query.push("scope=all".into()),
        _ => {}
    }
    for _ in 0..random.below(5) {
        filter(random, me, issues, &mut question);
    }
    (path, question)
}

/// Adds a filter that is not there yet.
fn filter(random: &mut Random, me: u64, issues: &Issues, question: &mut Question) {
    let not = random.chance(30);
    let mut added = Question::default();
    match random.below(17) {
        0 => {
            let label = random.pick(&["bug", "Bug", "feature", "ux", "a b"]);
            added.either(not, "labels", label, move |issue| has_label(issue, label));
        }
        1 => match random.chance(50) {
            true => added.add("labels=NONE".into(), |issue| issue["labels"] == json!([])),
            false => added.add("labels=bug,any".into(), |issue| issue["labels"] != json!([])),
        },
        2 => added.add("labels[]=bug&labels[]=ux".into(), |issue| has_label(issue, "bug") && has_label(issue, "ux")),
        3 => {
            let title = random.pick(&["1.0", "2.0", "3.0", "4.0"]);
            added.either(not, "milestone", title, move |issue| issue["milestone"]["title"] == title);
        }
        4 => match random.below(2) {
            0 => added.either(not, "milestone_id", "None", |issue| issue["milestone"].is_null()),
            _ => added.either(not, "milestone_id", "Any", |issue| !issue["milestone"].is_null()),
        },
        5 => {
            let prefix = if not { "not[milestone_id]=" } else { "milestone_id=" };
            match (random.chance(50), not) {
                (true, not) => added.add(format!("{prefix}Started"), move |issue| {
                    is_active(issue) && date(issue, "start_date").is_some_and(|start| (start <= TODAY) != not)
                }),
                (false, true) => added.add(format!("{prefix}Upcoming"), |issue| {
                    is_active(issue) && date(issue, "due_date").is_some_and(|due| due <= TODAY)
                }),
                (false, false) => {
                    let next = upcoming(issues);
                    added.add(format!("{prefix}Upcoming"), move |issue| {
                        is_active(issue)
                            && date(issue, "due_date").is_some_and(|due| due > TODAY)
                            && next.get(&owner(issue)).is_some_and(|(_, title)| issue["milestone"]["title"] == **title)
                    });
                }
            }
        }
        6 => {
            let (one, other) = (1 + random.below(60), 1 + random.below(60));
            added.either(not, "iids", &format!("{one},{other},x"), move |issue| {
                issue["iid"] == one || issue["iid"] == other
            });
        }
        7 => {
            let (name, id) = USERS[random.below(5) as usize];
            match random.chance(50) {
                true => added.either(not, "author_id", &id.to_string(), move |issue| issue["author"]["id"] == id),
                false => {
                    added
                        .either(not, "author_username", &name.to_uppercase(), move |issue| issue["author"]["id"] == id);
                }
            }
        }
        8 => {
            let (name, id) = USERS[random.below(5) as usize];
            match random.chance(50) {
                true => added.either(not, "assignee_id", &id.to_string(), move |issue| is_assigned(issue, id)),
                false => added.either(not, "assignee_username", name, move |issue| is_assigned(issue, id)),
            }
        }
        9 => match random.chance(50) {
            true => added.add("assignee_id=None".into(), |issue| issue["assignees"] == json!([])),
            false => {
                added.add("assignee_username=alice,bob".into(), |issue| is_assigned(issue, 2) && is_assigned(issue, 3))
            }
        },
        10 => {
            let (field, name) = if random.chance(50) { ("created_at", "created") } else { ("updated_at", "updated") };
            let (from, to) = (moment(random), moment(random));
            let range = format!("{name}_after={}&{name}_before={}", encode(&from), encode(&to));
            added.add(range, move |issue| {
                let at = issue[field].as_str().unwrap();
                *from <= *at && *at <= *to
            });
        }
        11 => {
            let emoji = random.pick(&["tada", "heart", "Any", "None"]);
            added.add(format!("my_reaction_emoji={emoji}"), move |issue| match emoji {
                "Any" => has_reaction(issue, me, None),
                "None" => !has_reaction(issue, me, None),
                name => has_reaction(issue, me, Some(name)),
            });
        }
        12 => {
            let wanted = random.chance(50);
            added.add(format!("confidential={wanted}"), move |issue| issue["confidential"] == wanted);
        }
        13 => match random.below(3) {
            0 => added.either(not, "weight", "2", |issue| issue["weight"] == 2),
            1 => added.either(not, "weight", "none", |issue| issue["weight"].is_null()),
            _ => added.add("epic_id=1".into(), |issue| issue["epic"]["id"] == 1),
        },
        14 => match random.below(3) {
            0 => added.add("health_status=At_Risk".into(), |issue| issue["health_status"] == "at_risk"),
            1 => added.either(not, "iteration_title", "it1", |issue| issue["iteration"]["title"] == "it1"),
            _ => added.either(not, "iteration_id", "current", |issue| issue["iteration"]["id"] == 2),
        },
        _ => search(random, issues, &mut added),
    }
    let name = |parameter: &str| {
        let inner = parameter.trim_start_matches("not[");
        (inner.len() < parameter.len(), inner.split(['=', '_', '[', ']']).next().unwrap_or_default().to_owned())
    };
    let taken = |added: &String| question.query.iter().any(|known| name(known) == name(added));
    if !added.query.iter().any(taken) {
        question.query.extend(added.query);
        question.tests.extend(added.tests);
    }
}

/// A search for parts of texts that are there, or nearly.
fn search(random: &mut Random, issues: &Issues, added: &mut Question) {
    let mut terms: Vec<String> = Vec::new();
    for _ in 0..1 + random.below(2) {
        let ids: Vec<u64> = issues.keys().copied().collect();
        let field = random.pick(&["title", "description"]);
        let source = issues[&ids[random.below(ids.len() as u64) as usize]][field].as_str().unwrap().to_owned();
        let chars: Vec<char> = source.chars().collect();
        if chars.is_empty() {
            continue;
        }
        let from = random.below(chars.len() as u64) as usize;
        let most = [1, 2, 3, 8, 24][random.below(5) as usize];
        let length = 1 + random.below(most) as usize;
        let mut part: String = chars.iter().skip(from).take(length).collect();
        if random.chance(30) {
            part = part.to_uppercase();
        }
        part = part.trim().replace('"', "");
        terms.push(part);
    }
    terms.retain(|term| !term.is_empty());
    let written: Vec<String> = terms
        .iter()
        .map(|term| if term.contains(char::is_whitespace) { format!("\"{term}\"") } else { term.clone() })
        .collect();
    let fields = random.pick(&["title", "description", "title,description"]);
    let parameter = format!("search={}&in={fields}", encode(&written.join(" ")));
    added.add(parameter, move |issue| {
        terms
            .iter()
            .all(|term| fields.split(',').any(|field| fold(issue[field].as_str().unwrap()).contains(&fold(term))))
    });
}

fn expected(issues: &Issues, me: u64, question: &Question) -> [u64; 3] {
    let mut counts = [0; 3];
    for issue in issues.values() {
        let (reads, plans) = rights(me, issue["project_id"].as_u64().unwrap());
        let is_part = issue["author"]["id"] == me || is_assigned(issue, me);
        let visible =
            reads && (issue["confidential"] == false || plans || is_part) && (me == 1 || issue["hidden"].is_null());
        if visible && question.tests.iter().all(|test| test(issue)) {
            counts[0] += 1;
            counts[if issue["state"] == "closed" { 1 } else { 2 }] += 1;
        }
    }
    counts
}

/// Some rounds of changes, each followed by questions.
fn compare(seed: u64, rounds: u64, changes: u64, questions: u64) {
    let mut random = Random(seed);
    let store = MemoryStore::default();
    let env = setting(&store);
    let mut issues = Issues::new();
    let mut found = 0;
    for round in 0..rounds {
        let mut lines = Vec::new();
        // Sizes differ, so that there are segments of all sizes.
        let size = if round % 3 == 0 { changes } else { 1 + random.below(changes / 10 + 1) };
        for _ in 0..size {
            let id = 1 + random.below(changes * 2);
            if random.chance(10) {
                issues.remove(&id);
                lines.push(json!({"kind": "issue", "id": id, "deleted": true}));
            } else {
                let issue = random_issue(&mut random, id);
                issues.insert(id, issue.clone());
                lines.push(issue);
            }
        }
        let report = import(&env, &lines);
        assert_eq!(report["failed"], 0, "{report}");
        // An instance that has been there, and one that knows nothing.
        let fresh = kit::double::env(store.clone(), &[]);
        for number in 0..questions {
            let (token, me) = USERS[random.below(5) as usize];
            let (path, question) = ask(&mut random, me, &issues);
            let path = format!("{path}?{}", question.query.join("&"));
            let env = if number % 8 == 0 { &fresh } else { &env };
            let counts = counts(env, token, &path);
            let expected = expected(&issues, me, &question);
            assert_eq!(counts, expected, "seed {seed}, round {round}, {token}: {path}");
            found += u64::from(counts[0] > 0);
        }
    }
    assert!(found * 3 > rounds * questions, "most questions find nothing: {found}");
}

#[test]
fn counts_are_those_of_a_plain_count() {
    for seed in 1..5 {
        compare(seed * 77_777, 12, 150, 80);
    }
}

#[test]
fn counts_of_more_issues_are_those_of_a_plain_count() {
    compare(12_345, 3, 1200, 120);
}

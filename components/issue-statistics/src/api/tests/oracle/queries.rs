//! Random queries, each as parameters of a request and as predicates.

use super::issues::{Issues, TODAY, USERS, timestamp};
use super::{access, chance};
use fastrand::Rng;
use kit::path::encode;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Query {
    pub parameters: Vec<String>,
    /// An issue matches if all of these predicates hold.
    pub tests: Vec<Test>,
}

type Test = Box<dyn Fn(&Value) -> bool>;

impl Query {
    fn add(&mut self, parameter: String, test: impl Fn(&Value) -> bool + 'static) {
        self.parameters.push(parameter);
        self.tests.push(Box::new(test));
    }

    /// Adds a filter, or its negation.
    fn add_negatable(&mut self, not: bool, name: &str, value: &str, test: impl Fn(&Value) -> bool + 'static) {
        let value = encode(value);
        let parameter = if not { format!("not[{name}]={value}") } else { format!("{name}={value}") };
        self.add(parameter, move |issue| test(issue) != not);
    }
}

fn has_label(issue: &Value, label: &str) -> bool {
    issue["labels"].as_array().unwrap().iter().any(|has| has == label)
}

pub fn is_assigned(issue: &Value, user: u64) -> bool {
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

pub fn random_query(rng: &mut Rng, me: u64, issues: &Issues) -> (String, Query) {
    let mut query = Query::default();
    let path = match rng.u64(..8) {
        0..4 => "issues_statistics".to_owned(),
        4 | 5 => "groups/10/issues_statistics".to_owned(),
        6 if access(me, 101).0 => "groups/11/issues_statistics".to_owned(),
        _ => {
            let project = rng.u64(100..105);
            let project = if access(me, project).0 { project } else { 100 };
            format!("projects/{project}/issues_statistics")
        }
    };
    match path.split('/').nth(1).map(|id| id.parse::<u64>().unwrap()) {
        None => {}
        Some(10) => query.tests.push(Box::new(|issue| ![103, 106].contains(&issue["project_id"].as_u64().unwrap()))),
        Some(11) => query.tests.push(Box::new(|issue| issue["project_id"] == 101)),
        Some(project) => query.tests.push(Box::new(move |issue| issue["project_id"] == project)),
    }
    match (rng.u64(..6), path == "issues_statistics") {
        (0, _) => query.add("scope=created_by_me".into(), move |issue| issue["author"]["id"] == me),
        (1, _) => query.add("scope=assigned_to_me".into(), move |issue| is_assigned(issue, me)),
        (2, true) => query.tests.push(Box::new(move |issue| issue["author"]["id"] == me)),
        (_, true) => query.parameters.push("scope=all".into()),
        _ => {}
    }
    for _ in 0..rng.u64(..5) {
        add_filter(rng, me, issues, &mut query);
    }
    (path, query)
}

/// Adds a random filter, unless the query has that parameter already.
fn add_filter(rng: &mut Rng, me: u64, issues: &Issues, query: &mut Query) {
    let not = chance(rng, 30);
    let mut added = Query::default();
    match rng.u64(..17) {
        0 => {
            let label = rng.choice(["bug", "Bug", "feature", "ux", "a b"]).unwrap();
            added.add_negatable(not, "labels", label, move |issue| has_label(issue, label));
        }
        1 => match rng.bool() {
            true => added.add("labels=NONE".into(), |issue| issue["labels"] == json!([])),
            false => added.add("labels=bug,any".into(), |issue| issue["labels"] != json!([])),
        },
        2 => added.add("labels[]=bug&labels[]=ux".into(), |issue| has_label(issue, "bug") && has_label(issue, "ux")),
        3 => {
            let title = rng.choice(["1.0", "2.0", "3.0", "4.0"]).unwrap();
            added.add_negatable(not, "milestone", title, move |issue| issue["milestone"]["title"] == title);
        }
        4 => match rng.u64(..2) {
            0 => added.add_negatable(not, "milestone_id", "None", |issue| issue["milestone"].is_null()),
            _ => added.add_negatable(not, "milestone_id", "Any", |issue| !issue["milestone"].is_null()),
        },
        5 => {
            let prefix = if not { "not[milestone_id]=" } else { "milestone_id=" };
            match (rng.bool(), not) {
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
            let (one, other) = (rng.u64(1..=60), rng.u64(1..=60));
            added.add_negatable(not, "iids", &format!("{one},{other},x"), move |issue| {
                issue["iid"] == one || issue["iid"] == other
            });
        }
        7 => {
            let (name, id) = rng.choice(USERS).unwrap();
            match rng.bool() {
                true => {
                    added.add_negatable(not, "author_id", &id.to_string(), move |issue| issue["author"]["id"] == id)
                }
                false => {
                    added.add_negatable(not, "author_username", &name.to_uppercase(), move |issue| {
                        issue["author"]["id"] == id
                    });
                }
            }
        }
        8 => {
            let (name, id) = rng.choice(USERS).unwrap();
            match rng.bool() {
                true => added.add_negatable(not, "assignee_id", &id.to_string(), move |issue| is_assigned(issue, id)),
                false => added.add_negatable(not, "assignee_username", name, move |issue| is_assigned(issue, id)),
            }
        }
        9 => match rng.bool() {
            true => added.add("assignee_id=None".into(), |issue| issue["assignees"] == json!([])),
            false => {
                added.add("assignee_username=alice,bob".into(), |issue| is_assigned(issue, 2) && is_assigned(issue, 3))
            }
        },
        10 => {
            let (field, name) = if rng.bool() { ("created_at", "created") } else { ("updated_at", "updated") };
            let (from, to) = (timestamp(rng), timestamp(rng));
            let range = format!("{name}_after={}&{name}_before={}", encode(&from), encode(&to));
            added.add(range, move |issue| {
                let at = issue[field].as_str().unwrap();
                *from <= *at && *at <= *to
            });
        }
        11 => {
            let emoji = rng.choice(["tada", "heart", "Any", "None"]).unwrap();
            added.add(format!("my_reaction_emoji={emoji}"), move |issue| match emoji {
                "Any" => has_reaction(issue, me, None),
                "None" => !has_reaction(issue, me, None),
                name => has_reaction(issue, me, Some(name)),
            });
        }
        12 => {
            let wanted = rng.bool();
            added.add(format!("confidential={wanted}"), move |issue| issue["confidential"] == wanted);
        }
        13 => match rng.u64(..3) {
            0 => added.add_negatable(not, "weight", "2", |issue| issue["weight"] == 2),
            1 => added.add_negatable(not, "weight", "none", |issue| issue["weight"].is_null()),
            _ => added.add("epic_id=1".into(), |issue| issue["epic"]["id"] == 1),
        },
        14 => match rng.u64(..3) {
            0 => added.add("health_status=At_Risk".into(), |issue| issue["health_status"] == "at_risk"),
            1 => added.add_negatable(not, "iteration_title", "it1", |issue| issue["iteration"]["title"] == "it1"),
            _ => added.add_negatable(not, "iteration_id", "current", |issue| issue["iteration"]["id"] == 2),
        },
        _ => add_search(rng, issues, &mut added),
    }
    let name = |parameter: &str| {
        let inner = parameter.trim_start_matches("not[");
        (inner.len() < parameter.len(), inner.split(['=', '_', '[', ']']).next().unwrap_or_default().to_owned())
    };
    let taken = |added: &String| query.parameters.iter().any(|known| name(known) == name(added));
    if !added.parameters.iter().any(taken) {
        query.parameters.extend(added.parameters);
        query.tests.extend(added.tests);
    }
}

/// Adds a search for parts of existing texts, or of similar ones.
fn add_search(rng: &mut Rng, issues: &Issues, added: &mut Query) {
    let mut terms: Vec<String> = Vec::new();
    for _ in 0..rng.u64(1..=2) {
        let ids: Vec<u64> = issues.keys().copied().collect();
        let field = rng.choice(["title", "description"]).unwrap();
        let source = issues[rng.choice(&ids).unwrap()][field].as_str().unwrap().to_owned();
        let mut part = match rng.u64(..4) {
            0 => phrase_with_affixes(rng, &source),
            1 => random_phrase(rng),
            _ => part(rng, &source),
        };
        if chance(rng, 30) {
            part = part.to_uppercase();
        }
        terms.push(part.trim().replace('"', ""));
    }
    terms.retain(|term| !term.is_empty());
    let written: Vec<String> = terms
        .iter()
        .map(|term| if term.contains(char::is_whitespace) { format!("\"{term}\"") } else { term.clone() })
        .collect();
    let fields = rng.choice(["title", "description", "title,description"]).unwrap();
    let parameter = format!("search={}&in={fields}", encode(&written.join(" ")));
    added.add(parameter, move |issue| {
        terms
            .iter()
            .all(|term| fields.split(',').any(|field| fold(issue[field].as_str().unwrap()).contains(&fold(term))))
    });
}

/// Some characters of a text.
fn part(rng: &mut Rng, source: &str) -> String {
    let from = rng.usize(..=source.chars().count());
    let most = rng.choice([1, 2, 3, 8, 24, 200]).unwrap();
    source.chars().skip(from).take(rng.usize(1..=most)).collect()
}

/// Words of a text with the white space between them, but only a few characters of the first and last word.
fn phrase_with_affixes(rng: &mut Rng, source: &str) -> String {
    let source: Vec<char> = source.chars().collect();
    let starts: Vec<usize> = (1..source.len()).filter(|at| source[at - 1].is_whitespace()).collect();
    if starts.is_empty() {
        return String::new();
    }
    let first = rng.usize(..starts.len());
    let last = (first + rng.usize(..4)).min(starts.len() - 1);
    // The phrase begins before the first white space and ends after the last.
    let from = (0..starts[first]).rev().find(|at| !source[*at].is_whitespace()).unwrap_or(0);
    let from = from.saturating_sub(rng.usize(..4));
    let to = (starts[last] + rng.usize(1..=4)).min(source.len());
    source[from..to].iter().collect()
}

/// Words that may follow one another in a text by chance.
fn random_phrase(rng: &mut Rng) -> String {
    let mut phrase = String::new();
    for _ in 0..rng.u64(2..5) {
        if !phrase.is_empty() {
            phrase.push_str(rng.choice([" ", " ", " ", "  ", "\n"]).unwrap());
        }
        phrase.push_str(
            rng.choice(["a", "b", "ab", "n", "in", "e", "error", "l", "to", "x-", "2", "語", "σ", ")", "日本", "aaa"])
                .unwrap(),
        );
    }
    phrase
}

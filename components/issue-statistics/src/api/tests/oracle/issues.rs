//! Random issues: few words, labels, dates and users, so that queries find some.

use super::Random;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub const WORDS: [&str; 24] = [
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
pub const WHITE_SPACE: [&str; 6] = [" ", " ", " ", "  ", "\n", "\t"];
pub const LABELS: [&str; 6] = ["bug", "Bug", "feature", "ux", "None", "a b"];
pub const EMOJI: [&str; 3] = ["tada", "heart", "eyes"];
pub const TITLES: [&str; 4] = ["1.0", "2.0", "none", "3.0"];
/// Around [`TODAY`].
pub const DATES: [&str; 6] = ["2026-01-01", "2026-09-20", "2026-09-21", "2026-09-22", "2026-10-01", "2027-01-01"];
/// The date of tests.
pub const TODAY: &str = "2026-09-21";
pub const USERS: [(&str, u64); 5] = [("root", 1), ("alice", 2), ("bob", 3), ("eve", 4), ("zoe", 5)];

/// Texts without spaces, of other scripts, and of any length.
fn run(random: &mut Random) -> String {
    let many = |random: &mut Random, from: &[&str], most: u64| -> String {
        (0..1 + random.below(most)).map(|_| random.pick(from)).collect()
    };
    match random.below(9) {
        0 | 1 => many(random, &["日", "本", "語", "的", "问", "题", "カ", "한"], 14),
        2 => many(random, &["0", "1", "a", "b", "c", "f", "7"], 40),
        3 => many(random, &["😀", "👩\u{200d}💻", "🇩🇪", "✅", "❤\u{fe0f}", "x"], 5),
        4 => many(random, &["שלום", "مرحبا", "עולם", "عالم", "-"], 3),
        5 => many(random, &["ภาษา", "ไทย", "ab", "don’t", "việt"], 4),
        // Around the length at which a run becomes pieces.
        6 => many(random, &["a", "b", "ab"], 300),
        7 => "data:".to_owned() + &many(random, &["A", "q", "é", "/", "+"], 200),
        _ => random.pick(&["\n", " ", "\t "]).repeat(random.below(200) as usize),
    }
}

pub fn text(random: &mut Random, most: u64) -> String {
    let mut text = String::new();
    for _ in 0..random.below(most) {
        match random.chance(25) {
            true => text.push_str(&run(random)),
            false => text.push_str(random.pick(&WORDS.each_ref().map(|word| *word))),
        }
        if random.chance(85) {
            text.push_str(random.pick(&WHITE_SPACE.each_ref().map(|space| *space)));
        }
    }
    if random.chance(50) { text.trim().to_owned() } else { text }
}

pub fn timestamp(random: &mut Random) -> String {
    format!(
        "2026-0{}-{:02}T0{}:00:00.{:03}Z",
        1 + random.below(3),
        1 + random.below(28),
        random.below(3),
        random.below(2)
    )
}

pub fn random_issue(random: &mut Random, id: u64) -> Value {
    let mut issue = json!({
        "kind": "issue", "id": id, "iid": 1 + random.below(60), "project_id": 100 + random.below(7),
        "title": text(random, 4), "description": text(random, 12),
        "state": if random.chance(60) { "closed" } else { "opened" },
        "created_at": timestamp(random), "updated_at": timestamp(random),
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

pub type Issues = BTreeMap<u64, Value>;

//! Random issues. They share few words, labels, dates and users, so that queries match some.

use super::chance;
use fastrand::Rng;
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
fn run(rng: &mut Rng) -> String {
    let many = |rng: &mut Rng, from: &[&str], most: u64| -> String {
        (0..rng.u64(1..=most)).map(|_| *rng.choice(from).unwrap()).collect()
    };
    match rng.u64(..9) {
        0 | 1 => many(rng, &["日", "本", "語", "的", "问", "题", "カ", "한"], 14),
        2 => many(rng, &["0", "1", "a", "b", "c", "f", "7"], 40),
        3 => many(rng, &["😀", "👩\u{200d}💻", "🇩🇪", "✅", "❤\u{fe0f}", "x"], 5),
        4 => many(rng, &["שלום", "مرحبا", "עולם", "عالم", "-"], 3),
        5 => many(rng, &["ภาษา", "ไทย", "ab", "don’t", "việt"], 4),
        // Around the length from which a run becomes bigrams.
        6 => many(rng, &["a", "b", "ab"], 300),
        7 => "data:".to_owned() + &many(rng, &["A", "q", "é", "/", "+"], 200),
        _ => rng.choice(["\n", " ", "\t "]).unwrap().repeat(rng.usize(..200)),
    }
}

pub fn text(rng: &mut Rng, most: u64) -> String {
    let mut text = String::new();
    for _ in 0..rng.u64(..most) {
        match chance(rng, 25) {
            true => text.push_str(&run(rng)),
            false => text.push_str(rng.choice(WORDS).unwrap()),
        }
        if chance(rng, 85) {
            text.push_str(rng.choice(WHITE_SPACE).unwrap());
        }
    }
    if rng.bool() { text.trim().to_owned() } else { text }
}

pub fn timestamp(rng: &mut Rng) -> String {
    format!("2026-0{}-{:02}T0{}:00:00.{:03}Z", rng.u64(1..=3), rng.u64(1..=28), rng.u64(..3), rng.u64(..2))
}

pub fn random_issue(rng: &mut Rng, id: u64) -> Value {
    let mut issue = json!({
        "kind": "issue", "id": id, "iid": rng.u64(1..=60), "project_id": rng.u64(100..107),
        "title": text(rng, 4), "description": text(rng, 12),
        "state": if chance(rng, 60) { "closed" } else { "opened" },
        "created_at": timestamp(rng), "updated_at": timestamp(rng),
        "labels": (0..rng.u64(..4)).map(|_| rng.choice(LABELS).unwrap()).collect::<BTreeSet<_>>(),
        "author": {"id": rng.u64(1..=6)},
        "assignees": (0..rng.u64(..3)).map(|_| rng.u64(1..=6)).collect::<BTreeSet<_>>().into_iter()
            .map(|id| json!({"id": id})).collect::<Vec<_>>(),
        "confidential": chance(rng, 15),
    });
    let mut set = |name: &str, value: Value| issue[name] = value;
    if rng.bool() {
        let mut milestone =
            json!({"title": rng.choice(TITLES).unwrap(), "state": if chance(rng, 80) { "active" } else { "closed" }});
        for date in ["start_date", "due_date"] {
            if rng.bool() {
                milestone[date] = json!(rng.choice(DATES).unwrap());
            }
        }
        if rng.bool() {
            milestone["group_id"] = json!(rng.u64(10..13));
        }
        set("milestone", milestone);
    }
    if chance(rng, 40) {
        set("weight", json!(rng.u64(..4)));
    }
    if chance(rng, 30) {
        set("epic", json!({"id": rng.u64(1..=4)}));
    }
    if chance(rng, 30) {
        set("health_status", json!(rng.choice(["on_track", "at_risk", "needs_attention"]).unwrap()));
    }
    if chance(rng, 40) {
        let id = rng.u64(1..=3);
        let (start, due) =
            [("2026-01-01", "2026-01-14"), ("2026-09-14", TODAY), ("2026-09-22", "2026-10-01")][id as usize - 1];
        set("iteration", json!({"id": id, "title": format!("it{id}"), "start_date": start, "due_date": due}));
    }
    if chance(rng, 5) {
        set("hidden", json!(true));
    }
    let reactions =
        (0..rng.u64(..4)).map(|_| json!({"name": rng.choice(EMOJI).unwrap(), "user": {"id": rng.u64(1..=5)}}));
    let reactions: Vec<Value> = reactions.collect();
    set("reactions", json!(reactions));
    issue
}

pub type Issues = BTreeMap<u64, Value>;

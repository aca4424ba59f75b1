//! The issues of the demo: two years of a growing project. Rules make each issue from its number, so that every demo
//! has the same issues.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

const COUNT: u64 = 3000;
const DAYS: u64 = 730;

const LABELS: [&str; 6] = ["bug", "feature", "docs", "performance", "security", "question"];
const TITLES: [&str; 6] = [
    "Install fails behind a proxy",
    "Show the size of a release",
    "The example in the readme does not run",
    "Search takes seconds with many packages",
    "A token is accepted after it was revoked",
    "How are two registries combined?",
];

/// NDJSON of the issues of a project, up to `now`.
pub fn records(project: u64, now: Timestamp) -> String {
    (1..=COUNT).map(|number| format!("{}\n", record(project, number, now))).collect()
}

fn record(project: u64, number: u64, now: Timestamp) -> serde_json::Value {
    let mixed = mix(number);
    let pick = |bits: u32, choices: u64| (mixed >> bits) % choices;
    // The square favours small ages: newer months have more issues.
    let age = DAYS * 24 * pick(0, 1000) * pick(0, 1000) / 1_000_000;
    let hours = i64::try_from(age).unwrap_or_default();
    let created = now.saturating_sub(SignedDuration::from_hours(hours + 1)).unwrap_or(now);
    let subject = usize::try_from(pick(10, 6)).unwrap_or_default();
    let mut labels = vec![LABELS.get(subject).copied().unwrap_or("bug")];
    if pick(16, 5) == 0 {
        labels.push("urgent");
    }
    // Older issues are more likely closed.
    let is_closed = pick(20, DAYS * 24) < age * 2 + 1500;
    let milestone = format!("1.{}", 5 - (age * 5 / (DAYS * 24)).min(5));
    let title = TITLES.get(subject).copied().unwrap_or_default();
    json!({
        "kind": "issue", "id": number, "iid": number, "project_id": project,
        "title": title, "description": format!("{title}. Seen with version 1.{}.", pick(30, 9)),
        "state": if is_closed { "closed" } else { "opened" },
        "created_at": created.to_string(), "updated_at": created.to_string(), "labels": labels,
        "milestone": {"title": milestone}, "author": {"id": 2 + pick(40, 2)},
    })
}

/// Mixes the bits of a number (splitmix64).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issues_are_of_two_years_and_of_both_states() {
        let now: Timestamp = "2026-11-22T00:00:00Z".parse().unwrap();
        let records: Vec<serde_json::Value> =
            records(2, now).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(records.len(), 3000);
        let count = |test: &dyn Fn(&serde_json::Value) -> bool| records.iter().filter(|record| test(record)).count();
        assert!((500..2500).contains(&count(&|record| record["state"] == "opened")));
        for year in ["2024-12", "2025-11", "2026-11"] {
            assert!(count(&|record| record["created_at"].as_str().unwrap().starts_with(year)) > 10, "{year}");
        }
    }
}

//! The experiments of the demo, and the gates of their features.

use serde_json::{Value, json};

/// Name, milestone, and the percentage of users for whom the experiment is on.
const EXPERIMENTS: [(&str, &str, u64); 4] =
    [("new_search", "1.2", 25), ("guided_start", "1.3", 50), ("dark_charts", "1.4", 100), ("quick_merge", "1.5", 0)];

/// The definitions as NDJSON.
pub fn records() -> String {
    let record = |(name, milestone, _): (&str, &str, u64)| {
        json!({
            "kind": "experiment", "name": name, "milestone": milestone, "group": "group::growth",
            "introduced_by_url": format!("https://forge.example.com/showcase/libraries/-/merge_requests/{}", name.len()),
            "rollout_issue_url": format!("https://forge.example.com/showcase/libraries/-/issues/{}", name.len()),
        })
    };
    EXPERIMENTS.into_iter().map(|experiment| format!("{}\n", record(experiment))).collect()
}

/// The features with the same names, for the directory.
pub fn features() -> impl Iterator<Item = Value> {
    EXPERIMENTS.into_iter().filter(|(_, _, share)| *share > 0).map(|(name, _, share)| match share {
        100 => json!({"kind": "feature", "name": name, "gates": [{"key": "boolean", "value": true}]}),
        _ => json!({"kind": "feature", "name": name, "gates": [{"key": "boolean", "value": false}, {"key": "percentage_of_actors", "value": share}]}),
    })
}

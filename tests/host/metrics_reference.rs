//! The table of metrics in the documentation is that of a running host.

use super::*;
use std::fs;

fn rows(page: &str) -> BTreeMap<String, (String, String)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "));
    let rows = rows.filter_map(|(name, rest)| Some((name.to_owned(), rest.split_once(" | ")?)));
    rows.map(|(name, (kind, help))| (name, (kind.to_owned(), help.to_owned()))).collect()
}

#[test]
fn every_metric_is_documented() {
    let page = rows(&fs::read_to_string(root().join("docs/reference/metrics.md")).expect("the page"));
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    let metrics = Operator::of(&server).get("/metrics").text();
    let mut found = 0;
    for line in metrics.lines() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else { continue };
        let kind = metrics.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} "))).expect("a kind");
        let expected = (kind.to_owned(), help.trim_end_matches('.').to_owned());
        assert_eq!(page.get(name), Some(&expected), "docs/reference/metrics.md does not have {name} so");
        found += 1;
    }
    assert!(found > 50, "{found} metrics");
    // Metrics of PostgreSQL and of traces are not on this host, but in its code.
    let code = ["exposition.rs", "host_metrics.rs"]
        .map(|file| fs::read_to_string(root().join("host/admin/src").join(file)).expect("readable"));
    let unknown: Vec<_> = page
        .keys()
        .filter(|name| {
            let quoted = format!("\"{}\"", name.trim_start_matches("hexad_"));
            !code.iter().any(|code| code.contains(&quoted))
        })
        .collect();
    assert!(unknown.is_empty(), "no host has these metrics: {unknown:?}");
}

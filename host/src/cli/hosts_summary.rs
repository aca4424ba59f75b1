//! The lines of `hexad status` about the hosts that share a store.

use widgets::age;

use super::terminal::printable;
use crate::admin::FleetHostStatus;

/// A line for each host of the store if there are several, and the differences between them. While the store fails,
/// there are no new reports.
pub fn hosts_summary(hosts: &[FleetHostStatus], is_from_before: bool) -> String {
    let mut text = String::new();
    if hosts.len() > 1 {
        if is_from_before {
            text += "the last reports of the hosts, from before the store's problem:\n";
        }
        for FleetHostStatus { name, age: seconds, is_live, version, revision, .. } in hosts {
            let state = if *is_live { "" } else { ", GONE" };
            let (name, version) = (printable(name), printable(version));
            text += &format!("host {name}: {version}, serving record {revision}, seen {} ago{state}\n", age(*seconds));
        }
    }
    let live = || hosts.iter().filter(|host| host.is_live);
    for host in live() {
        if let Some(problem) = &host.problem {
            text += &format!("NOT READY: the host {}: {}\n", printable(&host.name), printable(problem));
        }
    }
    if let Some(first) = live().next()
        && live().any(|host| !host.has_manifest_of(first))
    {
        text += "WARNING: the hosts have different manifests; give all the same one\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_from_before_an_outage_are_called_so() {
        let host = |name: &str, age: f64, is_live: bool| FleetHostStatus {
            name: name.to_owned(),
            age,
            is_live,
            version: "0.1.0".to_owned(),
            manifest: None,
            resolved_manifest: None,
            revision: 7,
            problem: None,
        };
        let hosts = [host("a", 65.0, true), host("b", 7200.0, false)];
        let lines = "host a: 0.1.0, serving record 7, seen 1 min ago\n\
                     host b: 0.1.0, serving record 7, seen 2 h 0 min ago, GONE\n";
        assert_eq!(hosts_summary(&hosts, false), lines);
        let from_before = hosts_summary(&hosts, true);
        assert!(from_before.ends_with(lines), "{from_before}");
        assert!(from_before.starts_with("the last reports of the hosts, from before"), "{from_before}");
        assert_eq!(hosts_summary(&hosts[..1], true), "", "the host itself");
    }

    #[test]
    fn manifests_are_compared_by_what_they_say_where_both_hosts_report_it() {
        let host = |bytes: &str, resolved: Option<&str>| FleetHostStatus {
            name: "a".to_owned(),
            age: 0.0,
            is_live: true,
            version: String::new(),
            manifest: Some(bytes.to_owned()),
            resolved_manifest: resolved.map(str::to_owned),
            revision: 7,
            problem: None,
        };
        let differ = |hosts: [FleetHostStatus; 2]| hosts_summary(&hosts, false).contains("different manifests");
        assert!(!differ([host("1", Some("x")), host("2", Some("x"))]), "keys were renamed in one");
        assert!(differ([host("1", Some("x")), host("1", Some("y"))]));
        assert!(differ([host("1", Some("x")), host("2", None)]), "an earlier build reports its bytes only");
        assert!(!differ([host("1", Some("x")), host("1", None)]));
    }
}

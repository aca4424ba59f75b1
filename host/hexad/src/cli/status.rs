//! `hexad status`: the components of a running host, and their statistics.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytesize::ByteSize;
use clap::Args;
use hexad_admin::{
    AnonymousWorkStatus, CanaryStatus, CertificateProblemStatus, ComponentStatus, FleetHostStatus, HostStatus,
    MemoryStatus, ReloadStatus, RevisionStatus, StoreProblemStatus,
};
use hexad_store_postgres::ServerStatus;
use serde::Deserialize;
use serde_json::Value;
use widgets::age;

use super::admin::{AdminRequest, HostArgs};
use super::browser;
use super::terminal::printable;

/// How often `--watch` asks for the status.
const REFRESH: Duration = Duration::from_secs(1);

/// Characters of a version and of a digest that are printed.
const VERSION: usize = 12;
const DIGEST: usize = 8;

/// Show the components and figures of a running host.
#[derive(Args)]
pub struct Status {
    /// Show the status again every second, with the requests of that second.
    #[arg(long)]
    watch: bool,

    /// Show everything as JSON; with `--watch`, one line each time.
    #[arg(long)]
    json: bool,

    /// Print the address of the operator's pages and open it in a browser. The address signs one browser in,
    /// once and within five minutes.
    #[arg(long, conflicts_with_all = ["watch", "json"])]
    web: bool,

    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
struct StatusResponse {
    host: HostStatus,
    components: Vec<ComponentStatus>,
}

impl Status {
    pub fn run(self) -> Result<()> {
        let mut out = io::stdout();
        if self.web {
            let address = self.host.sign_in_address()?;
            writeln!(out, "{address}")?;
            if out.is_terminal() {
                browser::open(&address, self.host.data_folder());
            }
            return Ok(());
        }
        let mut previous_response: Option<(Instant, StatusResponse)> = None;
        loop {
            let asked = Instant::now();
            let response: Value = self.host.send(&AdminRequest::Get, "/status")?;
            let status = StatusResponse::deserialize(&response)
                .context("the host's response cannot be read; does the host have another version than this program?")?;
            if self.json {
                match self.watch {
                    true => writeln!(out, "{response}")?,
                    false => writeln!(out, "{response:#}")?,
                }
            } else {
                if self.watch && out.is_terminal() {
                    // Moves the cursor to the top left and clears the screen below it.
                    write!(out, "\x1b[H\x1b[J")?;
                }
                let previous = previous_response.as_ref().map(|(then, status)| (status, asked - *then));
                write!(out, "{}{}", summary(&status.host), table(&status.components, previous))?;
                previous_response = Some((asked, status));
            }
            out.flush()?;
            if !self.watch {
                return Ok(());
            }
            std::thread::sleep(REFRESH);
        }
    }
}

fn summary(host: &HostStatus) -> String {
    let HostStatus { version, uptime, connections, store_size, store_commits, store_problem, .. } = host;
    let HostStatus { unrouted, response_cache, spans, .. } = host;
    let resident = host.resident_memory.map_or_else(|| "?".to_owned(), size);
    let mut text = format!("hexad {version}, up {}; {connections} connections, {resident} of memory\n", age(*uptime));
    let MemoryStatus { budget, guests, guests_limit, guests_denied, send_buffer, .. } = host.memory;
    text += &format!(
        "memory: guests {} of {}, waiting responses {}; budget {}\n",
        size(guests),
        size(guests_limit),
        size(send_buffer),
        size(budget)
    );
    if guests_denied > 0 {
        text += &format!("memory: denied to guests {guests_denied} times, because the budget was used up\n");
    }
    text += &resource_warnings(host);
    let lookups = response_cache.hits + response_cache.misses;
    let share = if lookups == 0 { 0.0 } else { response_cache.hits as f64 * 100.0 / lookups as f64 };
    text += &format!("store: {}, {store_commits} commits; {unrouted} requests without a route\n", size(*store_size));
    if let Some(StoreProblemStatus { problem, reason, seconds }) = store_problem {
        let (problem, reason) = (printable(problem), printable(reason));
        text += &format!("NOT READY: the store is {problem} ({reason}) for {}\n", age(*seconds));
    }
    if let Some(ReloadStatus { age: seconds, applied, detail, .. }) = &host.last_reload {
        let outcome = if *applied { "changes" } else { "REFUSED" };
        text += &format!("manifest: read again {} ago; {outcome}: {}\n", age(*seconds), printable(detail));
    }
    if !host.ended_threads.is_empty() {
        let names = printable(&host.ended_threads.join(", "));
        text +=
            &format!("NOT READY: these threads have ended or failed: {names}; the log says why; restart the host\n");
    }
    if let Some(CertificateProblemStatus { reason, age: seconds }) = &host.certificate_problem {
        let reason = printable(reason);
        text += &format!(
            "WARNING: the certificates could not be read again {} ago; the host uses the old ones: {reason}\n",
            age(*seconds)
        );
    }
    if let Some(refusal) = &host.certificate_refusal {
        text += &format!("WARNING: {}\n", printable(refusal));
    }
    if let Some(postgres) = &host.postgres {
        text += &postgres_summary(postgres);
    }
    text += &hosts_summary(&host.hosts, store_problem.is_some());
    text += &format!(
        "response cache: {} answers, {}; hits: {share:.0} % of {lookups} lookups\n",
        response_cache.entries,
        size(response_cache.size as u64)
    );
    let AnonymousWorkStatus { cpu_time, store_bytes, refused, limited } = host.anonymous_work;
    if cpu_time > 0.0 || store_bytes > 0 {
        let time = if cpu_time > 0.0 { duration(cpu_time) } else { "any time".to_owned() };
        let bytes = if store_bytes > 0 { size(store_bytes) } else { "any bytes".to_owned() };
        text += &format!(
            "anonymous work: {time}, {bytes} a minute; {refused} requests refused, {limited} addresses at a limit\n"
        );
    }
    for note in &host.notes {
        text += &format!("{}\n", printable(note));
    }
    if let Some(spans) = spans {
        text += &format!("spans: {} exported, {} failed, {} dropped\n", spans.exported, spans.failed, spans.dropped);
    }
    text.push('\n');
    text
}

fn postgres_summary(status: &ServerStatus) -> String {
    let ServerStatus { url, server, round_trip, barriers, reads, reconnects, warnings, standbys, .. } = status;
    let server = server.as_deref().map_or_else(|| "no server".to_owned(), printable);
    let mut text = format!(
        "{}: {server}, {} round trip; {barriers} barriers, {reads} reads, {reconnects} reconnects\n",
        printable(url),
        duration(*round_trip)
    );
    for standby in standbys {
        text += &format!("standby {}: {} behind\n", printable(&standby.name), size(standby.lag));
    }
    for warning in warnings {
        text += &format!("WARNING: {}\n", printable(&warning.text));
    }
    text
}

/// A line for each resource that the host may use up.
fn resource_warnings(host: &HostStatus) -> String {
    let mut text = String::new();
    // A host of an earlier build does not report the machine's memory.
    if host.memory.machine > 0 && host.memory.budget > host.memory.machine {
        text += &format!(
            "WARNING: the budget is more than the {} of the machine or container: under load the system may end the \
             host; give it more memory, or lower --send-buffer and --memory\n",
            size(host.memory.machine)
        );
    }
    if let (Some(open), Some(most)) = (host.descriptors, host.max_descriptors)
        && open as u64 >= most / 4 * 3
    {
        text += &format!(
            "WARNING: {open} files and sockets are open of {most}; raise the limit (`ulimit -Hn`, or `LimitNOFILE` of \
             systemd), and restart the host\n"
        );
    }
    text
}

/// A line for each host of the store if there are several, and the differences between them. While the store fails,
/// there are no new reports.
fn hosts_summary(hosts: &[FleetHostStatus], is_from_before: bool) -> String {
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

/// A line for each component. With `previous`, an earlier response and its age, it has the rate of requests since then;
/// otherwise, the digest.
fn table(components: &[ComponentStatus], previous: Option<(&StatusResponse, Duration)>) -> String {
    const COLUMNS: usize = 8;
    let third = if previous.is_some() { "REQ/S" } else { "DIGEST" };
    let head = ["COMPONENT", "VERSION", third, "BUSY", "REQUESTS", "FAILED", "P50", "P99"];
    let mut rows = vec![(head.map(str::to_owned), None)];
    for component in components {
        let ComponentStatus { id, current, statistics, .. } = component;
        let third = match previous {
            Some((status, age)) => rate(id, statistics.requests, status, age),
            None => short_digest(current),
        };
        // `64+1024`: requests that are served, and requests that wait.
        let busy = match component.waiting {
            0 => component.in_flight.to_string(),
            waiting => format!("{}+{waiting}", component.in_flight),
        };
        let row = [
            printable(id),
            short_version(current),
            third,
            busy,
            count(statistics.requests),
            count(statistics.failed),
            statistics.p50.map_or_else(String::new, duration),
            statistics.p99.map_or_else(String::new, duration),
        ];
        rows.push((row, remark(component)));
    }
    let mut widths = [0; COLUMNS];
    for (row, _) in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for (row, remark) in &rows {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            0..=2 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
        if let Some(remark) = remark {
            text += &format!("  {remark}\n");
        }
    }
    text
}

/// The canary, or a state other than serving.
fn remark(component: &ComponentStatus) -> Option<String> {
    let Some(canary) = &component.canary else {
        return (component.state != "serving").then(|| printable(&component.state));
    };
    let CanaryStatus { served, percent, responses, failed, missing_responses, seconds_left } = canary;
    let (version, digest) = (short_version(served), short_digest(served));
    let (responses, failed) = (count(*responses), count(*failed));
    let end = match missing_responses {
        1.. if *seconds_left <= 0.0 => format!("waits for {missing_responses} more answers"),
        _ => format!("{seconds_left:.0} s left"),
    };
    Some(format!("canary {version} {digest}: {percent} %, {responses} answers, {failed} failed, {end}"))
}

/// The version and the revision, because two revisions can have the same version.
fn short_version(revision: &RevisionStatus) -> String {
    let version: String = revision.version.as_deref().unwrap_or("-").chars().take(VERSION).collect();
    format!("{} #{}", printable(&version), revision.revision)
}

fn short_digest(revision: &RevisionStatus) -> String {
    revision.digest.to_string().chars().take(DIGEST).collect()
}

/// Requests per second since `previous`.
fn rate(id: &str, requests: u64, previous: &StatusResponse, age: Duration) -> String {
    let component = previous.components.iter().find(|component| component.id == id);
    let before = component.map_or(requests, |component| component.statistics.requests);
    count((requests.saturating_sub(before) as f64 / age.as_secs_f64().max(0.001)).round() as u64)
}

/// At most six characters.
fn count(count: u64) -> String {
    match count {
        0..1_000_000 => count.to_string(),
        1_000_000..1_000_000_000 => format!("{:.1}M", count as f64 / 1e6),
        _ => format!("{:.1}G", count as f64 / 1e9),
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1e-3 => format!("{:.0}us", seconds * 1e6),
        seconds if seconds < 0.01 => format!("{:.1}ms", seconds * 1e3),
        seconds if seconds < 1.0 => format!("{:.0}ms", seconds * 1e3),
        seconds => format!("{seconds:.1}s"),
    }
}

fn size(bytes: u64) -> String {
    ByteSize::b(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPONENTS: &str = r#"[
        {"id":"search-statistics","state":"canary","version":"0.1.0","digest":"0123456789abcdef89abcdef89abcdef89abcdef89abcdef89abcdef89abcdef","generation":13,
         "source":"a.wasm","in_flight":64,"waiting":1024,"new":1,
         "figures":{"requests":123456789,"failed":999999,"p50":0.00064,"p99":10.48576,"instantiations":1,
                    "instance_failures":0,"memory_peak":1,"guest_busy":0.5,"key_value_operations":9,"outbound_requests":0},
         "canary":{"version":"0.2.0","digest":"fedcba9876543210765432107654321076543210765432107654321076543210","generation":14,"percent":5.0,
                   "answers":7,"failed":1,"seconds_left":12.4}},
        {"id":"x","state":"failing","version":"1\u001b[2J","digest":"0000000000000000000000000000000000000000000000000000000000000000","generation":1,
         "source":"x.wasm","in_flight":0,"waiting":0,"canary":null,
         "figures":{"requests":0,"failed":0,"p50":null,"p99":null,"instantiations":0,"instance_failures":0,
                    "memory_peak":0,"guest_busy":0.0,"key_value_operations":0,"outbound_requests":0}}]"#;

    fn components() -> Vec<ComponentStatus> {
        serde_json::from_str(COMPONENTS).unwrap()
    }

    #[test]
    fn the_widest_table_fits_a_terminal() {
        let expected = "\
COMPONENT          VERSION    DIGEST       BUSY  REQUESTS  FAILED    P50    P99
search-statistics  0.1.0 #13  01234567  64+1024    123.5M  999999  640us  10.5s
  canary 0.2.0 #14 fedcba98: 5 %, 7 answers, 1 failed, 12 s left
x                  1\u{fffd}[2J #1   00000000        0         0       0
  failing
";
        let table = table(&components(), None);
        assert_eq!(table, expected);
        assert!(table.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn a_canary_after_its_window_waits_for_answers() {
        let mut components = components();
        let canary = components[0].canary.as_mut().unwrap();
        canary.missing_responses = 3;
        assert!(table(&components, None).contains("7 answers, 1 failed, 12 s left\n"));
        components[0].canary.as_mut().unwrap().seconds_left = 0.0;
        let table = table(&components, None);
        assert!(table.contains("7 answers, 1 failed, waits for 3 more answers\n"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn watched_it_shows_the_rate_of_requests() {
        let host = r#"{"version":"0.1.0","uptime":3725.0,"connections":3,"resident_memory":62914560,
            "memory":{"budget":1073741824,"guests":1048576,"guests_limit":805306368,"guests_denied":0,"send_buffer":2048},"store_size":4096,
            "store_commits":12,"unrouted":1,"memo":{"hits":3,"misses":1,"answers":1,"size":2048},"spans":null}"#;
        let previous = StatusResponse { host: serde_json::from_str(host).unwrap(), components: components() };
        let mut now = components();
        now[0].statistics.requests += 3000;
        let table = table(&now, Some((&previous, Duration::from_secs(2))));
        let words: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words[3], "1500", "{table}");
        assert_eq!(
            summary(&previous.host),
            "hexad 0.1.0, up 1 h 2 min; 3 connections, 60.0 MiB of memory\n\
             memory: guests 1.0 MiB of 768.0 MiB, waiting responses 2.0 KiB; budget 1.0 GiB\n\
             store: 4.0 KiB, 12 commits; 1 requests without a route\n\
             response cache: 1 answers, 2.0 KiB; hits: 75 % of 4 lookups\n\n"
        );
    }

    #[test]
    fn a_machine_that_is_too_small_is_named() {
        let earlier = r#"{"version":"0.1.0","uptime":1.0,"connections":3,"resident_memory":1,"store_size":1,
            "memory":{"budget":1073741824,"guests":1,"guests_limit":1,"guests_denied":0,"send_buffer":1},
            "store_commits":1,"unrouted":1,"memo":{"hits":1,"misses":1,"answers":1,"size":1},"spans":null}"#;
        let mut host: HostStatus = serde_json::from_str(earlier).unwrap();
        assert_eq!(resource_warnings(&host), "");
        host.memory.machine = 1 << 30;
        (host.descriptors, host.max_descriptors) = (Some(95), Some(128));
        assert_eq!(resource_warnings(&host), "");
        host.memory.budget += 1;
        host.descriptors = Some(96);
        let text = resource_warnings(&host);
        let starts =
            ["WARNING: the budget is more than the 1.0 GiB of ", "WARNING: 96 files and sockets are open of 128; "];
        assert!(text.lines().zip(starts).all(|(line, start)| line.starts_with(start)), "{text}");
        assert_eq!(text.lines().count(), 2);
    }

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

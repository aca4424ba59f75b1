//! The page of all components, of the store and its hosts, and of the audit log.

use hexad_deploy::AuditRecord;
use http::StatusCode;
use maud::{Markup, html};
use widgets::chart::sparkline;
use widgets::{Column, age, bytes, duration, number, table};

use super::frame::{Notice, page};
use super::{charts, route};
use crate::component_status::ComponentStatus;
use crate::history::{Activity, Interval};
use crate::host_status::HostStatus;
use crate::response::AdminResponse;
use crate::sessions::Session;

/// The content of the page.
pub struct Overview<'a> {
    pub host: &'a HostStatus,
    pub components: &'a [ComponentStatus],
    /// Of the last 15 minutes.
    pub intervals: &'a [Interval],
    /// The newest first, or why the host cannot read the log.
    pub audit: Result<Vec<AuditRecord>, String>,
}

impl Overview<'_> {
    pub fn page(&self, session: &Session, notice: Option<&Notice>) -> AdminResponse {
        let HostStatus { version, uptime, connections, resident_memory, store_problem, .. } = self.host;
        let last = self.intervals.last();
        let rate =
            last.map_or(0.0, |interval| charts::per_second(Activity::sum(&interval.components).requests, interval));
        let content = html! {
            div.head {
                h1 { "Components" }
                p.lead { "hexad " (version) ", up " (age(*uptime)) ". " a href=(route::OVERVIEW) { "Show the present state" } }
            }
            @if let Some(problem) = store_problem {
                div.alert.error role="alert" {
                    p { "The host is not ready: the store is " (problem.problem) " (" (problem.reason) ") for " (age(problem.seconds)) "." }
                }
            }
            div.counts {
                div { strong { (format!("{rate:.1}")) } "requests per second" }
                div { strong { (number(*connections as u64)) } "connections" }
                div { strong { (resident_memory.map_or_else(|| "?".to_owned(), bytes)) } "memory of the process" }
                div { strong { (bytes(self.host.memory.guests)) } "memory of guests, of " (bytes(self.host.memory.guests_limit)) }
            }
            (self.components())
            (charts::requests(self.intervals, |interval| Activity::sum(&interval.components)))
            (charts::memory(self.intervals))
            (self.store())
            (self.audit())
        };
        page(StatusCode::OK, "Components", Some(session), notice, &content)
    }

    fn components(&self) -> Markup {
        let columns = [
            Column::text("Component"),
            Column::text("Version"),
            Column::text("Digest"),
            Column::text("State"),
            Column::numbers("Requests, 15 min"),
            Column::text("Traffic"),
            Column::numbers("Failed, 15 min"),
            Column::numbers("Median"),
            Column::numbers("99th percentile"),
            Column::numbers("Busy"),
            Column::numbers("Largest instance"),
        ];
        html! {
            section.card aria-label="Components" {
                (table("Components", &columns, html! {
                    @for (index, component) in self.components.iter().enumerate() {
                        @let activity = |interval: &Interval| interval.components.get(index).cloned().unwrap_or_default();
                        @let recent: Vec<Activity> = self.intervals.iter().map(activity).collect();
                        @let rates: Vec<f64> = recent.iter().zip(self.intervals).map(|(recent, interval)| charts::per_second(recent.requests, interval)).collect();
                        @let total = Activity::sum(&recent);
                        @let quantile = |quantile: f64| total.latency.finite_quantile(quantile).map_or_else(String::new, duration);
                        tr {
                            th scope="row" { a href=(route::component(&component.id)) { (component.id) } }
                            td { (component.current.version.as_deref().unwrap_or("–")) " #" (component.current.revision) }
                            td { code { (short(&component.current.digest.to_string())) } }
                            td { (state(component)) }
                            td.number { (number(total.requests)) }
                            td { (sparkline(&rates)) }
                            td.number { (number(total.failed)) }
                            td.number { (quantile(0.5)) }
                            td.number { (quantile(0.99)) }
                            td.number {
                                (component.in_flight)
                                @if component.waiting > 0 { "+" (component.waiting) }
                            }
                            td.number { (bytes(component.statistics.memory_peak)) }
                        }
                    }
                }))
            }
        }
    }

    fn store(&self) -> Markup {
        let host = self.host;
        html! {
            section.card aria-label="Store" {
                h2 { "Store" }
                dl {
                    dt { "size" } dd { (bytes(host.store_size)) }
                    dt { "commits" } dd { (number(host.store_commits)) }
                    dt { "failed transactions" } dd { (number(host.store_failed_transactions)) }
                    @if let Some(postgres) = &host.postgres {
                        dt { "PostgreSQL" } dd { bdi { (postgres.url) } }
                        dt { "server" } dd { (postgres.server.as_deref().unwrap_or("none")) }
                        dt { "round trip" } dd { (duration(postgres.round_trip)) }
                        @for standby in &postgres.standbys { dt { "standby " (standby.name) } dd { (bytes(standby.lag)) " behind" } }
                        @for warning in &postgres.warnings { dt { "warning" } dd { (warning.text) } }
                    }
                    @if let Some(reload) = &host.last_reload {
                        dt { "manifest" }
                        dd { (if reload.applied { "read again: " } else { "refused: " }) (reload.detail) }
                    }
                }
                @if !host.hosts.is_empty() {
                    h3 { "Hosts" }
                    @let columns = [Column::text("Host"), Column::text("Version"), Column::numbers("Record"), Column::numbers("Seen ago"), Column::text("State")];
                    (table("Hosts", &columns, html! {
                        @for host in &host.hosts {
                            tr {
                                th scope="row" { (host.name) }
                                td { (host.version) }
                                td.number { (host.revision) }
                                td.number { (age(host.age)) }
                                td {
                                    @match &host.problem {
                                        Some(problem) if host.is_live => span.badge.bad { (problem) },
                                        _ if host.is_live => span.badge.good { "live" },
                                        _ => span.badge { "gone" },
                                    }
                                }
                            }
                        }
                    }))
                }
            }
        }
    }

    fn audit(&self) -> Markup {
        let columns = [
            Column::text("Time"),
            Column::text("By"),
            Column::text("Action"),
            Column::text("Component"),
            Column::text("Digest"),
            Column::text("Outcome"),
        ];
        html! {
            section.card aria-label="Audit log" {
                h2 { "Audit log of this host" }
                @match &self.audit {
                    Err(reason) => p { "It cannot be read: " (reason) },
                    Ok(lines) if lines.is_empty() => p.soft { "Nothing was changed yet." },
                    Ok(lines) => (table("Audit log", &columns, html! {
                        @for line in lines {
                            tr {
                                td { (time(&line.at)) }
                                td { bdi { (line.by) } }
                                td { (line.action) }
                                td { (line.component.as_deref().unwrap_or_default()) }
                                td { code { (line.digest.as_deref().map(short).unwrap_or_default()) } }
                                td {
                                    span.badge.good[line.outcome == "done"].bad[line.outcome != "done"] { (line.outcome) }
                                    @if let Some(reason) = &line.reason { " " bdi { (reason) } }
                                }
                            }
                        }
                    })),
                }
            }
        }
    }
}

/// The state of a component, as a badge.
pub fn state(component: &ComponentStatus) -> Markup {
    let color = match &*component.state {
        "serving" => "good",
        "canary" => "accent",
        _ => "bad",
    };
    html! { span class={ "badge " (color) } { (component.state) } }
}

/// The beginning of a digest.
pub fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// A moment, to the second.
fn time(rfc_3339: &str) -> Markup {
    let shown: String = rfc_3339.chars().take(19).map(|c| if c == 'T' { ' ' } else { c }).collect();
    html! { time datetime=(rfc_3339) { (shown) } }
}

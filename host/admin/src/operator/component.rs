//! The page of one component: its revisions, its last 15 minutes, and the forms that change it.

use hexad_deploy::FleetHost;
use hexad_runtime::component::CanaryPolicy;
use http::StatusCode;
use maud::{Markup, html};
use widgets::{age, bytes, duration, number};

use super::form::{CANARY, CURRENT, FILE, WITHOUT};
use super::frame::{Notice, form_token, page};
use super::overview::{short, state};
use super::route::PromoteOrRollBack;
use super::{charts, route};
use crate::component_status::{CanaryStatus, ComponentStatus, RevisionStatus};
use crate::history::Interval;
use crate::response::AdminResponse;
use crate::sessions::Session;

/// The content of a component's pages.
pub struct ComponentPage<'a> {
    pub component: &'a ComponentStatus,
    /// The component's index in each interval.
    pub index: usize,
    /// Of the last 15 minutes.
    pub intervals: &'a [Interval],
    /// The other live hosts that serve the same components. Empty for a store of one host.
    pub others: &'a [FleetHost],
}

impl ComponentPage<'_> {
    pub fn page(&self, status: StatusCode, session: &Session, notice: Option<&Notice>) -> AdminResponse {
        let component = self.component;
        let content = html! {
            div.head { h1 { (component.id) " " (state(component)) } }
            div.columns {
                div {
                    (charts::requests(self.intervals, |interval| {
                        interval.components.get(self.index).cloned().unwrap_or_default()
                    }))
                }
                aside {
                    section.card aria-label="Serving" { h2 { "Serving" } (self.facts()) }
                    @if let Some(canary) = &component.canary {
                        section.card #canary aria-label="Canary" { h2 { "Canary" } (canary_facts(canary)) (self.links(&[PromoteOrRollBack::Promote, PromoteOrRollBack::RollBack])) }
                    } @else {
                        section.card aria-label="Roll back" {
                            h2 { "Previous revision" }
                            @match &component.previous {
                                Some(digest) => p { code { (short(&digest.to_string())) } },
                                None => p.soft { "There is no previous revision." },
                            }
                            (self.links(&[PromoteOrRollBack::RollBack]))
                        }
                    }
                }
            }
            (self.swap_form(session))
        };
        page(status, &component.id, Some(session), notice, &content)
    }

    /// The page that says what a change will do.
    pub fn confirmation(&self, change: PromoteOrRollBack, session: &Session) -> AdminResponse {
        let (title, effect) = (title(change), self.effect(change));
        let has_effect = change != PromoteOrRollBack::Promote || self.component.canary.is_some();
        let content = html! {
            div.card.narrow {
                h1 { (title) " " (self.component.id) }
                p { (effect) }
                @if has_effect {
                    p { "No request fails or waits; requests under way end with the revision that they began with." (self.reach()) }
                    form method="post" action=(route::confirmation(&self.component.id, change)) {
                        (form_token(session))
                        (self.shown())
                        p.actions {
                            button { (title) }
                            a.button.quiet href=(route::component(&self.component.id)) { "Cancel" }
                        }
                    }
                } @else {
                    p.actions { a.button.quiet href=(route::component(&self.component.id)) { "To the component" } }
                }
            }
        };
        page(StatusCode::OK, title, Some(session), None, &content)
    }

    fn facts(&self) -> Markup {
        let component = self.component;
        let statistics = &component.statistics;
        html! {
            dl {
                (revision_facts(&component.current))
                dt { "requests" } dd { (number(statistics.requests)) }
                dt { "failed" } dd { (number(statistics.failed)) }
                dt { "instances made" } dd { (number(statistics.instantiations)) }
                dt { "ended early" } dd { (number(statistics.instance_failures)) }
                dt { "largest instance" } dd { (bytes(statistics.memory_peak)) " of " (bytes(component.limits.memory as u64)) }
                dt { "processor time" } dd { (duration(statistics.guest_busy)) }
                dt { "reads" } dd { (component.grants.read.join(", ")) }
                dt { "writes" } dd { (component.grants.write.join(", ")) }
                dt { "denied" } dd { (number(component.grants.denied)) }
            }
        }
    }

    fn links(&self, changes: &[PromoteOrRollBack]) -> Markup {
        html! {
            p.actions {
                @for change in changes {
                    a.button.quiet href=(route::confirmation(&self.component.id, *change)) { (title(*change)) "…" }
                }
            }
        }
    }

    fn swap_form(&self, session: &Session) -> Markup {
        let component = self.component;
        let window = format!("{}s", CanaryPolicy::default().window.as_secs());
        html! {
            section.card #swap aria-label="Swap" {
                h2 { "Serve another version" }
                @if component.canary.is_some() {
                    p.soft { "A canary is on trial. Promote it or roll it back first." }
                } @else {
                    p {
                        "The host compiles and checks the file while it serves. If the file passes, it replaces "
                        strong { (name(&component.current)) }
                        ". A rollback restores that revision. If the file does not pass, nothing changes. No request fails or waits."
                        (self.reach())
                    }
                    form method="post" action=(route::component(&component.id)) enctype="multipart/form-data" {
                        (form_token(session))
                        (self.shown())
                        div.fields {
                            label { "Percent of callers, for a trial" input name="percent" inputmode="decimal" placeholder="100"; }
                            label { "Time of the trial" input name="window" placeholder=(window); }
                            label { "Signature, in base64" input name="signature" autocomplete="off"; }
                        }
                        (self.left_out())
                        p.soft { "When the time of a trial is over, the host promotes a canary that does well." }
                        p { label { "Component (.wasm)" input type="file" name=(FILE) accept=".wasm,application/wasm" required; } }
                        p { label.check { input type="checkbox" name="confirmed" value="yes" required; "Serve this file to the callers of " (component.id) } }
                        button { "Swap" }
                    }
                }
            }
        }
    }

    /// The choice of hosts that a swap leaves out.
    fn left_out(&self) -> Markup {
        html! {
            @if !self.others.is_empty() {
                details {
                    summary { "Leave out hosts that are down or cannot serve it" }
                    p.soft { "Such a host takes no requests until it serves the component." }
                    @for host in self.others {
                        p { label.check { input type="checkbox" name=(WITHOUT) value=(host.name); (host.name) } }
                    }
                }
            }
        }
    }

    /// Hidden fields with the digests that the page shows. The host refuses the change if it serves other digests.
    fn shown(&self) -> Markup {
        html! {
            input type="hidden" name=(CURRENT) value=(self.component.current.digest);
            @if let Some(canary) = &self.component.canary {
                input type="hidden" name=(CANARY) value=(canary.served.digest);
            }
        }
    }

    fn effect(&self, change: PromoteOrRollBack) -> String {
        let current = name(&self.component.current);
        match (change, &self.component.canary, &self.component.previous) {
            (PromoteOrRollBack::Promote, Some(canary), _) => {
                format!("The trial ends, and all callers get {} in place of {current}.", name(&canary.served))
            }
            (PromoteOrRollBack::Promote, None, _) => "There is no canary to be promoted.".to_owned(),
            (PromoteOrRollBack::RollBack, Some(canary), _) => {
                format!("The trial of {} ends, and all callers get {current}.", name(&canary.served))
            }
            (PromoteOrRollBack::RollBack, None, Some(previous)) => {
                format!("All callers get {} again, in place of {current}.", short(&previous.to_string()))
            }
            (PromoteOrRollBack::RollBack, None, None) => {
                format!("There is no revision before {current} to roll back to.")
            }
        }
    }

    /// How many hosts a change concerns.
    fn reach(&self) -> Markup {
        html! { @if !self.others.is_empty() { " It concerns all " (self.others.len() + 1) " hosts of the store." } }
    }
}

fn canary_facts(canary: &CanaryStatus) -> Markup {
    html! {
        dl {
            (revision_facts(&canary.served))
            dt { "callers" } dd { (canary.percent) " %" }
            dt { "responses" } dd { (number(canary.responses)) }
            dt { "failed" } dd { (number(canary.failed)) }
            @match canary.missing_responses {
                missing @ 1.. if canary.seconds_left <= 0.0 => { dt { "waits for" } dd { (number(missing)) " more responses" } }
                _ => { dt { "left" } dd { (age(canary.seconds_left)) } }
            }
        }
    }
}

fn revision_facts(revision: &RevisionStatus) -> Markup {
    html! {
        dt { "version" } dd { (revision.version.as_deref().unwrap_or("–")) " #" (revision.revision) }
        dt { "digest" } dd { code { (revision.digest) } }
        @if let Some(at) = &revision.loaded_at { dt { "loaded" } dd { (at) } }
    }
}

fn title(change: PromoteOrRollBack) -> &'static str {
    match change {
        PromoteOrRollBack::Promote => "Promote",
        PromoteOrRollBack::RollBack => "Roll back",
    }
}

fn name(revision: &RevisionStatus) -> String {
    let version = revision.version.as_deref().unwrap_or_default();
    format!("{version} #{} ({})", revision.revision, short(&revision.digest.to_string())).trim_start().to_owned()
}

//! Experiments: their definitions and their gates.

use crate::layout::{self, Column, Content, Section, empty};
use crate::markdown::web_url;
use crate::page_context::{PageContext, PageError};
use http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use widgets::chart;

#[derive(Deserialize)]
struct Experiment {
    key: String,
    definition: Definition,
    current_status: Status,
}

#[derive(Deserialize)]
struct Definition {
    introduced_by_url: Option<String>,
    rollout_issue_url: Option<String>,
    milestone: Option<String>,
    group: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    state: String,
    #[serde(default)]
    gates: Vec<Gate>,
}

#[derive(Deserialize)]
struct Gate {
    key: String,
    value: Value,
}

pub async fn show(context: &PageContext<'_>) -> Result<Content, PageError> {
    let experiments: Vec<Experiment> =
        context.forge.get("experiments").await.map_err(|error| match error.status() {
            StatusCode::FORBIDDEN if !error.is_missing_scope() => PageError::Forbidden(
                "Experiments are shown to the members of the group that the setting operator_group names.".to_owned(),
            ),
            _ => error.into(),
        })?;
    let body = html! {
        div.head { h1 { "Experiments" } p.lead { "What is being tried out, and for whom it is on." } }
        @if experiments.is_empty() {
            (empty("No experiments", "An administrator imports their definitions; the gates are those of the feature of the same name."))
        }
        @if !experiments.is_empty() {
            div.card {
                (layout::table("Table of experiments", &[Column::text("Experiment"), Column::text("State"), Column::text("Gates"), Column::text("Since"), Column::text("Group"), Column::text("Links")], html! {
                    @for experiment in &experiments { (row(experiment)) }
                }))
            }
        }
    };
    Ok(Content::new("Experiments", Section::Experiments, body))
}

fn row(experiment: &Experiment) -> Markup {
    let Experiment { key, definition, current_status } = experiment;
    let link = |text: &str, url: &Option<String>| {
        let url = url.as_deref().and_then(web_url);
        html! { @if let Some(url) = url { a href=(url) rel="nofollow noopener noreferrer" { (text) } " " } }
    };
    html! {
        tr {
            th scope="row" { bdi { (key) } }
            td {
                @let state = current_status.state.as_str();
                span class={ "badge " (match state { "on" => "good", "conditional" => "warn", _ => "" }) } { (state) }
            }
            td {
                @for gate in &current_status.gates {
                    @match &gate.value {
                        Value::Number(share) => {
                            div {
                                bdi { (gate.key.replace('_', " ")) } ": " (share) " %" (chart::bar(share.as_f64().unwrap_or_default(), 100.0))
                            }
                        }
                        Value::Bool(is_open) => div {
                            bdi { (gate.key.replace('_', " ")) } ": " (if *is_open { "on" } else { "off" })
                        },
                        Value::Array(members) => {
                            div {
                                bdi { (gate.key.replace('_', " ")) } ": " @for member in members.iter().take(10) {
                                    span.badge { bdi { (member.as_str().unwrap_or_default()) } } " "
                                }
                            }
                        }
                        _ => {}
                    }
                }
            }
            td { @if let Some(milestone) = &definition.milestone { bdi { (milestone) } } }
            td { @if let Some(group) = &definition.group { bdi { (group) } } }
            td {
                (link("introduced by", &definition.introduced_by_url)) (link("rollout", &definition.rollout_issue_url))
            }
        }
    }
}

//! Product analytics of a project: a query by measures and dimensions, its chart and its table.

use crate::forge::ForgeError;
use crate::layout::{self, Column, Content, Section, code_line, empty, scope_links, shell_word};
use crate::page_context::{PageContext, PageError};
use crate::route::{self, Scope};
use http::{Method, StatusCode};
use kit::path::encode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use widgets::chart::{Chart, Form, Quantity, Series};

/// Rows that a query asks for, and that the chart shows.
const MAX_ROWS: u64 = 500;
const CHARTED_ROWS: usize = 60;

/// After how many seconds a page is reloaded while its result is being computed.
const REFRESH_SECONDS: u32 = 3;

const GRANULARITIES: [&str; 5] = ["day", "week", "month", "quarter", "year"];

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    cubes: Vec<Cube>,
}

#[derive(Deserialize)]
struct Cube {
    name: String,
    title: Option<String>,
    #[serde(default)]
    measures: Vec<Member>,
    #[serde(default)]
    dimensions: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    name: String,
    title: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl Member {
    fn is_time(&self) -> bool {
        self.kind.as_deref() == Some("time")
    }

    fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

pub async fn show(context: &PageContext<'_>, project: &str) -> Result<Content, PageError> {
    let scope = context.resolve(Scope::Project(project.to_owned())).await?;
    let (_, project) = scope.parameter().ok_or(PageError::NotFound)?;
    let endpoint = |name: &str| format!("projects/{}/product_analytics/request/{name}", encode(project));
    let meta: Result<Meta, _> = context.forge.get(&endpoint("meta")).await;
    let frame = |body: Markup| {
        html! {
            (scope_links(context.visitor, &scope, Section::Other))
            div.head { h1 { "Product analytics" } }
            (body)
        }
    };
    let title = format!("Analytics of {project}");
    let meta = match meta {
        Ok(meta) => meta,
        Err(error) if error.status() == StatusCode::NOT_FOUND => {
            // A visitor who may not see the project gets 404, too.
            let known: Option<Value> = context.forge.find(&format!("projects/{}", encode(project))).await?;
            known.ok_or(PageError::NotFound)?;
            return Ok(Content::new(title, Section::Other, frame(how_to_connect(context))));
        }
        Err(error) => return Err(error.into()),
    };
    let query = query(context, &meta)?;
    let mut content = Content::new(title, Section::Other, html! {});
    let result = match &query {
        None => html! {},
        Some(query) => {
            let name = context.choice("do", &["load", "dry-run"])?.unwrap_or("load");
            let body = json!({ "query": query, "queryType": "multi" });
            let answer = context.forge.send(Method::POST, &endpoint(name), Some(&body)).await;
            let shown = match answer {
                Ok(answer) => {
                    let answer: Value = answer.json()?;
                    let is_computing = answer.get("error").and_then(Value::as_str) == Some("Continue wait");
                    content.refresh = is_computing.then_some(REFRESH_SECONDS);
                    match (is_computing, name) {
                        (true, _) => {
                            html! {
                                div.alert role="status" {
                                    p { "The engine is still computing. This page looks again by itself." }
                                }
                            }
                        }
                        (_, "dry-run") => html! { div.card { h2 { "Dry run" } pre { code { (pretty(&answer)) } } } },
                        _ => rows(&meta, query, &answer),
                    }
                }
                Err(error) => {
                    let text = match &error {
                        ForgeError::Refused { reason, .. } => reason.clone(),
                        ForgeError::TooLong => {
                            "The result is larger than a page can show. Ask for fewer rows.".to_owned()
                        }
                        ForgeError::Unanswered(_) => "The engine did not answer.".to_owned(),
                    };
                    html! { div.alert.error role="alert" { p { (text) } } }
                }
            };
            html! { (shown) (as_curl(context, &endpoint("load"), &body)) }
        }
    };
    content.body = frame(html! { (form(context, project, &meta)) (result) });
    Ok(content)
}

fn how_to_connect(context: &PageContext<'_>) -> Markup {
    html! {
        (empty("No analytics engine is connected", "An administrator connects one, for projects in groups:"))
        div.card {
            h2 { "Connect an engine" }
            p { "With an administrator's token, name the engine and its key, and open the feature:" }
            (code_line(&format!("curl -X PUT -H \"PRIVATE-TOKEN: $TOKEN\" -d license=ultimate -d analytics_api_base_url=https://engine.example.com/ -d analytics_api_key=$KEY {}", route::public_endpoint(context.base, "application/settings"))))
            (code_line(&format!("curl -X POST -H \"PRIVATE-TOKEN: $TOKEN\" -d value=true {}", route::public_endpoint(context.base, "features/product_analytics_features"))))
            p.hint {
                "The operator allows the engine's address with the variable " code { "analytics_upstream" }
                "; any https address is allowed by default."
            }
        }
    }
}

/// The query of the form; `None` if no measure was chosen.
fn query(context: &PageContext<'_>, meta: &Meta) -> Result<Option<Value>, PageError> {
    let params = context.params;
    let chosen = |parameter: &str| params.list(parameter).unwrap_or_default();
    let (measures, dimensions, time) = (chosen("measures"), chosen("dimensions"), params.text("time"));
    if measures.is_empty() {
        return Ok(None);
    }
    let is_known = |name: &str| {
        let mut members = meta.cubes.iter().flat_map(|cube| cube.measures.iter().chain(&cube.dimensions));
        members.any(|member| member.name == name)
    };
    if let Some(unknown) = measures.iter().chain(&dimensions).chain(&time).find(|name| !is_known(name)) {
        return Err(PageError::Invalid(format!("There is no measure or dimension “{unknown}”.")));
    }
    let granularity = context.choice("granularity", &GRANULARITIES)?;
    let mut query = Map::new();
    query.insert("measures".into(), json!(measures));
    query.insert("dimensions".into(), json!(dimensions));
    query.insert("limit".into(), MAX_ROWS.into());
    if let Some(time) = time {
        let mut dimension = Map::new();
        dimension.insert("dimension".into(), time.into());
        if let Some(granularity) = granularity {
            dimension.insert("granularity".into(), granularity.into());
        }
        match (params.text("from"), params.text("to")) {
            (Some(from), Some(to)) => drop(dimension.insert("dateRange".into(), json!([from, to]))),
            (None, None) => {}
            _ => return Err(PageError::Invalid("A range of dates needs both its ends, or none.".to_owned())),
        }
        query.insert("timeDimensions".into(), json!([dimension]));
    }
    Ok(Some(Value::Object(query)))
}

fn form(context: &PageContext<'_>, project: &str, meta: &Meta) -> Markup {
    let chosen = |parameter: &str| context.params.list(parameter).unwrap_or_default();
    let (measures, dimensions) = (chosen("measures"), chosen("dimensions"));
    let time = context.params.text("time").unwrap_or_default();
    let granularity = context.params.text("granularity").unwrap_or("day");
    let boxes = |name: &'static str, members: Vec<&Member>, chosen: &[&str]| {
        html! {
            @for member in members {
                label.check {
                    input type="checkbox" name=(name) value=(member.name) checked[chosen.contains(&member.name.as_str())];
                    bdi { (member.title()) }
                }
            }
        }
    };
    html! {
        form.card action=(context.link(route::analytics(project))) {
            div.fields {
                @for cube in &meta.cubes {
                    fieldset {
                        legend { bdi { (cube.title.as_deref().unwrap_or(&cube.name)) } }
                        h3 { "Measures" }
                        (boxes("measures", cube.measures.iter().collect(), &measures))
                        h3 { "Dimensions" }
                        (boxes("dimensions", cube.dimensions.iter().filter(|member| !member.is_time()).collect(), &dimensions))
                    }
                }
            }
            div.fields {
                label { "By time of"
                    select name="time" {
                        option value="" { "(no time)" }
                        @for member in meta.cubes.iter().flat_map(|cube| &cube.dimensions).filter(|member| member.is_time()) {
                            option value=(member.name) selected[member.name == time] { (member.title()) }
                        }
                    }
                }
                label {
                    "In steps of" select name="granularity" {
                        @for step in GRANULARITIES { option value=(step) selected[step == granularity] { (step) } }
                    }
                }
                label { "From" input type="date" name="from" value=[context.params.text("from")]; }
                label { "To" input type="date" name="to" value=[context.params.text("to")]; }
            }
            div.actions {
                button name="do" value="load" { "Show" }
                button.quiet name="do" value="dry-run" { "Dry run" }
            }
        }
    }
}

/// The rows of a result, as a chart and as a table.
fn rows(meta: &Meta, query: &Value, answer: &Value) -> Markup {
    // A result of several queries has a list of results.
    let result = answer.get("results").and_then(|results| results.get(0)).unwrap_or(answer);
    let rows: Vec<&Map<String, Value>> =
        result.get("data").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object).collect();
    let names = |part: &str| -> Vec<String> {
        let list = query.get(part).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (measures, mut labels) = (names("measures"), names("dimensions"));
    if let Some(time) = query.pointer("/timeDimensions/0") {
        let name = time.get("dimension").and_then(Value::as_str).unwrap_or_default();
        let granularity = time.get("granularity").and_then(Value::as_str);
        labels.insert(0, granularity.map_or_else(|| name.to_owned(), |granularity| format!("{name}.{granularity}")));
    }
    let title = |name: &str| {
        let members = meta.cubes.iter().flat_map(|cube| cube.measures.iter().chain(&cube.dimensions));
        let found =
            members.into_iter().find(|member| name == member.name || name.starts_with(&format!("{}.", member.name)));
        found.map_or_else(|| name.to_owned(), |member| member.title().to_owned())
    };
    if rows.is_empty() {
        return empty("No rows", "Nothing was measured in this range. Try a longer one.");
    }
    let label = |row: &Map<String, Value>| {
        labels.iter().filter_map(|name| row.get(name)).map(text).collect::<Vec<_>>().join(" · ")
    };
    let shown: Vec<&Map<String, Value>> = rows.iter().copied().take(CHARTED_ROWS).collect();
    let axis: Vec<String> = shown.iter().map(|row| label(row)).collect();
    let series: Vec<Series> = measures
        .iter()
        .map(|name| Series {
            name: title(name),
            values: shown.iter().map(|row| row.get(name).map_or(0.0, value)).collect(),
        })
        .collect();
    let form = if query.get("timeDimensions").is_some() { Form::Lines } else { Form::Bars };
    let across = labels.first().map_or_else(String::new, |name| title(name));
    let heading = series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>().join(", ");
    let titles = |names: &[String]| names.iter().map(|name| title(name)).collect::<Vec<_>>();
    let (label_titles, measure_titles) = (titles(&labels), titles(&measures));
    let columns = label_titles.iter().map(|title| Column::text(title));
    let columns: Vec<_> = columns.chain(measure_titles.iter().map(|title| Column::numbers(title))).collect();
    html! {
        section.card aria-label="Result" {
            (Chart { title: &heading, label: &across, unit: "as measured", labels: &axis, series: &series, form, quantity: Quantity::Decimal }.render())
        }
        section.card aria-label="Rows" {
            h2 { "Rows " span.badge { (rows.len()) } }
            (layout::table("Rows of the result", &columns, html! {
                @for row in &rows {
                    tr {
                        @for name in &labels { td { bdi { (row.get(name).map(text).unwrap_or_default()) } } }
                        @for name in &measures { td.number { (row.get(name).map(text).unwrap_or_default()) } }
                    }
                }
            }))
        }
    }
}

/// The query as a command for a terminal.
fn as_curl(context: &PageContext<'_>, endpoint: &str, body: &Value) -> Markup {
    let url = route::public_endpoint(context.base, endpoint);
    let body = body.to_string();
    html! {
        details.card {
            summary { "Copy as curl" }
            (code_line(&format!("curl -H \"PRIVATE-TOKEN: $TOKEN\" -H 'Content-Type: application/json' -d {} {url}", shell_word(&body))))
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.strip_suffix("T00:00:00.000").unwrap_or(text).to_owned(),
        other => other.to_string(),
    }
}

fn value(value: &Value) -> f64 {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default();
    if number.is_finite() { number } else { 0.0 }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

//! Counts of issues: by filters, by month, and for labels and milestones side by side.

use crate::layout::{self, Column, Content, Section, number, scope_links};
use crate::page_context::{PageContext, PageError};
use crate::route::{self, Scope};
use futures::future::try_join_all;
use http::StatusCode;
use kit::Timestamp;
use kit::path::encode;
use maud::{Markup, html};
use serde::Deserialize;
use widgets::chart::{self, Chart, Form, Quantity, Series};

/// Months that the chart shows, up to the present one.
const MONTHS: i64 = 24;

/// Labels and milestones that are compared at once.
const MAX_COMPARED: usize = 12;

/// The filters of the API that the form has: the parameter, its name, and an example.
const FILTERS: [(&str, &str, &str); 9] = [
    ("search", "Words in title or description", "crash on start"),
    ("labels", "Labels, all of them", "bug, urgent"),
    ("milestone", "Milestone", "1.0"),
    ("author_username", "Author", "mia"),
    ("assignee_username", "Assignee", "dev"),
    ("my_reaction_emoji", "Your reaction", "thumbsup"),
    ("not[labels]", "Without the labels", "duplicate"),
    ("created_after", "Created from", ""),
    ("created_before", "Created before", ""),
];

#[derive(Deserialize)]
struct Answer {
    statistics: Statistics,
}

#[derive(Deserialize)]
struct Statistics {
    counts: Counts,
}

#[derive(Deserialize, Clone, Copy, Default)]
struct Counts {
    all: u64,
    opened: u64,
    closed: u64,
}

/// The filters in the query string, as parameters of the API.
fn filters(context: &PageContext<'_>) -> Result<Vec<(&'static str, String)>, PageError> {
    let given = FILTERS.iter().filter_map(|(name, ..)| Some((*name, context.params.text(name)?.trim().to_owned())));
    let mut filters: Vec<_> = given.filter(|(_, value)| !value.is_empty()).collect();
    // Without it, the API counts only the caller's own issues.
    let whose = context.choice("scope", &["all", "created_by_me", "assigned_to_me"])?;
    filters.push(("scope", whose.unwrap_or("all").to_owned()));
    if let Some(confidential) = context.choice("confidential", &["yes", "no"])? {
        filters.push(("confidential", (confidential == "yes").to_string()));
    }
    Ok(filters)
}

async fn count(
    context: &PageContext<'_>,
    scope: &Scope,
    filters: &[(&'static str, String)],
) -> Result<Counts, PageError> {
    let pairs = filters.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    let query = pairs.collect::<Vec<_>>().join("&");
    let answer: Answer = context.forge.get(&format!("{}?{query}", route::issues_statistics(scope))).await?;
    Ok(answer.statistics.counts)
}

/// The filters, with `more` in place of filters of equal names.
fn with(filters: &[(&'static str, String)], more: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
    let kept = filters.iter().filter(|(name, _)| !more.iter().any(|(other, _)| other == name));
    kept.chain(more).cloned().collect()
}

pub async fn show(context: &PageContext<'_>) -> Result<Content, PageError> {
    let scope = context.scope().await?;
    let filters = filters(context)?;
    // This count comes first, because the other counts may exhaust a limit on searches.
    let counts = count(context, &scope, &filters).await?;
    let (months, compared) = futures::try_join!(
        unless_limited(by_month(context, &scope, &filters)),
        unless_limited(compare(context, &scope, &filters))
    )?;
    let title = scope.parameter().map_or_else(|| "Issues".to_owned(), |(_, path)| format!("Issues of {path}"));
    let body = html! {
        (scope_links(context.visitor, &scope, Section::Issues))
        div.head { h1 { bdi { (title) } } p.lead { "How many there are, among those that you may see." } }
        (form(context, &scope))
        div.counts {
            div { "All" strong { (number(counts.all)) } }
            div { "Open" strong { (number(counts.opened)) } }
            div { "Closed" strong { (number(counts.closed)) } }
        }
        (months)
        (compared)
        p.hint {
            "The address of this page has all of the filters: whoever opens it counts the same, among the issues that they may see."
        }
    };
    Ok(Content::new(title, Section::Issues, body))
}

/// A part of the page, which needs many counts. If a rate limit refuses them, a hint replaces the part.
async fn unless_limited(part: impl Future<Output = Result<Markup, PageError>>) -> Result<Markup, PageError> {
    match part.await {
        Err(PageError::Forge(error)) if error.status() == StatusCode::TOO_MANY_REQUESTS => {
            Ok(html! { p.hint { "Months and comparisons need more searches than you may make in a minute." } })
        }
        part => part,
    }
}

fn form(context: &PageContext<'_>, scope: &Scope) -> Markup {
    let choices = |name: &'static str, label: &'static str, choices: &[(&'static str, &'static str)]| {
        let chosen = context.params.text(name).unwrap_or_default();
        html! {
            label { (label)
                select name=(name) {
                    @for (value, text) in choices { option value=(value) selected[*value == chosen] { (text) } }
                }
            }
        }
    };
    html! {
        form.card action=(context.link(route::ISSUES)) {
            @if let Some((name, value)) = scope.parameter() { input type="hidden" name=(name) value=(value); }
            div.fields {
                @for (name, label, example) in FILTERS {
                    label { (label)
                        @if name.starts_with("created_") {
                            input type="date" name=(name) value=[context.params.text(name)];
                        } @else {
                            input name=(name) value=[context.params.text(name)] placeholder=(example);
                        }
                    }
                }
                (choices("scope", "Whose", &[("all", "everybody's"), ("created_by_me", "created by me"), ("assigned_to_me", "assigned to me")]))
                (choices("confidential", "Confidential", &[("", "any"), ("yes", "yes"), ("no", "no")]))
                label {
                    "Compare labels" input name="compare_labels" value=[context.params.text("compare_labels")] placeholder="bug, feature, docs";
                }
                label {
                    "Compare milestones" input name="compare_milestones" value=[context.params.text("compare_milestones")] placeholder="1.0, 2.0";
                }
            }
            button { "Count" }
        }
    }
}

/// The issues that were created in each month, and how many of them are closed now.
async fn by_month(
    context: &PageContext<'_>,
    scope: &Scope,
    filters: &[(&'static str, String)],
) -> Result<Markup, PageError> {
    let months = months_until(&context.now.to_date());
    let counts = try_join_all(months.windows(2).map(|pair| {
        let filters = match pair {
            [month, next] => in_month(filters, month, next),
            _ => None,
        };
        async move {
            match filters {
                Some(filters) => count(context, scope, &filters).await,
                None => Ok(Counts::default()),
            }
        }
    }))
    .await?;
    let labels: Vec<String> = months.iter().take(counts.len()).cloned().collect();
    let values = |value: fn(&Counts) -> u64| counts.iter().map(|counts| value(counts) as f64).collect();
    let series = [
        Series { name: "closed by now".into(), values: values(|counts| counts.closed) },
        Series { name: "still open".into(), values: values(|counts| counts.opened) },
    ];
    let title = "Issues opened in each month, and what became of them";
    let chart = Chart {
        title,
        label: "month",
        unit: "issues",
        labels: &labels,
        series: &series,
        form: Form::Bars,
        quantity: Quantity::Count,
    };
    Ok(html! { section.card aria-label="By month" { (chart.render()) } })
}

/// The filters, restricted to issues created in a month; `None` if no issue can match. A range of the API includes both
/// ends.
fn in_month(filters: &[(&'static str, String)], month: &str, next: &str) -> Option<Vec<(&'static str, String)>> {
    let start = |month: &str| Timestamp::parse(&format!("{month}-01"));
    let given = |name| Timestamp::parse(&filters.iter().find(|(filter, _)| *filter == name)?.1);
    let last = Timestamp::from_millis(start(next)?.millis() - 1);
    let from = start(month)?.max(given("created_after").unwrap_or_default());
    let to = given("created_before").map_or(last, |before| last.min(before));
    let range = [("created_after", from.to_iso()), ("created_before", to.to_iso())];
    (from <= to).then(|| with(filters, &range))
}

/// The months up to that of `date`, as `YYYY-MM`, and the one after it.
fn months_until(date: &str) -> Vec<String> {
    let mut parts = date.split('-').map(|part| part.parse::<i64>().unwrap_or_default());
    let (year, month) = (parts.next().unwrap_or_default(), parts.next().unwrap_or(1));
    let last = year * 12 + month - 1;
    (last - MONTHS + 1..=last + 1)
        .map(|month| format!("{:04}-{:02}", month.div_euclid(12), month.rem_euclid(12) + 1))
        .collect()
}

/// The counts for each of the labels and milestones that are to be compared.
async fn compare(
    context: &PageContext<'_>,
    scope: &Scope,
    filters: &[(&'static str, String)],
) -> Result<Markup, PageError> {
    let list = |name| context.params.list(name).unwrap_or_default().into_iter().map(str::to_owned).take(MAX_COMPARED);
    let wanted: Vec<(&'static str, String)> = list("compare_labels")
        .map(|label| ("labels", label))
        .chain(list("compare_milestones").map(|name| ("milestone", name)))
        .collect();
    let counts = try_join_all(wanted.iter().map(|wanted| {
        let filters = with(filters, std::slice::from_ref(wanted));
        async move { count(context, scope, &filters).await }
    }))
    .await?;
    let largest = counts.iter().map(|counts| counts.all).max().unwrap_or_default() as f64;
    Ok(html! {
        @if !wanted.is_empty() {
            section.card aria-label="Side by side" {
                h2 { "Side by side" }
                (layout::table("Labels and milestones side by side", &[Column::text("Label or milestone"), Column::text("Share"), Column::numbers("All"), Column::numbers("Open"), Column::numbers("Closed")], html! {
                    @for ((kind, name), counts) in wanted.iter().zip(&counts) {
                        tr {
                            th scope="row" {
                                span.badge { (if *kind == "labels" { "label" } else { "milestone" }) }
                                " " bdi { (name) }
                            }
                            td { (chart::bar(counts.all as f64, largest)) }
                            td.number { (number(counts.all)) }
                            td.number { (number(counts.opened)) }
                            td.number { (number(counts.closed)) }
                        }
                    }
                }))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_cross_years() {
        let months = months_until("2026-01-15");
        assert_eq!(months.len(), 25);
        assert_eq!((months.first().unwrap().as_str(), months.last().unwrap().as_str()), ("2024-02", "2026-02"));
    }

    #[test]
    fn a_month_has_the_issues_of_the_range_that_are_created_in_it() {
        let of = |after: &str, before: &str, (month, next): (&str, &str)| {
            let given = [("created_after", after), ("created_before", before), ("search", "x")];
            let given = given.into_iter().filter(|(_, value)| !value.is_empty());
            let given: Vec<_> = given.map(|(name, value)| (name, value.to_owned())).collect();
            let range = in_month(&given, month, next)?;
            assert_eq!((range.len(), range.first().unwrap().1.as_str()), (3, "x"));
            Some(format!("{} {}", range.get(1).unwrap().1, range.get(2).unwrap().1))
        };
        let may = ("2025-05", "2025-06");
        let whole = Some("2025-05-01T00:00:00.000Z 2025-05-31T23:59:59.999Z".to_owned());
        for (after, before, expected) in [
            ("", "", whole.clone()),
            ("2025-01-01", "2026-01-01", whole),
            ("2025-05-10", "", Some("2025-05-10T00:00:00.000Z 2025-05-31T23:59:59.999Z".to_owned())),
            ("", "2025-05-10", Some("2025-05-01T00:00:00.000Z 2025-05-10T00:00:00.000Z".to_owned())),
            ("2025-06-01", "", None),
            ("", "2025-04-30", None),
            ("2025-05-20", "2025-05-10", None),
        ] {
            assert_eq!(of(after, before, may), expected, "{after} {before}");
        }
        assert!(of("", "", ("2025-12", "2026-01")).unwrap().ends_with("2025-12-31T23:59:59.999Z"));
    }
}

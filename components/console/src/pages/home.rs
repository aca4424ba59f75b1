//! The start page: a search over the packages that the visitor may read.

use crate::layout::{self, Content, Section, empty, number, pages};
use crate::page_context::{PageContext, PageError};
use crate::route::{self, Scope};
use kit::path::encode;
use maud::{Markup, html};
use serde::Deserialize;

/// Results of one page.
const PAGE: u64 = 20;

/// The most results of one answer. If all packages fit into it, the newest are shown first.
const MAX_ANSWER: u64 = 250;

#[derive(Deserialize)]
pub struct SearchResult {
    objects: Vec<Hit>,
    #[serde(default)]
    total: u64,
    #[serde(skip)]
    is_by_time: bool,
    #[serde(skip)]
    page: u64,
}

#[derive(Deserialize)]
struct Hit {
    package: Summary,
}

#[derive(Deserialize)]
struct Summary {
    name: String,
    version: String,
    description: Option<String>,
    keywords: Option<Vec<String>>,
    date: Option<String>,
    publisher: Option<Publisher>,
}

#[derive(Deserialize)]
struct Publisher {
    username: String,
}

/// The search in a scope for the text in the query string.
pub async fn search(context: &PageContext<'_>, scope: &Scope) -> Result<SearchResult, PageError> {
    let text = context.params.text("q").unwrap_or_default();
    let page = context.page()?;
    let from = (page - 1) * PAGE;
    let ask = async |size: u64, from: u64| -> Result<SearchResult, PageError> {
        let query = format!("text={}&size={size}&from={from}", encode(text));
        Ok(context.forge.get(&format!("{}/-/v1/search?{query}", route::registry(scope))).await?)
    };
    let page_of = |found: SearchResult| -> Result<SearchResult, PageError> {
        context.require_entries(page, found.objects.is_empty())?;
        Ok(SearchResult { page, ..found })
    };
    if !text.is_empty() {
        return page_of(ask(PAGE, from).await?);
    }
    // Without words all results score equally, so the newest come first.
    let mut found = ask(MAX_ANSWER, 0).await?;
    if found.total > MAX_ANSWER {
        return page_of(ask(PAGE, from).await?);
    }
    found.objects.sort_by(|one, other| other.package.date.cmp(&one.package.date));
    let (from, size) = (usize::try_from(from).unwrap_or(usize::MAX), usize::try_from(PAGE).unwrap_or(usize::MAX));
    found.objects = found.objects.into_iter().skip(from).take(size).collect();
    found.is_by_time = true;
    page_of(found)
}

/// The results, with links to their pages. `link` is the address of this page without its parameters.
pub fn results(context: &PageContext<'_>, scope: &Scope, found: &SearchResult, link: &str) -> Markup {
    let text = context.params.text("q").unwrap_or_default();
    let page = found.page;
    html! {
        div #results aria-live="polite" {
            @if found.objects.is_empty() {
                @if text.is_empty() {
                    (empty("No packages yet", "What is published here, and may be read by you, shows up on this page. Sign in to see private packages."))
                } @else {
                    (empty("Nothing found", "Try fewer words, or a part of the name. Private packages are found only by those who may read them."))
                }
            } @else {
                p.soft {
                    (number(found.total)) @if found.total == 1 { " package" } @else { " packages" }
                    @if found.is_by_time { ", the newest first" }
                }
                ul.list {
                    @for Hit { package } in &found.objects {
                        li {
                            h2 { a href=(context.link(route::package(&package.name, scope))) { bdi { (package.name) } } }
                            " " span.badge { bdi { (package.version) } }
                            @if let Some(description) = &package.description { p { bdi { (description) } } }
                            div.meta {
                                @if let Some(publisher) = &package.publisher { span { bdi { (publisher.username) } } }
                                @if let Some(date) = &package.date { span { "published " (layout::time(date)) } }
                                @for keyword in package.keywords.iter().flatten().take(8) {
                                    span.badge { bdi { (keyword) } }
                                }
                            }
                        }
                    }
                }
                (pages(page, page * PAGE < found.total, |page| {
                    let join = if link.contains('?') { '&' } else { '?' };
                    context.link(format_args!("{link}{join}q={}&page={page}", encode(text)))
                }))
            }
        }
    }
}

/// The form of the search, which keeps `scope`.
pub fn form(context: &PageContext<'_>, action: &str, scope: &Scope) -> Markup {
    html! {
        form.search action=(context.link(action)) role="search" data-live {
            @if let Some((name, value)) = scope.parameter() { input type="hidden" name=(name) value=(value); }
            input type="search" name="q" value=[context.params.text("q")] placeholder="Search packages by name, words, or scope:name" aria-label="Search packages";
            button { "Search" }
        }
    }
}

pub async fn show(context: &PageContext<'_>) -> Result<Content, PageError> {
    let scope = Scope::Instance;
    let found = search(context, &scope).await?;
    let is_searching = context.params.text("q").is_some();
    let body = html! {
        div.hero {
            h1 { "Packages of your forge" }
            @if !is_searching {
                p {
                    "npm packages, counts of issues, merge requests with suggestions, and analytics of your projects, in one small server."
                }
            }
            (form(context, route::HOME, &scope))
        }
        (results(context, &scope, &found, route::HOME))
    };
    Ok(Content::new("Packages", Section::Packages, body))
}

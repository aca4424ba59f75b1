//! The merge requests of a project.

use crate::layout::{self, Content, Section, empty, number, pages, scope_links};
use crate::page_context::{PageContext, PageError};
use crate::route::{self, Scope};
use http::Method;
use kit::path::encode;
use maud::{Markup, html};
use serde::Deserialize;

/// Merge requests of one page: an answer has room for them even if each has the longest description.
const PAGE: u64 = 15;

/// The states of the filter, and their names; the first is the default.
const STATES: [(&str, &str); 4] = [("opened", "Open"), ("merged", "Merged"), ("closed", "Closed"), ("all", "All")];

#[derive(Deserialize)]
struct MergeRequest {
    iid: u64,
    title: String,
    state: String,
    source_branch: String,
    target_branch: String,
    author: Option<Author>,
    created_at: Option<String>,
}

#[derive(Deserialize)]
struct Author {
    name: String,
}

pub async fn show(context: &PageContext<'_>) -> Result<Content, PageError> {
    let given = context.params.text("project").ok_or(PageError::NotFound)?;
    let scope = context.resolve(Scope::Project(given.to_owned())).await?;
    let (_, project) = scope.parameter().ok_or(PageError::NotFound)?;
    let search = context.params.text("q").unwrap_or_default();
    let states @ [default, ..] = STATES.map(|(state, _)| state);
    let state = context.choice("state", &states)?.unwrap_or(default);
    let page = context.page()?;
    let path = format!(
        "projects/{}/merge_requests?state={state}&search={}&page={page}&per_page={PAGE}",
        encode(project),
        encode(search)
    );
    let answer = context.forge.send(Method::GET, &path, None).await?;
    let merge_requests: Vec<MergeRequest> = answer.json()?;
    context.require_entries(page, merge_requests.is_empty())?;
    let has_next = answer.number("x-next-page").is_some();
    let link = |state: &str, page: u64| {
        let list = route::merge_request_list(&scope);
        context.link(format_args!("{list}&state={state}&q={}&page={page}", encode(search)))
    };
    let title = format!("Merge requests of {project}");
    let body = html! {
        (scope_links(context.visitor, &scope, Section::MergeRequests))
        div.head { h1 { "Merge requests" } }
        form.search action=(context.link(route::MERGE_REQUESTS)) role="search" data-live {
            input type="hidden" name="project" value=(project);
            input type="hidden" name="state" value=(state);
            input type="search" name="q" value=(search) placeholder="Search titles and descriptions" aria-label="Search merge requests";
            button { "Search" }
        }
        nav.tabs aria-label="States" {
            @for (other, name) in STATES {
                a href=(link(other, 1)) aria-current=[(other == state).then_some("page")] { (name) }
            }
        }
        div #results aria-live="polite" {
            @if merge_requests.is_empty() {
                (empty("No merge requests", "There is none in this state that you may see."))
            }
            @if let Some(total) = answer.number("x-total").filter(|total| *total > 0) {
                p.soft { (number(total)) @if total == 1 { " merge request" } @else { " merge requests" } }
            }
            ul.list { @for merge_request in &merge_requests { (entry(context, project, merge_request)) } }
            (pages(page, has_next, |page| link(state, page)))
        }
    };
    Ok(Content::new(title, Section::MergeRequests, body))
}

fn entry(context: &PageContext<'_>, project: &str, merge_request: &MergeRequest) -> Markup {
    let MergeRequest { iid, title, state, source_branch, target_branch, author, created_at } = merge_request;
    html! {
        li {
            h2 { a href=(context.link(route::merge_request(project, &iid.to_string()))) { bdi { (title) } } }
            " " (layout::merge_request_state(state))
            div.meta {
                span { "!" (iid) }
                @if let Some(author) = author { span { bdi { (author.name) } } }
                @if let Some(created_at) = created_at { span { "opened " (layout::time(created_at)) } }
                span { (layout::code(source_branch)) " → " (layout::code(target_branch)) }
            }
        }
    }
}

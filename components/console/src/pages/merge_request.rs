//! The discussions of a merge request, with suggestions as diffs; applying one, or several as one commit.

use crate::layout::{self, Content, Section, empty, form_token};
use crate::markdown;
use crate::route::{self, Scope};
use crate::visit::{Alert, PageError, Visit};
use http::Method;
use kit::params::Params;
use kit::path::encode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

/// Suggestions that are applied at once.
const MAX_SUGGESTIONS: usize = 100;

#[derive(Deserialize)]
struct Discussion {
    id: String,
    notes: Vec<Note>,
}

#[derive(Deserialize)]
struct Note {
    body: String,
    author: Option<Author>,
    created_at: String,
    #[serde(default)]
    suggestions: Vec<Suggestion>,
    #[serde(default)]
    position: Option<Position>,
}

#[derive(Deserialize)]
struct Author {
    username: String,
    name: String,
}

#[derive(Deserialize)]
struct Suggestion {
    id: u64,
    from_line: u64,
    #[serde(default)]
    appliable: bool,
    #[serde(default)]
    applied: bool,
    from_content: String,
    to_content: String,
}

#[derive(Deserialize)]
struct Position {
    new_path: Option<String>,
    old_path: Option<String>,
}

/// What the list of merge requests tells; some services do not have it.
#[derive(Deserialize)]
struct MergeRequest {
    title: Option<String>,
    state: Option<String>,
    source_branch: Option<String>,
    target_branch: Option<String>,
}

pub async fn show(visit: &Visit<'_>, project: &str, iid: &str) -> Result<Content, PageError> {
    let base = format!("projects/{}/merge_requests/{}", encode(project), encode(iid));
    let path = format!("{base}/discussions?per_page=100&page={}", visit.page());
    let (discussions, merge_request) =
        futures::try_join!(visit.forge.send(Method::GET, &path, None), visit.forge.find::<MergeRequest>(&base),)?;
    let has_next = discussions.number("x-next-page").is_some();
    let discussions: Vec<Discussion> = discussions.json()?;
    let title = merge_request.as_ref().and_then(|merge_request| merge_request.title.clone());
    let title = title.unwrap_or_else(|| format!("Merge request !{iid}"));
    let action = route::merge_request(project, iid);
    let can_apply = visit.visitor.is_signed_in
        && discussions
            .iter()
            .flat_map(|discussion| &discussion.notes)
            .flat_map(|note| &note.suggestions)
            .any(|s| s.appliable);
    let body = html! {
        (layout::scope_links(&Scope::Project(project.to_owned()), Section::MergeRequests))
        div.head {
            h1 { bdi { (title) } " " span.soft { "!" (iid) } }
            @if let Some(MergeRequest { state, source_branch, target_branch, .. }) = &merge_request {
                p.lead {
                    @if let Some(state) = state { (layout::merge_request_state(state)) " " }
                    @if let (Some(source), Some(target)) = (source_branch, target_branch) {
                        code { (source) } " → " code { (target) }
                    }
                }
            }
        }
        @if discussions.is_empty() { (empty("No discussions", "Comments with suggestions show up here.")) }
        form method="post" action=(action) {
            (form_token(visit.visitor))
            @for discussion in &discussions {
                article.card id={ "discussion-" (discussion.id) } {
                    @for note in &discussion.notes { (show_note(note, can_apply)) }
                }
            }
            @if can_apply {
                div.card {
                    h2 { "Apply the chosen suggestions" }
                    div.actions {
                        label {
                            "Commit message (none: the project's own)" input name="commit_message" maxlength="2000";
                        }
                        button name="action" value="batch" { "Apply as one commit" }
                    }
                }
            }
        }
        (layout::pages(visit.page(), has_next, |page| format!("{action}?page={page}")))
    };
    Ok(Content::new(title, Section::MergeRequests, body))
}

fn show_note(note: &Note, can_apply: bool) -> Markup {
    let file = note.position.as_ref().and_then(|position| position.new_path.as_ref().or(position.old_path.as_ref()));
    html! {
        div.meta {
            @if let Some(author) = &note.author { strong title=(author.username) { bdi { (author.name) } } }
            (layout::time(&note.created_at))
        }
        div.text { (markdown::render(&without_suggestions(&note.body), None)) }
        @for suggestion in &note.suggestions {
            (diff(file.map(String::as_str), suggestion))
            p.actions {
                @if suggestion.applied {
                    span.badge.good { "applied" }
                } @else if suggestion.appliable && can_apply {
                    label.check {
                        input type="checkbox" name="ids" value=(suggestion.id); "Choose suggestion " (suggestion.id)
                    }
                    button.quiet name="one" value=(suggestion.id) { "Apply this one" }
                } @else if suggestion.appliable {
                    span.soft { "Sign in to apply it." }
                } @else {
                    span.badge.warn { "cannot be applied" }
                    span.soft {
                        "Its lines or its branch have changed since, it matches the file already, or the merge request is closed."
                    }
                }
            }
        }
    }
}

/// A suggestion as a diff: the lines as they are, and as they would be.
fn diff(file: Option<&str>, suggestion: &Suggestion) -> Markup {
    let place = format!("{}, from line {}", file.unwrap_or("the file"), suggestion.from_line);
    html! {
        div.diff role="region" tabindex="0" aria-label={ "Suggestion for " (place) } {
            span.place { bdi { (place) } }
            @for (index, line) in suggestion.from_content.lines().enumerate() {
                div.old {
                    span.nr { (suggestion.from_line + index as u64) } span aria-label="removed" { "-" } span { (line) }
                }
            }
            @for (index, line) in suggestion.to_content.lines().enumerate() {
                div.new {
                    span.nr { (suggestion.from_line + index as u64) } span aria-label="added" { "+" } span { (line) }
                }
            }
        }
    }
}

/// A comment without the blocks that are shown as diffs.
fn without_suggestions(body: &str) -> String {
    let mut kept = String::with_capacity(body.len());
    let mut fence: Option<String> = None;
    for line in body.lines() {
        let marks: String = line.trim_start().chars().take_while(|c| matches!(c, '`' | '~')).collect();
        match &fence {
            Some(open) => {
                if marks.starts_with(open.as_str()) {
                    fence = None;
                }
            }
            None if marks.len() >= 3 && line.trim_start().trim_start_matches(['`', '~']).starts_with("suggestion") => {
                fence = Some(marks);
            }
            None => {
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }
    kept
}

pub async fn submit(visit: &Visit<'_>, form: &Params) -> Result<Alert, PageError> {
    let message = form.text("commit_message").map(str::trim).filter(|message| !message.is_empty());
    if let Some(id) = form.text("one") {
        let path = format!("suggestions/{}/apply", encode(id));
        visit.forge.send(Method::PUT, &path, Some(&json!({ "commit_message": message }))).await?;
        return Ok(Alert::success(format!("Suggestion {id} is applied: its branch has a new commit.")));
    }
    let ids: Vec<u64> = form.list("ids").unwrap_or_default().iter().filter_map(|id| id.parse().ok()).collect();
    match ids.len() {
        0 => Err(PageError::Invalid("Choose at least one suggestion.".to_owned())),
        count if count > MAX_SUGGESTIONS => {
            Err(PageError::Invalid(format!("At most {MAX_SUGGESTIONS} suggestions are applied at once.")))
        }
        count => {
            let body = json!({ "ids": ids, "commit_message": message });
            visit.forge.send(Method::PUT, "suggestions/batch_apply", Some(&body)).await?;
            Ok(Alert::success(format!("{count} suggestions are applied, as one commit.")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_not_shown_twice() {
        let body =
            "Shorter:\n```suggestion:-0+1\nlet x = 1;\n```\nand\n```js\nkeep();\n```\n````suggestion\n```\n````\nend";
        assert_eq!(without_suggestions(body), "Shorter:\nand\n```js\nkeep();\n```\nend\n");
    }
}

//! The discussions of a merge request, with suggestions as diffs; applying one, or several as one commit.

use crate::forge::{Answer, ForgeError};
use crate::layout::{self, Content, Section, empty, form_token};
use crate::markdown::{self, Budget};
use crate::page_context::{self, Alert, DEVELOPER, PageContext, PageError};
use crate::route::{self, Scope};
use http::{Method, StatusCode};
use kit::params::Params;
use kit::path::encode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;

/// The most bytes of all differences of a page, and the bytes of a line besides its text.
const MAX_DIFFS: usize = 4 << 20;
const MARKUP_OF_LINE: usize = 200;

/// The id of the form that applies one suggestion.
const SINGLE: &str = "apply-one";

/// The most suggestions that are applied at once.
const MAX_SUGGESTIONS: usize = 100;

/// A merge request, as the list of merge requests has it; some services do not have the list.
#[derive(Deserialize)]
struct MergeRequest {
    title: Option<String>,
    description: Option<String>,
    state: Option<String>,
    source_branch: Option<String>,
    target_branch: Option<String>,
    source_project_id: Option<u64>,
    target_project_id: Option<u64>,
    #[serde(default)]
    allow_collaboration: bool,
}

pub async fn show(context: &PageContext<'_>, project: &str, iid: &str) -> Result<Content, PageError> {
    let base = format!("projects/{}/merge_requests/{}", encode(project), encode(iid));
    let scope = context.resolve(Scope::Project(project.to_owned())).await?;
    let (discussions, merge_request) = futures::try_join!(DiscussionPage::load(context, project, iid), async {
        Ok(context.forge.find::<MergeRequest>(&base).await?)
    })?;
    let DiscussionPage { discussions, left_out, page, has_next } = discussions;
    context.require_entries(page, discussions.is_empty() && left_out == 0)?;
    let title = merge_request.as_ref().and_then(|merge_request| merge_request.title.clone());
    let title = title.unwrap_or_else(|| format!("Merge request !{iid}"));
    let description = merge_request.as_ref().and_then(|merge_request| merge_request.description.as_deref());
    let link = context.link(route::merge_request(project, iid));
    // A form is about the discussions of its page.
    let action = if page > 1 { format!("{link}?page={page}") } else { link.clone() };
    let shown = shown(&discussions);
    let is_any_appliable =
        suggestions(&discussions).any(|suggestion| suggestion.appliable && shown.contains(&suggestion.id));
    let can_apply = is_any_appliable && may_push(context, project, merge_request.as_ref()).await?;
    let budget = Budget::default();
    let body = html! {
        (layout::scope_links(context.visitor, &scope, Section::MergeRequests))
        div.head {
            h1 { bdi { (title) } " " span.soft { "!" (iid) } }
            @if let Some(MergeRequest { state, source_branch, target_branch, .. }) = &merge_request {
                p.lead {
                    @if let Some(state) = state { (layout::merge_request_state(state)) " " }
                    @if let (Some(source), Some(target)) = (source_branch, target_branch) {
                        (layout::code(source)) " → " (layout::code(target))
                    }
                }
            }
        }
        @if let Some(description) = description.filter(|description| !description.trim().is_empty()) {
            section.card aria-label="Description" { (markdown::show(description, None, &budget)) }
        }
        @if left_out > 0 {
            p.alert.warn role="note" {
                (left_out) " of the discussions here are too long for this page, and left out. The API has them, one by one."
            }
        }
        @if discussions.is_empty() && left_out == 0 { (empty("No discussions", "Comments with suggestions show up here.")) }
        // A separate form, because Enter in a field presses the first button of the field's form.
        @if can_apply {
            form id=(SINGLE) method="post" action=(action) { (form_token(context.visitor)) }
        }
        form method="post" action=(action) {
            (form_token(context.visitor))
            @for discussion in &discussions {
                article.card id={ "discussion-" (discussion.id) } {
                    @for note in &discussion.notes { (show_note(note, context.visitor.is_signed_in, can_apply, &shown, &budget)) }
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
        (layout::pages(page, has_next, |page| format!("{link}?page={page}")))
    };
    Ok(Content::new(title, Section::MergeRequests, body))
}

fn suggestions(discussions: &[Discussion]) -> impl Iterator<Item = &Suggestion> {
    discussions.iter().flat_map(|discussion| &discussion.notes).flat_map(|note| &note.suggestions)
}

/// Whether the visitor may push to the source branch, judged by access levels. Developers of the source project may.
/// Developers of the target project may if the author allows it.
async fn may_push(
    context: &PageContext<'_>,
    project: &str,
    merge_request: Option<&MergeRequest>,
) -> Result<bool, PageError> {
    let (source, target, is_shared) = match merge_request {
        Some(merge_request) => {
            (merge_request.source_project_id, merge_request.target_project_id, merge_request.allow_collaboration)
        }
        None => (None, None, false),
    };
    let source_id = source.map_or_else(|| project.to_owned(), |id| id.to_string());
    let Some(rights) = page_context::load_access_level(context, &source_id).await? else { return Ok(false) };
    if rights.level >= DEVELOPER || !is_shared || source == target {
        return Ok(rights.level >= DEVELOPER);
    }
    let target = page_context::load_access_level(context, project).await?;
    Ok(target.is_some_and(|rights| rights.level >= DEVELOPER))
}

/// The suggestions whose differences a page shows, in order, as long as they fit. The page applies only these
/// suggestions.
fn shown(discussions: &[Discussion]) -> BTreeSet<u64> {
    let mut left = MAX_DIFFS;
    let fits = |suggestion: &&Suggestion| match left.checked_sub(suggestion.markup_size()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    suggestions(discussions).filter(fits).map(|suggestion| suggestion.id).collect()
}

impl Suggestion {
    /// The most bytes that its difference takes in a page.
    fn markup_size(&self) -> usize {
        let size = |text: &str| text.lines().count() * MARKUP_OF_LINE + layout::revealed_size(text);
        size(&self.from_content) + size(&self.to_content)
    }
}

fn show_note(note: &Note, is_signed_in: bool, can_apply: bool, shown: &BTreeSet<u64>, budget: &Budget) -> Markup {
    let file = note.position.as_ref().and_then(|position| position.new_path.as_ref().or(position.old_path.as_ref()));
    html! {
        div.meta {
            @if let Some(author) = &note.author { strong title=(author.username) { bdi { (author.name) } } }
            (layout::time(&note.created_at))
            @if note.internal { " " span.badge.warn title="Only Reporters of the project see this comment." { "internal" } }
        }
        @if note.suggestions.is_empty() {
            (markdown::show(&note.body, None, budget))
        } @else {
            (markdown::show(&markdown::without_suggestions(&note.body, budget), None, budget))
        }
        @for suggestion in &note.suggestions {
            @let is_shown = shown.contains(&suggestion.id);
            @if is_shown { (diff(file.map(String::as_str), suggestion)) }
            p.actions {
                @if suggestion.applied {
                    span.badge.good { "applied" }
                } @else if !is_shown {
                    span.soft {
                        "Suggestion " (suggestion.id) " is too long for this page, which does not apply it. The API does."
                    }
                } @else if suggestion.appliable && can_apply {
                    label.check {
                        input type="checkbox" name="ids" value=(suggestion.id); "Choose suggestion " (suggestion.id)
                    }
                    button.quiet form=(SINGLE) name="one" value=(suggestion.id) { "Apply this one" }
                } @else if suggestion.appliable && is_signed_in {
                    span.soft { "Who may push to the source branch can apply it." }
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

/// A suggestion as a diff: the current lines, and the suggested lines.
fn diff(file: Option<&str>, suggestion: &Suggestion) -> Markup {
    let Suggestion { from_line, from_content, to_content, .. } = suggestion;
    let file = file.unwrap_or("the file");
    html! {
        @if layout::has_controls(from_content) || layout::has_controls(to_content) {
            p.alert.warn role="note" {
                "These lines have invisible characters. Programs read them, and some change the order in which text is shown. They are named below; look at them before you apply the suggestion."
            }
        }
        div.diff role="region" tabindex="0" aria-label=(format!("Suggestion for {file}, from line {from_line}")) {
            span.place { bdi { (layout::revealed(file)) } ", from line " (from_line) }
            @for (index, line) in from_content.lines().enumerate() {
                div.old {
                    span.nr { (from_line + index as u64) } span aria-label="removed" { "-" } span { bdi dir="ltr" { (layout::revealed(line)) } }
                }
            }
            @for (index, line) in to_content.lines().enumerate() {
                div.new {
                    span.nr { (from_line + index as u64) } span aria-label="added" { "+" } span { bdi dir="ltr" { (layout::revealed(line)) } }
                }
            }
        }
    }
}

pub async fn submit(context: &PageContext<'_>, project: &str, iid: &str, form: &Params) -> Result<Alert, PageError> {
    let message = form.text("commit_message").map(str::trim).filter(|message| !message.is_empty());
    let given = match form.text("one") {
        Some(id) => vec![id],
        None => form.list("ids").unwrap_or_default(),
    };
    let unknown = || PageError::Invalid("There is no such suggestion.".to_owned());
    let ids: Vec<u64> = given.iter().map(|id| id.parse().map_err(|_| unknown())).collect::<Result<_, _>>()?;
    if ids.is_empty() {
        return Err(PageError::Invalid("Choose at least one suggestion.".to_owned()));
    }
    if ids.len() > MAX_SUGGESTIONS {
        return Err(PageError::Invalid(format!("At most {MAX_SUGGESTIONS} suggestions are applied at once.")));
    }
    check_shown(context, project, iid, &ids).await?;
    match ids.as_slice() {
        [id] => {
            let path = format!("suggestions/{id}/apply");
            context.forge.send(Method::PUT, &path, Some(&json!({ "commit_message": message }))).await?;
            Ok(Alert::success(format!("Suggestion {id} is applied, as one commit on its branch.")))
        }
        _ => {
            let body = json!({ "ids": ids, "commit_message": message });
            context.forge.send(Method::PUT, "suggestions/batch_apply", Some(&body)).await?;
            Ok(Alert::success(format!("{} suggestions are applied, as one commit.", ids.len())))
        }
    }
}

/// Refuses suggestions that the page of the form does not show, such as suggestions of another merge request: the
/// visitor has not seen them.
async fn check_shown(context: &PageContext<'_>, project: &str, iid: &str, ids: &[u64]) -> Result<(), PageError> {
    let shown = shown(&DiscussionPage::load(context, project, iid).await?.discussions);
    match ids.iter().find(|id| !shown.contains(id)) {
        Some(id) => Err(PageError::Invalid(format!("Suggestion {id} is not on this page of this merge request."))),
        None => Ok(()),
    }
}

/// Discussions of one page.
const DISCUSSIONS: u64 = 20;

/// The most bytes of their JSON in a page, if they are loaded one by one.
const MAX_BYTES: usize = 24 << 20;

#[derive(Deserialize)]
pub struct Discussion {
    pub id: String,
    pub notes: Vec<Note>,
}

#[derive(Deserialize)]
pub struct Note {
    pub body: String,
    pub author: Option<Author>,
    pub created_at: String,
    /// Only Reporters see it.
    #[serde(default)]
    pub internal: bool,
    #[serde(default)]
    pub suggestions: Vec<Suggestion>,
    pub position: Option<Position>,
}

#[derive(Deserialize)]
pub struct Author {
    pub username: String,
    pub name: String,
}

#[derive(Deserialize)]
pub struct Suggestion {
    pub id: u64,
    pub from_line: u64,
    #[serde(default)]
    pub appliable: bool,
    #[serde(default)]
    pub applied: bool,
    pub from_content: String,
    pub to_content: String,
}

#[derive(Deserialize)]
pub struct Position {
    pub new_path: Option<String>,
    pub old_path: Option<String>,
}

/// The discussions of one page.
#[derive(Default)]
pub struct DiscussionPage {
    pub discussions: Vec<Discussion>,
    /// How many discussions are too long to be shown.
    pub left_out: usize,
    pub page: u64,
    pub has_next: bool,
}

impl DiscussionPage {
    /// The requested page. If its discussions are too long for one answer, they are loaded one by one. So a few long
    /// texts do not hide the others.
    pub async fn load(context: &PageContext<'_>, project: &str, iid: &str) -> Result<Self, PageError> {
        let request = DiscussionRequest { context, project, iid };
        let page = context.page()?;
        let answer = match request.send(DISCUSSIONS, page).await {
            Err(error) if is_too_long(&error) => return request.load_each(page).await,
            answer => answer?,
        };
        Ok(DiscussionPage { discussions: answer.json()?, left_out: 0, page, has_next: has_next(&answer) })
    }
}

struct DiscussionRequest<'a> {
    context: &'a PageContext<'a>,
    project: &'a str,
    iid: &'a str,
}

impl DiscussionRequest<'_> {
    async fn send(&self, per_page: u64, page: u64) -> Result<Answer, ForgeError> {
        let (project, iid) = (encode(self.project), encode(self.iid));
        let path = format!("projects/{project}/merge_requests/{iid}/discussions?per_page={per_page}&page={page}");
        self.context.forge.send(Method::GET, &path, None).await
    }

    async fn load_each(&self, page: u64) -> Result<DiscussionPage, PageError> {
        let first = (page - 1) * DISCUSSIONS + 1;
        let mut page = DiscussionPage { page, ..DiscussionPage::default() };
        let mut left = MAX_BYTES;
        for number in first..first + DISCUSSIONS {
            let answer = match self.send(1, number).await {
                Err(error) if is_too_long(&error) => {
                    page.left_out += 1;
                    continue;
                }
                answer => answer?,
            };
            page.has_next = has_next(&answer);
            match left.checked_sub(answer.body.len()) {
                Some(rest) => {
                    left = rest;
                    page.discussions.extend(answer.json::<Vec<Discussion>>()?);
                }
                None => page.left_out += 1,
            }
            if !page.has_next {
                break;
            }
        }
        Ok(page)
    }
}

fn has_next(answer: &Answer) -> bool {
    answer.number("x-next-page").is_some()
}

/// The API answers 400 if an answer would be too long.
fn is_too_long(error: &ForgeError) -> bool {
    matches!(error, ForgeError::TooLong) || error.status() == StatusCode::BAD_REQUEST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discussion(id: u64, to_content: &str) -> Discussion {
        let suggestion = json!({"id": id, "from_line": 1, "applied": false, "appliable": true, "from_content": "a",
            "to_content": to_content});
        let note = json!({"body": "", "created_at": "2026-01-02T03:04:05Z", "suggestions": [suggestion]});
        serde_json::from_value(json!({"id": id.to_string(), "notes": [note]})).unwrap()
    }

    #[test]
    fn differences_that_do_not_fit_into_a_page_are_left_out() {
        let (lines, signs) = ("\n".repeat(990_000), "\u{202e}".repeat(650_000));
        let discussions = [(1, "b"), (2, &*lines), (3, &*signs), (4, "c")].map(|(id, text)| discussion(id, text));
        assert_eq!(shown(&discussions), BTreeSet::from([1, 4]));
        let page: usize = suggestions(&discussions)
            .filter(|suggestion| shown(&discussions).contains(&suggestion.id))
            .map(|suggestion| diff(None, suggestion).into_string().len())
            .sum();
        assert!(page < MAX_DIFFS, "{page}");
    }

    #[test]
    fn the_size_of_a_difference_is_not_underestimated() {
        let sizes = |text: &str| {
            let discussions = [discussion(1, text)];
            let suggestion = suggestions(&discussions).next().unwrap();
            (diff(None, suggestion).into_string().len(), suggestion.markup_size())
        };
        let (frame, _) = sizes("");
        for text in ["", "a", "<&>\"\n", "\u{202e}\u{200b}", &"a\n".repeat(1000), &"\u{10ffff}<".repeat(100)] {
            let (size, most) = sizes(text);
            // The warning adds up to 400 bytes once.
            assert!(size - frame <= most + 400, "{text:?}: {size} > {most}");
        }
    }
}

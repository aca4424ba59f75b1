//! The discussions of a merge request, from the API.

use crate::forge::{Answer, ForgeError};
use crate::page_context::{PageContext, PageError};
use http::{Method, StatusCode};
use kit::path::encode;
use serde::Deserialize;

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
    #[serde(default)]
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

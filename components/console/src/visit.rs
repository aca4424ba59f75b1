//! One visit of a page: the visitor, the parameters, and the outcome.

use crate::forge::{Forge, ForgeError};
use crate::route::Scope;
use http::StatusCode;
use kit::Timestamp;
use kit::params::Params;
use kit::path::encode;
use serde::Deserialize;

/// The visitor's user, as the API tells.
#[derive(Debug, Clone, Deserialize)]
pub struct User {
    pub username: String,
    pub name: String,
    #[serde(default)]
    pub is_admin: bool,
}

/// The visitor of a page.
#[derive(Debug, Clone, Default)]
pub struct Visitor {
    /// Whether there is a token. With too few scopes, it does not tell its user.
    pub is_signed_in: bool,
    pub user: Option<User>,
    /// For the page's forms.
    pub form_token: String,
}

/// A visit.
pub struct Visit<'a> {
    pub forge: Forge<'a>,
    pub visitor: &'a Visitor,
    /// Of the query string.
    pub params: &'a Params,
    /// The service's base URL as clients see it, without a slash at its end.
    pub base: &'a str,
    pub now: Timestamp,
}

/// How the API names a group or a project.
#[derive(Deserialize)]
struct Named {
    #[serde(alias = "path_with_namespace")]
    full_path: String,
}

/// A message at the top of a page.
#[derive(Debug, Clone)]
pub struct Alert {
    pub is_error: bool,
    pub text: String,
    /// A secret that is shown this once.
    pub secret: Option<String>,
}

/// Why there is no page.
#[derive(Debug)]
pub enum PageError {
    Forge(ForgeError),
    /// There is no such page, or the visitor may not know of it.
    NotFound,
    /// A form has an invalid value; a sentence for the visitor.
    Invalid(String),
    /// The API refuses; the text says which users may.
    Forbidden(String),
}

impl Visit<'_> {
    pub fn is_admin(&self) -> bool {
        self.visitor.user.as_ref().is_some_and(|user| user.is_admin)
    }

    /// The scope that the page's `project` or `group` names.
    pub async fn scope(&self) -> Result<Scope, PageError> {
        self.named(Scope::of(self.params.text("project"), self.params.text("group"))).await
    }

    /// The scope by its full path, which headings and links show, if it was given by its id.
    pub async fn named(&self, scope: Scope) -> Result<Scope, PageError> {
        let is_id = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
        let path = match &scope {
            Scope::Project(id) if is_id(id) => format!("projects/{}", encode(id)),
            Scope::Group(id) if is_id(id) => format!("groups/{}", encode(id)),
            _ => return Ok(scope),
        };
        Ok(match (self.forge.find::<Named>(&path).await?, scope) {
            (Some(found), Scope::Project(_)) => Scope::Project(found.full_path),
            (Some(found), _) => Scope::Group(found.full_path),
            // The page itself says that there is none.
            (None, scope) => scope,
        })
    }

    /// The number of the page of a list, from 1.
    pub fn page(&self) -> u64 {
        self.params
            .text("page")
            .and_then(|page| page.parse().ok())
            .filter(|page| (1..=1_000_000).contains(page))
            .unwrap_or(1)
    }
}

impl Alert {
    pub fn success(text: impl Into<String>) -> Self {
        Alert { is_error: false, text: text.into(), secret: None }
    }

    pub fn error(text: impl Into<String>) -> Self {
        Alert { is_error: true, text: text.into(), secret: None }
    }
}

impl From<ForgeError> for PageError {
    fn from(error: ForgeError) -> Self {
        PageError::Forge(error)
    }
}

impl PageError {
    pub fn status(&self) -> StatusCode {
        match self {
            PageError::Forge(error) => error.status(),
            PageError::NotFound => StatusCode::NOT_FOUND,
            PageError::Invalid(_) => StatusCode::BAD_REQUEST,
            PageError::Forbidden(_) => StatusCode::FORBIDDEN,
        }
    }
}

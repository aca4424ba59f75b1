//! The context of a page: its visitor, its parameters, and its errors.

use crate::forge::{Forge, ForgeError};
use crate::route::Scope;
use http::StatusCode;
use kit::Timestamp;
use kit::params::Params;
use kit::path::encode;
use serde::Deserialize;
use std::fmt::Display;

/// The visitor's user, from the API.
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
    /// Whether the session has a token. If its scopes are too few, the user is unknown.
    pub is_signed_in: bool,
    pub user: Option<User>,
    /// For the page's forms.
    pub form_token: String,
    /// The path of the service's base URL, which every link begins with; empty at the root of a host.
    pub root: String,
}

impl Visitor {
    /// A link to an address of this console.
    pub fn link(&self, address: impl Display) -> String {
        format!("{}{address}", self.root)
    }
}

/// The inputs of a page.
pub struct PageContext<'a> {
    pub forge: Forge<'a>,
    pub visitor: &'a Visitor,
    /// The parameters of the query string.
    pub params: &'a Params,
    /// The service's base URL as clients see it, without a slash at its end.
    pub base: &'a str,
    pub now: Timestamp,
}

/// The full path of a group or a project, from the API.
#[derive(Deserialize)]
struct FullPath {
    #[serde(alias = "path_with_namespace")]
    full_path: String,
}

/// A message at the top of a page.
#[derive(Debug, Clone)]
pub struct Alert {
    pub is_error: bool,
    pub text: String,
    /// A secret that is shown only once.
    pub secret: Option<String>,
}

/// Why a page cannot be shown.
#[derive(Debug)]
pub enum PageError {
    Forge(ForgeError),
    /// There is no such page, or the visitor may not know of it.
    NotFound,
    /// A parameter names something that does not exist; a sentence for the visitor.
    Missing(String),
    /// A form has an invalid value; a sentence for the visitor.
    Invalid(String),
    /// The API refused; the text says which users are permitted.
    Forbidden(String),
}

impl PageContext<'_> {
    pub fn is_admin(&self) -> bool {
        self.visitor.user.as_ref().is_some_and(|user| user.is_admin)
    }

    /// A link to an address of this console.
    pub fn link(&self, address: impl Display) -> String {
        self.visitor.link(address)
    }

    /// The scope that the page's `project` or `group` names.
    pub async fn scope(&self) -> Result<Scope, PageError> {
        self.resolve(Scope::of(self.params.text("project"), self.params.text("group"))).await
    }

    /// The scope by its full path, which headings and links show, if the scope was given by id.
    pub async fn resolve(&self, scope: Scope) -> Result<Scope, PageError> {
        let is_id = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
        let path = match &scope {
            Scope::Project(id) if is_id(id) => format!("projects/{}", encode(id)),
            Scope::Group(id) if is_id(id) => format!("groups/{}", encode(id)),
            _ => return Ok(scope),
        };
        Ok(match (self.forge.find::<FullPath>(&path).await?, scope) {
            (Some(found), Scope::Project(_)) => Scope::Project(found.full_path),
            (Some(found), _) => Scope::Group(found.full_path),
            // The page itself answers for an unknown scope.
            (None, scope) => scope,
        })
    }

    /// The number of the page of a list, from 1.
    pub fn page(&self) -> Result<u64, PageError> {
        let Some(given) = self.params.text("page") else { return Ok(1) };
        let page = given.parse().ok().filter(|page| (1..=1_000_000).contains(page));
        page.ok_or_else(|| PageError::Missing(format!("This list has no page {given}.")))
    }

    /// Refuses a page after the last one. `is_empty` is whether the page has no entries.
    pub fn require_entries(&self, page: u64, is_empty: bool) -> Result<(), PageError> {
        match page > 1 && is_empty {
            true => Err(PageError::Missing(format!("This list has no page {page}. It ends before."))),
            false => Ok(()),
        }
    }

    /// The value of a parameter with a fixed set of values; `None` if it is not given.
    pub fn choice(&self, name: &str, values: &[&'static str]) -> Result<Option<&'static str>, PageError> {
        let Some(given) = self.params.text(name) else { return Ok(None) };
        let found = values.iter().find(|value| **value == given).copied();
        let unknown = || format!("The parameter {name} cannot be “{given}”. It is one of: {}.", values.join(", "));
        found.map(Some).ok_or_else(|| PageError::Invalid(unknown()))
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
            PageError::NotFound | PageError::Missing(_) => StatusCode::NOT_FOUND,
            PageError::Invalid(_) => StatusCode::BAD_REQUEST,
            PageError::Forbidden(_) => StatusCode::FORBIDDEN,
        }
    }
}

/// Access levels of the API.
pub const DEVELOPER: u64 = 30;
pub const MAINTAINER: u64 = 40;

/// A project and the visitor's access to it.
pub struct ProjectAccess {
    /// The project's full path.
    pub path: String,
    /// 0 without membership.
    pub level: u64,
}

#[derive(Deserialize)]
struct Project {
    path_with_namespace: String,
    permissions: Option<Permissions>,
}

#[derive(Deserialize)]
struct Permissions {
    project_access: Option<Access>,
    group_access: Option<Access>,
}

#[derive(Deserialize)]
struct Access {
    access_level: u64,
}

/// The access to a project by its id or path; `None` without a session, and for a project that the visitor may not see.
pub async fn load_access_level(context: &PageContext<'_>, project: &str) -> Result<Option<ProjectAccess>, PageError> {
    if !context.visitor.is_signed_in {
        return Ok(None);
    }
    let project: Option<Project> = context.forge.find(&format!("projects/{}", encode(project))).await?;
    let Some(Project { path_with_namespace: path, permissions }) = project else { return Ok(None) };
    let levels = permissions.map(|permissions| [permissions.project_access, permissions.group_access]);
    let level = levels.into_iter().flatten().flatten().map(|access| access.access_level).max().unwrap_or_default();
    Ok(Some(ProjectAccess { path, level: if context.is_admin() { u64::MAX } else { level } }))
}

//! The visitor's access level in a project.

use crate::page_context::{PageContext, PageError};
use kit::path::encode;
use serde::Deserialize;

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
    #[serde(default)]
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
pub async fn load(context: &PageContext<'_>, project: &str) -> Result<Option<ProjectAccess>, PageError> {
    if !context.visitor.is_signed_in {
        return Ok(None);
    }
    let project: Option<Project> = context.forge.find(&format!("projects/{}", encode(project))).await?;
    let Some(Project { path_with_namespace: path, permissions }) = project else { return Ok(None) };
    let levels = permissions.map(|permissions| [permissions.project_access, permissions.group_access]);
    let level = levels.into_iter().flatten().flatten().map(|access| access.access_level).max().unwrap_or_default();
    Ok(Some(ProjectAccess { path, level: if context.is_admin() { u64::MAX } else { level } }))
}

//! The packages of a project or of a group, with the search in it.

use super::home;
use crate::layout::{Content, Section, code_line, npm_token, scope_links, shell_word};
use crate::page_context::{PageContext, PageError};
use crate::route::{self, Scope};
use maud::{Markup, html};

pub async fn show(context: &PageContext<'_>) -> Result<Content, PageError> {
    let scope = context.scope().await?;
    let found = home::search(context, &scope).await?;
    let link = route::package_list(&scope);
    let title = scope.parameter().map_or_else(|| "Packages".to_owned(), |(_, path)| format!("Packages of {path}"));
    let body = html! {
        (scope_links(context.visitor, &scope, Section::Packages))
        div.head { h1 { bdi { (title) } } }
        (home::form(context, &route::package_list(&Scope::Instance), &scope))
        p {}
        (home::results(context, &scope, &found, &link))
        @if let Scope::Project(path) = &scope {
            details.card {
                summary { "Publish to this project" }
                (publishing(context, path))
            }
        }
    };
    Ok(Content::new(title, Section::Packages, body))
}

/// The commands that publish a package to a project only.
pub fn publishing(context: &PageContext<'_>, project: &str) -> Markup {
    let registry = route::registry_url(context.base, &Scope::Project(project.to_owned()));
    let npm_scope = project.split('/').next().unwrap_or_default().to_lowercase();
    let scope_registry = format!("@{npm_scope}:registry={registry}");
    html! {
        p {
            "In the package's folder, with a token of the scope " code { "api" } " in the environment variable "
            code { "NPM_TOKEN" } ". For a package of another scope than " code { "@" (npm_scope) }
            ", put that scope into the second line: a client prefers the registry of a scope."
        }
        (code_line(&format!("npm pkg set publishConfig.registry={registry}")))
        (code_line(&format!("npm config set --location project {}", shell_word(&scope_registry))))
        (code_line(&npm_token(&registry)))
        (code_line(&format!("npm publish --registry={registry}")))
    }
}

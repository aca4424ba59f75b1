//! The packages of a project or of a group, with the search in it.

use super::home;
use crate::layout::{Content, Section, code_line, npm_token, scope_links, shell_word};
use crate::route::{self, Scope};
use crate::visit::{PageError, Visit};
use maud::{Markup, html};

pub async fn show(visit: &Visit<'_>) -> Result<Content, PageError> {
    let scope = visit.scope().await?;
    let found = home::search(visit, &scope).await?;
    let link = route::package_list(&scope);
    let title = scope.parameter().map_or_else(|| "Packages".to_owned(), |(_, path)| format!("Packages of {path}"));
    let body = html! {
        (scope_links(visit.visitor, &scope, Section::Packages))
        div.head { h1 { bdi { (title) } } }
        (home::form(visit, &route::package_list(&Scope::Instance), &scope))
        p {}
        (home::results(visit, &scope, &found, &link))
        @if let Scope::Project(path) = &scope {
            details.card {
                summary { "Publish to this project" }
                (publishing(visit, path))
            }
        }
    };
    Ok(Content::new(title, Section::Packages, body))
}

/// How a package is published to a project and nowhere else.
pub fn publishing(visit: &Visit<'_>, project: &str) -> Markup {
    let registry = route::registry_url(visit.base, &Scope::Project(project.to_owned()));
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

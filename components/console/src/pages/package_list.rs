//! The packages of a project or of a group, with the search in it.

use super::home;
use crate::layout::{Content, Section, code_line, scope_links};
use crate::route::{self, Scope};
use crate::visit::{PageError, Visit};
use maud::html;

pub async fn show(visit: &Visit<'_>) -> Result<Content, PageError> {
    let scope = visit.scope().await?;
    let found = home::search(visit, &scope).await?;
    let link = route::package_list(&scope);
    let title = scope.parameter().map_or_else(|| "Packages".to_owned(), |(_, path)| format!("Packages of {path}"));
    let body = html! {
        (scope_links(&scope, Section::Packages))
        div.head { h1 { bdi { (title) } } }
        (home::form(visit, &route::package_list(&Scope::Instance), &scope))
        p {}
        (home::results(visit, &scope, &found, &link))
        @if let Scope::Project(_) = scope {
            details.card {
                summary { "Publish to this project" }
                p {
                    "Name the registry for your scope, and publish with a token that has the scope " code { "api" } ":"
                }
                (code_line(&format!("npm config set --location project @scope:registry={}", route::registry_url(visit.base, &scope))))
                (code_line("npm publish"))
            }
        }
    };
    Ok(Content::new(title, Section::Packages, body))
}

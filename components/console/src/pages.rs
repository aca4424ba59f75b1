//! The pages, one file each. They call the API and render its answers. No page knows a status.

mod admin;
mod analytics;
mod experiments;
mod home;
mod issues;
mod merge_request;
mod merge_request_list;
mod namespaces;
mod package;
mod package_actions;
mod package_metadata;

use crate::layout::{self, Content, Section, form_token};
use crate::page_context::{Alert, PageContext, PageError, Visitor};
use crate::route::{self, Page};
use http::StatusCode;
use kit::params::Params;
use maud::{Markup, html};
pub use namespaces::find as find_namespace;

/// The title of the page with the form to sign in.
pub const SIGN_IN: &str = "Sign in";

pub async fn show(page: &Page, context: &PageContext<'_>) -> Result<Content, PageError> {
    match page {
        Page::Home => home::show(context).await,
        Page::PackageList => package::show_list(context).await,
        Page::Package(name) => package::show(context, name).await,
        Page::Issues => issues::show(context).await,
        Page::NamespaceList => namespaces::list(context).await,
        Page::Namespace(path) => namespaces::show(context, path).await,
        Page::Experiments => experiments::show(context).await,
        Page::MergeRequestList => merge_request_list::show(context).await,
        Page::MergeRequest { project, iid } => merge_request::show(context, project, iid).await,
        Page::Analytics(project) => analytics::show(context, project).await,
        Page::Admin => admin::show(context).await,
        Page::SignIn | Page::SignOut => Err(PageError::NotFound),
    }
}

/// Carries out the action of a page's form.
pub async fn submit(page: &Page, form: &Params, context: &PageContext<'_>) -> Result<Alert, PageError> {
    match page {
        Page::Package(name) => package_actions::submit(context, name, form).await,
        Page::MergeRequest { project, iid } => merge_request::submit(context, project, iid, form).await,
        Page::Admin => admin::submit(context, form).await,
        _ => Err(PageError::NotFound),
    }
}

/// The page after a form whose own page no longer exists.
pub fn done(visitor: &Visitor) -> Markup {
    html! { p { a href=(visitor.link(route::HOME)) { "To the packages" } } }
}

/// The page of an error: the reason, and the next step. `here` is the page's address.
pub fn failure(status: StatusCode, text: &str, visitor: &Visitor, here: &str) -> Content {
    let title = match status {
        StatusCode::UNAUTHORIZED => "Sign in",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::NOT_FOUND => "Not found",
        status if status.is_server_error() => "Not available",
        _ => "This did not work",
    };
    let body = html! {
        div.empty {
            h1 { (title) }
            p { (layout::revealed(text)) }
            p {
                @if !visitor.is_signed_in { a.button href=(visitor.link(route::sign_in(here))) { "Sign in" } " " }
                a.button.quiet href=(visitor.link(route::HOME)) { "To the packages" }
            }
        }
    };
    Content::new(title, Section::Other, body)
}

pub fn sign_in(visitor: &Visitor, next: Option<&str>) -> Content {
    let next = next.filter(|next| route::is_own(next));
    let body = html! {
        div.card.narrow {
            h1 { "Sign in" }
            p.soft {
                "Paste a personal access token. An administrator makes one on the page Admin, or on the command line: " code { "hexad token" }
                "."
            }
            form method="post" action=(visitor.link(route::SIGN_IN)) {
                (form_token(visitor))
                @if let Some(next) = next { input type="hidden" name="next" value=(next); }
                // Password managers store the token under this name.
                input type="text" name="username" autocomplete="username" value="access token" hidden;
                p {
                    label {
                        "Token" input type="password" name="token" required autocomplete="current-password" autofocus;
                    }
                }
                button { "Sign in" }
            }
            p.hint {
                "Your browser keeps the token encrypted, in a cookie that no script can read, until you sign out, or for a week. The token needs the scope " code { "read_api" }
                " to look, and " code { "api" }
                " to change something."
            }
        }
    };
    Content::new(SIGN_IN, Section::Other, body)
}

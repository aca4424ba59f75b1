//! The frame of every page, and parts for several pages.

use crate::page_context::{Alert, Visitor};
use crate::plain;
use crate::route::{self, Scope};
use maud::{DOCTYPE, Markup, html};
use std::borrow::Cow;
pub use widgets::{Column, bytes, number, table};

/// The part of the console that a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Packages,
    Issues,
    MergeRequests,
    Namespaces,
    Experiments,
    Admin,
    Other,
}

/// The contents of a page.
pub struct Content {
    pub title: String,
    pub section: Section,
    pub body: Markup,
    /// After how many seconds the browser reloads the page, if its contents will change.
    pub refresh: Option<u32>,
}

impl Content {
    pub fn new(title: impl Into<String>, section: Section, body: Markup) -> Self {
        Content { title: title.into(), section, body, refresh: None }
    }
}

/// The whole document. `here` is the address of its page.
pub fn render(content: &Content, visitor: &Visitor, here: &str, alert: Option<&Alert>) -> String {
    let links = [
        (Section::Packages, route::HOME, "Packages"),
        (Section::Issues, route::ISSUES, "Issues"),
        (Section::Namespaces, route::NAMESPACES, "Namespaces"),
        (Section::Experiments, route::EXPERIMENTS, "Experiments"),
        (Section::Admin, route::ADMIN, "Admin"),
    ];
    let is_admin = visitor.user.as_ref().is_some_and(|user| user.is_admin);
    // Issues, namespaces and experiments are for users only.
    let is_shown = |section: Section| match section {
        Section::Admin => is_admin,
        Section::Packages | Section::MergeRequests | Section::Other => true,
        Section::Issues | Section::Namespaces | Section::Experiments => visitor.is_signed_in,
    };
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (content.title) " · hexad" }
                link rel="stylesheet" href=(visitor.link(route::STYLE));
                link rel="icon" type="image/svg+xml" href=(visitor.link(route::ICON));
                script type="module" src=(visitor.link(route::SCRIPT)) {}
            }
            body {
                a.skip href="#main" { "Skip to the contents" }
                header.top {
                    div.inner {
                        a.brand href=(visitor.link(route::HOME)) {
                            svg viewBox="0 0 24 24" width="26" height="26" aria-hidden="true" {
                                path.mark d="M12 1.5 21.1 6.75v10.5L12 22.5 2.9 17.25V6.75z" {}
                                path.mark-line d="M12 1.5v21M2.9 6.75l18.2 10.5M21.1 6.75 2.9 17.25" {}
                            }
                            span { "hexad" }
                        }
                        nav aria-label="Sections" {
                            @for (section, link, name) in links {
                                @if is_shown(section) {
                                    a href=(visitor.link(link)) aria-current=[(section == content.section).then_some("page")] { (name) }
                                }
                            }
                        }
                        div.account {
                            @if visitor.is_signed_in {
                                @if let Some(user) = &visitor.user {
                                    span.user title=(user.username) { bdi { (user.name) } }
                                }
                                form method="post" action=(visitor.link(route::SIGN_OUT)) {
                                    (form_token(visitor))
                                    button.quiet { "Sign out" }
                                }
                            } @else {
                                a.button href=(visitor.link(route::sign_in(here))) { "Sign in" }
                            }
                        }
                    }
                }
                main #main tabindex="-1" {
                    @if let Some(alert) = alert {
                        div.alert.error[alert.is_error] role=(if alert.is_error { "alert" } else { "status" }) {
                            p { (plain::revealed(&alert.text)) }
                            @if let Some(secret) = &alert.secret { (code_line(secret)) }
                        }
                    }
                    (content.body)
                }
                footer {
                    div.inner {
                        p { "hexad, a forge of small sandboxed parts. These pages ask the same API as every client." }
                    }
                }
            }
        }
    };
    document.into_string()
}

/// The hidden field that every form has.
pub fn form_token(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name="form_token" value=(visitor.form_token); }
}

/// A line to be copied; the script adds a button.
pub fn code_line(text: &str) -> Markup {
    html! { pre.line data-copy { code { (text) } } }
}

/// A text as one word of a shell's command.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@%+=:,./_-".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.into(),
        // In single quotes, a shell interprets only the quote itself.
        false => format!("'{}'", text.replace('\'', r"'\''")).into(),
    }
}

/// The command that makes npm and pnpm send the token of the environment variable `NPM_TOKEN` to a registry. pnpm
/// expands variables in the user's file only.
pub fn npm_token(registry: &str) -> String {
    let place = registry.split_once(':').map_or(registry, |(_, place)| place);
    format!("npm config set --location user '{place}:_authToken=${{NPM_TOKEN}}'")
}

/// A moment in UTC. The script shows it in the visitor's zone.
pub fn time(iso: &str) -> Markup {
    let short = iso.get(..16).map(|short| short.replace('T', " "));
    html! {
        @match short {
            Some(short) => time datetime=(iso) title={ (short) " UTC" } { (short) " UTC" },
            None => span { (iso) },
        }
    }
}

/// Links to the pages before and after. `link` makes the address of a page.
pub fn pages(page: u64, has_next: bool, link: impl Fn(u64) -> String) -> Markup {
    html! {
        @if page > 1 || has_next {
            nav.pages aria-label="Pages" {
                @if page > 1 { a.button.quiet rel="prev" href=(link(page - 1)) { "Previous" } }
                span { "Page " (page) }
                @if has_next { a.button.quiet rel="next" href=(link(page + 1)) { "Next" } }
            }
        }
    }
}

/// The path of a group or project, each part linked.
pub fn breadcrumb(visitor: &Visitor, path: &str) -> Markup {
    let mut so_far = String::new();
    let parts: Vec<(String, &str)> = path
        .split('/')
        .map(|part| {
            if !so_far.is_empty() {
                so_far.push('/');
            }
            so_far.push_str(part);
            (so_far.clone(), part)
        })
        .collect();
    html! {
        nav.crumbs aria-label="Path" {
            @for (index, (path, part)) in parts.iter().enumerate() {
                @if index > 0 { span aria-hidden="true" { "/" } }
                a href=(visitor.link(route::namespace(path))) { bdi { (part) } }
            }
        }
    }
}

/// The pages about one project or group.
pub fn scope_links(visitor: &Visitor, scope: &Scope, current: Section) -> Markup {
    html! {
        @if let Some((_, path)) = scope.parameter() {
            (breadcrumb(visitor, path))
            nav.tabs aria-label="Pages of this namespace" {
                a href=(visitor.link(route::namespace(path))) aria-current=[(current == Section::Namespaces).then_some("page")] { "Overview" }
                a href=(visitor.link(route::package_list(scope))) aria-current=[(current == Section::Packages).then_some("page")] { "Packages" }
                a href=(visitor.link(route::issues(scope))) aria-current=[(current == Section::Issues).then_some("page")] { "Issues" }
                @if let Scope::Project(_) = scope {
                    a href=(visitor.link(route::merge_request_list(scope))) aria-current=[(current == Section::MergeRequests).then_some("page")] { "Merge requests" }
                    a href=(visitor.link(route::analytics(path))) aria-current=[(current == Section::Other).then_some("page")] { "Analytics" }
                }
            }
        }
    }
}

/// The state of a merge request.
pub fn merge_request_state(state: &str) -> Markup {
    let color = match state {
        "opened" => "good",
        "merged" => "accent",
        _ => "",
    };
    html! { span class={ "badge " (color) } { (state) } }
}

/// Says that a list is empty, and what to do about it.
pub fn empty(title: &str, text: &str) -> Markup {
    html! { div.empty { p.title { (title) } p { (text) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_every_text_as_one_word() {
        for (text, word) in [
            ("@acme/lib", "@acme/lib"),
            ("https://forge.test/api/v4/projects/a%2Fb/", "https://forge.test/api/v4/projects/a%2Fb/"),
            ("", "''"),
            ("a;rm -r ~", "'a;rm -r ~'"),
            ("$(a)", "'$(a)'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }

    #[test]
    fn a_moment_is_shown_in_utc() {
        let text = time("2026-11-21T05:49:56.123Z").into_string();
        assert!(text.contains("datetime=\"2026-11-21T05:49:56.123Z\"") && text.contains(">2026-11-21 05:49 UTC<"));
        assert_eq!(time("<soon>").into_string(), "<span>&lt;soon&gt;</span>");
    }
}

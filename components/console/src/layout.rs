//! The frame of every page, and parts for several pages.

use crate::page_context::{Alert, Visitor};
use crate::route::{self, Scope};
use maud::{DOCTYPE, Markup, Render, html};
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
                        (sections(content.section, visitor))
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
                            p { (revealed(&alert.text)) }
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

/// The links to the sections.
fn sections(current: Section, visitor: &Visitor) -> Markup {
    let is_admin = visitor.user.as_ref().is_some_and(|user| user.is_admin);
    // Issues, namespaces and experiments are for users only.
    let links = [
        (Section::Packages, route::HOME, "Packages", true),
        (Section::Issues, route::ISSUES, "Issues", visitor.is_signed_in),
        (Section::Namespaces, route::NAMESPACES, "Namespaces", visitor.is_signed_in),
        (Section::Experiments, route::EXPERIMENTS, "Experiments", visitor.is_signed_in),
        (Section::Admin, route::ADMIN, "Admin", is_admin),
    ];
    html! {
        nav aria-label="Sections" {
            @for (section, link, name, is_shown) in links {
                @if is_shown {
                    a href=(visitor.link(link)) aria-current=[(section == current).then_some("page")] { (name) }
                }
            }
        }
    }
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

/// Whether a character steers the direction of the text around it, has no width, or shows nothing where letters are.
/// Spaces and line ends do not count.
fn is_invisible(c: char) -> bool {
    let is_line_or_tab = matches!(c, '\t' | '\n' | '\r');
    let is_direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{200e}' | '\u{200f}' | '\u{61c}');
    let is_filler = matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{17b4}' | '\u{17b5}');
    let is_format = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    );
    (c.is_control() && !is_line_or_tab) || is_direction || is_filler || is_format
}

/// Whether an invisible character is a part of the writing around it. It is a joiner between emoji or in scripts that
/// join letters, or the variant of an emoji.
fn is_part_of_writing(c: char, before: char, after: Option<char>) -> bool {
    let joins_letters = |c: char| matches!(c, '\u{600}'..='\u{10ff}' | '\u{1780}'..='\u{1cff}');
    match c {
        '\u{200c}' => joins_letters(before),
        '\u{200d}' if joins_letters(before) => true,
        '\u{200d}' => (is_emoji(before) || before == '\u{fe0f}') && after.is_some_and(is_emoji),
        '\u{fe0e}' | '\u{fe0f}' => {
            is_emoji(before) || (matches!(before, '0'..='9' | '#' | '*') && after == Some('\u{20e3}'))
        }
        _ => false,
    }
}

fn is_emoji(c: char) -> bool {
    let is_sign = matches!(
        c,
        '©' | '®'
            | '\u{203c}'
            | '\u{2049}'
            | '\u{2122}'
            | '\u{2139}'
            | '\u{3030}'
            | '\u{303d}'
            | '\u{3297}'
            | '\u{3299}'
    );
    let is_symbol = matches!(c, '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{27bf}' | '\u{2900}'..='\u{2bff}');
    is_sign || is_symbol || matches!(c, '\u{1f000}'..='\u{1faff}')
}

/// The characters to name, each with the byte at which it begins.
fn controls(text: &str) -> impl Iterator<Item = (usize, char)> {
    let after = text.chars().skip(1).map(Some).chain([None]);
    let mut last = '\0';
    text.char_indices().zip(after).filter_map(move |((at, c), after)| {
        let before = std::mem::replace(&mut last, c);
        (is_invisible(c) && !is_part_of_writing(c, before, after)).then_some((at, c))
    })
}

/// Whether a text has characters that [`revealed`] names.
pub fn has_controls(text: &str) -> bool {
    controls(text).next().is_some()
}

/// The text, with the names of invisible characters in their place.
pub fn revealed(text: &str) -> Markup {
    let controls: Vec<_> = controls(text).collect();
    let starts = controls.iter().map(|(at, control)| at + control.len_utf8());
    let starts: Vec<_> = [0].into_iter().chain(starts).collect();
    html! {
        @for (start, (end, control)) in starts.iter().zip(&controls) {
            (text.get(*start..*end).unwrap_or_default())
            span.control { (format!("U+{:04X}", u32::from(*control))) }
        }
        (starts.last().and_then(|start| text.get(*start..)).unwrap_or_default())
    }
}

/// The most bytes that [`revealed`] makes of a text.
pub fn revealed_size(text: &str) -> usize {
    const ESCAPED: usize = "&quot;".len();
    const NAMED: usize = r#"<span class="control">U+10FFFF</span>"#.len();
    let escaped = text.bytes().filter(|byte| matches!(byte, b'&' | b'<' | b'>' | b'"')).count();
    text.len() + escaped * ESCAPED + controls(text).count() * NAMED
}

/// A name that programs use, such as a branch's.
pub fn code(name: &str) -> Markup {
    html! { code { bdi { (revealed(name)) } } }
}

/// Whether rendered Markdown shows nothing.
pub fn is_blank(rendered: &Markup) -> bool {
    let html = rendered.render().into_string();
    let texts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    !html.contains("<hr") && texts.into_iter().all(|text| text.trim().is_empty())
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

#[cfg(test)]
mod plain_tests {
    use super::*;

    #[test]
    fn controls_are_named_in_their_place() {
        assert_eq!(
            revealed("a\u{202e}<b>\u{61c}").into_string(),
            "a<span class=\"control\">U+202E</span>&lt;b&gt;<span class=\"control\">U+061C</span>"
        );
        for control in ['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{200e}', '\u{200f}', '\u{61c}'] {
            assert!(has_controls(&format!("a{control}b")), "{control:?}");
        }
        // Parts of emoji, letters that are written from right to left and joined letters are no controls.
        for plain in [
            "",
            "a b\tc\r\n",
            "👨\u{200d}👩",
            "❤\u{fe0f}\u{200d}🔥",
            "1\u{fe0f}\u{20e3}",
            "שלום",
            "می\u{200c}خواهم",
            "한글",
        ] {
            assert!(!has_controls(plain), "{plain}");
            assert_eq!(revealed(plain).into_string(), plain);
        }
    }

    #[test]
    fn characters_that_show_nothing_are_named() {
        let zero_width =
            "\u{ad}\u{200b}\u{200c}\u{200d}\u{2028}\u{2060}\u{2064}\u{fe00}\u{fe0f}\u{feff}\u{e0041}\u{e0100}";
        let fillers = "\u{1b}\u{115f}\u{1160}\u{3164}\u{ffa0}";
        for hidden in zero_width.chars().chain(fillers.chars()) {
            let name = format!("a<span class=\"control\">U+{:04X}</span>b", u32::from(hidden));
            assert_eq!(revealed(&format!("a{hidden}b")).into_string(), name);
        }
        assert!(has_controls("👨\u{200d}a") && has_controls("1\u{fe0f}"));
        assert_eq!(revealed("\u{200b}").into_string(), "<span class=\"control\">U+200B</span>");
    }

    #[test]
    fn markdown_of_hidden_parts_is_blank() {
        let rendered = |text: &str| crate::markdown::render(text, None, &crate::markdown::Budget::default()).unwrap();
        for text in ["", "<img src=x>", "<!-- why -->", "<svg onload=alert(1)>"] {
            assert!(is_blank(&rendered(text)), "{text}");
        }
        for text in ["a", "---", "<b>a</b>"] {
            assert!(!is_blank(&rendered(text)), "{text}");
        }
    }
}

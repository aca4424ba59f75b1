//! The elements and attributes of a page do not depend on the text of users. Markdown adds only harmless elements.

use super::fake_api::Forge;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use kit::path::encode;
use std::cell::RefCell;

/// One string per line; `\n`, `\0` and `\u{…}` stand for characters.
const CORPUS: &str = include_str!("injections.txt");

/// Elements that Markdown adds.
const MARKDOWN: [&str; 32] = [
    "a",
    "abbr",
    "b",
    "blockquote",
    "br",
    "code",
    "dd",
    "del",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "kbd",
    "li",
    "ol",
    "p",
    "pre",
    "s",
    "span",
    "strong",
    "sub",
    "summary",
    "table",
    "ul",
];

const PAGES: [&str; 14] = [
    "/",
    "/packages?project=acme/app",
    "/packages/@acme/lib",
    "/packages/@acme/lib?project=acme/app&versions=all",
    "/issues",
    "/namespaces",
    "/namespaces/acme",
    "/namespaces/acme/app",
    "/experiments",
    "/merge_requests?project=acme/app",
    "/merge_requests/acme/app/7",
    "/analytics/acme/app?measures=Events.count&time=Events.at&granularity=day",
    "/admin",
    "/nothing",
];

fn corpus() -> Vec<String> {
    let lines = CORPUS.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            line.replace("\\n", "\n").replace("\\0", "\0").replace("\\rlo", "\u{202e}").replace("\\zw", "\u{200b}")
        })
        .collect()
}

/// Collects the elements of a document as a browser reads them.
#[derive(Default)]
struct Elements(RefCell<Vec<Tag>>);

impl TokenSink for Elements {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        if let Token::TagToken(tag) = token
            && tag.kind == TagKind::StartTag
        {
            self.0.borrow_mut().push(tag);
        }
        TokenSinkResult::Continue
    }
}

fn elements(html: &str) -> Vec<Tag> {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let tokenizer = Tokenizer::new(Elements::default(), TokenizerOpts::default());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.take()
}

/// Checks an element, of a template or of a readme.
#[track_caller]
fn check(tag: &Tag, page: &str, hostile: &str) {
    let name = &*tag.name;
    for attribute in &tag.attrs {
        let (attribute, value) = (&*attribute.name.local, attribute.value.to_lowercase());
        assert!(
            !attribute.starts_with("on") && !["style", "srcdoc", "srcset", "formaction", "ping"].contains(&attribute),
            "<{name} {attribute}> on {page} by {hostile:?}"
        );
        if ["href", "src", "action"].contains(&attribute) {
            let scheme = value
                .split_once(':')
                .map(|(scheme, _)| scheme)
                .filter(|scheme| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
            let is_known = scheme.is_none_or(|scheme| ["http", "https", "mailto"].contains(&scheme));
            assert!(is_known && !value.starts_with("//"), "<{name} {attribute}={value}> on {page} by {hostile:?}");
            // Nothing is loaded from another site, and no form is sent to one.
            assert!(name == "a" || value.starts_with('/'), "<{name} {attribute}={value}> on {page} by {hostile:?}");
        }
    }
}

#[test]
fn the_corpus_is_large() {
    assert!(corpus().len() >= 100, "{}", corpus().len());
}

#[test]
fn text_of_users_adds_no_element_and_no_attribute() {
    for hostile in corpus() {
        let forge = Forge::new(&hostile);
        let harmless = Forge::new("x");
        for page in PAGES {
            let (found, expected) = (forge.get(page, Some("admin-token")), harmless.get(page, Some("admin-token")));
            assert_eq!(found.status, expected.status, "{page} by {hostile:?}");
            let (found, expected) = (elements(&found.text), elements(&expected.text));
            found.iter().for_each(|tag| check(tag, page, &hostile));
            // Links to repositories may be missing, and Markdown adds elements.
            let fixed = |tags: &[Tag]| -> Vec<String> {
                let fixed = tags.iter().filter(|tag| !MARKDOWN.contains(&&*tag.name) && !is_table(tag));
                fixed
                    .map(|tag| {
                        format!(
                            "{} {}",
                            tag.name,
                            tag.attrs.iter().map(|attribute| &*attribute.name.local).collect::<Vec<_>>().join(" ")
                        )
                    })
                    .collect()
            };
            assert_eq!(fixed(&found), fixed(&expected), "{page} by {hostile:?}");
        }
    }
}

fn is_table(tag: &Tag) -> bool {
    ["thead", "tbody", "tr", "th", "td", "caption", "bdi", "bdo", "sup", "time"].contains(&&*tag.name)
}

#[test]
fn parameters_of_a_page_add_nothing_either() {
    let forge = Forge::new("x");
    for hostile in corpus() {
        let value = encode(&hostile);
        for page in [
            format!("/?q={value}"),
            format!("/packages?group={value}"),
            format!("/issues?search={value}&labels={value}&compare_labels={value}&scope={value}"),
            format!("/namespaces?q={value}"),
            format!("/admin?q={value}"),
            format!("/-/sign-in?next={value}"),
            format!("/packages/{value}"),
            format!("/merge_requests/{value}/{value}"),
        ] {
            let shown = forge.get(&page, Some("admin-token"));
            assert!(!shown.status.is_server_error(), "{page}: {}", shown.status);
            let tags = elements(&shown.text);
            tags.iter().for_each(|tag| check(tag, &page, &hostile));
            assert_eq!(tags.iter().filter(|tag| &*tag.name == "script").count(), 1, "{page}");
            assert!(
                tags.iter().all(|tag| !["img", "iframe", "object", "embed", "style", "base"].contains(&&*tag.name)),
                "{page}"
            );
        }
    }
}

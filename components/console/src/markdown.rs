//! Readmes and comments: Markdown as people expect it, with everything removed that is not text.
//!
//! Images become links, because a page loads nothing from elsewhere. Relative links lead to the package's
//! repository. Ids get a prefix, so that no text takes the place of a part of the page.

use ammonia::{Builder, UrlRelative, UrlRelativeEvaluate};
use kit::path::encode;
use maud::{Markup, PreEscaped};
use pulldown_cmark::{Alignment, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use std::borrow::Cow;
use std::collections::HashSet;

/// The prefix of ids, and of links to them.
const ID_PREFIX: &str = "text-";

/// The most bytes that are rendered.
const MAX_BYTES: usize = 512 << 10;

/// Renders untrusted Markdown. Relative links are resolved against `base`, an absolute URL with a slash at
/// its end, and are removed without one.
pub fn render(text: &str, base: Option<&str>) -> Markup {
    let end = (0..=text.len().min(MAX_BYTES)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
    let events: Vec<Event> = Parser::new_ext(text.get(..end).unwrap_or_default(), options).collect();
    let mut unsafe_html = String::with_capacity(end * 2);
    html::push_html(&mut unsafe_html, adapt(events).into_iter());
    PreEscaped(clean(&unsafe_html, base))
}

/// Gives headings their anchors, and replaces what is not shown as it is.
fn adapt(events: Vec<Event<'_>>) -> Vec<Event<'_>> {
    let mut adapted = Vec::with_capacity(events.len());
    let mut taken = HashSet::new();
    let mut heading = None;
    let mut table = TableCells::default();
    for event in events {
        if let Some(cell) = table.render(&event) {
            adapted.push(cell);
            continue;
        }
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                heading = Some((adapted.len(), String::new()));
                adapted.push(start_of_heading(below(level), None));
                continue;
            }
            Event::End(TagEnd::Heading(level)) => {
                if let Some((at, text)) = heading.take()
                    && let Some(start) = adapted.get_mut(at)
                {
                    *start = start_of_heading(below(level), Some(anchor(&text, &mut taken)));
                }
                adapted.push(Event::End(TagEnd::Heading(below(level))));
                continue;
            }
            _ => {}
        }
        if let (Some((_, heading)), Event::Text(text) | Event::Code(text)) = (&mut heading, &event) {
            heading.push_str(text);
        }
        adapted.push(match event {
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                Event::Start(Tag::Link { link_type, dest_url, title, id })
            }
            Event::End(TagEnd::Image) => Event::End(TagEnd::Link),
            Event::TaskListMarker(is_done) => Event::Text(CowStr::Borrowed(if is_done { "☑ " } else { "☐ " })),
            other => other,
        });
    }
    adapted
}

/// Writes the cells of tables, with the alignment of their columns as an attribute: as a style it would be
/// removed.
#[derive(Default)]
struct TableCells {
    alignments: Vec<Alignment>,
    column: usize,
    is_head: bool,
}

impl TableCells {
    /// The event in the place of a cell's.
    fn render(&mut self, event: &Event<'_>) -> Option<Event<'static>> {
        let name = if self.is_head { "th" } else { "td" };
        match event {
            Event::Start(Tag::Table(alignments)) => self.alignments.clone_from(alignments),
            Event::Start(tag @ (Tag::TableHead | Tag::TableRow)) => {
                self.is_head = matches!(tag, Tag::TableHead);
                self.column = 0;
            }
            Event::Start(Tag::TableCell) => {
                let align = match self.alignments.get(self.column) {
                    Some(Alignment::Left) => " align=\"left\"",
                    Some(Alignment::Center) => " align=\"center\"",
                    Some(Alignment::Right) => " align=\"right\"",
                    _ => "",
                };
                self.column += 1;
                return Some(Event::InlineHtml(format!("<{name}{align}>").into()));
            }
            Event::End(TagEnd::TableCell) => return Some(Event::InlineHtml(format!("</{name}>").into())),
            _ => {}
        }
        None
    }
}

fn start_of_heading(level: HeadingLevel, id: Option<String>) -> Event<'static> {
    Event::Start(Tag::Heading { level, id: id.map(CowStr::from), classes: Vec::new(), attrs: Vec::new() })
}

/// The page has a heading of its own above.
fn below(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H2,
        HeadingLevel::H2 => HeadingLevel::H3,
        HeadingLevel::H3 => HeadingLevel::H4,
        HeadingLevel::H4 => HeadingLevel::H5,
        HeadingLevel::H5 | HeadingLevel::H6 => HeadingLevel::H6,
    }
}

/// A heading's anchor as forges make it: lower case, words joined by hyphens, numbered if it is taken.
fn anchor(text: &str, taken: &mut HashSet<String>) -> String {
    let kept = text
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>();
    let slug = kept.replace(' ', "-");
    let numbered = (0..).map(|number| if number == 0 { slug.clone() } else { format!("{slug}-{number}") });
    let free = numbered.take(taken.len() + 1).find(|anchor| !taken.contains(anchor)).unwrap_or_default();
    taken.insert(free.clone());
    free
}

/// Where relative links lead.
struct RelativeLinks<'a> {
    base: Option<&'a str>,
}

impl<'a> UrlRelativeEvaluate<'a> for RelativeLinks<'a> {
    fn evaluate<'url>(&self, url: &'url str) -> Option<Cow<'url, str>> {
        if let Some(anchor) = url.strip_prefix('#') {
            return Some(format!("#{ID_PREFIX}{anchor}").into());
        }
        // A link with two slashes has a host of its own.
        let path = url.trim_start_matches("./").trim_start_matches('/');
        let is_plain = !url.starts_with("//") && !url.contains('\\');
        self.base.filter(|_| is_plain).map(|base| format!("{base}{path}").into())
    }
}

fn clean(unsafe_html: &str, base: Option<&str>) -> String {
    Builder::default()
        .rm_tags(["img", "map", "area", "figure", "figcaption"])
        .add_tag_attributes("td", ["align"])
        .add_tag_attributes("th", ["align"])
        .add_generic_attributes(["id"])
        .id_prefix(Some(ID_PREFIX))
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .url_relative(UrlRelative::Custom(Box::new(RelativeLinks { base })))
        .link_rel(Some("nofollow noopener noreferrer"))
        .clean(unsafe_html)
        .to_string()
}

/// The folder of a package's files in its repository's pages, for relative links: of
/// `git+https://host/a/b.git`, `https://host/a/b/blob/HEAD/`. `directory` is the package's folder in the
/// repository.
pub fn repository_base(repository: &str, directory: Option<&str>) -> Option<String> {
    let web = web_url(repository)?;
    let segments = directory.unwrap_or_default().split('/').filter(|segment| !["", ".", ".."].contains(segment));
    let folder: String = segments.map(|segment| format!("{}/", encode(segment))).collect();
    Some(format!("{web}/blob/HEAD/{folder}"))
}

/// The address of a repository's page.
pub fn web_url(repository: &str) -> Option<String> {
    let url = repository.trim().trim_start_matches("git+");
    let url = url.split(['#', '?']).next().unwrap_or_default();
    let expanded = match (url.strip_prefix("github:"), url.strip_prefix("git@"), url.strip_prefix("ssh://git@")) {
        (Some(path), ..) => format!("https://github.com/{path}"),
        (_, Some(address), _) => format!("https://{}", address.replacen(':', "/", 1)),
        (_, _, Some(address)) => format!("https://{address}"),
        _ => match url.strip_prefix("git://") {
            Some(address) => format!("https://{address}"),
            None => url.to_owned(),
        },
    };
    let is_web = expanded.starts_with("https://") || expanded.starts_with("http://");
    let is_plain = expanded.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'<>\\@`".contains(&byte));
    (is_web && is_plain).then(|| expanded.trim_end_matches('/').trim_end_matches(".git").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(markdown: &str) -> String {
        render(markdown, Some("https://code.test/a/b/blob/HEAD/")).into_string()
    }

    #[test]
    fn readmes_look_as_people_expect() {
        assert!(text("# Use it\n\n## Use it").contains("<h2 id=\"text-use-it\">Use it</h2>"));
        assert!(text("# Use it\n\n## Use it").contains("<h3 id=\"text-use-it-1\">"));
        assert!(text("[x](#use-it)").contains("href=\"#text-use-it\""));
        assert!(text("[x](docs/a.md) [y](./b) [z](/c)").matches("https://code.test/a/b/blob/HEAD/").count() == 3);
        assert!(text("|a|b|\n|-|-:|\n|1|2|").contains("<table>"));
        assert!(text("- [x] done\n- [ ] open").contains("☑ done"));
        assert!(text("```js\nlet a = 1 < 2;\n```").contains("let a = 1 &lt; 2;"));
        assert!(text("~~gone~~").contains("<del>gone</del>"));
    }

    /// What readmes of published packages have in them, and how forges show it.
    #[test]
    fn the_usual_parts_of_readmes_are_kept() {
        for (markdown, expected) in [
            ("|a|b|\n|:-|-:|\n|1|2|", "<th align=\"right\">b</th>"),
            ("|a|\n|-|\n|`x \\| y`|", "<code>x | y</code>"),
            ("- [ ] a\n  - [x] b", "☑ b"),
            ("1. one\n2. two\n\n   more", "<ol>"),
            ("```\n<b>\n```", "<pre><code>&lt;b&gt;\n</code></pre>"),
            ("    indented", "<pre><code>indented"),
            ("~~~sh\nrun\n~~~", "run\n</code></pre>"),
            ("Title\n=====", "<h2 id=\"text-title\">"),
            ("## `code()` & more!", "id=\"text-code--more\""),
            ("## Über größe", "id=\"text-über-größe\""),
            ("## 日本語", "id=\"text-日本語\""),
            ("> quoted", "<blockquote>"),
            ("a<br>b", "a<br>b"),
            ("<details><summary>s</summary>\n\n*x*\n\n</details>", "<summary>s</summary>"),
            ("<h1 align=center>Name</h1>", "<h1>Name</h1>"),
            ("<kbd>Ctrl</kbd>", "<kbd>Ctrl</kbd>"),
            ("H<sub>2</sub>O", "<sub>2</sub>"),
            ("<https://code.test/x>", "href=\"https://code.test/x\""),
            ("[a]: https://code.test/y\n\n[a]", "href=\"https://code.test/y\""),
            ("[mail](mailto:a@code.test)", "href=\"mailto:a@code.test\""),
            ("[x](LICENSE)", "href=\"https://code.test/a/b/blob/HEAD/LICENSE\""),
            ("[x](../other#top)", "href=\"https://code.test/a/b/blob/HEAD/../other#top\""),
            ("![logo](img/logo.png)", ">logo</a>"),
            ("[![build](https://ci.test/b.svg)](https://ci.test)", "build"),
            ("note[^1]\n\n[^1]: said", "said"),
            ("<!-- hidden -->shown", "shown"),
            ("a\\*b", "a*b"),
            ("***", "<hr"),
        ] {
            let shown = text(markdown);
            assert!(shown.contains(expected), "{expected:?} is not in {shown:?} of {markdown:?}");
        }
        assert!(!text("<!-- hidden -->shown").contains("hidden"));
    }

    #[test]
    fn nothing_is_loaded_and_nothing_runs() {
        for hostile in [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "![x](https://evil.test/pixel.png)",
            "[x](javascript:alert(1))",
            "[x](data:text/html,<script>alert(1)</script>)",
            "<a href=\" java\nscript:alert(1)\">x</a>",
            "<iframe src=https://evil.test></iframe>",
            "<form action=https://evil.test><input name=q></form>",
            "<style>*{display:none}</style>",
            "<p style=\"position:fixed\" class=top id=main onclick=alert(1)>x</p>",
            "<svg><script>alert(1)</script></svg>",
            "<math><mi xlink:href=\"javascript:alert(1)\">x</mi></math>",
            "<base href=https://evil.test>",
            "<meta http-equiv=refresh content=0>",
            "<link rel=stylesheet href=https://evil.test>",
            "[x](//evil.test/y)",
        ] {
            let clean = text(hostile);
            for forbidden in [
                "<script",
                "<img",
                "<iframe",
                "<form",
                "<input",
                "<style",
                "style=",
                "class=",
                "onclick",
                "onerror",
                "javascript:",
                "data:",
                "<svg",
                "<base",
                "<meta",
                "<link",
                "id=\"main\"",
                "//evil.test/y",
            ] {
                assert!(!clean.contains(forbidden), "{forbidden} in {clean} of {hostile}");
            }
        }
        assert_eq!(text("![x](https://evil.test/p.png)").matches("<a ").count(), 1);
    }

    #[test]
    fn repositories_have_pages() {
        for (repository, expected) in [
            ("git+https://code.test/a/b.git", Some("https://code.test/a/b")),
            ("git@code.test:a/b.git", Some("https://code.test/a/b")),
            ("git://code.test/a/b", Some("https://code.test/a/b")),
            ("github:a/b", Some("https://github.com/a/b")),
            ("javascript:alert(1)", None),
            ("https://code.test/\"><script>", None),
        ] {
            assert_eq!(web_url(repository).as_deref(), expected, "{repository}");
        }
        let base = |directory| repository_base("git+https://code.test/a/b.git", Some(directory)).unwrap();
        assert_eq!(base("packages/x"), "https://code.test/a/b/blob/HEAD/packages/x/");
        assert_eq!(base("../<x>"), "https://code.test/a/b/blob/HEAD/%3Cx%3E/");
    }
}

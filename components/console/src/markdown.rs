//! Readmes and comments: Markdown as users expect it, without active contents.
//!
//! Images become links, because a page loads nothing from other sites. Relative links lead to the package's repository.
//! Ids get a prefix, so that a text cannot use an id of the page.
//!
//! The cost of parsing HTML and of cleaning it.
//!
//! HTML of a few bytes can be a lot of work: for most tags, a parser searches the open elements. In each paragraph, it
//! opens elements such as `<i>` again until they are closed. The cost is measured with the same parser, on a tree
//! without contents that counts the parser's calls.
//!
//! The work that the texts of a page may take.
//!
//! A step is about 100 nanoseconds. Every visitor of a page pays for the text that one person wrote on it.

use crate::layout;
use ammonia::{Builder, UrlRelative, UrlRelativeEvaluate};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, local_name, ns, parse_fragment};
use kit::path::encode;
use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The prefix of ids, and of links to them.
const ID_PREFIX: &str = "text-";

/// The most bytes of a text that is rendered.
const MAX_BYTES: usize = 512 << 10;

/// The deepest nesting of blocks and emphases.
const MAX_DEPTH: usize = 100;

/// The most bytes of a text whose source is shown.
const MAX_SOURCE: usize = 64 << 10;

/// A user's text, rendered. If the rendered text is empty, or rendering costs too much, its source is shown. Relative
/// links are resolved against `base`, an absolute URL with a slash at its end, and are removed without one.
pub fn show(text: &str, base: Option<&str>, budget: &Budget) -> Markup {
    let rendered = render(text, base, budget);
    let reason = match rendered {
        Some(rendered) if !layout::is_blank(&rendered) => return html! { div.text { (rendered) } },
        _ if text.trim().is_empty() => return Markup::default(),
        Some(_) => "This is HTML that pages do not show. Its source:",
        None => "This text is too long or too complex to be formatted here. Its source:",
    };
    let source = text.trim();
    let shown = source.get(..source.floor_char_boundary(MAX_SOURCE)).unwrap_or_default();
    html! {
        p.soft { (reason) }
        pre { code { (layout::revealed(shown)) } }
        @if shown.len() < source.len() { p.soft { "The rest is left out." } }
    }
}

/// Renders untrusted Markdown; `None` if that costs too much.
pub fn render(text: &str, base: Option<&str>, budget: &Budget) -> Option<Markup> {
    budget.spend(|meter| {
        let unsafe_html = to_html(text, meter)?;
        spend(&unsafe_html, meter)?;
        Some(PreEscaped(clean(&unsafe_html, base)))
    })
}

fn to_html(text: &str, meter: &mut Meter) -> Option<String> {
    if text.len() > MAX_BYTES {
        return None;
    }
    meter.spend(text.len())?;
    if kit::markdown::is_deep(text) {
        return None;
    }
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
    let mut events = Vec::new();
    let mut depth = 0_usize;
    for event in Parser::new_ext(text, options) {
        meter.spend(STEPS_PER_NODE)?;
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return None;
        }
        events.push(event);
    }
    let mut html = String::with_capacity(text.len() * 2);
    html::push_html(&mut html, adapt(events).into_iter());
    Some(html)
}

/// Gives headings their anchors, and replaces tables' cells, images and the markers of task lists.
fn adapt(events: Vec<Event<'_>>) -> Vec<Event<'_>> {
    let mut adapted = Vec::with_capacity(events.len());
    let mut anchors = Anchors::default();
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
                    *start = start_of_heading(below(level), Some(anchors.add(&text)));
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

/// Writes the cells of tables, with the alignment of their columns as an attribute: a style would be removed.
#[derive(Default)]
struct TableCells {
    alignments: Vec<Alignment>,
    column: usize,
    is_head: bool,
}

impl TableCells {
    /// The event that replaces a cell's event.
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

/// The next lower level, because the page has its own heading above.
fn below(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H2,
        HeadingLevel::H2 => HeadingLevel::H3,
        HeadingLevel::H3 => HeadingLevel::H4,
        HeadingLevel::H4 => HeadingLevel::H5,
        HeadingLevel::H5 | HeadingLevel::H6 => HeadingLevel::H6,
    }
}

/// The anchors of headings, each with the number that the next heading of this name gets.
#[derive(Default)]
struct Anchors(HashMap<String, usize>);

impl Anchors {
    /// A heading's anchor as forges make it: lower case, words joined by hyphens, numbered if it is taken.
    fn add(&mut self, text: &str) -> String {
        let kept = text
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .collect::<String>();
        let slug = kept.replace(' ', "-");
        let anchor = match self.0.get(&slug).copied() {
            None => slug,
            Some(mut number) => {
                let mut anchor = format!("{slug}-{number}");
                while self.0.contains_key(&anchor) {
                    number += 1;
                    anchor = format!("{slug}-{number}");
                }
                self.0.insert(slug, number + 1);
                anchor
            }
        };
        self.0.insert(anchor.clone(), 1);
        anchor
    }
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

/// The folder of a package's files in its repository's pages, for relative links. For `git+https://host/a/b.git` it is
/// `https://host/a/b/blob/HEAD/`. `directory` is the package's folder in the repository.
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

/// Bytes that are parsed before the work is counted.
const CHUNK: usize = 512;

/// Open elements that the parser inspects in one step.
const ELEMENTS_PER_STEP: usize = 8;

/// Pairs of attributes of one tag that are compared in one step.
const ATTRIBUTES_PER_STEP: usize = 64;

/// Spends the cost of `html`; `None` if less is left.
pub fn spend(html: &str, meter: &mut Meter) -> Option<()> {
    let work = Rc::new(Work::default());
    let context = QualName::new(None, ns!(html), local_name!("div"));
    let tree = Tree { work: work.clone(), document: unnamed() };
    let mut parser = parse_fragment(tree, ParseOpts::default(), context, Vec::new(), false);
    let mut unfinished = 0;
    let mut rest = html;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at_checked(rest.floor_char_boundary(CHUNK))?;
        rest = after;
        parser.process(chunk.into());
        let steps = work.take_steps();
        // A tag whose end the parser has not seen is compared attribute by attribute.
        let separators = chunk.bytes().filter(|byte| byte.is_ascii_whitespace() || b"/\"'".contains(byte)).count();
        unfinished = if steps > 0 { separators } else { unfinished + separators };
        meter.spend(steps + chunk.len() / STEPS_PER_NODE + unfinished * separators / ATTRIBUTES_PER_STEP)?;
    }
    Some(())
}

/// The work since it was last taken.
#[derive(Default)]
struct Work {
    steps: Cell<usize>,
    inspected: Cell<usize>,
    /// All elements and texts so far.
    nodes: Cell<usize>,
}

impl Work {
    fn add_node(&self) {
        self.nodes.set(self.nodes.get() + 1);
        self.steps.set(self.steps.get() + STEPS_PER_NODE);
    }

    fn inspect(&self) {
        self.inspected.set(self.inspected.get() + 1);
    }

    /// A node moves: its position among others is searched.
    fn move_node(&self) {
        self.steps.set(self.steps.get() + STEPS_PER_NODE + self.nodes.get() / ELEMENTS_PER_STEP);
    }

    fn take_steps(&self) -> usize {
        self.steps.take() + self.inspected.take() / ELEMENTS_PER_STEP
    }
}

/// An element's name; the document and comments have an empty name.
type Node = Rc<QualName>;

fn unnamed() -> Node {
    Rc::new(QualName::new(None, ns!(), local_name!("")))
}

/// A tree without contents.
struct Tree {
    work: Rc<Work>,
    document: Node,
}

impl TreeSink for Tree {
    type Handle = Node;
    type Output = ();
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) {}

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Node {
        self.document.clone()
    }

    fn elem_name<'a>(&'a self, target: &'a Node) -> ExpandedName<'a> {
        self.work.inspect();
        target.expanded()
    }

    fn create_element(&self, name: QualName, _: Vec<Attribute>, _: ElementFlags) -> Node {
        self.work.add_node();
        Rc::new(name)
    }

    fn create_comment(&self, _: StrTendril) -> Node {
        self.work.add_node();
        unnamed()
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Node {
        self.work.add_node();
        unnamed()
    }

    fn append(&self, _: &Node, _: NodeOrText<Node>) {
        self.work.add_node();
    }

    fn append_based_on_parent_node(&self, _: &Node, _: &Node, _: NodeOrText<Node>) {
        self.work.move_node();
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &Node) -> Node {
        target.clone()
    }

    fn same_node(&self, one: &Node, other: &Node) -> bool {
        self.work.inspect();
        Rc::ptr_eq(one, other)
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, _: &Node, _: NodeOrText<Node>) {
        self.work.move_node();
    }

    fn add_attrs_if_missing(&self, _: &Node, _: Vec<Attribute>) {}

    fn remove_from_parent(&self, _: &Node) {
        self.work.move_node();
    }

    fn reparent_children(&self, _: &Node, _: &Node) {
        self.work.move_node();
    }
}

/// A comment without its blocks of suggestions, as the API finds them. If finding them costs too much, the comment
/// stays whole.
pub fn without_suggestions(text: &str, budget: &Budget) -> String {
    let text = text.replace("\r\n", "\n");
    budget
        .spend(|meter| {
            meter.spend(text.len())?;
            if kit::markdown::is_deep(&text) {
                return None;
            }
            let (mut kept, mut end) = (String::new(), 0);
            for (event, range) in Parser::new(&text).into_offset_iter() {
                meter.spend(STEPS_PER_NODE / 4)?;
                if matches!(event, Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if is_suggestion(&info)) {
                    kept.push_str(text.get(end..range.start)?);
                    end = range.end;
                }
            }
            kept.push_str(text.get(end..)?);
            Some(kept)
        })
        .unwrap_or(text)
}

/// Whether a block with this info string is a suggestion: `suggestion`, or `suggestion:` with lines.
fn is_suggestion(info: &str) -> bool {
    let word = info.split_whitespace().next().unwrap_or_default();
    word == "suggestion" || word.starts_with("suggestion:")
}

/// The steps of all texts of a page.
const MAX_STEPS: usize = 2 << 20;

/// The steps of one text.
const MAX_STEPS_OF_TEXT: usize = 1 << 20;

/// The steps of an element or a piece of text: it is parsed, cleaned and written. It also bounds the memory
/// of a text's elements.
pub const STEPS_PER_NODE: usize = 16;

/// The work that a page may still take.
pub struct Budget(Cell<usize>);

impl Default for Budget {
    fn default() -> Self {
        Budget(Cell::new(MAX_STEPS))
    }
}

impl Budget {
    /// Renders one text with the steps that are left.
    pub fn spend<T>(&self, render: impl FnOnce(&mut Meter) -> Option<T>) -> Option<T> {
        let allowed = self.0.get().min(MAX_STEPS_OF_TEXT);
        let mut meter = Meter(allowed);
        let rendered = render(&mut meter);
        self.0.set(self.0.get() - (allowed - meter.0));
        rendered
    }
}

/// The work that a text may still take.
pub struct Meter(usize);

impl Meter {
    /// `None` if fewer steps are left.
    pub fn spend(&mut self, steps: usize) -> Option<()> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or_default();
        left.map(|_| ())
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod parse_cost_tests {
    use super::*;

    #[test]
    fn only_suggestions_are_left_out() {
        for (text, expected) in [
            (
                "Shorter:\n```suggestion:-0+1\nx\n```\nand\n```js\nkeep();\n```\n````suggestion\n```\n````\nend",
                "Shorter:\n\nand\n```js\nkeep();\n```\n\nend",
            ),
            ("a\r\n~~~ suggestion and more\r\nb\r\n~~~\r\nc", "a\n\nc"),
            ("- item\n\n  ```suggestion\n  a\n  ```\n\n  after", "- item\n\n  \n\n  after"),
            ("```suggestion\nnever closed", ""),
        ] {
            assert_eq!(without_suggestions(text, &Budget::default()), expected, "{text}");
        }
        for text in [
            "Text before\n\n    ```suggestion\n    code\n\nafter",
            "```suggestions-of-mine\na\n```",
            "```js\n~~~suggestion\n```\nafter",
            "`suggestion`",
        ] {
            assert_eq!(without_suggestions(text, &Budget::default()), text);
        }
        let costly = ">".repeat(1000) + "a\n```suggestion\nb\n```";
        assert_eq!(without_suggestions(&costly, &Budget::default()), costly);
    }
}

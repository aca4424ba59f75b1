//! The cost of parsing HTML and of cleaning it.
//!
//! HTML of a few bytes can be a lot of work: for most tags, a parser searches the open elements. In each paragraph, it
//! opens elements such as `<i>` again until they are closed. The cost is measured with the same parser, on a tree
//! without contents that counts the parser's calls.

use super::budget::{Meter, STEPS_PER_NODE};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, local_name, ns, parse_fragment};
use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

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

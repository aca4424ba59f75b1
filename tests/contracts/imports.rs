//! Which files of a crate each file uses, read from the sources. Code under `#[cfg(test)]` is left out. A re-exported
//! item counts as used from the file that defines it, so a parent that only declares and re-exports its children uses
//! no child.

use super::*;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A module's or an item's place in its crate: `["store", "record"]` for `crate::store::record`.
type Location = Vec<String>;

/// Files by their module's path in the crate (`lib` for the root) and the files that each one uses.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// A module, which is a file or an inline module of one.
#[derive(Default)]
struct Module {
    file: String,
    /// Names that `use` declarations bring in, and where they lead.
    imports: HashMap<String, Location>,
    /// The paths of `use path::*`, and whether each is a re-export.
    globs: Vec<(Location, bool)>,
    items: HashSet<String>,
}

/// One path in the code of a module, such as `super::Key::new`.
struct Use {
    module: Location,
    segments: Vec<String>,
}

#[derive(Default)]
struct Reader {
    modules: HashMap<Location, Module>,
    uses: Vec<Use>,
    /// Names that `pub use` declarations re-export, by module. They count as used only where code uses them.
    exports: HashSet<(Location, String)>,
}

/// Reads a crate from its root file.
pub fn graph(root: &Path) -> Graph {
    let mut reader = Reader::default();
    reader.file(Vec::new(), root, root.parent().expect("a file in a folder"));
    reader.graph()
}

impl Reader {
    /// Reads a module's file; `folder` is where the files of its children are.
    fn file(&mut self, module: Location, path: &Path, folder: &Path) {
        let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let tokens: TokenStream = text.parse().unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let file = if module.is_empty() { "lib".to_owned() } else { module.join("::") };
        self.modules.insert(module.clone(), Module { file, ..Module::default() });
        let children = self.items(&module, tokens, true);
        for child in children {
            let candidates: [PathBuf; 2] = [folder.join(format!("{child}.rs")), folder.join(&child).join("mod.rs")];
            let file = candidates.iter().find(|file| file.is_file());
            let file = file.unwrap_or_else(|| panic!("{}: no file for `mod {child}`", path.display()));
            self.file([module.clone(), vec![child.clone()]].concat(), file, &folder.join(&child));
        }
    }

    /// Reads the tokens of a module or of a block in it. Returns the children that have their own files.
    fn items(&mut self, module: &Location, tokens: TokenStream, is_top: bool) -> Vec<String> {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut children = Vec::new();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            if let Some(length) = attribute(&tokens, at) {
                at += length;
                if is_test(&tokens[at - 1]) {
                    at += item_length(&tokens[at..]);
                }
                continue;
            }
            match token {
                TokenTree::Ident(word) if *word == "use" && !follows_colons(&tokens, at) => {
                    let end = at + tokens[at..].iter().position(|token| is_punct(token, ';')).unwrap_or(0);
                    let is_export = at > 0 && is_visibility(&tokens, at - 1);
                    self.import(module, &[], &tokens[at + 1..end.max(at + 1)], is_export);
                    at = end.max(at) + 1;
                    continue;
                }
                TokenTree::Ident(word) if *word == "mod" && is_top => {
                    let name = tokens.get(at + 1).map(ToString::to_string).unwrap_or_default();
                    match tokens.get(at + 2) {
                        Some(TokenTree::Group(body)) => self.inline(module, &name, body),
                        _ => children.push(name),
                    }
                    at += 3;
                    continue;
                }
                TokenTree::Ident(word) if is_top && declares(&word.to_string()) => {
                    if let (Some(TokenTree::Ident(name)), Some(own)) =
                        (tokens.get(at + 1), self.modules.get_mut(module))
                    {
                        own.items.insert(name.to_string());
                    }
                }
                TokenTree::Ident(_) if !follows_colons(&tokens, at) => {
                    let segments = path(&tokens[at..]);
                    at += 1 + 3 * (segments.len() - 1);
                    self.uses.push(Use { module: module.clone(), segments });
                    continue;
                }
                TokenTree::Group(group) => {
                    // Nested items are not seen from outside.
                    self.items(module, group.stream(), false);
                }
                _ => {}
            }
            at += 1;
        }
        children
    }

    /// An inline module belongs to the file that it is in.
    fn inline(&mut self, module: &Location, name: &str, body: &Group) {
        let file = self.modules.get(module).map(|own| own.file.clone()).unwrap_or_default();
        let inner = [module.clone(), vec![name.to_owned()]].concat();
        self.modules.insert(inner.clone(), Module { file, ..Module::default() });
        let children = self.items(&inner, body.stream(), true);
        assert!(children.is_empty(), "{name}: files of inline modules are not understood");
    }

    /// Reads a tree of imports, for example `a::{b, c::*}`, below the segments in `prefix`.
    fn import(&mut self, module: &Location, prefix: &[String], tree: &[TokenTree], is_export: bool) {
        for branch in tree.split(|token| is_punct(token, ',')) {
            let mut segments = prefix.to_vec();
            let mut name = None;
            let mut tokens = branch.iter();
            while let Some(token) = tokens.next() {
                match token {
                    TokenTree::Ident(word) if *word == "as" => name = tokens.next().map(ToString::to_string),
                    TokenTree::Ident(word) => segments.push(word.to_string()),
                    TokenTree::Group(group) => {
                        let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                        self.import(module, &segments, &inner, is_export);
                        segments.clear();
                    }
                    TokenTree::Punct(star) if star.as_char() == '*' => {
                        self.imported(module, &segments, None, is_export);
                        segments.clear();
                    }
                    _ => {}
                }
            }
            // `use a::{self}` names the module.
            if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
                segments.pop();
            }
            if let Some(last) = segments.last().cloned() {
                self.imported(module, &segments, Some(name.unwrap_or(last)), is_export);
            }
        }
    }

    /// Records that `segments` are imported under a name. Without a name, everything below them is imported.
    fn imported(&mut self, module: &Location, segments: &[String], name: Option<String>, is_export: bool) {
        if let (true, Some(name)) = (is_export, &name) {
            self.exports.insert((module.clone(), name.clone()));
        }
        let target = absolute(module, segments);
        if let Some(own) = self.modules.get_mut(module) {
            match name {
                Some(name) => drop(own.imports.insert(name, target)),
                None => own.globs.push((target, is_export)),
            }
        }
    }

    fn graph(&self) -> Graph {
        let mut graph: Graph = self.modules.values().map(|module| (module.file.clone(), BTreeSet::new())).collect();
        let mut add = |from: &Location, target: &Location| {
            let from = &self.modules[from].file;
            if let Some(to) = self.file_of(target).filter(|to| to != from) {
                graph.entry(from.clone()).or_default().insert(to);
            }
        };
        for (location, module) in &self.modules {
            for (target, _) in module.globs.iter().filter(|(_, is_export)| !is_export) {
                add(location, &self.resolve(location, target));
            }
            for (name, target) in &module.imports {
                // A module that is only named is used where a path leads through it.
                let names_module = self.modules.contains_key(&self.resolve(location, target));
                if !names_module && !self.exports.contains(&(location.clone(), name.clone())) {
                    add(location, &self.resolve(location, target));
                }
            }
        }
        for Use { module, segments } in &self.uses {
            let first = &segments[0];
            let own = &self.modules[module];
            let is_child = self.modules.contains_key(&[module.clone(), vec![first.clone()]].concat());
            let is_relative = matches!(first.as_str(), "crate" | "self" | "super");
            if (is_relative || is_child) && segments.len() > 1 {
                add(module, &absolute(module, segments));
            } else if own.imports.contains_key(first) {
                add(module, &self.resolve(module, &absolute(module, segments)));
            }
        }
        graph
    }

    /// A path whose first segment is a name of the module that it is in.
    fn resolve(&self, module: &Location, target: &Location) -> Location {
        // A path that `use` declares may begin with a name that another `use` brought in.
        let Some(rest) = target.strip_prefix(module.as_slice()) else { return target.clone() };
        let Some((first, rest)) = rest.split_first() else { return target.clone() };
        match self.modules[module].imports.get(first) {
            Some(import) if import != target => [import.clone(), rest.to_vec()].concat(),
            _ => target.clone(),
        }
    }

    /// The file that defines the item of a path. `None` outside of the crate.
    fn file_of(&self, path: &Location) -> Option<String> {
        let length = self.module_length(path);
        self.definition(&path[..length], &path[length..], 0).or_else(|| self.deepest(path))
    }

    /// How many segments of a path lead to its deepest module.
    fn module_length(&self, path: &[String]) -> usize {
        (0..=path.len()).rev().find(|length| self.modules.contains_key(&path[..*length])).unwrap_or(0)
    }

    /// The file of the deepest module on a path. It is the answer for items that a macro makes.
    fn deepest(&self, path: &[String]) -> Option<String> {
        match self.module_length(path) {
            0 => None,
            length => Some(self.modules[&path[..length]].file.clone()),
        }
    }

    /// The file that defines a name in a module, through re-exports.
    fn definition(&self, location: &[String], rest: &[String], depth: usize) -> Option<String> {
        let module = self.modules.get(location)?;
        let Some((name, rest)) = rest.split_first() else { return Some(module.file.clone()) };
        if module.items.contains(name) {
            return Some(module.file.clone());
        }
        let onward = |target: &Location| {
            let path = self.resolve(&location.to_vec(), &[target.clone(), rest.to_vec()].concat());
            let length = self.module_length(&path);
            self.definition(&path[..length], &path[length..], depth + 1)
        };
        if depth > 8 {
            return None;
        }
        match module.imports.get(name) {
            Some(target) => onward(target).or_else(|| self.deepest(target)),
            None => module.globs.iter().find_map(|(glob, _)| onward(&[glob.clone(), vec![name.clone()]].concat())),
        }
    }
}

/// A path as seen from the crate's root.
fn absolute(module: &Location, segments: &[String]) -> Location {
    let mut location = module.clone();
    for (at, segment) in segments.iter().enumerate() {
        match segment.as_str() {
            "crate" if at == 0 => location.clear(),
            "self" => {}
            "super" => drop(location.pop()),
            name => location.push(name.to_owned()),
        }
    }
    location
}

/// The segments of the path that begins with the first token.
fn path(tokens: &[TokenTree]) -> Vec<String> {
    let mut segments = vec![tokens[0].to_string()];
    for next in tokens[1..].chunks_exact(3) {
        match next {
            [first, second, TokenTree::Ident(name)] if is_punct(first, ':') && is_punct(second, ':') => {
                segments.push(name.to_string());
            }
            _ => break,
        }
    }
    segments
}

/// How many tokens the attribute at a position has.
fn attribute(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let is_body = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket);
    if !is_punct(&tokens[at], '#') {
        return None;
    }
    match tokens.get(at + 1) {
        Some(token) if is_punct(token, '!') && is_body(tokens.get(at + 2)) => Some(3),
        token if is_body(token) => Some(2),
        _ => None,
    }
}

/// Whether an attribute's body is `[cfg(test)]` or the like.
fn is_test(body: &TokenTree) -> bool {
    let text = body.to_string().replace(' ', "");
    let words = |word: &str| text.split(|letter: char| !letter.is_alphanumeric()).any(|found| found == word);
    text.starts_with("[cfg(") && words("test") && !words("not")
}

/// How many tokens the item, field or statement at the beginning has.
fn item_length(tokens: &[TokenTree]) -> usize {
    let mut at = 0;
    while at < tokens.len() {
        match attribute(tokens, at) {
            Some(length) => at += length,
            None => break,
        }
    }
    let word = tokens[at..].iter().find(
        |token| matches!(token, TokenTree::Ident(word) if *word != "pub" && *word != "async" && *word != "unsafe"),
    );
    let word = word.map(ToString::to_string).unwrap_or_default();
    let ends_with_body = matches!(word.as_str(), "fn" | "mod" | "impl" | "struct" | "enum" | "trait" | "union");
    let ends_with_comma = !ends_with_body && !matches!(word.as_str(), "use" | "const" | "static" | "type" | "let");
    let end = tokens[at..].iter().position(|token| match token {
        TokenTree::Group(group) => ends_with_body && group.delimiter() == Delimiter::Brace,
        token => is_punct(token, ';') || ends_with_comma && is_punct(token, ','),
    });
    end.map_or(tokens.len(), |end| at + end + 1)
}

fn declares(word: &str) -> bool {
    matches!(word, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" | "macro_rules")
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// Whether the token at a position continues a path or names a method or a field.
fn follows_colons(tokens: &[TokenTree], at: usize) -> bool {
    let before = |back: usize, character: char| at >= back && is_punct(&tokens[at - back], character);
    before(1, ':') && before(2, ':') || before(1, '.') && !before(2, '.')
}

/// Whether the token at a position ends `pub` or `pub(...)`.
fn is_visibility(tokens: &[TokenTree], at: usize) -> bool {
    let is_pub = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if *word == "pub");
    is_pub(&tokens[at]) || at > 0 && is_pub(&tokens[at - 1]) && matches!(tokens[at], TokenTree::Group(_))
}

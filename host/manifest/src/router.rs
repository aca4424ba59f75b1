//! Finds the component that serves a path, by Spin's rules for `[[trigger.http]]` routes (decision 0002).
//!
//! A route matches the raw path, without decoding, segment by segment. A word matches itself, `:name` matches one
//! segment, and a trailing `/...` matches the rest, which may be empty. Empty segments (`//`, a slash at the end) do
//! not count. If two routes match, the first segment in which they differ decides: word, then `:name`, then `...`.

use std::cmp::Ordering;

/// The targets of all routes, in a tree with a level for each segment. The number of routes does not affect the cost of
/// a look-up.
#[derive(Debug, PartialEq, Eq)]
pub struct Router<T> {
    tree: Node<T>,
    /// The routes as written.
    patterns: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Node<T> {
    end: Option<T>,
    words: Vec<(String, Node<T>)>,
    parameter: Option<Box<Node<T>>>,
    rest: Option<T>,
}

#[derive(Clone, Debug)]
struct Pattern {
    segments: Vec<RouteSegment>,
    /// The route as written.
    source: String,
}

/// From the most specific to the least. `End` or `Rest` ends a pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RouteSegment {
    End,
    Word(String),
    Parameter,
    Rest,
}

/// Why a set of routes cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RouteError {
    #[error("route \"{route}\" does not start with `/`; write it as a path")]
    NotAPath { route: String },
    #[error("route \"{route}\" has {character:?}, which no path of a request has; write it percent-encoded (RFC 3986)")]
    NotInAPath { route: String, character: char },
    #[error(
        "route \"{route}\" has `{segment}`: parameters are whole segments (`:name`) and `...` is \
         the last segment; correct it"
    )]
    Misplaced { route: String, segment: String },
    #[error("routes \"{first}\" and \"{second}\" match the same paths; remove one of them")]
    Duplicate { first: String, second: String },
}

impl RouteError {
    /// The route to correct. If two conflict, the later one.
    pub fn route(&self) -> &str {
        match self {
            Self::NotAPath { route } | Self::NotInAPath { route, .. } | Self::Misplaced { route, .. } => route,
            Self::Duplicate { second, .. } => second,
        }
    }
}

impl<T> Router<T> {
    pub fn new(routes: impl IntoIterator<Item = (String, T)>) -> Result<Self, RouteError> {
        let mut parsed = Vec::new();
        for (route, target) in routes {
            parsed.push((Pattern::parse(&route)?, target));
        }
        parsed.sort_by(|(a, _), (b, _)| a.segments.cmp(&b.segments));
        for pair in parsed.windows(2) {
            if let [(first, _), (second, _)] = pair
                && first.segments.cmp(&second.segments) == Ordering::Equal
            {
                return Err(RouteError::Duplicate { first: first.source.clone(), second: second.source.clone() });
            }
        }
        let mut tree = Node::default();
        let mut patterns = Vec::with_capacity(parsed.len());
        for (pattern, target) in parsed {
            tree.add(&pattern.segments, target);
            patterns.push(pattern.source);
        }
        Ok(Self { tree, patterns })
    }

    /// The target of the most specific route that matches the raw `path`.
    pub fn find(&self, path: &str) -> Option<&T> {
        self.tree.find(path)
    }

    /// The routes as written, the more specific ones first.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self { end: None, words: Vec::new(), parameter: None, rest: None }
    }
}

impl<T> Node<T> {
    fn add(&mut self, segments: &[RouteSegment], target: T) {
        match segments.split_first() {
            None | Some((RouteSegment::End, _)) => self.end = Some(target),
            Some((RouteSegment::Rest, _)) => self.rest = Some(target),
            Some((RouteSegment::Parameter, others)) => self.parameter.get_or_insert_default().add(others, target),
            Some((RouteSegment::Word(word), others)) => match self.words.iter_mut().find(|(known, _)| known == word) {
                Some((_, node)) => node.add(others, target),
                None => {
                    let mut node = Self::default();
                    node.add(others, target);
                    self.words.push((word.clone(), node));
                }
            },
        }
    }

    /// Tries the more specific branch first, and the next one if nothing below the first matches.
    fn find(&self, path: &str) -> Option<&T> {
        let path = path.trim_start_matches('/');
        let found = if path.is_empty() {
            self.end.as_ref()
        } else {
            let (word, others) = path.split_at(path.find('/').unwrap_or(path.len()));
            let same = self.words.iter().find(|(known, _)| known == word);
            let same = same.and_then(|(_, node)| node.find(others));
            same.or_else(|| self.parameter.as_ref()?.find(others))
        };
        found.or(self.rest.as_ref())
    }
}

/// The first character that a path cannot have (RFC 3986, section 3.3).
fn first_outside_paths(route: &str) -> Option<char> {
    let is_escape = |at: usize| {
        let digits = route.as_bytes().get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let is_in_a_path = |at: usize, character: char| match character {
        '%' => is_escape(at),
        _ => character.is_ascii_alphanumeric() || "/-._~!$&'()*+,;=:@".contains(character),
    };
    route.char_indices().find(|(at, character)| !is_in_a_path(*at, *character)).map(|(_, character)| character)
}

impl Pattern {
    fn parse(source: &str) -> Result<Self, RouteError> {
        if !source.starts_with('/') {
            return Err(RouteError::NotAPath { route: source.to_owned() });
        }
        if let Some(character) = first_outside_paths(source) {
            return Err(RouteError::NotInAPath { route: source.to_owned(), character });
        }
        let mut segments = Vec::new();
        let mut words = words(source).peekable();
        while let Some(word) = words.next() {
            let last = words.peek().is_none();
            segments.push(match word {
                // Spin accepts both spellings.
                "..." | "*" if last => RouteSegment::Rest,
                _ if word.len() > 1 && word.starts_with(':') => RouteSegment::Parameter,
                _ if word.contains(['*', ':']) || word == "..." => {
                    return Err(RouteError::Misplaced { segment: word.to_owned(), route: source.to_owned() });
                }
                _ => RouteSegment::Word(word.to_owned()),
            });
        }
        if segments.last() != Some(&RouteSegment::Rest) {
            segments.push(RouteSegment::End);
        }
        Ok(Self { segments, source: source.to_owned() })
    }
}

/// How a path matches a route: the values of `:name` segments by their names, and what `...` stands for, from its slash
/// on. Without `...`, the latter is empty. `path` is one that the route matches.
pub fn captures<'a>(route: &'a str, path: &'a str) -> (Vec<(&'a str, &'a str)>, &'a str) {
    let (mut parameters, mut rest) = (Vec::new(), path);
    for word in words(route) {
        let others = rest.trim_start_matches('/');
        if word == "..." || word == "*" {
            // One slash stays, and an empty rest becomes one, as in Spin.
            let from = rest.len().saturating_sub(others.len() + 1);
            return (parameters, rest.get(from..).filter(|rest| !rest.is_empty()).unwrap_or("/"));
        }
        let (segment, after) = others.split_at(others.find('/').unwrap_or(others.len()));
        if let Some(name) = word.strip_prefix(':') {
            parameters.push((name, segment));
        }
        rest = after;
    }
    (parameters, "")
}

/// Whether a path can match both routes.
pub fn overlap(first: &str, second: &str) -> bool {
    use RouteSegment::{End, Rest, Word};

    let (Ok(first), Ok(second)) = (Pattern::parse(first), Pattern::parse(second)) else { return false };
    for pair in first.segments.iter().zip(&second.segments) {
        match pair {
            (Rest, _) | (_, Rest) | (End, End) => return true,
            (End, _) | (_, End) => return false,
            (Word(first), Word(second)) if first != second => return false,
            _ => {}
        }
    }
    false
}

/// The segments of a path or a route.
pub(crate) fn words(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(routes: &[&str]) -> Result<Router<String>, RouteError> {
        Router::new(routes.iter().map(|r| (r.to_string(), r.to_string())))
    }

    #[track_caller]
    fn check(routes: &[&str], path: &str, expected: Option<&str>) {
        let found = router(routes).unwrap().find(path).cloned();
        assert_eq!(found.as_deref(), expected, "{path}");
    }

    #[test]
    fn words_parameters_and_rests_match_segment_by_segment() {
        let routes = ["/api/:id/npm/...", "/features"];
        check(&routes, "/api/7/npm/left-pad", Some("/api/:id/npm/..."));
        check(&routes, "/api/7/npm", Some("/api/:id/npm/..."));
        check(&routes, "/api/7/npm/", Some("/api/:id/npm/..."));
        check(&routes, "/api/7/npmx/left-pad", None);
        check(&routes, "/api//npm/left-pad", None);
        check(&routes, "/api/7", None);
        check(&routes, "/features", Some("/features"));
        check(&routes, "/features/", Some("/features"));
        check(&routes, "/features/x", None);
        check(&routes, "", None);
        check(&routes, "*", None);
    }

    #[test]
    fn paths_are_compared_raw() {
        let routes = ["/api/:id/npm/...", "/a%2Fb"];
        check(&routes, "/api/g%2Fp/npm/@s%2fn", Some("/api/:id/npm/..."));
        check(&routes, "/api/%6epm/x", None);
        check(&routes, "/api/7/%6epm/x", None);
        check(&routes, "/a%2Fb", Some("/a%2Fb"));
        check(&routes, "/a/b", None);
        check(&routes, "/api/../npm/x", Some("/api/:id/npm/..."));
    }

    #[test]
    fn the_most_specific_route_wins() {
        let routes = ["/...", "/:a", "/x", "/x/...", "/x/:b/z", "/x/y/..."];
        check(&routes, "/x", Some("/x"));
        check(&routes, "/q", Some("/:a"));
        check(&routes, "/", Some("/..."));
        check(&routes, "/x/q", Some("/x/..."));
        check(&routes, "/x/q/z", Some("/x/:b/z"));
        check(&routes, "/x/y/z", Some("/x/y/..."));
        check(&routes, "/q/r", Some("/..."));
    }

    #[test]
    fn a_specific_beginning_that_leads_nowhere_leaves_the_path_to_others() {
        let routes = ["/x/y/z", "/x/:b/w", "/:a/y/v", "/x/y"];
        check(&routes, "/x/y/z", Some("/x/y/z"));
        check(&routes, "/x/y/w", Some("/x/:b/w"));
        check(&routes, "/x/y/v", Some("/:a/y/v"));
        check(&routes, "/x/y/u", None);
        check(&routes, "//x///y//", Some("/x/y"));
    }

    #[test]
    fn a_route_that_no_path_can_match_is_refused() {
        for (route, character) in
            [("/a b", ' '), ("/ä", 'ä'), ("/a?b", '?'), ("/a#b", '#'), ("/50%", '%'), ("/%zz", '%')]
        {
            let error = router(&["/x", route]).unwrap_err();
            assert_eq!(error, RouteError::NotInAPath { route: route.to_owned(), character });
        }
        router(&["/a%20b/@c/:d/(e)~1/..."]).unwrap();
    }

    #[test]
    fn routes_that_match_the_same_paths_are_refused() {
        let error = router(&["/a/:x", "/b", "/a/:y/"]).unwrap_err();
        let expected = RouteError::Duplicate { first: "/a/:x".into(), second: "/a/:y/".into() };
        assert_eq!(error, expected);
    }

    #[test]
    fn routes_overlap_if_a_path_matches_both() {
        for (first, second, expected) in [
            ("/a/:x", "/a/b", true),
            ("/a/...", "/a", true),
            ("/:x/b/...", "/a/:y/c", true),
            ("/a/:x", "/a/b/c", false),
            ("/a/b", "/a/c", false),
            ("/a", "/a/:x/...", false),
        ] {
            assert_eq!((overlap(first, second), overlap(second, first)), (expected, expected), "{first} {second}");
        }
    }

    #[test]
    fn ill_formed_routes_are_refused() {
        for route in ["/a/.../b", "/a/*x", "/a/:", "/a:b", "/*/b"] {
            let error = router(&[route]).unwrap_err();
            assert!(matches!(error, RouteError::Misplaced { .. }), "{route}: {error}");
        }
        let error = router(&["a"]).unwrap_err();
        assert!(matches!(error, RouteError::NotAPath { .. }), "{error}");
    }

    #[test]
    fn captures_are_the_named_segments_and_the_rest() {
        #[track_caller]
        fn check(route: &str, path: &str, parameters: &[(&str, &str)], rest: &str) {
            assert_eq!(captures(route, path), (parameters.to_vec(), rest), "{route} {path}");
        }
        check("/a", "/a", &[], "");
        check("/a/...", "/a", &[], "/");
        check("/a/...", "/a/", &[], "/");
        check("/a/...", "/a/b//c/", &[], "/b//c/");
        check("/a/*", "//a//b", &[], "/b");
        check("/...", "/", &[], "/");
        check("/...", "/b%2Fc", &[], "/b%2Fc");
        check("/:a/b/:c", "/1/b/2/", &[("a", "1"), ("c", "2")], "");
        check("/:a/...", "/1/b/2", &[("a", "1")], "/b/2");
    }
}

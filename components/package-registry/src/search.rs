//! Search queries, and the scores of packages.

use crate::json::{self, Members};
use crate::name::PackageName;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Most words of a search; further words are ignored.
const MAX_WORDS: usize = 16;

/// Most characters of a text in a [`SearchSummary`], and most keywords. Longer ones are cut, so that a page of results
/// stays small.
const MAX_TEXT: usize = 500;
const MAX_KEYWORDS: usize = 50;

/// The text of a search, in lower case: words, `scope:NAME`, and `keywords:A,B` (any of them).
/// Any other qualifier is a word.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Query {
    words: Vec<String>,
    /// Alternatives, without the `@`.
    scopes: Vec<String>,
    /// Lists of alternatives; each list must match.
    keywords: Vec<Vec<String>>,
}

impl Query {
    pub fn parse(text: &str) -> Self {
        let mut query = Query::default();
        for part in text.split_whitespace().take(MAX_WORDS) {
            let part = part.to_lowercase();
            if let Some(scope) = part.strip_prefix("scope:") {
                query.scopes.push(scope.trim_start_matches('@').to_owned());
            } else if let Some(keywords) = part.strip_prefix("keywords:") {
                query.keywords.push(keywords.split(',').map(str::to_owned).collect());
            } else {
                query.words.push(part);
            }
        }
        query
    }

    /// Whether the name has one of the scopes, if there are any.
    pub fn matches_scope(&self, name: &PackageName) -> bool {
        let scope = name.scope().unwrap_or_default();
        self.scopes.is_empty() || self.scopes.iter().any(|expected| expected.eq_ignore_ascii_case(scope))
    }

    /// Whether the name contains one of the words.
    pub fn matches_name(&self, name: &PackageName) -> bool {
        let name = name.as_str().to_lowercase();
        self.words.iter().any(|word| name.contains(word))
    }

    /// The score of a package, from 0 to 1; `None` if it does not match. Every word must occur in the name, the
    /// keywords or the description; the name counts most.
    pub fn score(&self, name: &PackageName, summary: &SearchSummary) -> Option<f64> {
        let keywords: Vec<String> = summary.keywords.iter().map(|keyword| keyword.to_lowercase()).collect();
        let has_any = |any_of: &Vec<String>| any_of.iter().any(|keyword| keywords.contains(keyword));
        if !self.matches_scope(name) || !self.keywords.iter().all(has_any) {
            return None;
        }
        let description = summary.description.to_lowercase();
        let in_content = |word: &String| {
            if keywords.contains(word) {
                Some(0.6)
            } else if description.contains(word) || keywords.iter().any(|keyword| keyword.contains(word)) {
                Some(0.4)
            } else {
                None
            }
        };
        let in_name = in_name(name);
        self.average(|word| in_name(word).or_else(|| in_content(word)))
    }

    /// The score if the name alone decides it: it has every word, and the query has no keywords.
    pub fn score_of_name(&self, name: &PackageName) -> Option<f64> {
        if !self.keywords.is_empty() || !self.matches_scope(name) {
            return None;
        }
        self.average(in_name(name))
    }

    /// The average score of the words; `None` if a word has no score.
    fn average(&self, score: impl Fn(&String) -> Option<f64>) -> Option<f64> {
        let scores: Vec<f64> = self.words.iter().map(score).collect::<Option<_>>()?;
        Some(if scores.is_empty() { 1.0 } else { scores.iter().sum::<f64>() / scores.len() as f64 })
    }
}

/// The score of a word by its occurrence in a name.
fn in_name(name: &PackageName) -> impl Fn(&String) -> Option<f64> {
    let (full, base) = (name.as_str().to_lowercase(), name.base().to_lowercase());
    move |word| {
        if *word == full || *word == base { Some(1.0) } else { full.contains(word).then_some(0.8) }
    }
}

/// The fields of a package that results show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchSummary {
    pub description: String,
    pub keywords: Vec<String>,
    pub links: Links,
}

/// The addresses of a package. An address that is too long, or is no text, is omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bugs: Option<String>,
}

impl SearchSummary {
    /// Reads the members that [`crate::manifest::Manifest::package_level_fields`] wrote. Publishers choose their
    /// types; a field of an unexpected type is treated as absent.
    pub fn read(fields: &[u8]) -> Option<Self> {
        let text = format!("{{{}}}", std::str::from_utf8(fields).ok()?.trim_start_matches(','));
        let members = Members::read(&text).ok()?;
        let address = |name| members.get(name).and_then(address);
        Some(SearchSummary {
            description: members.get("description").and_then(json::string).map(cut).unwrap_or_default(),
            keywords: members.get("keywords").map(keywords).unwrap_or_default(),
            links: Links { homepage: address("homepage"), repository: address("repository"), bugs: address("bugs") },
        })
    }
}

/// A list of texts, or one text with commas or spaces.
fn keywords(value: &RawValue) -> Vec<String> {
    let list: Vec<String> = match json::string(value) {
        Some(text) => text.split([',', ' ']).map(str::to_owned).collect(),
        None => serde_json::from_str::<Vec<Box<RawValue>>>(value.get())
            .unwrap_or_default()
            .iter()
            .filter_map(|value| json::string(value))
            .collect(),
    };
    list.into_iter().filter(|keyword| !keyword.trim().is_empty()).take(MAX_KEYWORDS).map(cut).collect()
}

/// An address, or an object that has it as `url`.
fn address(value: &RawValue) -> Option<String> {
    let inside = || Members::read(value.get()).ok()?.get("url").and_then(json::string);
    json::string(value).or_else(inside).filter(|address| address.len() <= MAX_TEXT)
}

fn cut(text: String) -> String {
    if text.len() <= MAX_TEXT { text } else { text.chars().take(MAX_TEXT).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn summary(fields: &Value) -> SearchSummary {
        let text = fields.to_string();
        let members = text.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
        SearchSummary::read(if members.is_empty() { String::new() } else { format!(",{members}") }.as_bytes()).unwrap()
    }

    fn score(text: &str, name: &str) -> Option<f64> {
        let summary = summary(&json!({"description": "Paints the Bikeshed", "keywords": ["Color", "wood-work"]}));
        Query::parse(text).score(&PackageName::parse(name).unwrap(), &summary)
    }

    #[test]
    fn every_word_must_be_found_and_names_count_most() {
        let name = "@acme/paint-brush";
        let scores: Vec<_> = ["paint-brush", "paint", "color", "bikeshed"].map(|text| score(text, name)).into();
        assert_eq!(scores, [Some(1.0), Some(0.8), Some(0.6), Some(0.4)]);
        assert_eq!(score("PAINT  bikeshed", name), Some((0.8 + 0.4) / 2.0));
        assert_eq!(score("@acme/paint-brush", name), Some(1.0));
        assert_eq!(score("wood", name), Some(0.4));
        assert_eq!((score("", name), score("  ", name)), (Some(1.0), Some(1.0)));
        assert_eq!((score("paint plastic", name), score("author:acme", name)), (None, None));
    }

    #[test]
    fn qualifiers() {
        for (text, fits) in [
            ("scope:acme", true),
            ("scope:@Acme brush", true),
            ("scope:other", false),
            ("scope:other scope:acme", true),
            ("scope:ac", false),
            ("keywords:color", true),
            ("keywords:plastic,COLOR", true),
            ("keywords:plastic", false),
            ("keywords:color keywords:plastic", false),
            ("keywords:wood", false),
        ] {
            assert_eq!(score(text, "@acme/brush").is_some(), fits, "{text}");
        }
        assert_eq!(score("scope:acme", "brush"), None);
        assert_eq!(Query::parse(&"x ".repeat(1000)).words.len(), MAX_WORDS);
    }

    #[test]
    fn summaries_take_every_type_and_stay_small() {
        let links = json!({"homepage": "https://a.example", "repository": {"type": "git", "url": "git+https://r.example"},
            "bugs": {"email": "b@a.example"}, "keywords": "a, b  c", "description": ["no text"], "readme": "# long"});
        let links = summary(&links);
        assert_eq!(links.links.homepage.as_deref(), Some("https://a.example"));
        assert_eq!((links.links.repository.as_deref(), links.links.bugs), (Some("git+https://r.example"), None));
        assert_eq!((links.description.as_str(), links.keywords), ("", vec!["a".into(), "b".into(), "c".into()]));
        let long = "ä".repeat(5000);
        let many: Vec<&str> = vec![&long; 5000];
        let cut = summary(&json!({"description": long, "keywords": many, "homepage": long}));
        assert_eq!((cut.description.chars().count(), cut.keywords.len()), (MAX_TEXT, MAX_KEYWORDS));
        assert_eq!((cut.keywords[0].chars().count(), cut.links.homepage), (MAX_TEXT, None));
        assert_eq!(summary(&json!({"keywords": [1, null, "x", ""]})).keywords, ["x"]);
        assert_eq!(summary(&json!({})), SearchSummary::default());
        assert_eq!(SearchSummary::read(b",\"a\":"), None);
    }
}

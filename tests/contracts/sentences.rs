//! Comments that document code are plain sentences, and public types of a crate have names of their own.
//! CONTRIBUTING ("Names and comments") has the rules.

use super::rust_files;
use super::waits::MODULES;
use hexad_tests::server::root;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most words of a sentence.
const MAX_WORDS: usize = 30;

/// Words that a sentence does not begin with. They stand for a noun that the reader has to find.
const BEGINNINGS: [&str; 8] = ["What", "That", "Those", "Whoever", "One that", "There is none", "Nobody", "Neither"];

/// Phrases that hide who does what.
const PHRASES: [&str; 19] = [
    "is told",
    "are told",
    "be told",
    "makes way",
    "make way",
    "the mend",
    "for itself",
    "anew",
    "those that",
    "that which",
    "takes its place",
    "there is none",
    "is looked at",
    "are looked at",
    "is waited for",
    "are waited for",
    "what serves",
    "nobody",
    "whoever",
];

/// Documents that keep the same rules. Older ones follow as they are rewritten.
const DOCUMENTS: [&str; 15] = [
    "CHANGELOG.md",
    "README.md",
    "docs/glossary.md",
    "docs/explanation/architecture.md",
    "docs/explanation/numbers.md",
    "docs/how-to/rotate-tokens-and-keys.md",
    "docs/how-to/upgrade.md",
    "docs/reference/differences.md",
    "docs/reference/limits.md",
    "docs/reference/metrics.md",
    "docs/reference/store-format.md",
    "docs/tutorials/component.md",
    "docs/tutorials/first-package.md",
    "docs/tutorials/swap-under-load.md",
    "docs/tutorials/two-hosts.md",
];

/// The text of a line that documents an item or a module.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
}

/// The sentences of a documentation, each with the number of its first line. Code, tables and headings are left out.
fn sentences<'a>(lines: impl Iterator<Item = (usize, Option<&'a str>)>) -> Vec<(usize, String)> {
    let (mut found, mut sentence, mut is_code) = (Vec::new(), (0, String::new()), false);
    for (number, line) in lines {
        let text = line.unwrap_or_default().trim();
        let item = ["- ", "* "].iter().find_map(|mark| text.strip_prefix(mark));
        is_code = line.is_some() && is_code != text.starts_with("```");
        let is_break = text.is_empty() || is_code || ["```", "|", "#"].iter().any(|mark| text.starts_with(mark));
        if is_break || item.is_some() {
            found.push(std::mem::take(&mut sentence));
        }
        if is_break {
            continue;
        }
        for word in item.unwrap_or(text).split_whitespace() {
            if sentence.1.is_empty() {
                sentence.0 = number;
            } else {
                sentence.1.push(' ');
            }
            sentence.1.push_str(word);
            if word.trim_end_matches([')', '"', '`', '*']).ends_with(['.', '!', '?']) {
                found.push(std::mem::take(&mut sentence));
            }
        }
    }
    found.push(sentence);
    found.retain(|(_, text)| !text.is_empty());
    found
}

/// Why a sentence is hard to read.
fn fault(sentence: &str) -> Option<String> {
    let words = sentence.split(' ').count();
    if words > MAX_WORDS {
        return Some(format!("{words} words"));
    }
    let text = format!(" {} ", sentence.to_lowercase().replace(|c: char| !c.is_alphanumeric(), " "));
    let begins = BEGINNINGS.iter().find(|words| text.starts_with(&format!(" {} ", words.to_lowercase())));
    let has = PHRASES.iter().find(|phrase| text.contains(&format!(" {phrase} ")));
    begins.map(|words| format!("begins with \"{words}\"")).or_else(|| has.map(|phrase| format!("\"{phrase}\"")))
}

fn faults<'a>(path: &Path, lines: impl Iterator<Item = (usize, Option<&'a str>)>) -> Vec<String> {
    let hard =
        |(line, text): (usize, String)| fault(&text).map(|fault| format!("{}:{line}: {fault}: {text}", path.display()));
    sentences(lines).into_iter().filter_map(hard).collect()
}

#[test]
fn documentation_is_made_of_plain_sentences() {
    let mut found = Vec::new();
    for folder in ["host", "forge", "widgets", "components", "tests"] {
        for path in rust_files(&root().join(folder)) {
            let text = std::fs::read_to_string(&path).expect("readable");
            found.extend(faults(&path, (1..).zip(text.lines().map(documentation))));
        }
    }
    for path in DOCUMENTS.map(|document| root().join(document)) {
        let text = std::fs::read_to_string(&path).expect("readable");
        found.extend(faults(&path, (1..).zip(text.lines().map(Some))));
    }
    assert!(found.is_empty(), "sentences that are hard to read; CONTRIBUTING has the rules:\n{}", found.join("\n"));
}

#[test]
fn hard_sentences_are_found() {
    let long = ["word"; MAX_WORDS + 1].join(" ");
    let text = format!(
        "/// Plain.\n/// What it is\n/// not. It is told so.\n///\n/// ```\n/// Nobody.\n/// ```\n/// {long}\ncode\n/// A."
    );
    let found = faults(Path::new("x"), (1..).zip(text.lines().map(documentation)));
    let starts = ["x:2: begins with \"What\"", "x:3: \"is told\"", "x:8: 31 words"];
    assert_eq!(found.len(), starts.len(), "{found:?}");
    assert!(found.iter().zip(starts).all(|(found, start)| found.starts_with(start)), "{found:?}");
}

#[test]
fn public_types_of_a_crate_have_names_of_their_own() {
    let crates = ["forge/src", "widgets/src"].map(PathBuf::from).into_iter();
    let several = ["components", "host"].map(|folder| std::fs::read_dir(root().join(folder)).expect("a folder"));
    let areas = several.into_iter().flatten().map(|entry| entry.expect("an entry").path().join("src"));
    let areas = areas.filter(|path| path.is_dir());
    let mut twice = Vec::new();
    for folder in crates.map(|path| root().join(path)).chain(areas) {
        let mut types: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        let is_test = |path: &Path| path.with_extension("").iter().any(|part| MODULES.iter().any(|name| part == *name));
        for path in rust_files(&folder).into_iter().filter(|path| !is_test(path)) {
            let text = std::fs::read_to_string(&path).expect("readable");
            let shipped = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            for line in shipped.lines().filter(|line| line.starts_with("pub")) {
                let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || *word == "crate)");
                if words.next().is_some_and(|kind| ["struct", "enum", "trait", "type"].contains(&kind)) {
                    let name = words.next().unwrap_or_default();
                    let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                    types.entry(name.to_owned()).or_default().push(path.clone());
                }
            }
        }
        twice.extend(types.into_iter().filter(|(_, paths)| paths.len() > 1));
    }
    assert!(twice.is_empty(), "types of one name in a crate: {twice:#?}");
}

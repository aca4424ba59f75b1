//! Links of the documents lead to files and headings that exist.

use super::*;
use std::collections::HashSet;
use std::process::Command;

/// The project's Markdown files, by their paths in the project.
fn documents() -> Vec<PathBuf> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"];
    let output = Command::new("git").args(arguments).current_dir(root()).output().expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    // git lists a deleted file until the deletion is committed.
    text.lines().map(PathBuf::from).filter(|path| root().join(path).is_file()).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The lines outside of blocks of code, without inline code.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut fence = None;
    for line in text.lines() {
        let marker = ["```", "~~~"].into_iter().find(|marker| line.trim_start().starts_with(marker));
        match (fence, marker) {
            (None, Some(marker)) => fence = Some(marker),
            (Some(open), Some(marker)) if open == marker => fence = None,
            (None, None) => {
                let parts = line.split('`').enumerate().filter(|(number, _)| number % 2 == 0);
                prose.extend(parts.map(|(_, part)| part));
                prose.push('\n');
            }
            _ => {}
        }
    }
    prose
}

/// The targets of `[text](target)`, `[name]: target`, `href="target"` and `src="target"`.
fn targets(text: &str) -> Vec<String> {
    let prose = prose(text);
    let mut targets = Vec::new();
    for (opening, closing) in [("](", ')'), ("href=\"", '"'), ("src=\"", '"')] {
        let ends = prose.split(opening).skip(1).filter_map(|rest| rest.split(closing).next());
        targets.extend(ends.map(|target| target.split_whitespace().next().unwrap_or_default()));
    }
    let references = prose.lines().filter_map(|line| line.trim_start().strip_prefix('[')?.split_once("]: "));
    targets.extend(references.map(|(_, target)| target.trim()));
    targets.into_iter().map(|target| target.trim_matches(['<', '>']).to_owned()).collect()
}

/// The anchors of a document: its headings as GitHub names them, and explicit ids.
fn anchors(text: &str) -> HashSet<String> {
    let mut anchors = HashSet::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if !in_code && heading.len() < line.len() && heading.starts_with(' ') {
            let name = anchor(heading.trim());
            let numbered = (1..).map(|number| format!("{name}-{number}"));
            let free = std::iter::once(name.clone()).chain(numbered).find(|name| !anchors.contains(name));
            anchors.extend(free);
        }
        for attribute in ["id=\"", "name=\""] {
            anchors.extend(line.split(attribute).skip(1).filter_map(|rest| Some(rest.split('"').next()?.to_owned())));
        }
    }
    anchors
}

/// A heading's anchor: lower case, spaces as hyphens, no other punctuation. For a link, only its text counts.
fn anchor(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, behind)| behind);
    }
    text.push_str(rest);
    let kept = text.to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Why a target is broken, if it is.
fn problem(document: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") || target.is_empty() {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let folder = document.parent().unwrap_or(Path::new(""));
    let file = match path {
        "" => document.to_owned(),
        path => folder.join(path),
    };
    if !root().join(&file).exists() {
        return Some(format!("{}: {target}: there is no such file", document.display()));
    }
    let anchor = anchor.filter(|_| file.extension().is_some_and(|extension| extension == "md"))?;
    let is_missing = !anchors(&read(&file)).contains(anchor);
    is_missing.then(|| format!("{}: {target}: there is no such heading", document.display()))
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let documents = documents();
    assert!(documents.contains(&PathBuf::from("README.md")), "{documents:?}");
    let problems: Vec<String> = documents
        .iter()
        .flat_map(|document| targets(&read(document)).into_iter().filter_map(|target| problem(document, &target)))
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn links_and_anchors_are_read_as_they_are_written() {
    let text = "# A `b`: c\n[x](one.md#a) and [y](<two.md> \"title\")\n```\n# no\n[z](three.md)\n```\n`[w](four.md)`\n\
        ## [Linked](five.md) text\n## Twice\n## Twice\n<img src=\"six.svg\">\n[ref]: seven.md\n";
    let expected = ["one.md#a", "two.md", "five.md", "six.svg", "seven.md"];
    assert_eq!(targets(text), expected);
    let found = anchors(text);
    for anchor in ["a-b-c", "linked-text", "twice", "twice-1"] {
        assert!(found.contains(anchor), "{anchor}: {found:?}");
    }
    assert!(!found.contains("no"));
}

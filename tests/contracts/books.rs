//! The documents keep their form, and agree with the manifest and the command line.

use super::*;
use std::collections::BTreeMap;

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The Markdown pages of a folder.
fn pages(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}

#[test]
fn the_readme_is_short_and_says_what_it_is() {
    let readme = read("README.md");
    assert!(readme.lines().count() <= 120, "README.md has more than 120 lines");
    assert!(readme.lines().take(5).any(|line| line.contains("GitLab API v4")), "the first sentence names no API");
    let picture = root().join("docs/images/console.png").metadata().expect("a picture of the console");
    assert!(picture.len() <= 120_000, "the picture has {} bytes", picture.len());
}

#[test]
fn every_how_to_has_steps_and_symptoms() {
    let faults = pages("docs/how-to").into_iter().filter(|path| {
        let text = read(path);
        let has_table = ["what to do |", "way out |"].iter().any(|end| text.lines().any(|line| line.ends_with(end)));
        let has_steps = text.lines().any(|line| line.starts_with("2. ")) || text.contains("```sh");
        !(has_table && has_steps)
    });
    let faults: Vec<_> = faults.collect();
    assert!(faults.is_empty(), "no numbered steps, or no table of symptoms: {faults:?}");
}

/// The flags of each command, by the command's name, from the reference of the command line.
fn commands() -> BTreeMap<String, BTreeSet<String>> {
    let (mut commands, mut name) = (BTreeMap::<String, BTreeSet<String>>::new(), String::new());
    for line in read("docs/reference/command-line.md").lines() {
        if let Some(heading) = line.strip_prefix("## hexad ") {
            name = heading.to_owned();
            commands.entry(name.clone()).or_default();
        }
        let flag = line.strip_prefix("| `--").and_then(|rest| rest.split([' ', '`']).next());
        commands.entry(name.clone()).or_default().extend(flag.map(|flag| format!("--{flag}")));
    }
    commands
}

/// Why a line of a shell is no command of `hexad`, if it is one that is wrong.
fn fault(commands: &BTreeMap<String, BTreeSet<String>>, line: &str) -> Option<String> {
    let line = line.trim_start_matches("$ ").split(" #").next().unwrap_or_default();
    let words: Vec<&str> = line.strip_prefix("hexad ")?.split_whitespace().collect();
    let (first, second) = (words.first()?, words.get(1).copied().unwrap_or_default());
    let flags = commands.get(&format!("{first} {second}")).or_else(|| commands.get(*first));
    let Some(flags) = flags else { return Some(format!("`{line}`: there is no such command")) };
    let used = words.iter().filter(|word| word.starts_with("--")).map(|word| word.split('=').next().unwrap_or(word));
    let unknown = used.into_iter().find(|flag| !flags.contains(*flag));
    unknown.map(|flag| format!("`{line}`: there is no {flag}"))
}

#[test]
fn commands_of_the_documents_exist() {
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    let mut faults = Vec::new();
    for folder in ["", "docs", "docs/tutorials", "docs/how-to", "docs/reference", "docs/explanation"] {
        for path in pages(folder) {
            let mut language = None;
            for line in read(&path).lines() {
                match (language.is_some(), line.strip_prefix("```")) {
                    (false, Some(name)) => language = Some(name.to_owned()),
                    (true, Some(_)) => language = None,
                    _ => {}
                }
                // The other lines of a console are its output.
                let is_command = match language.as_deref() {
                    Some("sh") => true,
                    Some("console") => line.starts_with("$ "),
                    _ => false,
                };
                if is_command {
                    faults.extend(fault(&commands, line).map(|fault| format!("{}: {fault}", path.display())));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(fault(&commands, "$ hexad up --no-such-flag").is_some() && fault(&commands, "hexad swop a b").is_some());
}

#[test]
fn every_variable_and_key_of_the_manifest_is_documented() {
    let page = read("docs/reference/configuration.md");
    let variables = manifest()["variables"].as_table().expect("[variables]").keys().cloned().collect::<Vec<_>>();
    let schema = read("host/manifest/src/schema.rs");
    let tables = ["HexadTool", "OutboundTool", "MaintenanceTool", "CredentialsTool"].map(|name| {
        let (_, rest) = schema.split_once(&format!("pub struct {name} {{")).expect("a table of the manifest");
        rest.split("\n}").next().unwrap_or_default().to_owned()
    });
    let fields = tables.iter().flat_map(|table| table.lines());
    let fields = fields.filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next().map(str::to_owned));
    let renamed = |name: String| match &*name {
        "cache_max_age" => "response_cache".to_owned(),
        "cache_headers" => "response_cache_headers".to_owned(),
        _ => name,
    };
    let is_documented = |name: &String| page.contains(&format!("{name}`")) || page.contains(&format!("{name} = "));
    let missing: Vec<_> =
        variables.into_iter().chain(fields.map(renamed)).filter(|name| !is_documented(name)).collect();
    assert!(missing.is_empty(), "docs/reference/configuration.md has none of {missing:?}");
}

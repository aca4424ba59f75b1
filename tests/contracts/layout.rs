//! The layout: an area has one name everywhere, and every area has the same modules. The compiler has its profile.

use super::waits::MODULES;
use super::{areas, manifest, rust_files};
use hexad_tests::server::root;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[test]
fn an_areas_name_is_its_folder_its_contract_and_its_component() {
    for area in areas() {
        let source = manifest()["component"][&area]["source"].as_str().expect("a path").to_owned();
        assert_eq!(source, format!("dist/{area}.wasm"));
        for path in [format!("components/{area}/Cargo.toml"), format!("wit/{area}.wit")] {
            assert!(root().join(&path).is_file(), "{path} is missing");
        }
    }
}

#[test]
fn every_area_has_the_same_modules() {
    for area in areas() {
        for module in ["lib", "entry", "route", "api"] {
            let path = root().join("components").join(&area).join("src").join(format!("{module}.rs"));
            assert!(path.is_file(), "{} is missing", path.display());
        }
    }
}

#[test]
fn only_the_module_route_has_urls() {
    for area in areas() {
        let folder = root().join("components").join(&area).join("src");
        for path in rust_files(&folder) {
            // Tests request URLs, and `route` defines them.
            let within = path.strip_prefix(&folder).expect("a file of the area").with_extension("");
            if within.iter().any(|part| part == "tests" || part == "route") {
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("readable");
            let shipped = source.split("#[cfg(test)]").next().unwrap_or_default();
            for (number, line) in shipped.lines().enumerate() {
                let code = line.trim_start();
                let is_url = !code.starts_with("//") && code.contains("\"/api/v4");
                assert!(!is_url, "{}:{}: a URL outside route.rs", path.display(), number + 1);
            }
        }
    }
}

/// The most lines of a function that ships.
const MAX_FUNCTION: usize = 70;

/// The functions of a source that are too long: their names and their lines. rustfmt has indented them, so that a
/// function ends where a line is its indentation and a brace.
fn long_functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let words = code
            .split(' ')
            .take_while(|word| !word.contains("fn"))
            .all(|word| ["pub", "const", "async", "unsafe", "extern"].contains(&word) || word.starts_with("pub("));
        let name = code.split("fn ").nth(1).filter(|_| words && !code.starts_with("//"));
        let Some(name) = name.and_then(|rest| rest.split(['(', '<']).next()) else { continue };
        let end = format!("{}}}", " ".repeat(line.len() - code.len()));
        let rest = lines.get(start..).unwrap_or_default();
        let length = rest.iter().position(|line| *line == end || (line.ends_with(';') && rest[0] == *line));
        let length = length.map_or(0, |length| length + 1);
        if length > MAX_FUNCTION {
            found.push((name.to_owned(), length));
        }
    }
    found
}

#[test]
fn functions_fit_on_a_page() {
    let is_test = |path: &Path| path.with_extension("").iter().any(|part| MODULES.iter().any(|name| part == *name));
    let mut found = Vec::new();
    for path in ["components", "forge", "host", "widgets"].iter().flat_map(|folder| rust_files(&root().join(folder))) {
        let is_fixture = path.starts_with(root().join("host/fixtures"));
        if !is_test(&path) && !is_fixture {
            let text = std::fs::read_to_string(&path).expect("readable");
            let long = long_functions(&text).into_iter();
            found.extend(long.map(|(name, lines)| format!("{}: {name} has {lines} lines", path.display())));
        }
    }
    assert!(found.is_empty(), "functions of more than {MAX_FUNCTION} lines:\n{}", found.join("\n"));
}

#[test]
fn long_functions_are_found() {
    let body = "        x();\n".repeat(MAX_FUNCTION - 1);
    let text = format!(
        "impl A {{\n    pub async fn long<T>() {{\n{body}    }}\n\n    fn short() {{\n        y();\n    }}\n}}\n"
    );
    assert_eq!(long_functions(&text), [("long".to_owned(), MAX_FUNCTION + 1)]);
    assert_eq!(long_functions(&format!("trait A {{\n    fn a();\n}}\n#[cfg(test)]\n{text}")), []);
}

/// The path of the profile of the program for its compiler, as in the Makefile, with another ending.
fn profile(ending: &str) -> PathBuf {
    let text = std::fs::read_to_string(root().join("rust-toolchain.toml")).expect("readable");
    let toolchain: toml::Table = toml::from_str(&text).expect("TOML");
    let version = toolchain["toolchain"]["channel"].as_str().expect("a version");
    root().join(format!("host/profile/rustc-{version}-x86_64-unknown-linux-gnu.{ending}"))
}

/// Without the file, the build succeeds, but the program is slower.
#[test]
fn there_is_a_profile_of_the_program_for_its_compiler() {
    let path = profile("profdata");
    assert!(path.is_file(), "{} is missing; `make profile` makes it", path.display());
}

/// The crate and the name of the function of a mangled symbol. `None` for an instance of a function of another crate.
fn function(symbol: &str) -> Option<(String, String)> {
    let mut rest = symbol.strip_prefix("_ZN")?;
    let mut parts = Vec::new();
    while let Some(digits) = rest.find(|c: char| !c.is_ascii_digit()).filter(|digits| *digits > 0) {
        let length: usize = rest.get(..digits)?.parse().ok()?;
        parts.push(rest.get(digits..digits + length)?);
        rest = rest.get(digits + length..)?;
    }
    // The last part is a hash. `$` is in closures and in the types of implementations.
    let name = parts.iter().rev().skip(1).find(|part| !part.contains('$'))?;
    let first = parts.first()?.trim_start_matches("_$LT$");
    let krate = first.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?.strip_prefix("hexad_")?;
    Some((krate.replace('_', "-"), (*name).to_owned()))
}

#[test]
fn functions_are_read_of_symbols() {
    let read = |symbol: &str| function(symbol).map(|(krate, name)| format!("{krate} {name}"));
    let plain = "_ZN10hexad_http14response_cache13ResponseCache7look_up17h03edf5665df2d5bbE";
    assert_eq!(read(plain).as_deref(), Some("http look_up"));
    let of_trait = "_ZN66_$LT$hexad_store_sqlite..Shard$u20$as$u20$hexad_store..Backend$GT$3get17h0123456789abcdefE";
    assert_eq!(read(of_trait).as_deref(), Some("store-sqlite get"));
    assert_eq!(read("_ZN4http3uri4path12PathAndQuery11from_shared17heb3007fb649b3f18E"), None);
}

/// The compiler finds the counts of a function by its crate and its name.
#[test]
fn the_profile_knows_the_functions_that_run_most() {
    let path = profile("functions");
    let text =
        std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}; run `make profile`", path.display()));
    let functions: Vec<_> = text.lines().filter_map(function).take(200).collect();
    assert!(functions.len() >= 100, "{} names {} functions of the host", path.display(), functions.len());
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    let lost: Vec<String> = functions
        .iter()
        .filter(|(krate, name)| {
            let source = sources.entry(krate.clone()).or_insert_with(|| {
                let folder = root().join("host").join(krate).join("src");
                let files = if folder.is_dir() { rust_files(&folder) } else { Vec::new() };
                files.iter().map(|file| std::fs::read_to_string(file).expect("readable")).collect()
            });
            !["(", "<"].iter().any(|next| source.contains(&format!("fn {name}{next}")))
        })
        .map(|(krate, name)| format!("{krate}: {name}"))
        .collect();
    assert!(
        lost.len() * 5 <= functions.len(),
        "of {} functions that run most, the host has these no more; run `make profile`: {lost:?}",
        functions.len()
    );
}

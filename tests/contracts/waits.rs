//! Tests wait with a deadline: through `host/testing/src/wait.rs`, whose failures name what a test waits for.

use super::rust_files;
use hexad_tests::server::root;
use std::path::Path;

/// The functions with which a loop without a deadline waits. Both words are split, because this file is test code, too.
const FORBIDDEN: [&str; 2] = [concat!("yield", "_now"), concat!("thread::", "sleep")];

/// The only files that may use these functions.
const WAITS: [&str; 2] = ["host/testing/src/wait.rs", "host/testing/src/wait_async.rs"];

/// The folders whose code is that of tests, and names of modules that are.
const FOLDERS: [&str; 2] = ["host/hexad/tests", "tests"];
pub const MODULES: [&str; 4] = ["tests", "testing", "store-conformance", "torture"];

/// The lines of test code in a file, with their numbers. `path` starts at the project's folder.
fn test_code<'a>(path: &Path, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let parts = path.with_extension("");
    let is_test = FOLDERS.iter().any(|folder| path.starts_with(folder))
        || parts.iter().any(|part| MODULES.iter().any(|module| part == *module));
    let is_begin = |(attribute, module): (&str, &str)| {
        let module = module.trim_start_matches("pub ");
        attribute == "#[cfg(test)]" && module.starts_with("mod ") && module.ends_with('{')
    };
    let begin = if is_test { Some(0) } else { text.lines().zip(text.lines().skip(1)).position(is_begin) };
    (1..).zip(text.lines()).skip(begin.unwrap_or(usize::MAX))
}

/// Where a file waits in another way.
fn other_waits(path: &Path, text: &str) -> Vec<String> {
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let waits = |(_, line): &(usize, &str)| !is_comment(line) && FORBIDDEN.iter().any(|word| line.contains(word));
    let found = test_code(path, text).filter(waits);
    found.map(|(number, line)| format!("{}:{number}: {}", path.display(), line.trim())).collect()
}

#[test]
fn tests_wait_with_a_deadline_for_something_that_has_a_name() {
    let mut found = Vec::new();
    for folder in ["host", "forge", "components", "tests"] {
        for path in rust_files(&root().join(folder)) {
            let text = std::fs::read_to_string(&path).expect("readable");
            let path = path.strip_prefix(root()).expect("below the root");
            if !WAITS.iter().any(|file| path == Path::new(file)) {
                found.extend(other_waits(path, &text));
            }
        }
    }
    assert!(
        found.is_empty(),
        "a wait without an end says nothing when it hangs; use `wait_until(SOON, \"what\", || …)` of \
         host/testing/src/wait.rs, or `pause` for time that is a part of the test, or `next_turn`:\n{}",
        found.join("\n")
    );
}

#[test]
fn waits_are_found_in_code_of_tests_only() {
    let [turn, sleep] = FORBIDDEN;
    let text = format!("fn f() {{ {turn}(); }}\n#[cfg(test)]\nmod tests {{\n    // {turn}\n    {sleep}(a);\n}}\n");
    assert_eq!(other_waits(Path::new("host/http/src/a.rs"), &text), [format!("host/http/src/a.rs:5: {sleep}(a);")]);
    let first = format!("host/hexad/tests/a.rs:1: fn f() {{ {turn}(); }}");
    assert_eq!(other_waits(Path::new("host/hexad/tests/a.rs"), &text).first(), Some(&first));
    for path in ["host/http/src/a/tests.rs", "host/http/src/a/tests/b.rs", "host/store-postgres/src/torture/faults.rs"]
    {
        assert_eq!(other_waits(Path::new(path), &text).len(), 2, "{path}");
    }
    let shipped = format!("#[cfg(test)]\nuse a::B;\nfn f() {{ {turn}(); }}\n");
    assert_eq!(other_waits(Path::new("host/http/src/a.rs"), &shipped), [""; 0]);
}

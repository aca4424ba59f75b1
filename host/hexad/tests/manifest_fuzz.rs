//! Manifests that are not what they seem, and random changes of them.
//!
//! `corpus/manifests` has one file for each. Its name begins with `read` or `refused`. A refused file begins with `#
//! names:` and the names that its error must contain.

use crate::fuzz::{Changes, bytes, corpus};
use crate::*;
use hexad::manifest::{INSTANCES_CEILING, MEMORY_CEILING, Manifest, ManifestError};
use std::collections::BTreeSet;

/// Changed manifests per run. They are the same in each run.
const CHANGED: usize = 20_000;

/// The longest text of an error: a person reads it.
const MAX_ERROR: usize = 32 * 1024;

fn load(folder: &Path, bytes: &[u8]) -> Result<Manifest, ManifestError> {
    let path = folder.join("spin.toml");
    std::fs::write(&path, bytes).unwrap();
    Manifest::load(&path, &|_| None, None)
}

/// Words of the library that reads values, which a manifest's author does not know.
const FOREIGN_WORDS: [&str; 5] =
    ["invalid type", "data did not match", "missing field", "unknown field", "unknown variant"];

/// Checks the invariants of every manifest that is read.
fn assert_consistent(manifest: &Manifest, text: &str) {
    let ids: BTreeSet<&str> = manifest.components.iter().map(|component| component.id.as_str()).collect();
    assert_eq!(ids.len(), manifest.components.len(), "{text}");
    for route in &manifest.routes {
        assert!(ids.contains(route.component.as_str()) && route.pattern.starts_with('/'), "{route:?} in {text}");
    }
    for component in &manifest.components {
        let limits = &component.limits;
        assert!(limits.memory > 0 && limits.memory as u64 <= MEMORY_CEILING, "{text}");
        assert!((1..=INSTANCES_CEILING).contains(&limits.instances), "{text}");
        assert!((1..=limits.instances).contains(&limits.instances_per_client), "{text}");
        assert!((1..=limits.outbound.requests).contains(&limits.outbound.requests_per_client), "{text}");
        assert!(!limits.request.cpu_time.is_zero() && limits.request.max_body > 0, "{text}");
    }
}

/// Checks that the error names a line, unless the manifest is not text.
fn assert_has_line(error: &ManifestError, bytes: &[u8]) {
    assert!(std::str::from_utf8(bytes).is_err() || error.to_string().contains("line "), "{error}");
}

fn assert_readable(error: &ManifestError, bytes: &[u8]) {
    let error = error.to_string();
    assert!(error.contains("spin.toml"), "{error}");
    assert!(!FOREIGN_WORDS.iter().any(|words| error.contains(words)), "{error}");
    assert!(error.len() <= MAX_ERROR, "{} bytes for {}", error.len(), String::from_utf8_lossy(bytes));
}

#[test]
fn each_manifest_of_the_corpus_is_read_or_refused_as_its_name_says() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in corpus("manifests") {
        match load(folder.path(), &bytes) {
            Ok(manifest) => {
                assert!(name.starts_with("read-"), "{name}");
                assert_consistent(&manifest, &name);
            }
            Err(error) => {
                assert!(name.starts_with("refused-"), "{name}: {error}");
                assert_readable(&error, &bytes);
                assert_has_line(&error, &bytes);
                let text = String::from_utf8_lossy(&bytes);
                let words = text.lines().next().and_then(|line| line.strip_prefix("# names: ")).unwrap();
                for word in words.split(" | ") {
                    assert!(error.to_string().contains(word), "{name}: {word:?} is not in: {error}");
                }
            }
        }
    }
}

#[test]
fn a_manifest_cannot_grow_without_bound() {
    let folder = tempfile::tempdir().unwrap();
    let head = "spin_manifest_version = 2\napplication.name = \"a\"\ntrigger = {}\n";
    let long = "x".repeat(1 << 20);
    let nested = "[".repeat(1 << 20);
    let keys = "a.".repeat(1 << 20);
    let references = "{{ v }}".repeat(100_000);
    let areas: String = (0..20_000).map(|n| format!("[component.a{n}]\nsource = 1\n")).collect();
    for text in [
        format!("{head}{long}"),
        format!("{head}{long} = 1"),
        format!("{head}x = \"{long}\""),
        format!("{head}x = {nested}"),
        format!("{head}{keys}b = 1"),
        format!(
            "{head}variables.v.default = \"{long}\"\ncomponent.a.source = \"a\"\ncomponent.a.variables.w = \"{references}\""
        ),
        format!("{head}component.a.source = \"a\"\ncomponent.a.tool.hexad.memory = \"{long}\""),
        format!("{head}{areas}"),
        format!("{head}# {}", "x".repeat(17 << 20)),
    ] {
        let error = load(folder.path(), text.as_bytes()).err().unwrap();
        assert_readable(&error, &text.as_bytes()[..100]);
    }
}

/// The parts that manifests are made of.
const PIECES: &[&[u8]] = &[
    b"\n",
    b"\"",
    b"\"\"\"",
    b"=",
    b"...",
    b"[",
    b"}",
    b"{{ ",
    b"#",
    b"\0",
    b"\xff",
    b" nan\n",
    b" -1\n",
    b" 1\n",
    b" 99999999999999999999\n",
    b" true\n",
    b" 1979-05-27\n",
    b" \"\"\n",
    b" \"1s\"\n",
    b" \"64MiB\"\n",
    b" \"/a\"\n",
    b" \"{{ token }}\"\n",
    b" [\"a/\"]\n",
    b" {}\n",
    b" []\n",
    b"\n[[component.b]]\nsource = \"b.wasm\"\n",
    b"\n[component.b]\nsource = \"b.wasm\"\n",
    b"\n[[trigger.http]]\nroute = \"/*\"\ncomponent = \"a\"\n",
    b"\n[component.a.tool.hexad]\ninstances = 1\n",
];

/// The keys, values and lines of a manifest.
fn parts(manifest: &[u8]) -> Vec<&[u8]> {
    manifest.split_inclusive(|byte| matches!(byte, b'=' | b'\n')).collect()
}

#[test]
fn changed_manifests_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spin.toml")).unwrap();
    let corpus = corpus("manifests");
    let seeds = |prefix: &'static str| {
        let named = corpus.iter().filter(move |(name, _)| name.starts_with(prefix));
        named.map(|(_, bytes)| bytes.as_slice()).chain([own.as_slice()])
    };
    // A changed byte usually breaks the syntax. A changed value often does not.
    let of_bytes = Changes::new(seeds(""), bytes, PIECES).take(CHANGED / 2);
    let of_parts = Changes::new(seeds("read-"), parts, PIECES).take(CHANGED / 2);
    let (mut read, mut refused) = (0, 0);
    for bytes in of_bytes.chain(of_parts) {
        match load(folder.path(), &bytes) {
            Ok(manifest) => {
                read += 1;
                assert_consistent(&manifest, &String::from_utf8_lossy(&bytes));
            }
            Err(error) => {
                refused += 1;
                assert_readable(&error, &bytes);
                assert_has_line(&error, &bytes);
            }
        }
    }
    assert!(read > CHANGED / 100 && refused > CHANGED / 100, "{read} read, {refused} refused");
}

//! The requirements of a release. `HEXAD_RELEASE=yes` says that a release is being made.

use super::*;
use sha2::{Digest as _, Sha256};

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// SHA-256 of the text of version 2.0 of the licence, as its authors publish it.
const APACHE_2_0: &str = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30";

#[test]
fn the_licence_is_the_unchanged_text_of_the_one_that_the_manifest_names() {
    let manifest: toml::Table = read("Cargo.toml").parse().expect("TOML");
    assert_eq!(manifest["workspace"]["package"]["license"].as_str(), Some("Apache-2.0"));
    assert_eq!(hex::encode(Sha256::digest(read("LICENSE"))), APACHE_2_0, "LICENSE was changed");
}

#[test]
fn a_release_says_where_vulnerabilities_are_reported() {
    let has_placeholder = read("SECURITY.md").contains("`SECURITY_CONTACT`");
    let is_release = std::env::var("HEXAD_RELEASE").is_ok_and(|value| value == "yes");
    assert!(!(is_release && has_placeholder), "SECURITY.md has no address: replace SECURITY_CONTACT before a release");
}

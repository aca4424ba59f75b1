//! `hexad token create` offers the scopes that the server accepts, although both share no code.

use super::*;

/// The texts of the list that begins with `head` in a file.
fn listed(path: &str, head: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(path)).expect("readable");
    let (_, rest) = text.split_once(head).unwrap_or_else(|| panic!("{path} has no `{head}`"));
    let (list, _) = rest.split_once("];").expect("a list ends");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_program_offers_the_scopes_of_personal_tokens() {
    let accepted = listed("components/directory/src/model/token.rs", "const PERSONAL_SCOPES: [&str; 16] = [");
    assert!(accepted.iter().any(|scope| scope == "api"), "{accepted:?}");
    assert_eq!(listed("forge/src/token.rs", "const SCOPES: [&str; 16] = ["), accepted);
}

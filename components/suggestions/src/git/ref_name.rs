//! Names of refs.

use super::id::ObjectId;

/// The longest name of a ref, in bytes.
pub const MAX_REF_NAME: usize = 255;

/// Whether git accepts this as the name of a ref below `refs/` (git-check-ref-format): at least a folder and a
/// name, such as `heads/main`.
pub fn is_ref_name(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let forbidden = |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    name.len() <= MAX_REF_NAME
        && name.contains('/')
        && name.split('/').all(is_part)
        && !name.contains(forbidden)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
}

/// Whether this is the name of a branch (`heads/…`) or tag (`tags/…`).
pub fn is_branch_or_tag(name: &str) -> bool {
    is_ref_name(name) && (name.starts_with("heads/") || name.starts_with("tags/"))
}

/// Names that git reads from files of its own before it looks for a branch or tag (gitrevisions).
const PSEUDO_REFS: [&str; 9] = [
    "HEAD",
    "FETCH_HEAD",
    "ORIG_HEAD",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_HEAD",
    "AUTO_MERGE",
];

/// The other meaning that clients give a name below `refs/`, if the name is ambiguous. No ref with such a name is
/// created or moved: a client that names a commit, or another branch, would get this ref.
pub fn find_ambiguity(name: &str) -> Option<&'static str> {
    let is_id = |text: &str| matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (kind, short) = name.split_once('/')?;
    match (kind, short.split('/').next().unwrap_or_default()) {
        ("refs", _) => Some("another ref"),
        ("replace", _) => ObjectId::parse(short).is_none().then_some("a replacement of an object"),
        ("heads" | "tags", first) if is_id(first) => Some("the id of a commit"),
        ("heads" | "tags", first) if PSEUDO_REFS.contains(&first) || short == "@" => Some("a ref of git's own"),
        ("heads" | "tags", "refs" | "heads" | "tags" | "remotes") if short.contains('/') => Some("another ref"),
        ("heads" | "tags", _) if short.starts_with('-') => Some("an option"),
        _ => None,
    }
}

/// Explains the ambiguity in a sentence.
pub fn explain_ambiguity(name: &str, taken_for: &str) -> String {
    format!("Clients read refs/{name} as something else: {taken_for}. Choose another name; it can still be deleted.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ref_names_follow_the_rules_of_git() {
        for good in ["heads/main", "heads/a/b-c_d.e", "tags/v1.0", "heads/ünïcode", "heads/@", "heads/%2f"] {
            assert!(is_branch_or_tag(good), "{good}");
        }
        for bad in [
            "main",
            "heads/",
            "heads//a",
            "heads/a/",
            "heads/.a",
            "heads/a.lock",
            "heads/a..b",
            "heads/a b",
            "heads/a~1",
            "heads/a^",
            "heads/a:b",
            "heads/a*",
            "heads/a[",
            "heads/a\\b",
            "heads/a\n",
            "heads/a@{1}",
            "heads/a.",
            "",
        ] {
            assert!(!is_ref_name(bad), "{bad}");
        }
        assert!(!is_ref_name(&format!("heads/{}", "x".repeat(MAX_REF_NAME))));
        assert!(is_ref_name("notes/commits") && !is_branch_or_tag("notes/commits"));
    }
}

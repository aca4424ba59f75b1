//! Names of refs.

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

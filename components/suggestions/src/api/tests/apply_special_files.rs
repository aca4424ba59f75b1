//! A suggestion on a file that git reads is not applied if a push of the result would be refused.

use super::*;

const MODULES: &[u8] = b"[submodule \"s\"]\n\tpath = s\n\turl = https://example.com/s\n";

fn refusal(why: &'static str) -> (u16, String) {
    (400, InapplicableReason::DisallowedContents(why).to_string())
}

#[test]
fn an_address_of_a_submodule_that_git_refuses_is_not_applied() {
    let (forge, _) = Forge::with(&[(".gitmodules", MODULES), ("lib/.GITMODULES ", MODULES), ("modules", MODULES)]);
    let before = forge.head(PUBLIC, "topic");
    let url = "\turl = -u./payload";
    for path in [".gitmodules", "lib/.GITMODULES "] {
        let id = forge.suggest(1, path, 3, &block("", url))[0];
        assert_eq!(forge.flags(id), (false, false), "{path}");
        let expected = refusal("gitmodulesUrl: disallowed submodule url");
        assert_eq!(forge.apply(id, "dev", Value::Null).refusal(), expected, "{path}");
        assert_eq!(forge.apply_all(&[id], "dev").refusal(), expected, "{path}");
    }
    assert_eq!(forge.head(PUBLIC, "topic"), before);
    let good = forge.suggest(1, ".gitmodules", 3, &block("", "\turl = https://example.com/t"))[0];
    let other = forge.suggest(1, "modules", 3, &block("", url))[0];
    assert_eq!((forge.flags(good), forge.flags(other)), ((true, false), (true, false)));
    assert_eq!(forge.apply_all(&[good, other], "dev").status, 200);
    forge.clone(PUBLIC);
}

#[test]
fn suggestions_that_are_bad_only_together_are_not_applied_together() {
    let (forge, _) = Forge::with(&[(".gitmodules", b"# one\n# two\n")]);
    let section = forge.suggest(1, ".gitmodules", 1, &block("", "[submodule \"s\"]"))[0];
    let url = forge.suggest(1, ".gitmodules", 2, &block("", "url = -u./payload"))[0];
    assert_eq!((forge.flags(section), forge.flags(url)), ((true, false), (true, false)));
    let expected = refusal("gitmodulesUrl: disallowed submodule url");
    assert_eq!(forge.apply_all(&[section, url], "dev").refusal(), expected);
    assert_eq!(forge.apply(section, "dev", Value::Null).status, 200);
    assert_eq!(forge.apply(url, "dev", Value::Null).refusal(), expected);
}

#[test]
fn attributes_that_git_does_not_read_are_not_applied() {
    let (forge, _) = Forge::with(&[("a/.gitattributes", b"*.txt text\n*.bin binary\n")]);
    let long = forge.suggest(1, "a/.gitattributes", 1, &block("", &"a".repeat(3000)))[0];
    let expected = refusal("gitattributesLineLength: .gitattributes has too long lines to parse");
    assert_eq!(forge.apply(long, "dev", Value::Null).refusal(), expected);
    assert_eq!(forge.flags(long), (false, false));
    let large = forge.suggest(1, "a/.gitattributes", 1, &block("", &"a text\n".repeat(90_000)));
    let large = [large, forge.suggest(1, "a/.gitattributes", 2, &block("", &"b text\n".repeat(90_000)))].concat();
    let expected = refusal("gitattributesLarge: .gitattributes too large to parse");
    assert_eq!(forge.apply_all(&large, "dev").refusal(), expected);
}

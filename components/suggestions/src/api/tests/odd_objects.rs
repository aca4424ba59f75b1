//! Objects that git accepts and does not write itself.

use super::made_pack::{Pack, assert_made, new_blob, new_commit, new_tree, push_pack};
use super::*;
use crate::store::history::MAX_NESTED_TAGS;

fn push(forge: &Forge, repository: &Repository, arguments: &[&str]) -> Result<String, String> {
    forge.git(repository, PUBLIC, "dev", &[&["push", "URL"], arguments].concat())
}

/// Makes a chain of tags, each named by its number, from the one that names `main`.
fn nest_tags(repository: &Repository, count: usize) {
    for number in 1..=count {
        let target = if number == 1 { "main".into() } else { format!("{}", number - 1) };
        repository.git(&["tag", "-a", "-m", "x", &number.to_string(), &target]);
    }
}

#[test]
fn tags_of_tags_are_listed_to_a_depth() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a", b"one\n")]);
    nest_tags(&repository, MAX_NESTED_TAGS + 1);
    let deepest = MAX_NESTED_TAGS.to_string();
    let too_deep = (MAX_NESTED_TAGS + 1).to_string();
    push(&forge, &repository, &["topic", &deepest]).unwrap();
    let why = push(&forge, &repository, &[&too_deep]).unwrap_err();
    assert!(why.contains("(too many nested tags)") && why.contains("16 tags at most"), "{why}");
    let listed =
        forge.get(&format!("projects/{PUBLIC}/repository.git/info/refs?service=git-upload-pack"), "dev").text();
    let main = repository.text(&["rev-parse", "main"]);
    assert!(listed.contains(&format!("{main} refs/tags/{deepest}^{{}}\n")), "{listed}");
    assert!(!listed.contains(&format!("refs/tags/{too_deep}")), "{listed}");
    let clone = forge.clone(PUBLIC);
    assert_eq!(clone.text(&["rev-parse", &deepest]), repository.text(&["rev-parse", &deepest]));
}

#[test]
fn permissions_of_old_versions_are_no_error() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a", b"one\n")]);
    push(&forge, &repository, &["topic"]).unwrap();
    let blob = new_blob(b"old\n".to_vec());
    let tree = new_tree(&[("100640 a", blob.id), ("100777 b", blob.id), ("100600 c", blob.id)]);
    let commit = new_commit(tree.id);
    let pack = Pack::of([&commit, &tree, &blob]);
    assert_made(&push_pack(&forge, commit.id, &pack.bytes()));
    let clone = forge.clone(PUBLIC);
    assert_eq!(clone.text(&["rev-parse", "new^{tree}"]), tree.id.to_string());
    assert_eq!(clone.text(&["show", "new:b"]), "old");
}

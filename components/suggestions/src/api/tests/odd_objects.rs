//! Objects that git accepts and does not write itself.

use super::made_pack::{Pack, commit_of, push_pack, tree_of};
use super::{Forge, PUBLIC, Repository};
use crate::git::{Object, ObjectKind};
use crate::store::history::MAX_NESTED_TAGS;
use http::Method;

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
    let path = format!("projects/{PUBLIC}/repository.git/info/refs?service=git-upload-pack");
    let listed = forge.send_bytes(Method::GET, &path, "dev", "", Vec::new()).text();
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
    let blob = Object::new(ObjectKind::Blob, b"old\n".to_vec());
    let tree = tree_of(&[("100640 a", blob.id), ("100777 b", blob.id), ("100600 c", blob.id)]);
    let tree = Object::new(ObjectKind::Tree, tree);
    let commit = Object::new(ObjectKind::Commit, commit_of(tree.id));
    let objects = [&commit, &tree, &blob].into_iter();
    let pack = objects.fold(Pack::new(), |pack, object| pack.object(object.kind, &object.contents));
    let report = push_pack(&forge, commit.id, &pack.bytes());
    assert!(report.contains("ok refs/heads/new"), "{report}");
    let clone = forge.clone(PUBLIC);
    assert_eq!(clone.text(&["rev-parse", "new^{tree}"]), tree.id.to_string());
    assert_eq!(clone.text(&["show", "new:b"]), "old");
}

//! Deltas upon deltas, in one pack and over many pushes.

use super::made_pack::{Pack, assert_made, move_by_pack, new_blob, new_commit, new_commit_upon, new_tree, push_pack};
use super::ref_names::{body, push};
use super::*;
use crate::store::objects;
use crate::store::packs::Packs;

/// How many deltas are applied to read an object, as they are stored.
fn stored_depth(forge: &Forge, id: ObjectId) -> usize {
    let env = forge.env();
    let packs = Packs::load(&env, RepositoryId::first(PUBLIC)).unwrap();
    let base =
        |id: &ObjectId| packs.base(&packs.find(*id).unwrap().expect("it is in a pack")).unwrap().map(|(id, _)| id);
    std::iter::successors(Some(id), base).count() - 1
}

fn tree(entries: &[(String, ObjectId)]) -> Object {
    let entries: Vec<(&str, ObjectId)> = entries.iter().map(|(name, id)| (name.as_str(), *id)).collect();
    new_tree(&entries)
}

#[test]
fn chains_do_not_grow_with_the_number_of_pushes() {
    let forge = Forge::new();
    let blob = |number: usize| new_blob(format!("{number}\n").into_bytes());
    let mut entries: Vec<_> = (0..30).map(|name| (format!("100644 file-{name:02}"), blob(0).id)).collect();
    let mut root = tree(&entries);
    let mut head = new_commit(root.id);
    let pack = Pack::of([&head, &root, &blob(0)]);
    assert_made(&push_pack(&forge, head.id, &pack.bytes()));
    let mut depths = Vec::new();
    for number in 1..=200 {
        entries[number % 30].1 = blob(number).id;
        let (next, old) = (tree(&entries), head.id);
        head = new_commit_upon(old, next.id);
        let pack = Pack::of([&head, &blob(number)]).with_delta(&root, &next);
        assert_made(&move_by_pack(&forge, Some(old), head.id, &pack.bytes()));
        root = next;
        depths.push(stored_depth(&forge, root.id));
    }
    assert_eq!(depths.iter().max(), Some(&50), "{depths:?}");
    assert_eq!(depths.iter().filter(|depth| **depth == 0).count(), 3, "the others are deltas");
    let clone = forge.clone(PUBLIC);
    assert_eq!(clone.text(&["rev-list", "--count", "new"]), "201");
}

/// A pack with a chain of so many delta trees upon a whole one, the last tree, and a commit that has it.
fn chained(deltas: usize) -> (Pack, Object, Object) {
    let blob = new_blob(b"hello\n".to_vec());
    let mut last = tree(&[("100644 n00000".into(), blob.id)]);
    let mut pack = Pack::of([&blob]);
    let mut offset = pack.size();
    pack = pack.with(&last);
    for number in 1..=deltas {
        let next = tree(&[(format!("100644 n{number:05}"), blob.id)]);
        let (start, distance) = (pack.size(), pack.size() - offset);
        pack = pack.with_delta_as(EntryKind::OffsetDelta(distance), &last, &next);
        (last, offset) = (next, start);
    }
    let commit = new_commit(last.id);
    (pack.with(&commit), last, commit)
}

#[test]
fn delta_chains_may_be_as_long_as_in_git() {
    for deltas in [4_096, 10_001] {
        let forge = Forge::new();
        let (pack, _, commit) = chained(deltas);
        let report = push_pack(&forge, commit.id, &pack.bytes());
        assert!(report.contains("delta upon 4095 others") && report.contains("ng refs/heads/new"), "{report}");
        assert!(forge.get(&format!("projects/{PUBLIC}/repository.git/info/refs"), "").body.is_empty());
    }
    let forge = Forge::new();
    let (pack, last, commit) = chained(4_095);
    assert_made(&push_pack(&forge, commit.id, &pack.bytes()));
    assert_eq!(stored_depth(&forge, last.id), 4_095);

    // A delta upon the last tree is stored whole, and further deltas build on that one.
    let (env, project) = (forge.env(), RepositoryId::first(PUBLIC));
    let blob = new_blob(b"hello\n".to_vec());
    let [a, b, c] = ["a", "b", "c"].map(|name| tree(&[(format!("100644 {name}"), blob.id)]));
    let first = new_commit_upon(commit.id, a.id);
    let second = new_commit_upon(first.id, b.id);
    let third = new_commit_upon(second.id, c.id);
    let pack = Pack::new().with_delta(&b, &c).with(&first);
    let start = pack.size();
    let pack = pack.with_delta(&last, &a).with(&second);
    let distance = pack.size() - start;
    let pack = pack.with_delta_as(EntryKind::OffsetDelta(distance), &a, &b).with(&third);
    assert_made(&move_by_pack(&forge, Some(commit.id), third.id, &pack.bytes()));
    assert_eq!([&a, &b, &c].map(|tree| stored_depth(&forge, tree.id)), [0, 1, 2]);
    assert_eq!([&a, &b, &c].map(|tree| objects::delta_depth(&env, project, tree.id).unwrap()), [0, 1, 2]);
    let clone = forge.clone(PUBLIC);
    assert_eq!(clone.text(&["ls-tree", "--name-only", "new"]), "c");
}

#[test]
fn a_chain_of_large_files_is_made_once_whatever_branches_off() {
    let forge = Forge::new();
    let mut contents = vec![0; 65 << 20];
    fastrand::Rng::with_seed(7).fill(&mut contents);
    let mut last = new_blob(contents);
    let with = |base: &Object, more: &[u8]| new_blob([&base.contents, more].concat());
    let mut entries = vec![("100644 0".to_owned(), last.id)];
    let mut pack = Pack::of([&last]);
    for number in 1..=3 {
        let (next, sibling) = (with(&last, b"next"), with(&last, b"sibling"));
        for (name, object) in [("a", &next), ("b", &sibling)] {
            pack = pack.with_delta(&last, object);
            entries.push((format!("100644 {number}{name}"), object.id));
        }
        last = next;
    }
    let tree = tree(&entries);
    let commit = new_commit(tree.id);
    let pack = pack.with(&tree).with(&commit);
    let is_read = |operation: &str, key: &str| operation == "get" && key.starts_with("suggestions/v1/pack/");
    let (store, reads) = WatchedStore::counting(&forge.store, is_read);
    let request = [body(&[("heads/new", None, Some(commit.id))], ""), pack.bytes()].concat();
    assert_made(&push(forge.env_over(store), &request));
    let blobs = forge.store.keys().iter().filter(|key| key.starts_with("suggestions/v1/pack/")).count();
    assert!(blobs > 250 && reads.get() < blobs * 3 / 2, "{} reads of {blobs} blobs", reads.get());
}

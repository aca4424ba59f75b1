//! Deltas upon deltas, in one pack and over many pushes.

use super::made_pack::{Pack, commit_of, commit_upon, move_by_pack, push_pack, tree_of};
use super::ref_names::{body, push};
use super::watched_store::WatchedStore;
use super::{Forge, PUBLIC};
use crate::git::pack_entry::EntryKind;
use crate::git::{Object, ObjectId, ObjectKind, delta};
use crate::repository_id::RepositoryId;
use crate::store::objects;
use crate::store::packs::Packs;
use std::cell::Cell;
use std::rc::Rc;

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
    Object::new(ObjectKind::Tree, tree_of(&entries))
}

/// Adds a delta of an object.
fn with_delta(pack: Pack, kind: EntryKind, base: &Object, object: &Object) -> Pack {
    let delta = delta::of_edit(&base.contents, &object.contents);
    pack.add(kind, delta.len(), &delta)
}

#[test]
fn chains_do_not_grow_with_the_number_of_pushes() {
    let forge = Forge::new();
    let blob = |number: usize| Object::new(ObjectKind::Blob, format!("{number}\n").into_bytes());
    let mut entries: Vec<_> = (0..30).map(|name| (format!("100644 file-{name:02}"), blob(0).id)).collect();
    let mut root = tree(&entries);
    let mut head = Object::new(ObjectKind::Commit, commit_of(root.id));
    let pack = Pack::new()
        .object(ObjectKind::Commit, &head.contents)
        .object(ObjectKind::Tree, &root.contents)
        .object(ObjectKind::Blob, &blob(0).contents);
    assert!(push_pack(&forge, head.id, &pack.bytes()).contains("ok refs/heads/new"));
    let mut depths = Vec::new();
    for number in 1..=200 {
        entries[number % 30].1 = blob(number).id;
        let (next, old) = (tree(&entries), head.id);
        head = Object::new(ObjectKind::Commit, commit_upon(old, next.id));
        let pack =
            Pack::new().object(ObjectKind::Commit, &head.contents).object(ObjectKind::Blob, &blob(number).contents);
        let pack = with_delta(pack, EntryKind::RefDelta(root.id), &root, &next);
        let report = move_by_pack(&forge, Some(old), head.id, &pack.bytes());
        assert!(report.contains("ok refs/heads/new"), "{report}");
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
    let blob = Object::new(ObjectKind::Blob, b"hello\n".to_vec());
    let mut last = tree(&[("100644 n00000".into(), blob.id)]);
    let mut pack = Pack::new().object(ObjectKind::Blob, &blob.contents);
    let mut offset = pack.size();
    pack = pack.object(ObjectKind::Tree, &last.contents);
    for number in 1..=deltas {
        let next = tree(&[(format!("100644 n{number:05}"), blob.id)]);
        let (start, distance) = (pack.size(), pack.size() - offset);
        pack = with_delta(pack, EntryKind::OffsetDelta(distance), &last, &next);
        (last, offset) = (next, start);
    }
    let commit = Object::new(ObjectKind::Commit, commit_of(last.id));
    (pack.object(ObjectKind::Commit, &commit.contents), last, commit)
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
    let report = push_pack(&forge, commit.id, &pack.bytes());
    assert!(report.contains("ok refs/heads/new"), "{report}");
    assert_eq!(stored_depth(&forge, last.id), 4_095);

    // A delta upon the last tree is stored whole, and further deltas build on that one.
    let (env, project) = (forge.env(), RepositoryId::first(PUBLIC));
    let blob = Object::new(ObjectKind::Blob, b"hello\n".to_vec());
    let [a, b, c] = ["a", "b", "c"].map(|name| tree(&[(format!("100644 {name}"), blob.id)]));
    let first = Object::new(ObjectKind::Commit, commit_upon(commit.id, a.id));
    let second = Object::new(ObjectKind::Commit, commit_upon(first.id, b.id));
    let third = Object::new(ObjectKind::Commit, commit_upon(second.id, c.id));
    let pack = with_delta(Pack::new(), EntryKind::RefDelta(b.id), &b, &c).object(ObjectKind::Commit, &first.contents);
    let start = pack.size();
    let pack = with_delta(pack, EntryKind::RefDelta(last.id), &last, &a).object(ObjectKind::Commit, &second.contents);
    let distance = pack.size() - start;
    let pack = with_delta(pack, EntryKind::OffsetDelta(distance), &a, &b).object(ObjectKind::Commit, &third.contents);
    let report = move_by_pack(&forge, Some(commit.id), third.id, &pack.bytes());
    assert!(report.contains("ok refs/heads/new"), "{report}");
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
    let mut last = Object::new(ObjectKind::Blob, contents);
    let with = |base: &Object, more: &[u8]| Object::new(ObjectKind::Blob, [&base.contents, more].concat());
    let mut entries = vec![("100644 0".to_owned(), last.id)];
    let mut pack = Pack::new().object(ObjectKind::Blob, &last.contents);
    for number in 1..=3 {
        let (next, sibling) = (with(&last, b"next"), with(&last, b"sibling"));
        for (name, object) in [("a", &next), ("b", &sibling)] {
            pack = with_delta(pack, EntryKind::RefDelta(last.id), &last, object);
            entries.push((format!("100644 {number}{name}"), object.id));
        }
        last = next;
    }
    let tree = tree(&entries);
    let commit = Object::new(ObjectKind::Commit, commit_of(tree.id));
    let pack = pack.object(ObjectKind::Tree, &tree.contents).object(ObjectKind::Commit, &commit.contents);
    let reads: Rc<Cell<usize>> = Rc::default();
    let watch = {
        let reads = reads.clone();
        move |operation: &str, key: &str| {
            let is_read = operation == "get" && key.starts_with("suggestions/v1/pack/");
            reads.set(reads.get() + usize::from(is_read));
        }
    };
    let env = forge.env_over(WatchedStore::over(forge.store.clone(), watch));
    let request = [body(&[("heads/new", None, Some(commit.id))], ""), pack.bytes()].concat();
    let report = push(env, &request);
    assert!(report.contains("ok refs/heads/new"), "{report}");
    let blobs = forge.store.keys().iter().filter(|key| key.starts_with("suggestions/v1/pack/")).count();
    assert!(blobs > 250 && reads.get() < blobs * 3 / 2, "{} reads of {blobs} blobs", reads.get());
}

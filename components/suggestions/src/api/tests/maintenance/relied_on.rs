//! Loose objects that a push relies on while they may be swept.

use super::*;
use crate::api::tests::made_pack::{Pack, new_commit_upon, new_tree};
use crate::api::tests::ref_names::{body, push};

#[test]
fn a_push_relies_on_loose_objects_only_if_a_ref_reaches_them_or_they_are_recent() {
    let timed = TimedForge::new();
    let repository = example();
    let id = |name: &str| ObjectId::parse(&repository.text(&["rev-parse", name])).unwrap();
    repository.git(&["checkout", "-q", "main"]);
    let first = id("main");
    repository.write("a.txt", b"new\n");
    repository.commit("second");
    timed.objects_of(&repository);
    timed.refs(json!([{"name": "heads/main", "old": first.to_string(), "new": id("main").to_string()}]));
    let garbage = example();
    garbage.write("gone", b"gone\n");
    let tip = ObjectId::parse(&garbage.commit("gone")).unwrap();
    let blob = ObjectId::parse(&garbage.text(&["rev-parse", "HEAD:gone"])).unwrap();
    timed.objects_of(&garbage);
    let main = id("main");
    // A commit with these files upon `main`.
    let pack = |entries: &[(&str, ObjectId)], parent: ObjectId| {
        let tree = new_tree(entries);
        let commit = new_commit_upon(parent, tree.id);
        let pack = Pack::of([&commit, &tree]);
        (commit.id, pack.bytes())
    };
    let told = |name: &str, (new, pack): (ObjectId, Vec<u8>)| {
        let name = format!("heads/{name}");
        push(timed.env(), &[body(&[(&name, None, Some(new))], "side-band-64k"), pack].concat())
    };
    let is_moved = |told: String| {
        assert!(told.contains("ok refs/heads/") || told.contains("missing necessary objects"), "{told}");
        told.contains("ok refs/heads/")
    };
    assert!(is_moved(told("recent", pack(&[("100644 gone", blob)], first))), "they were sent just now");
    timed.refs(json!([{"name": "heads/recent", "old": timed.forge.head(PUBLIC, "recent")}]));
    // The semispaces exchange their roles, and all loose objects are in the one that is swept next.
    timed.gc();
    timed.advance(25 * HOUR);
    assert!(timed.has(&tip.to_string()));
    assert!(!is_moved(told("tip", (tip, Vec::new()))), "nothing reaches it");
    assert!(!is_moved(told("blob", pack(&[("100644 gone", blob)], main))), "nothing reaches the file");
    assert!(!is_moved(told("parent", pack(&[("100644 a.txt", id("main:a.txt"))], tip))), "nothing reaches the parent");
    let kept = [("100644 a.txt", id("main:a.txt")), ("40000 dir", id("main:dir"))];
    assert!(is_moved(told("new", pack(&kept, main))));
    let old = [("100644 a.txt", id("main~1:a.txt")), ("40000 deep", id("main:dir/deep"))];
    assert!(is_moved(told("old", pack(&old, main))), "the history has it");
    assert!(is_moved(told("former", (first, Vec::new()))), "the history has it");
    timed.sweep_both();
    timed.is_sound();
    timed.forge.clone(PUBLIC);
}

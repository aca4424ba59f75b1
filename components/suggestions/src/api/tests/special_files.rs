//! Files that git reads are checked whenever a pushed folder names them, whichever push brings their contents.

use super::made_pack::{Pack, assert_made, move_by_pack, new_blob, new_commit, new_commit_upon, new_tree, push_pack};
use super::*;

const BAD_MODULES: &[u8] = b"[submodule \"s\"]\n\tpath = s\n\turl = -u./payload\n";

#[test]
fn a_file_that_becomes_special_by_a_later_push_is_checked() {
    let long_line = b"x".repeat(3_000);
    let large = b"# text\n".repeat(200_000);
    for (contents, name, why) in [
        (BAD_MODULES, ".gitmodules", "gitmodulesUrl: disallowed submodule url"),
        (BAD_MODULES, "gitmod~1", "gitmodulesUrl: disallowed submodule url"),
        (&large, ".gitmodules", "gitmodulesLarge: .gitmodules too large to parse"),
        (&long_line, ".gitattributes", "gitattributesLineLength: .gitattributes has too long lines to parse"),
        (&large, ".gitattributes", "gitattributesLarge: .gitattributes too large to parse"),
    ] {
        for is_imported in [false, true] {
            let (forge, repository) = (Forge::new(), Repository::with(&[("x.txt", contents), ("dir/a", b"a\n")]));
            if is_imported {
                forge.import(PUBLIC, &repository);
            } else {
                forge.git(&repository, PUBLIC, "dev", &["push", "-q", "URL", "topic"]).unwrap();
            }
            let before = forge.head(PUBLIC, "topic");
            repository.git(&["mv", "x.txt", &format!("dir/{name}")]);
            repository.commit("moved");
            let refusal = forge.git(&repository, PUBLIC, "dev", &["push", "URL", "topic"]).unwrap_err();
            assert!(refusal.contains(why), "{name} {is_imported}: {refusal}");
            assert_eq!(forge.head(PUBLIC, "topic"), before);
            // A name that git does not read.
            repository.git(&["mv", &format!("dir/{name}"), "dir/modules"]);
            repository.git(&["commit", "-q", "--amend", "-m", "moved elsewhere"]);
            forge.git(&repository, PUBLIC, "dev", &["push", "-q", "URL", "topic"]).unwrap();
        }
    }
}

#[test]
fn a_special_file_that_is_larger_than_any_delta_is_refused_as_one() {
    let blob = new_blob(vec![b'\n'; (96 << 20) + 1]);
    for (name, why) in [(".gitmodules", "gitmodulesLarge"), (".gitattributes", "gitattributesLarge")] {
        let forge = Forge::new();
        let tree = new_tree(&[(&format!("100644 {name}"), blob.id)]);
        let commit = new_commit(tree.id);
        let pack = Pack::of([&commit, &tree, &blob]);
        let report = push_pack(&forge, commit.id, &pack.bytes());
        assert!(report.contains(&format!("{why}: {name} too large to parse")), "{report}");
    }
}

#[test]
fn a_good_file_that_becomes_special_is_accepted() {
    let modules = b"[submodule \"s\"]\n\tpath = s\n\turl = https://example.com/s\n";
    let (forge, repository) = (Forge::new(), Repository::with(&[("x", modules), ("y", b"*.txt text\n")]));
    forge.git(&repository, PUBLIC, "dev", &["push", "-q", "URL", "topic"]).unwrap();
    repository.git(&["mv", "x", ".gitmodules"]);
    repository.git(&["mv", "y", ".gitattributes"]);
    let head = repository.commit("moved");
    forge.git(&repository, PUBLIC, "dev", &["push", "-q", "URL", "topic"]).unwrap();
    assert_eq!(forge.head(PUBLIC, "topic"), head);
}

/// As by `git receive-pack` with `receive.fsckObjects`.
#[test]
fn a_bad_file_of_an_imported_history_is_refused_in_each_new_folder_that_has_it() {
    let (forge, repository) = (Forge::new(), Repository::with(&[(".gitmodules", BAD_MODULES), ("dir/a", b"a\n")]));
    forge.import(PUBLIC, &repository);
    repository.write("dir/a", b"b\n");
    repository.commit("beside it");
    let refusal = forge.git(&repository, PUBLIC, "dev", &["push", "URL", "topic"]).unwrap_err();
    assert!(refusal.contains("gitmodulesUrl"), "{refusal}");
    repository.git(&["rm", "-q", ".gitmodules"]);
    repository.git(&["commit", "-q", "--amend", "-m", "without it"]);
    forge.git(&repository, PUBLIC, "dev", &["push", "-q", "URL", "topic"]).unwrap();
}

/// Pushes a file as `x`, upon `depth` other versions of it. Returns the file and the commit.
fn pushed_file(forge: &Forge, depth: usize) -> (Object, Object) {
    let version = |number: usize| {
        let text = format!("[submodule \"s\"]\n\tpath = s\n\turl = https://example.com/s\n# {number}\n");
        new_blob(text.into_bytes())
    };
    let versions: Vec<Object> = (0..=depth).map(version).collect();
    let mut pack = Pack::of([&versions[0]]);
    for pair in versions.windows(2) {
        pack = pack.with_delta(&pair[0], &pair[1]);
    }
    let names: Vec<String> = (0..versions.len()).map(|number| format!("100644 v{number:03}")).collect();
    let entries: Vec<_> = names.iter().zip(&versions).map(|(name, version)| (name.as_str(), version.id)).collect();
    let tree = new_tree(&entries);
    let commit = new_commit(tree.id);
    let pack = pack.with(&tree).with(&commit);
    assert_made(&push_pack(forge, commit.id, &pack.bytes()));
    (versions.into_iter().last().unwrap(), commit)
}

#[test]
fn deltas_that_lead_back_to_themselves_are_refused() {
    for (depth, name) in [(0, ".gitmodules"), (0, "plain"), (51, ".gitmodules"), (51, "plain")] {
        let forge = Forge::new();
        let (old, head) = pushed_file(&forge, depth);
        let new = new_blob([&old.contents[..], b"# more\n"].concat());
        let move_to = |file: &Object, pack: Pack| {
            let tree = new_tree(&[(&format!("100644 {name}"), file.id)]);
            let commit = new_commit_upon(head.id, tree.id);
            let pack = pack.with(&tree).with(&commit);
            move_by_pack(&forge, Some(head.id), commit.id, &pack.bytes())
        };
        let copy = [&[old.contents.len() as u8, old.contents.len() as u8][..], &[0x90, old.contents.len() as u8]];
        let itself = Pack::new().add(EntryKind::RefDelta(old.id), 4, &copy.concat());
        for (file, pack) in [
            (&old, itself),
            (&new, Pack::new().with_delta(&old, &new).with_delta(&new, &old)),
            (&new, Pack::new().with_delta(&new, &old).with_delta(&old, &new)),
        ] {
            let report = move_to(file, pack);
            let why = format!("deltas upon object {} come before it, or lead back to it", old.id);
            assert!(report.contains(&why) && report.contains("ng refs/heads/new"), "{name} {depth}: {report}");
        }
        // If the pack also has the base as a whole object, no delta of the circle is applied to it.
        let report = move_to(&new, Pack::new().with_delta(&new, &old).with(&old).with_delta(&old, &new));
        assert!(report.contains("twice") && report.contains("ng refs/heads/new"), "{name} {depth}: {report}");
        // Without a circle, the same deltas are good, though the repository has the base.
        let report = move_to(&new, Pack::of([&old]).with_delta(&old, &new));
        assert!(report.contains("ok refs/heads/new"), "{name} {depth}: {report}");
        assert_eq!(forge.clone(PUBLIC).text(&["rev-list", "--count", "new"]), "2");
    }
}

#[test]
fn bases_that_the_repository_has_may_be_deltas_of_the_pack_before_their_deltas() {
    // The ids of the middle ones are on both sides of the base's.
    for number in 0..8 {
        let forge = Forge::new();
        let (old, head) = pushed_file(&forge, 1);
        let other = |text: String| new_blob([&old.contents[..], text.as_bytes()].concat());
        let (middle, last) = (other(format!("# {number}\n")), other(format!("# {number}.1\n")));
        let tree = new_tree(&[("100644 a", middle.id)]);
        let first = new_commit_upon(head.id, tree.id);
        let pack = Pack::new().with_delta(&old, &middle).with(&tree);
        let pack = pack.with(&first);
        assert_made(&move_by_pack(&forge, Some(head.id), first.id, &pack.bytes()));
        let tree = new_tree(&[("100644 a", last.id), ("100644 b", middle.id)]);
        let second = new_commit_upon(first.id, tree.id);
        let pack = Pack::new().with_delta(&old, &middle).with_delta(&middle, &last).with(&tree).with(&second);
        let report = move_by_pack(&forge, Some(first.id), second.id, &pack.bytes());
        assert!(report.contains("ok refs/heads/new"), "{number}: {report}");
        forge.clone(PUBLIC);
    }
}

#[test]
fn a_control_character_in_the_path_of_a_submodule_is_refused() {
    for path in ["\"s\\r\"", "\"s\r\"", "\"s\\t\"", "\"s\\b\"", "\"a\\nb\"", "a\u{7f}", "\u{1}"] {
        let text = format!("[submodule \"s\"]\n\tpath = {path}\n\turl = https://example.com/s\n").replace("\\r", "\r");
        let (forge, repository) = (Forge::new(), Repository::with(&[(".gitmodules", text.as_bytes())]));
        let refusal = forge.git(&repository, PUBLIC, "dev", &["push", "URL", "topic"]).unwrap_err();
        assert!(refusal.contains("gitmodulesPath"), "{path:?}: {refusal}");
    }
}

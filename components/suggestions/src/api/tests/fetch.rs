//! `git clone` and `git fetch`, by git itself.

use super::made_pack::{Pack, commit_of, commit_upon, new_tree};
use super::ref_names::{Change, body, push};
use super::*;
use std::time::{Duration, Instant};

/// A repository with merges, tags, an executable, a link and a file that changes often.
fn repository() -> Repository {
    let long: String = (0..500).map(|line| format!("line {line}\n")).collect();
    let repository = Repository::with(&[
        ("a.txt", b"one\n"),
        ("long", long.as_bytes()),
        ("dir/sub/b", b"\xff\r\nb"),
        ("empty", b""),
    ]);
    repository.git(&["tag", "-a", "v1", "-m", "first"]);
    repository.git(&["tag", "light"]);
    repository.git(&["tag", "-a", "v1-again", "v1", "-m", "a tag of a tag"]);
    for number in 0..12 {
        repository.write("long", format!("{long}{number}\n").as_bytes());
        repository.write(&format!("dir/{number}"), b"x");
        repository.commit(&format!("change {number}"));
    }
    repository.git(&["checkout", "-q", "main"]);
    repository.write("on main", b"m\n");
    repository.commit("on main");
    repository.git(&["merge", "-q", "--no-ff", "-m", "merge", "topic"]);
    repository
}

fn pushed(packed: bool) -> (Forge, Repository) {
    let (forge, repository) = (Forge::new(), repository());
    if packed {
        forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "--all"]).unwrap();
        forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "--tags"]).unwrap();
    } else {
        forge.import(PUBLIC, &repository);
    }
    (forge, repository)
}

const REFS: [&str; 2] = ["for-each-ref", "--format=%(objectname) %(refname)"];

#[test]
fn a_clone_is_the_repository_in_both_versions_and_both_forms_of_storage() {
    for packed in [false, true] {
        let (forge, repository) = pushed(packed);
        for version in ["0", "1", "2"] {
            let copy = Repository::empty();
            let protocol = format!("protocol.version={version}");
            forge.git(&copy, PUBLIC, "", &["-c", &protocol, "clone", "-q", "--mirror", "URL", "copy.git"]).unwrap();
            copy.git(&["-C", "copy.git", "fsck", "--full", "--strict"]);
            let refs = |folder: &str| copy.text(&[&["-C", folder], &REFS[..]].concat());
            assert_eq!(refs("copy.git"), repository.text(&REFS), "{packed} {version}");
            let count = |text: String| text.lines().count();
            let listed = copy.text(&["-C", "copy.git", "cat-file", "--batch-check", "--batch-all-objects"]);
            let found = count(listed);
            assert_eq!(found, count(repository.text(&["rev-list", "--objects", "--all"])), "nothing else is sent");
            assert_eq!(copy.text(&["-C", "copy.git", "symbolic-ref", "HEAD"]), "refs/heads/main");
        }
    }
}

#[test]
fn a_fetch_gets_only_new_objects() {
    for (packed, version) in [(false, "2"), (true, "2"), (false, "0"), (true, "0")] {
        let (forge, repository) = pushed(packed);
        let copy = Repository::empty();
        let git = |arguments: &[&str]| {
            let protocol = format!("protocol.version={version}");
            forge.git(&copy, PUBLIC, "", &[&["-c", &protocol], arguments].concat()).unwrap()
        };
        git(&["fetch", "URL", "+refs/*:refs/remotes/o/*"]);
        // Nothing is new.
        assert!(!git(&["fetch", "URL", "+refs/*:refs/remotes/o/*"]).contains("Enumerating"));
        repository.write("dir/sub/b", b"new");
        repository.commit("new");
        repository.git(&["tag", "-a", "v2", "-m", "second"]);
        forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "main", "v2"]).unwrap();
        let printed = git(&["fetch", "--progress", "URL", "+refs/*:refs/remotes/o/*"]);
        assert!(printed.contains("Enumerating objects: 6, done"), "commit, tag, 3 folders and a file: {printed}");
        copy.git(&["fsck", "--full", "--strict"]);
        assert_eq!(copy.text(&["rev-parse", "o/heads/main"]), repository.text(&["rev-parse", "main"]));
    }
}

#[test]
fn shallow_clones_grow() {
    for (packed, version) in [(false, "2"), (true, "2"), (true, "0")] {
        let (forge, repository) = pushed(packed);
        let copy = Repository::empty();
        let protocol = format!("protocol.version={version}");
        let git = |arguments: &[&str]| {
            let arguments: Vec<&str> = [&["-c", &protocol], arguments].concat();
            forge.git(&copy, PUBLIC, "", &arguments).unwrap();
            copy.git(&["fsck", "--full", "--strict"]);
            copy.text(&["rev-list", "--count", "o/topic"])
        };
        let heads = "+refs/heads/*:refs/remotes/o/*";
        assert_eq!(git(&["fetch", "-q", "--depth", "1", "URL", heads]), "1");
        assert_eq!(copy.git(&["show", "o/topic:dir/sub/b"]), b"\xff\r\nb");
        assert_eq!(git(&["fetch", "-q", "--depth", "3", "URL", heads]), "3");
        assert_eq!(git(&["fetch", "-q", "--deepen", "2", "URL", heads]), "5");
        // A shallow client gets the new commit, and no more of the history.
        repository.git(&["checkout", "-q", "topic"]);
        repository.write("a.txt", b"newer");
        repository.commit("newer");
        forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "topic"]).unwrap();
        assert_eq!(git(&["fetch", "-q", "URL", heads]), "6");
        assert_eq!(git(&["fetch", "-q", "--unshallow", "URL", heads]), "14");
        assert_eq!(copy.text(&["rev-parse", "o/topic"]), repository.text(&["rev-parse", "topic"]));
    }
}

#[test]
fn a_shallow_history_that_is_nothing_is_refused_in_gits_words() {
    for version in ["2", "0"] {
        let (forge, _) = pushed(true);
        let protocol = format!("protocol.version={version}");
        let refused = |argument: &str| {
            let copy = Repository::empty();
            forge.git(&copy, PUBLIC, "", &["-c", &protocol, "fetch", "-q", argument, "URL", "topic"]).unwrap_err()
        };
        for argument in ["--shallow-since=2040-01-01", "--shallow-exclude=topic"] {
            let why = refused(argument);
            assert!(why.contains("no commits selected for shallow requests"), "{version} {argument}: {why}");
        }
        let why = refused("--shallow-exclude=nothing");
        assert!(why.contains("ambiguous deepen-not: nothing"), "{version}: {why}");
    }
}

#[test]
fn all_shallow_commits_get_their_parents_whatever_is_wanted() {
    for (packed, version) in [(false, "2"), (true, "2"), (true, "0")] {
        let (forge, repository) = pushed(packed);
        let copy = Repository::empty();
        let protocol = format!("protocol.version={version}");
        let git = |arguments: &[&str]| {
            forge.git(&copy, PUBLIC, "", &[&["-c", &protocol, "fetch", "-q"], arguments].concat()).unwrap();
            copy.git(&["fsck", "--full", "--strict"]);
        };
        repository.git(&["checkout", "-q", "-b", "beside", "topic~5"]);
        repository.write("b", b"b");
        repository.commit("beside");
        forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "beside"]).unwrap();
        git(&["--depth", "1", "URL", "+refs/heads/*:refs/remotes/o/*"]);
        assert_eq!(copy.text(&["rev-list", "--count", "o/beside"]), "1");
        git(&["--unshallow", "URL", "topic"]);
        for branch in ["topic", "beside", "main"] {
            let count = copy.text(&["rev-list", "--count", &format!("o/{branch}")]);
            assert_eq!(count, repository.text(&["rev-list", "--count", branch]), "{branch} {version}");
        }
    }
}

#[test]
fn tags_of_files_and_folders_come_with_them() {
    let repository = Repository::with(&[("a", b"one\n"), ("dir/b", b"two\n")]);
    repository.git(&["tag", "-a", "file", "topic:a", "-m", "x"]);
    repository.git(&["tag", "-a", "folder", "topic:dir", "-m", "x"]);
    let forge = Forge::new();
    forge.import(PUBLIC, &repository);
    let id = |name: &str| ObjectId::parse(&repository.text(&["rev-parse", name])).unwrap();
    let count = |lines: &[&str], want: &str| {
        let told = post_fetch(forge.env(), &[&["command=fetch", "0001"], lines].concat(), &[id(want)], &[], true);
        told.split("Enumerating objects: ").nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    for (want, without, with) in [("topic", "5", "7"), ("topic:a", "1", "2"), ("topic:dir", "2", "3")] {
        assert_eq!((count(&[], want), count(&["include-tag"], want)), (without.to_owned(), with.to_owned()), "{want}");
    }
}

#[test]
fn partial_clones_get_the_rest_when_they_need_it() {
    let (forge, repository) = pushed(true);
    let filters = ["blob:none", "blob:limit=10", "tree:0"];
    for (version, filter) in ["0", "1", "2"].iter().flat_map(|version| filters.map(|filter| (version, filter))) {
        let copy = Repository::empty();
        let protocol = format!("protocol.version={version}");
        let clone = ["-c", &protocol, "clone", "-q", "--no-checkout", "--filter", filter, "URL", "copy"];
        forge.git(&copy, PUBLIC, "", &clone).unwrap();
        let missing = copy.text(&["-C", "copy", "rev-list", "--objects", "--all", "--missing=print"]);
        assert!(missing.contains('?'), "{version} {filter}");
        // The server has another address now.
        let (none, url) = ("remote.origin.url=", "remote.origin.url=URL");
        let checkout = ["-C", "copy", "-c", &protocol, "-c", none, "-c", url, "checkout", "-q", "main"];
        forge.git(&copy, PUBLIC, "", &checkout).unwrap();
        assert_eq!(std::fs::read(copy.file("copy/dir/sub/b")).unwrap(), b"\xff\r\nb");
    }
    let copy = Repository::empty();
    let why = forge.git(&copy, PUBLIC, "", &["clone", "-q", "--filter", "sparse:oid=main", "URL", "copy"]).unwrap_err();
    assert!(why.contains("filter 'sparse:oid="), "{why}");
    drop(repository);
}

#[test]
fn repositories_are_at_their_full_path_too() {
    let (forge, repository) = pushed(true);
    let copy = Repository::empty();
    forge.git(&copy, PUBLIC, "", &["fetch", "-q", "HOST/acme/p7.git", "main"]).unwrap();
    assert_eq!(copy.text(&["rev-parse", "FETCH_HEAD"]), repository.text(&["rev-parse", "main"]));
    let refused =
        |token: &str, path: &str| forge.git(&copy, PRIVATE, token, &["fetch", "-q", path, "main"]).unwrap_err();
    assert!(refused("otto", "HOST/acme/p9.git").contains("could not be found or you don't have permission"));
    assert!(refused("gus", "HOST/acme/p9.git").contains("403"));
    assert!(refused("", "HOST/acme/p9.git").contains("could not read Username"));
    assert!(refused("nonsense", "HOST/acme/p9.git").contains("Authentication failed"));
}

#[test]
fn an_empty_repository_can_be_cloned() {
    let forge = Forge::new();
    // Version 0 cannot say which branch will be the first one.
    for (version, head) in [("0", "refs/heads/master"), ("2", "refs/heads/main")] {
        let copy = Repository::empty();
        let protocol = format!("protocol.version={version}");
        forge.git(&copy, PUBLIC, "", &["-c", &protocol, "clone", "-q", "URL", "copy"]).unwrap();
        assert_eq!(copy.text(&["-C", "copy", "symbolic-ref", "HEAD"]), head);
    }
}

#[test]
fn a_missing_object_is_refused_in_gits_words() {
    let (forge, repository) = pushed(true);
    let copy = Repository::empty();
    for version in ["0", "2"] {
        let protocol = format!("protocol.version={version}");
        let unknown = "1234567890123456789012345678901234567890";
        let why = forge.git(&copy, PUBLIC, "", &["-c", &protocol, "fetch", "-q", "URL", unknown]).unwrap_err();
        assert!(why.contains("not our ref") || why.contains("does not allow request"), "{why}");
    }
    drop(repository);
}

/// Posts a request of version 0 or, with lines before the wants, of version 2.
fn post_fetch(env: kit::Env, command: &[&str], wants: &[ObjectId], haves: &[ObjectId], is_done: bool) -> String {
    let mut body = Vec::new();
    let mut line = |text: &str| match text {
        "0000" => pktline::write_flush(&mut body),
        "0001" => pktline::write_delimiter(&mut body),
        text => pktline::write_text(&mut body, &format!("{text}\n")),
    };
    command.iter().for_each(|text| line(text));
    wants.iter().for_each(|id| line(&format!("want {id}")));
    if command.is_empty() {
        line("0000");
    }
    haves.iter().for_each(|id| line(&format!("have {id}")));
    if is_done {
        line("done");
    }
    if !command.is_empty() {
        line("0000");
    }
    let headers = [("git-protocol", if command.is_empty() { "" } else { "version=2" })];
    let path = format!("projects/{PUBLIC}/repository.git/git-upload-pack");
    send_with(env, Method::POST, &path, &headers, body).expect(200).text()
}

#[test]
fn wants_that_are_not_listed_are_found_in_one_walk() {
    const LENGTH: usize = 3_000;
    let forge = Forge::new();
    let tree = new_tree(&[]);
    let mut pack = Pack::of([&tree]);
    // Three histories, of different times.
    let mut chains: Vec<Vec<ObjectId>> = Vec::new();
    for chain in 0..3 {
        let mut ids: Vec<ObjectId> = Vec::new();
        for _ in 0..if chain == 2 { 2 } else { LENGTH } {
            let contents = ids.last().map_or_else(|| commit_of(tree.id), |parent| commit_upon(*parent, tree.id));
            let contents = String::from_utf8(contents).unwrap().replace("> 1 +", &format!("> {} +", chain + 1));
            let commit = Object::new(ObjectKind::Commit, contents.into_bytes());
            pack = pack.with(&commit);
            ids.push(commit.id);
        }
        chains.push(ids);
    }
    let tag = format!("object {}\ntype commit\ntag v1\ntagger A <a@x> 1 +0000\n\nx\n", chains[2][1]);
    let tag = Object::new(ObjectKind::Tag, tag.into_bytes());
    let pack = pack.with(&tag).bytes();
    let last = |chain: usize| chains[chain].last().copied();
    let names: Vec<String> = (0..100).map(|number| format!("heads/a{number}")).collect();
    let mut changes: Vec<Change> = names.iter().map(|name| (name.as_str(), None, last(0))).collect();
    changes.extend([("heads/z", None, last(1)), ("tags/v1", None, Some(tag.id)), ("heads/gone", None, last(0))]);
    let told = push(forge.env(), &[body(&changes, ""), pack].concat());
    assert!(told.contains("ok refs/heads/z"), "{told}");
    // All commits of a history but its head, which a ref has; the first commit is visited last.
    let wants: Vec<ObjectId> = chains[1][..LENGTH - 1].to_vec();
    let begin = Instant::now();
    let answer = post_fetch(forge.env(), &[], &wants, &[], true);
    assert!(answer.contains("PACK") && begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    for id in [chains[2][1], chains[2][0], chains[0][5]] {
        assert!(post_fetch(forge.env(), &[], &[id], &[], true).contains("PACK"), "{id}");
    }
    let delete: Vec<Change> = vec![("heads/z", last(1), None)];
    assert!(push(forge.env(), &body(&delete, "")).contains("ok refs/heads/z"));
    for id in [chains[1][5], ObjectId::new([7; 20])] {
        let answer = post_fetch(forge.env(), &[], &[chains[0][5], id], &[], true);
        assert!(answer.contains(&format!("not our ref {id}")), "{answer}");
    }
}

#[test]
fn haves_that_are_not_known_cost_a_bounded_number_of_reads() {
    for packed in [true, false] {
        let (forge, repository) = pushed(packed);
        let id = |name: &str| ObjectId::parse(&repository.text(&["rev-parse", name])).unwrap();
        let mut haves = vec![id("topic")];
        haves.extend((0..20_000_u32).map(|number| {
            let mut bytes = [9; 20];
            bytes[3..7].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_le_bytes());
            ObjectId::new(bytes)
        }));
        haves.push(id("topic~5"));
        for command in [&["command=fetch", "0001"][..], &[]] {
            let store = CountingStore::over(forge.store.clone());
            let answer = post_fetch(forge.env_over(store.clone()), command, &[id("main")], &haves, command.is_empty());
            assert!(store.operations() < 800, "{} operations", store.operations());
            let is_acknowledged = |name: &str| answer.contains(&format!("ACK {}", id(name)));
            assert!(is_acknowledged("topic"));
            // Version 0 acknowledges one. Only the first haves are searched among the loose objects.
            assert_eq!(is_acknowledged("topic~5"), packed && !command.is_empty());
        }
    }
}

//! Packs, indexes of packs and lists of packs that are damaged or lost.

use super::*;

/// The size of an entry of an index, in bytes.
pub const ENTRY: usize = 36;

/// The size of an id, with which an entry begins; the offset follows, then the length, with [`NUMBER`] bytes each.
const ID: usize = 20;
const NUMBER: usize = 5;

/// Where the position of an entry's base is, with 4 bytes, and then how deep a delta it is.
pub const BASE: usize = ID + 2 * NUMBER;
pub const DEPTH: usize = BASE + 4;

/// A forge whose repository is in one pack, with a merge request of one commit.
pub fn forge() -> (Forge, String) {
    let (forge, repository) = (Forge::new(), Repository::with(&[("a.txt", b"one\n"), ("dir/b", b"bee\n")]));
    let long: String = (0..200_u32).map(|line| format!("{}\n", line.wrapping_mul(0x9e37_79b9))).collect();
    repository.write("long", long.as_bytes());
    repository.commit("second");
    repository.write("long", format!("{long}more\n").as_bytes());
    repository.commit("third");
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "main", "topic"]).unwrap();
    forge.merge_request(1, json!({}));
    let keys = forge.store.keys();
    let pack = keys.iter().find_map(|key| key.strip_prefix("suggestions/v1/pack/")?.strip_suffix("/0")).unwrap();
    let pack = pack.to_owned();
    (forge, pack)
}

/// The same forge over a copy of the store, in which a key has another value.
pub fn with(forge: &Forge, key: &str, value: Option<&[u8]>) -> Forge {
    let forge = forge.copy();
    match value {
        Some(value) => forge.store.set(key, value).unwrap(),
        None => forge.store.delete(key).unwrap(),
    }
    forge
}

/// Checks everything. Returns the key and the text of each problem.
pub fn problems(forge: &Forge) -> Vec<(String, String)> {
    let text = |problem: &Value, field: &str| problem[field].as_str().unwrap().to_owned();
    forge.fsck("problems").iter().map(|problem| (text(problem, "key"), text(problem, "problem"))).collect()
}

/// The statuses of reads that need the objects of both branches: the merge request's difference and commits, and a
/// clone in both versions of the protocol. `heads` are the heads of the branches.
fn statuses(forge: &Forge, heads: &[String; 2]) -> [u16; 6] {
    let get = |path: &str| forge.get(&format!("projects/{PUBLIC}/merge_requests/1{path}"), "").status;
    let fetch = |version: u8| {
        let mut body = Vec::new();
        if version == 2 {
            pktline::write_text(&mut body, "command=fetch\n");
            pktline::write_delimiter(&mut body);
        }
        heads.iter().for_each(|head| pktline::write_text(&mut body, &format!("want {head}\n")));
        if version == 0 {
            pktline::write_flush(&mut body);
        }
        pktline::write_text(&mut body, "done\n");
        if version == 2 {
            pktline::write_flush(&mut body);
        }
        let protocol = if version == 2 { "version=2" } else { "" };
        let headers = [("content-type", "application/x-git-upload-pack-request"), ("git-protocol", protocol)];
        let path = format!("projects/{PUBLIC}/repository.git/git-upload-pack");
        send_with(forge.env(), Method::POST, &path, &headers, body).status
    };
    [get(""), get("/changes"), get("/diffs"), get("/commits"), fetch(0), fetch(2)]
}

/// A check of the damaged forge names the key and its project.
#[track_caller]
fn is_found(damaged: &Forge, key: &str) -> bool {
    problems(damaged).iter().any(|(found, problem)| found == key && problem.contains("(project 7)"))
}

pub fn heads(forge: &Forge) -> [String; 2] {
    ["main", "topic"].map(|branch| forge.head(PUBLIC, branch))
}

#[test]
fn a_check_names_the_damaged_blob_of_a_pack_and_its_project() {
    let (forge, pack) = forge();
    let key = format!("suggestions/v1/pack/{pack}/0");
    let good = forge.store.get(&key).unwrap().unwrap();
    let mut reasons = BTreeSet::new();
    let mut damaged: Vec<Vec<u8>> = vec![Vec::new(), good[..good.len() / 2].to_vec()];
    let flip = |at: usize, bits: u8| with_bytes(&good, at, &[good[at] ^ bits]);
    // Every entry with another kind in its header.
    let index = forge.store.get(&format!("suggestions/v1/pack_index/{pack}/0")).unwrap().unwrap();
    let offset = |entry: &[u8]| entry[ID..ID + 5].iter().fold(0, |offset, byte| offset << 8 | usize::from(*byte));
    damaged.extend(index.chunks(ENTRY).map(|entry| flip(offset(entry), 0x10)));
    let noticed = damaged.len();
    // In the header of a zlib stream, some bits mean nothing.
    damaged.extend((0..good.len()).step_by(3).map(|at| flip(at, 1 << (at % 8))));
    for (number, bytes) in damaged.iter().enumerate() {
        let found = problems(&with(&forge, &key, Some(bytes)));
        assert!(!found.is_empty() || number >= noticed, "{number}");
        for (found, problem) in found {
            assert!(found == key && problem.contains("(project 7)"), "{found}: {problem}");
            reasons.insert(problem.split(": ").nth(1).unwrap().split(" (").next().unwrap().to_owned());
        }
    }
    for reason in ["it is not an entry", "it is not zlib", "it ends early", "its contents have another id"] {
        assert!(reasons.contains(reason), "{reason} is not among {reasons:?}");
    }
}

#[test]
fn an_index_of_another_length_than_its_pack_has_objects_is_damage() {
    let (forge, pack) = forge();
    let heads = heads(&forge);
    assert_eq!((statuses(&forge, &heads), problems(&forge)), ([200; 6], vec![]));
    for part in ["directory", "0"] {
        let key = format!("suggestions/v1/pack_index/{pack}/{part}");
        let good = forge.store.get(&key).unwrap().unwrap();
        let longer = [&good[..], &good].concat();
        for bad in [Some(&good[..good.len() / 2]), Some(&[][..]), Some(&good[1..]), Some(&longer), None] {
            let damaged = with(&forge, &key, bad);
            assert_eq!(statuses(&damaged, &heads), [500; 6], "{part}: {:?}", bad.map(<[u8]>::len));
            assert!(is_found(&damaged, &key), "{:?}", problems(&damaged));
        }
    }
}

#[test]
fn a_check_finds_entries_of_an_index_that_lead_nowhere() {
    let (forge, pack) = forge();
    let page = format!("suggestions/v1/pack_index/{pack}/0");
    let good = forge.store.get(&page).unwrap().unwrap();
    let mut swapped = good.clone();
    swapped[ENTRY..3 * ENTRY].rotate_left(ENTRY);
    let equal = with_bytes(&good, 2 * ENTRY, &good[ENTRY..2 * ENTRY]);
    let set = |at: usize, byte: u8| with_bytes(&good, at, &[byte]);
    // The first byte of the first id, of an offset, of a length, and the kind.
    let bad = [swapped, equal, set(0, good[0] ^ 1), set(ENTRY + 20, 1), set(ENTRY + 25, 1), set(2 * ENTRY - 1, 4)];
    for (number, bytes) in bad.into_iter().enumerate() {
        assert!(is_found(&with(&forge, &page, Some(&bytes)), &page), "{number}");
    }
    let directory = format!("suggestions/v1/pack_index/{pack}/directory");
    let mut other = forge.store.get(&directory).unwrap().unwrap();
    other[19] ^= 1;
    let found = problems(&with(&forge, &directory, Some(&other)));
    assert!(found.iter().any(|(key, _)| *key == page), "{found:?}");
}

pub fn with_bytes(page: &[u8], at: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = page.to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

/// A page of an index in which the number at a position is another one.
fn with_number(page: &[u8], at: usize, change: impl Fn(u64) -> u64) -> Vec<u8> {
    let number = page[at..at + NUMBER].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    with_bytes(page, at, &change(number).to_be_bytes()[8 - NUMBER..])
}

/// Damages the offset and the length of each entry of a pack with one page. Each time, a check names the page.
fn assert_wrong_extents_are_found(forge: &Forge, pack: &str) {
    let page = format!("suggestions/v1/pack_index/{pack}/0");
    let good = forge.store.get(&page).unwrap().unwrap();
    let changes: [fn(u64) -> u64; 6] =
        [|number| number + 1, |number| number.wrapping_sub(1), |number| number ^ 4, |number| number ^ 64, |_| 0, |_| 1];
    for at in (0..good.len()).step_by(ENTRY).flat_map(|entry| [entry + ID, entry + ID + NUMBER]) {
        for (number, change) in changes.iter().enumerate() {
            let bad = with_number(&good, at, change);
            assert_eq!(is_found(&with(forge, &page, Some(&bad)), &page), bad != good, "change {number} at {at}");
        }
    }
}

#[test]
fn a_check_finds_each_wrong_offset_and_length() {
    let (forge, pack) = forge();
    assert_wrong_extents_are_found(&forge, &pack);
}

/// Clients that do not know each other send the same file, and the joined pack has all copies of it.
#[test]
fn a_check_finds_wrong_offsets_and_lengths_beside_copies_of_objects() {
    let forge = Forge::new();
    for number in 0..8 {
        let own = format!("of client {number}\n");
        let repository = Repository::with(&[("a.txt", b"one\n"), ("b.txt", own.as_bytes())]);
        let target = format!("main:refs/heads/branch-{number}");
        forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", &target]).unwrap();
    }
    let [joined] = &forge.packs()[..] else { panic!("{:?}", forge.packs()) };
    assert_eq!((&joined["has_copies"], &joined["objects"]), (&json!(true), &json!(3 * 8 + 1)));
    assert_eq!(problems(&forge), []);
    forge.clone(PUBLIC);
    assert_wrong_extents_are_found(&forge, joined["id"].as_str().unwrap());
}

#[test]
fn a_pack_whose_index_is_damaged_is_not_joined_until_it_is_restored() {
    let (forge, pack) = forge();
    let page = format!("suggestions/v1/pack_index/{pack}/0");
    let good = forge.store.get(&page).unwrap().unwrap();
    let work = forge.clone(PUBLIC);
    work.git(&["checkout", "-q", "topic"]);
    for number in 0..15 {
        work.write("news", format!("{number}\n").as_bytes());
        work.commit(&format!("news {number}"));
    }
    let blob = hex::decode(work.text(&["rev-parse", "main:a.txt"])).unwrap();
    let entry = good.chunks(ENTRY).position(|entry| entry[..ID] == blob[..]).unwrap() * ENTRY;
    let extents = [(ID + NUMBER, -1), (ID + NUMBER, 1), (ID, 1)];
    let changed = |(at, by)| with_number(&good, entry + at, |number: u64| number.wrapping_add_signed(by));
    let other_base = with_bytes(&good, entry + BASE, &0_u32.to_be_bytes());
    let deeper = with_bytes(&good, entry + DEPTH, &[1]);
    for bad in extents.map(changed).into_iter().chain([other_base, deeper]) {
        let forge = with(&forge, &page, Some(&bad));
        let push = |back: u32| {
            let source = format!("topic~{back}:topic");
            forge.git(&work, PUBLIC, "mia", &["push", "-q", "URL", &source]).unwrap();
        };
        (5..15).rev().for_each(push);
        assert_eq!((forge.packs().len(), &forge.packs()[0]["id"]), (11, &json!(pack)));
        forge.store.set(&page, &good).unwrap();
        assert_eq!(problems(&forge), []);
        assert_eq!(forge.clone(PUBLIC).text(&["show", "topic:news"]), "9");
        (0..5).rev().for_each(push);
        assert_eq!(forge.packs().len(), 1, "16 packs are joined");
        assert_eq!(problems(&forge), []);
        assert_eq!(forge.clone(PUBLIC).text(&["show", "topic:news"]), "14");
    }
}

#[test]
fn a_check_finds_that_the_tips_of_a_pack_are_lost() {
    let (forge, repository) = (Forge::new(), Repository::with(&[("a.txt", b"one\n")]));
    for number in 0..20 {
        repository.git(&["checkout", "-q", "-b", &format!("branch-{number}"), "main"]);
        repository.commit(&format!("on branch {number}"));
    }
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "--all"]).unwrap();
    assert_eq!(problems(&forge), []);
    let keys = forge.store.keys();
    let tips = keys.iter().find(|key| key.ends_with("/tips")).expect("they are many");
    let found = problems(&with(&forge, tips, None));
    assert_eq!(found, [(tips.clone(), "it is missing (project 7)".to_owned())]);
}

#[test]
fn a_branch_whose_commit_is_lost_is_damage_and_a_deleted_branch_is_none() {
    let (forge, _) = forge();
    let heads = heads(&forge);
    let lost = with(&forge, &format!("suggestions/v1/packs/{PUBLIC}"), None);
    assert_eq!(statuses(&lost, &heads), [500; 6]);
    let name = format!("object/{PUBLIC}/{}", heads[1]);
    assert!(problems(&lost).iter().any(|(key, _)| key.ends_with(&name)));
    // A client that names no branch's commit is refused in words.
    let other = ["1".repeat(40), "2".repeat(40)];
    assert_eq!(statuses(&lost, &other)[4..], [200; 2]);

    forge.delete_branch(PUBLIC, "topic");
    let lists = ["/diffs", "/commits"].map(|list| format!("projects/{PUBLIC}/merge_requests/1{list}"));
    let shown = lists.clone().map(|list| forge.get(&list, "").json());
    assert!(shown.iter().all(|list| !list.as_array().unwrap().is_empty()), "its last commit is noted");
    let lost = with(&forge, &format!("suggestions/v1/packs/{PUBLIC}"), None);
    assert_eq!(lists.map(|list| lost.get(&list, "").status), [500; 2], "the target branch is there");
    lost.delete_branch(PUBLIC, "main");
    let lists = ["/changes", "/diffs", "/commits"].map(|list| format!("projects/{PUBLIC}/merge_requests/1{list}"));
    let answers = lists.map(|list| lost.get(&list, ""));
    assert_eq!(answers.each_ref().map(|answer| answer.status), [200; 3]);
    assert_eq!(answers[0].json()["changes"], json!([]));
    assert_eq!(answers[2].json(), json!([]));
}

/// Garbage collection removes the packs of a deleted project before its branches.
#[test]
fn a_branch_of_a_deleted_fork_may_have_lost_its_commit() {
    let (forge, _) = forge();
    let fork = Repository::with(&[("a.txt", b"one\n")]);
    fork.write("a.txt", b"two\n");
    fork.commit("second");
    forge.git(&fork, FORK, "dev", &["push", "-q", "URL", "topic"]).unwrap();
    forge.merge_request(3, json!({"source_project_id": FORK}));
    let list = format!("projects/{PUBLIC}/merge_requests/3/commits");
    assert_eq!(forge.get(&list, "").json().as_array().unwrap().len(), 2);
    forge.store.delete(&format!("suggestions/v1/packs/{FORK}")).unwrap();
    assert_eq!(forge.get(&list, "").status, 500);
    dependents::delete_project(&forge.env(), FORK).unwrap();
    assert_eq!((forge.get(&list, "").status, forge.get(&list, "").json()), (200, json!([])));
}

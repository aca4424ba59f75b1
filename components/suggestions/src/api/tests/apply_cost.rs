//! The cost of an applied suggestion in a large repository.

use super::*;

/// The files of the root folder: its tree has 40 bytes for each.
const FILES: usize = 1_000;
const BRANCHES: u64 = 200;

/// Applies a suggestion on each of many branches of one commit, on one instance. Returns the operations and the bytes
/// of each. The repository is imported object by object, or pushed.
fn apply_on_branches(forge: &Forge, is_pushed: bool) -> Vec<(u64, u64)> {
    let names: Vec<String> = (0..FILES).map(|number| format!("file-{number:04}")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"one\ntwo\nthree\n"[..])).collect();
    let repository = Repository::with(&files);
    for branch in 1..=BRANCHES {
        repository.git(&["branch", &format!("topic-{branch}")]);
    }
    if is_pushed {
        forge.git(&repository, PUBLIC, "root", &["push", "-q", "URL", "--all"]).unwrap();
    } else {
        forge.import(PUBLIC, &repository);
    }
    let head = forge.head(PUBLIC, "main");
    let mut ids = Vec::new();
    for iid in 1..=BRANCHES {
        forge.merge_request(iid, json!({"source_branch": format!("topic-{iid}")}));
        let text = block("", &format!("line {iid}"));
        ids.push(forge.comment(iid, "rep", comment(&head, &names[iid as usize], 2, &text)).suggestion());
    }
    let instance = forge.env();
    let apply = |id: u64| {
        let store = CountingStore::over(forge.store.clone());
        let env = Env { store: Rc::new(store.clone()), ..instance.clone() };
        let answer = send(env, Method::PUT, &format!("suggestions/{id}/apply"), "dev", "application/json", Vec::new());
        assert_eq!(answer.status, 200, "{}", answer.text());
        (store.operations(), store.bytes())
    };
    ids.into_iter().map(apply).collect()
}

fn check(is_pushed: bool, max_operations: u64, max_bytes: u64) {
    let forge = Forge::new();
    let costs = apply_on_branches(&forge, is_pushed);
    let (first, rest) = costs.split_at(8);
    let mean = |of: &dyn Fn(&(u64, u64)) -> u64| rest.iter().map(of).sum::<u64>() / rest.len() as u64;
    let (operations, bytes) = (mean(&|cost| cost.0), mean(&|cost| cost.1));
    eprintln!("the first: {first:?}; the mean of the others: {operations} operations, {bytes} bytes");
    assert!(operations <= max_operations, "{operations} operations");
    assert!(bytes <= max_bytes, "{bytes} bytes");
    let packs = forge.packs();
    let length = json!({"packs": packs}).to_string().len();
    eprintln!("the list of packs: {length} bytes");
    assert!(length < 4_000, "the list of packs has {length} bytes");
    let size: u64 = packs.iter().map(|pack| pack["size"].as_u64().unwrap()).sum();
    assert!(packs.len() <= 24, "{} packs", packs.len());
    assert!(size < 80_000 + BRANCHES * 1_500, "{size} bytes in packs");
    let clone = forge.clone(PUBLIC);
    assert_eq!(clone.text(&["rev-list", "--count", "--all"]), (BRANCHES + 1).to_string());
}

/// Each suggestion is found in the discussion's state, which is read once.
#[test]
fn a_batch_reads_a_discussion_once() {
    let lines: String = (1..=90).map(|line| format!("line {line}\n")).collect();
    let (forge, _) = Forge::with(&[("a.txt", lines.as_bytes())]);
    let text: String = (0..90).map(|up| block(&format!(":-{up}+0"), "x")).collect();
    let head = forge.head(PUBLIC, "topic");
    let answer = forge.comment(1, "rep", comment(&head, "a.txt", 90, &text)).expect(201).json();
    let state = format!("thread/{}", answer["id"].as_str().unwrap());
    let suggestions = answer["notes"][0]["suggestions"].as_array().unwrap().iter();
    let ids: Vec<u64> = suggestions.map(|suggestion| suggestion["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), 90);
    let is_read = move |operation: &str, key: &str| ["get", "compare"].contains(&operation) && key.contains(&state);
    let (store, reads) = WatchedStore::counting(&forge.store, is_read);
    let body = json!({"ids": ids}).to_string().into_bytes();
    let path = "suggestions/batch_apply";
    let answer = send(forge.env_over(store), Method::PUT, path, "dev", "application/json", body);
    assert_eq!(answer.status, 400, "they overlap: {}", answer.text());
    assert_eq!(reads.get(), 1);
}

// A tree of the root folder has 40,000 bytes. The first apply may copy it; the others write deltas of it. The list of
// packs, which each apply reads and writes once, does not grow with the branches.

#[test]
fn the_cost_of_an_apply_does_not_grow() {
    check(false, 26, 9_000);
}

#[test]
fn an_apply_in_a_packed_repository_costs_the_same() {
    check(true, 25, 9_000);
}

#[test]
fn an_apply_reads_no_root_that_it_has_swapped() {
    const APPLIES: u64 = 20;
    let forge = Forge::new();
    let repository = Repository::with(&[("a.txt", b"one\ntwo\nthree\n")]);
    for branch in 1..=APPLIES {
        repository.git(&["branch", &format!("topic-{branch}")]);
    }
    forge.git(&repository, PUBLIC, "root", &["push", "-q", "URL", "--all"]).unwrap();
    let head = forge.head(PUBLIC, "main");
    let instance = forge.env();
    let counts: Rc<RefCell<BTreeMap<String, u64>>> = Rc::default();
    let mut lists = Vec::new();
    for iid in 1..=APPLIES {
        forge.merge_request(iid, json!({"source_branch": format!("topic-{iid}")}));
        let text = block("", &format!("line {iid}"));
        let id = forge.comment(iid, "rep", comment(&head, "a.txt", 2, &text)).suggestion();
        let watch = {
            let counts = counts.clone();
            move |operation: &str, key: &str| {
                let kind = key.strip_prefix("suggestions/v1/").unwrap_or(key).split('/').next().unwrap();
                *counts.borrow_mut().entry(format!("{operation} {kind}")).or_default() += 1;
            }
        };
        let env = Env { store: Rc::new(WatchedStore::over(forge.store.clone(), watch)), ..instance.clone() };
        let answer = send(env, Method::PUT, &format!("suggestions/{id}/apply"), "dev", "application/json", Vec::new());
        assert_eq!(answer.status, 200, "{}", answer.text());
        lists.push(forge.packs().len());
    }
    assert!(lists.iter().all(|packs| *packs <= 9), "they are joined: {lists:?}");
    let count = |operation: &str| counts.borrow().get(operation).copied().unwrap_or_default();
    assert_eq!(["compare packs", "swap packs", "compare ref", "compare thread"].map(count), [APPLIES; 4]);
    assert_eq!((count("get thread"), count("increment counter")), (0, 1), "{counts:?}");
    forge.clone(PUBLIC);
}

#[test]
fn a_pack_that_is_joined_in_a_lost_swap_is_listed_once() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a.txt", b"one\n")]);
    forge.git(&repository, PUBLIC, "root", &["push", "-q", "URL", "main"]).unwrap();
    for number in 0..40 {
        repository.write("a.txt", format!("{number}\n").as_bytes());
        repository.commit("next");
        // Every second swap is reported as lost, though it took place.
        let env = forge.env_over(LostReplyStore::over(forge.store.clone()));
        forge.git_over(env, &repository, PUBLIC, "dev", &["push", "-q", "URL", "topic"]).unwrap();
        let objects: u64 = forge.packs().iter().map(|pack| pack["objects"].as_u64().unwrap()).sum();
        assert_eq!(objects, 3 * (number + 2));
    }
    forge.clone(PUBLIC);
}

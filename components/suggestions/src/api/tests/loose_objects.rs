//! Objects that are stored one by one, as imports and earlier builds wrote them.

use super::*;

#[test]
fn an_object_that_is_moved_to_a_pack_meanwhile_is_found() {
    let (forge, repository) = Forge::with(&[("a.txt", b"one\n"), ("d/b.txt", b"b\n")]);
    // This store after repacking.
    let repacked = forge.store.snapshot();
    let pack = repository.git(&["pack-objects", "-q", "--all", "--stdout"]);
    let path = format!("import/suggestions/{PUBLIC}/pack");
    let env = forge.env_over(repacked.clone());
    assert_eq!(send(env, Method::POST, &path, "root", "application/octet-stream", pack).status, 200);
    let (store, is_changed) = (forge.store.clone(), Rc::new(Cell::new(false)));
    let is_over = is_changed.clone();
    // It happens right before the first read of a loose object.
    let change = move |operation: &str, key: &str| {
        if !["get", "exists"].contains(&operation) || !key.contains("/object/") || is_over.replace(true) {
            return;
        }
        for key in repacked.keys() {
            if store.get(&key).unwrap() != repacked.get(&key).unwrap() {
                store.set(&key, &repacked.get(&key).unwrap().unwrap()).unwrap();
            }
        }
        let loose = store.keys().into_iter().filter(|key| key.contains("/object/"));
        loose.for_each(|key| store.delete(&key).unwrap());
    };
    let env = forge.env_over(WatchedStore::over(forge.store.clone(), change));
    let answer = send(env, Method::GET, &format!("projects/{PUBLIC}/merge_requests/1/changes"), "dev", "", Vec::new());
    assert!(is_changed.get());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// More bytes than are decompressed as a whole.
const LARGE: usize = 97 << 20;

#[test]
fn a_large_loose_object_is_cloned() {
    let forge = Forge::new();
    let contents: Vec<u8> = (0..LARGE as u32 / 4).flat_map(|number| (number / 50).to_le_bytes()).collect();
    let repository = Repository::with(&[("large", &contents), ("small", b"one\n")]);
    forge.import(PUBLIC, &repository);
    let clone = forge.clone(PUBLIC);
    assert_eq!(clone.text(&["rev-parse", "topic:large"]), repository.text(&["rev-parse", "topic:large"]));
}
